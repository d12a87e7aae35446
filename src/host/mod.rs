//! Who owns a state directory: lock, engine, local endpoint, take-over.
//!
//! One process, the host, holds the kernel's lock on a directory and runs the engine; every other process attaches to
//! its endpoint. A host is a process of its own in the background (`crosstalk host`): it ends itself when everything
//! is settled and nobody is attached, so that no command and no browser has to hand over runs that have begun.

use crate::backend::SharedBackend;
use std::path::PathBuf;

/// How a state directory is opened.
#[derive(Debug, Clone)]
pub struct Open {
    /// The state directory.
    pub dir: PathBuf,
    /// The configuration that was named (`--config`, `CROSSTALK_CONFIG`); `None`: the owner's, else the default one.
    pub config: Option<PathBuf>,
    /// The built-in cast instead of a configuration.
    pub demo: bool,
    pub purpose: Purpose,
}

/// What it is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Reading: attaches when there is an owner; else opens the engine in this process for as long as it takes,
    /// starting nothing. A directory that does not exist is not made: the answer is empty.
    Read,
    /// Work that may outlive this process: attaches, starting a background host when there is none.
    Work,
    /// This process is the host, for as long as it lives (`crosstalk host`, throw-away demo directories).
    Own,
}

/// Why a directory cannot be opened; each maps to one exit code.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Exit 2.
    #[error("{0}")]
    Config(#[from] crate::config::ConfigError),
    /// Exit 2: another configuration than the owner's was named.
    #[error("{} is owned by process {pid}, which runs on {owner}; {} was named. Stop the owner, or name none", .dir.display(), .named.display())]
    OtherConfig {
        dir: PathBuf,
        pid: u32,
        owner: String,
        named: PathBuf,
    },
    /// Exit 5: foreign, newer or damaged. Exit 6: I/O.
    #[error("{0}")]
    Store(#[from] crate::store::StoreError),
    /// Exit 5: somebody holds the lock, and its endpoint does not answer.
    #[error("{} is owned by process {pid}, which does not answer. Stop it (kill {pid}) and try again", .dir.display())]
    NoAnswer { dir: PathBuf, pid: u32 },
    /// Exit 6.
    #[error("{what} {}: {error}", .path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        error: std::io::Error,
    },
}

/// Opens a state directory. The backend it gives survives the death of the owner: it attaches to the next one, or
/// starts it, repeats what can be repeated, and tells its consumers to resync.
///
/// # Errors
/// [`HostError`].
pub async fn open(open: Open) -> Result<SharedBackend, HostError> {
    Err(HostError::NoAnswer {
        dir: open.dir,
        pid: 0,
    })
}
