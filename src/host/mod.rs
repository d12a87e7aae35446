//! Who owns a state directory: lock, engine, local endpoint, take-over.
//!
//! One process, the host, holds the kernel's lock on a directory and runs the engine; every other process attaches to
//! its endpoint. A host is a process of its own in the background (`crosstalk host`): it ends itself when everything
//! is settled and nobody is attached, so that no command and no browser has to hand over runs that have begun.

mod attach;
mod endpoint;
mod lock;
mod owner;
mod reading;
mod resident;

pub use lock::{Lock, Record};
pub use owner::{Owner, record};
pub use resident::Resident;

use crate::backend::SharedBackend;
use crate::backend::remote::RemoteBackend;
use crate::clock::Clock;
use crate::config::Settings;
use crate::error::Exit;
use crate::protocol::methods::{Code, Failure};
use crate::store::StoreError;
use crate::store::state::StateStore;
use attach::{Attach, BUSY_LIMIT, Found, LOOK_AGAIN, look, no_answer, resolved};
use reading::{Held, Reading};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::time::Instant;

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
    /// Exit 5: the owner answers, and will not have us.
    #[error("{} is owned by process {pid}: {reason}", .dir.display())]
    Refused {
        dir: PathBuf,
        pid: u32,
        reason: String,
    },
    /// Exit 6: the owner has ended, or the one that was started in the background did so at once.
    #[error("the owner of {0} ended ({status}). Try again; if that does not help, crosstalk host --state {0} says why", .dir.display())]
    Ended { dir: PathBuf, status: String },
    /// Exit 6.
    #[error("{what} {}: {error}", .path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        error: std::io::Error,
    },
}

impl HostError {
    /// What a process ends with when this is the end of it.
    pub fn exit(&self) -> Exit {
        match self {
            HostError::Config(_) | HostError::OtherConfig { .. } => Exit::Usage,
            HostError::Store(
                StoreError::Foreign { .. } | StoreError::Newer { .. } | StoreError::Damaged { .. },
            )
            | HostError::NoAnswer { .. }
            | HostError::Refused { .. } => Exit::NoOwner,
            HostError::Store(_) | HostError::Ended { .. } | HostError::Io { .. } => Exit::Io,
        }
    }
}

/// Opens a state directory. The backend it gives survives the death of the owner: it attaches to the next one, or
/// starts it, repeats what can be repeated, and tells its consumers to resync.
///
/// # Errors
/// [`HostError`].
pub async fn open(open: Open) -> Result<SharedBackend, HostError> {
    open_with(open, &this_program()).await
}

/// As [`open`], with the program that is started when an owner is needed.
///
/// # Errors
/// [`HostError`].
pub async fn open_with(open: Open, program: &Path) -> Result<SharedBackend, HostError> {
    let open = absolute(open);
    match open.purpose {
        Purpose::Work => attach(open, Some(program.into())).await,
        Purpose::Own => match own(&open).await? {
            Some(owner) => Ok(Arc::new(owner)),
            None => attach(open, None).await,
        },
        Purpose::Read => read(open).await,
    }
}

/// Is the host of a directory until nobody is attached and nothing is left to do, or until a signal ends it. When
/// somebody else is the host already, there is nothing to do.
///
/// # Errors
/// [`HostError`].
pub async fn run(open: Open) -> Result<(), HostError> {
    // A session of its own, so that neither the terminal's hang-up nor its interrupt reaches it. That fails for who
    // leads a group already: somebody typed the command, and may interrupt it.
    let _ = rustix::process::setsid();
    let open = absolute(open);
    let mut signals = Signals::new(&open.dir)?;
    let Some(owner) = own(&open).await? else {
        return Ok(());
    };
    tokio::select! {
        () = owner.until_idle() => {}
        () = signals.any() => {}
    }
    owner.close().await;
    Ok(())
}

/// Who holds the lock of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostInfo {
    /// What it wrote down; absent when that cannot be read.
    pub record: Option<Record>,
    /// It answers at its endpoint. One that comes up, or a reader, does not.
    pub answers: bool,
}

/// Looks who owns a directory, for `doctor`; `None` when nobody does. Makes nothing.
pub async fn status(dir: &Path) -> Option<HostInfo> {
    let answers = match look(dir).await {
        Ok(Found::Nobody) => return None,
        Ok(Found::Owner(_)) => true,
        Ok(Found::Busy) | Err(_) => false,
    };
    Some(HostInfo {
        record: Record::read(dir),
        answers,
    })
}

async fn attach(open: Open, program: Option<PathBuf>) -> Result<SharedBackend, HostError> {
    let attach = Attach::new(open, program);
    let first = match attach.attach().await {
        Err(HostError::Ended { dir, status }) => {
            return Err(why_ended(attach.open(), HostError::Ended { dir, status }).await);
        }
        first => first?,
    };
    let remote = RemoteBackend::new(Arc::new(attach), Some(first), Clock::system());
    Ok(Arc::new(remote))
}

/// What the owner that ended at once met, if it is still there to be met: the directory is opened as it did.
async fn why_ended(open: &Open, ended: HostError) -> HostError {
    let open = open.clone();
    let probe = tokio::task::spawn_blocking(move || {
        let settings = settings(&open)?;
        match Lock::take(&open.dir)? {
            Some(_lock) => StateStore::open(&open.dir, &settings.main_key)
                .map(drop)
                .map_err(HostError::Store),
            None => Ok(()),
        }
    });
    match probe.await {
        Ok(Err(error)) => error,
        _ => ended,
    }
}

