//! The lock of a state directory, and what its holder writes beside it.
//!
//! The lock is the kernel's (`host.lock`): it ends with its holder, however that ends, and no age makes it stale (D-2).
//! The file itself stays, since removing it would let two processes lock two files of one name. `host.json` is only
//! information: it may be stale, and is believed about a pid or an endpoint only.

use super::HostError;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const LOCK: &str = "host.lock";
const RECORD: &str = "host.json";
/// Before it takes its name.
const NEW_RECORD: &str = "host.json.new";

/// What the holder of the lock tells the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub pid: u32,
    /// Its socket; absent while it comes up, and for a reader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<PathBuf>,
    /// Configuration it runs on; absent for the empty one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<PathBuf>,
    #[serde(default)]
    pub demo: bool,
    pub version: String,
    /// Milliseconds since 1970.
    pub started_at: i64,
}

impl Record {
    /// What stands in the directory; `None` when there is nothing readable.
    pub fn read(dir: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(dir.join(RECORD)).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// The lock, held until it is dropped.
pub struct Lock {
    dir: PathBuf,
    _file: File,
}

impl Lock {
    /// Takes the lock, making the directory (0700) when it is not there; `None` when somebody holds it.
    ///
    /// # Errors
    /// [`HostError::Io`].
    pub fn take(dir: &Path) -> Result<Option<Self>, HostError> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|error| io("making", dir, error))?;
        let path = dir.join(LOCK);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| io("opening", &path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self {
                dir: dir.into(),
                _file: file,
            })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(io("locking", &path, error)),
        }
    }

    /// True when somebody holds the lock. Makes nothing.
    ///
    /// # Errors
    /// [`HostError::Io`].
    pub fn is_held(dir: &Path) -> Result<bool, HostError> {
        let path = dir.join(LOCK);
        let file = match OpenOptions::new().write(true).open(&path) {
            Ok(file) => file,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(false);
            }
            Err(error) => return Err(io("opening", &path, error)),
        };
        // A shared lock: two processes that only look do not see each other.
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(io("locking", &path, error)),
        }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes the record (0600), whole or not at all.
    ///
    /// # Errors
    /// [`HostError::Io`].
    pub fn publish(&self, record: &Record) -> Result<(), HostError> {
        let (new, path) = (self.dir.join(NEW_RECORD), self.dir.join(RECORD));
        let write = || {
            // Left by a holder that was killed while writing; the lock is ours now.
            let _ = std::fs::remove_file(&new);
            let mut file = OpenOptions::new()
                .create_new(true)
                .write(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(&serde_json::to_vec_pretty(record)?)?;
            std::fs::rename(&new, &path)
        };
        write().map_err(|error| io("writing", &path, error))
    }

    /// Takes the record back: nobody is to be found here any longer.
    pub fn withdraw(&self) {
        // Left behind it would be stale, which every reader of it is prepared for.
        let _ = std::fs::remove_file(self.dir.join(RECORD));
    }
}

/// An I/O error with what failed and on what.
pub(super) fn io(what: &'static str, path: &Path, error: std::io::Error) -> HostError {
    HostError::Io {
        what,
        path: path.into(),
        error,
    }
}
