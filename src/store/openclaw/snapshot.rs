//! A private copy of a foreign database, for reading.
//!
//! Opening a database in place would make or touch the files beside it, so database and logs are copied into a
//! directory of our own (0700) and opened there (AM-2). Invariant: of the foreign files nothing but reading is asked.
//! A copy counts when the database did not change while it was made and its log did not start anew (a log that grew
//! is cut by its own check sums), and when it can be read; else it is made again. Absent on purpose: what is in it.

use super::view::Stamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tempfile::TempDir;

/// How often a copy is made before it is said that none succeeded.
const TRIES: usize = 4;

/// Why there is no (new) copy.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Sql(#[from] rusqlite::Error),
    /// It was written to all the while.
    #[error("it changed while it was copied")]
    Torn,
    /// Not what this program knows.
    #[error("{0}")]
    Unknown(String),
}

/// The copy of one database. Dropping it removes the copy.
pub(super) struct Snapshot {
    source: PathBuf,
    home: Option<TempDir>,
    /// Numbers the copies: the names of the next one are never those of the last.
    number: u64,
    current: Option<Copy>,
    /// What was looked at last, whether or not it could be read; `None`: to be looked at again.
    seen: Option<Stamps>,
}

struct Copy {
    file: PathBuf,
    /// `None` only while the next copy, which shares the database file, is tried.
    connection: Option<Connection>,
    /// The database file is as it was copied, and was this then.
    base: Option<Stamp>,
}

/// The files of a database.
#[derive(Clone, Copy, PartialEq)]
struct Stamps {
    database: Stamp,
    log: Option<Stamp>,
    journal: Option<Stamp>,
}

impl Snapshot {
    pub fn new(source: &Path) -> Self {
        Self {
            source: source.into(),
            home: None,
            number: 0,
            current: None,
            seen: None,
        }
    }

    /// The last good copy.
    pub fn connection(&self) -> Option<&Connection> {
        self.current.as_ref()?.connection.as_ref()
    }

    /// Copies again when something changed, and reads the copy; `None` when nothing did since the last call, good or
    /// bad.
    ///
    /// # Errors
    /// No copy could be made and read. The last good one stays.
    pub fn refresh<T>(
        &mut self,
        read: impl Fn(&Connection) -> Result<T, Trouble>,
    ) -> Result<Option<T>, Trouble> {
        let stamps = Stamps::of(&self.source).inspect_err(|_| self.seen = None)?;
        if self.seen == Some(stamps) {
            return Ok(None);
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let began = SystemTime::now();
            let before = Stamps::of(&self.source)?;
            let taken = self.take(before, began).and_then(|copy| {
                let connection = copy.connection.as_ref().ok_or(Trouble::Torn)?;
                match read(connection) {
                    Ok(content) => Ok((content, copy)),
                    Err(trouble) => {
                        copy.remove();
                        Err(trouble)
                    }
                }
            });
            self.seen = Some(before).filter(|stamps| stamps.is_settled(began));
            match taken {
                Ok((content, copy)) => {
                    if let Some(last) = self.current.replace(copy) {
                        last.remove();
                    }
                    return Ok(Some(content));
                }
                Err(trouble) => {
                    self.reopen();
                    if tries == TRIES {
                        return Err(trouble);
                    }
                }
            }
        }
    }

    /// Copies what is there now.
    fn take(&mut self, before: Stamps, began: SystemTime) -> Result<Copy, Trouble> {
        if self.home.is_none() {
            self.home = Some(private_dir()?);
        }
        let home = self.home.as_ref().map(TempDir::path).ok_or(Trouble::Torn)?;
        self.number += 1;
        let file = home.join(format!("{}.sqlite", self.number));
        let shared = self.current.as_mut().is_some_and(|current| {
            let same = before.journal.is_none() && current.base == Some(before.database);
            // Two connections to one file would share their memory of its log, which is not the same.
            same && {
                current.connection = None;
                fs::hard_link(&current.file, &file).is_ok()
            }
        });
        let copied = (|| {
            if !shared {
                copy(&self.source, &file)?;
            }
            for (name, there) in [("-wal", before.log), ("-journal", before.journal)] {
                if there.is_some() {
                    copy(&beside(&self.source, name), &beside(&file, name))?;
                }
            }
            let after = Stamps::of(&self.source)?;
            let same_log = after.log == before.log || {
                let grown = after.log.map(|log| log.bytes) > before.log.map(|log| log.bytes);
                grown && header(&beside(&self.source, "-wal"))? == header(&beside(&file, "-wal"))?
            };
            if after.database != before.database || after.journal != before.journal || !same_log {
                return Err(Trouble::Torn);
            }
            Ok(Copy {
                connection: Some(open(&file)?),
                base: Some(before.database)
                    .filter(|base| before.journal.is_none() && base.is_settled(began)),
                file: file.clone(),
            })
        })();
        copied.inspect_err(|_| remove(&file))
    }

    /// After a try that failed.
    fn reopen(&mut self) {
        if let Some(current) = &mut self.current
            && current.connection.is_none()
        {
            current.connection = open(&current.file).ok();
        }
    }
}

impl Copy {
    fn remove(mut self) {
        self.connection = None;
        remove(&self.file);
    }
}

impl Stamps {
    fn of(database: &Path) -> io::Result<Self> {
        let found = fs::metadata(database)?;
        // Asked before opening: opening a pipe would wait for its writer.
        if !found.is_file() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
            return Err(error);
        }
        let other = |name| match fs::metadata(beside(database, name)) {
            Ok(found) if found.is_file() && found.len() > 0 => Some(Stamp::of(&found)),
            _ => None,
        };
        Ok(Self {
            database: Stamp::of(&found),
            log: other("-wal"),
            journal: other("-journal"),
        })
    }

    fn is_settled(&self, began: SystemTime) -> bool {
        let all = [Some(self.database), self.log, self.journal];
        all.into_iter()
            .flatten()
            .all(|stamp| stamp.is_settled(began))
    }
}

fn private_dir() -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("crosstalk-snapshot-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir()
}

fn beside(database: &Path, end: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // Not with the mode of the foreign file, which may forbid writing.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    io::copy(&mut File::open(from)?, &mut options.open(to)?).map(drop)
}

/// The beginning of a log: another one after it was started anew.
fn header(log: &Path) -> io::Result<Vec<u8>> {
    const BYTES: u64 = 32;
    let mut header = Vec::new();
    File::open(log)?.take(BYTES).read_to_end(&mut header)?;
    Ok(header)
}

/// Opens a copy of ours. Writing is allowed to the library alone: an interrupted change is rolled back.
fn open(file: &Path) -> rusqlite::Result<Connection> {
    let how = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, how)?;
    // The database file may serve the next copy too.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// What is left of a copy goes with the directory at the latest.
fn remove(file: &Path) {
    for name in ["", "-wal", "-shm", "-journal"] {
        let _ = fs::remove_file(beside(file, name));
    }
}