/// Becomes the owner; `None` when there is one already.
async fn own(open: &Open) -> Result<Option<Owner>, HostError> {
    let settings = settings(open)?;
    let begun = Instant::now();
    check(&open.dir).await?;
    let lock = loop {
        if let Some(lock) = Lock::take(&open.dir)? {
            break lock;
        }
        if let Found::Owner(connection) = look(&open.dir).await? {
            attach::check_config(open, &connection.hello().server)?;
            return Ok(None);
        }
        if begun.elapsed() > BUSY_LIMIT {
            return Err(no_answer(&open.dir));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    };
    let record = record(settings.source.as_deref().map(resolved), open.demo);
    lock.publish(&record)?;
    let resident = resident::open_engine(&open.dir, settings, open.demo, true).await?;
    Owner::serve(lock, resident, record).map(Some)
}

async fn read(open: Open) -> Result<SharedBackend, HostError> {
    let dir = open.dir.clone();
    let begun = Instant::now();
    let held = loop {
        match look(&dir).await? {
            Found::Owner(connection) => {
                attach::check_config(&open, &connection.hello().server)?;
                let attach = Arc::new(Attach::new(open, None));
                let remote = RemoteBackend::new(attach, Some(connection), Clock::system());
                return Ok(Arc::new(remote));
            }
            Found::Nobody if !StateStore::exists(&dir) => {
                check(&dir).await?;
                let scratch = tempfile::Builder::new()
                    .prefix("crosstalk-empty-")
                    .tempdir()
                    .map_err(|error| {
                        lock::io("making a directory in", &std::env::temp_dir(), error)
                    })?;
                break Held::Scratch(scratch);
            }
            Found::Nobody => {
                check(&dir).await?;
                if let Some(lock) = Lock::take(&dir)? {
                    break Held::Lock(lock);
                }
            }
            Found::Busy => {}
        }
        if begun.elapsed() > BUSY_LIMIT {
            return Err(no_answer(&dir));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    };
    let settings = settings(&open)?;
    let place = match &held {
        Held::Scratch(scratch) => scratch.path().to_owned(),
        Held::Lock(lock) => {
            lock.publish(&record(settings.source.as_deref().map(resolved), open.demo))?;
            dir.clone()
        }
    };
    let resident = resident::open_engine(&place, settings, open.demo, false).await?;
    Ok(Arc::new(Reading {
        resident,
        dir,
        held,
    }))
}

/// The configuration that holds: the one that was named, else the default one if it is there, else the empty one.
fn settings(open: &Open) -> Result<Settings, HostError> {
    if open.demo {
        return Ok(Settings::default());
    }
    let default = default_config().filter(|path| path.exists());
    match open.config.clone().or(default) {
        Some(file) => Ok(crate::config::load(&file)?),
        None => Ok(Settings::default()),
    }
}

/// `$XDG_CONFIG_HOME/crosstalk/config.json5`; `None` when there is no home at all.
fn default_config() -> Option<PathBuf> {
    use etcetera::BaseStrategy;
    let base = etcetera::base_strategy::Xdg::new().ok()?;
    Some(base.config_dir().join("crosstalk").join("config.json5"))
}

/// Refuses a directory that holds something, and not a state of ours, before anything is made in it. Only where there
/// is no owner: nobody else opens a database that is in use, and one that is just being made looks damaged.
async fn check(dir: &Path) -> Result<(), HostError> {
    let mut looked_again = false;
    loop {
        if Lock::is_held(dir)? {
            return Ok(());
        }
        let at = dir.to_owned();
        let looked = tokio::task::spawn_blocking(move || StateStore::check(&at)).await;
        match looked {
            Ok(Ok(())) => return Ok(()),
            // An owner may have come up meanwhile, and even gone again: then it is there, or a second look is fine.
            Ok(Err(_)) if !looked_again => looked_again = true,
            Ok(Err(error)) if !Lock::is_held(dir)? => return Err(error.into()),
            Ok(Err(_)) => return Ok(()),
            Err(panic) => return Err(lock::io("reading", dir, std::io::Error::other(panic))),
        }
    }
}

fn absolute(mut open: Open) -> Open {
    // Fails for an empty path only, which then fails as what it is.
    if let Ok(dir) = std::path::absolute(&open.dir) {
        open.dir = dir;
    }
    open.config = open.config.map(|config| resolved(&config));
    open
}

/// This program's file. One that was replaced while it runs is found under its old name.
fn this_program() -> PathBuf {
    let path = std::env::current_exe().unwrap_or_else(|_| "crosstalk".into());
    match path
        .to_str()
        .and_then(|text| text.strip_suffix(" (deleted)"))
    {
        Some(replaced) if !path.exists() => replaced.into(),
        _ => path,
    }
}

/// The signals that end a host.
struct Signals([tokio::signal::unix::Signal; 3]);

impl Signals {
    fn new(dir: &Path) -> Result<Self, HostError> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen =
            |kind| signal(kind).map_err(|error| lock::io("listening for signals for", dir, error));
        Ok(Self([
            listen(SignalKind::terminate())?,
            listen(SignalKind::interrupt())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    async fn any(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

/// What is answered when there is no owner any longer.
fn gone() -> Failure {
    Failure::new(Code::Unavailable, "the owner of the state has ended")
}
