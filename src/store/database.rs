//! How a database of ours is opened: recognised by its application id, migrated by `user_version` after a backup,
//! refused when it is newer or damaged. Nothing is changed before it is known to be ours and of a schema we know.
//!
//! Absent on purpose: what is in it (`state`, `client`).

use super::StoreError;
use rusqlite::backup::Backup;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Databases up to this size are checked through when they are opened; in a larger one, damage is found when it is
/// met (a check of gigabytes would delay every start).
const CHECKED_BYTES: u64 = 16 << 20;

/// A kind of database.
#[derive(Debug, Clone, Copy)]
pub struct Database {
    /// Tells our files from others.
    pub application_id: i32,
    /// SQL that leads from one schema to the next; after all of them `user_version` is their number.
    pub steps: &'static [&'static str],
    /// How long to wait for another process.
    pub patience: Duration,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// No file, an empty one, or a database without any table.
    Nothing,
    /// Ours, of this schema.
    Ours(i64),
    /// A database of another program.
    Other,
}

impl Database {
    /// The schema this program knows.
    pub fn version(&self) -> i64 {
        i64::try_from(self.steps.len()).unwrap_or(i64::MAX)
    }

    /// Looks at a file without changing it.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when it is no database, [`StoreError::Sql`] when it cannot be read.
    pub fn look(&self, file: &Path) -> Result<Found, StoreError> {
        if !file.exists() {
            return Ok(Found::Nothing);
        }
        // Read-only, so that a write-ahead log of a newer program is not folded into its file.
        let connection = self.reader(file)?;
        let found = || {
            let tables: i64 =
                connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            let id: i64 =
                connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
            let version = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
            Ok(match (tables, id == i64::from(self.application_id)) {
                (0, _) => Found::Nothing,
                (_, true) => Found::Ours(version),
                (_, false) => Found::Other,
            })
        };
        found().map_err(|error| sql_error(file, error))
    }

    /// Opens or makes the database for writing: WAL, `synchronous=FULL`, mode 0600, the newest schema.
    ///
    /// # Errors
    /// [`StoreError::Newer`] and [`StoreError::Damaged`] leave the file as it is.
    pub fn open(&self, file: &Path) -> Result<Connection, StoreError> {
        let found = self.look(file)?;
        match found {
            Found::Ours(version) if version > self.version() => {
                return Err(StoreError::Newer {
                    file: file.into(),
                    found: version,
                    known: self.version(),
                });
            }
            Found::Other => return Err(damaged(file, "it is a database of another program")),
            Found::Nothing | Found::Ours(_) => {}
        }
        self.check(file)?;
        private_file(OpenOptions::new().append(true))
            .create(true)
            .open(file)
            .and_then(|_| make_private(file))
            .map_err(|error| io_error("cannot open database", file, error))?;
        let mut connection = self.connect(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        self.use_log(&connection)
            .map_err(|error| sql_error(file, error))?;
        if let Found::Ours(version) = found
            && version < self.version()
        {
            back_up(&connection, file, version)?;
        }
        self.migrate(&mut connection)
            .map_err(|error| sql_error(file, error))?;
        Ok(connection)
    }

    /// A connection that cannot change anything.
    ///
    /// # Errors
    /// [`StoreError::Sql`].
    pub fn reader(&self, file: &Path) -> Result<Connection, StoreError> {
        self.connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    fn connect(&self, file: &Path, how: OpenFlags) -> Result<Connection, StoreError> {
        // Without SQLITE_OPEN_URI: a file name is never read as anything else.
        let connect = || {
            let connection =
                Connection::open_with_flags(file, how | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            connection.busy_timeout(self.patience)?;
            connection.set_prepared_statement_cache_capacity(64);
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.pragma_update(None, "trusted_schema", false)?;
            Ok(connection)
        };
        connect().map_err(|error| sql_error(file, error))
    }

    fn check(&self, file: &Path) -> Result<(), StoreError> {
        let small =
            fs::metadata(file).is_ok_and(|found| (1..=CHECKED_BYTES).contains(&found.len()));
        if !small {
            return Ok(());
        }
        let verdict: String = self
            .reader(file)?
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|error| sql_error(file, error))?;
        if verdict == "ok" {
            Ok(())
        } else {
            Err(damaged(file, &verdict))
        }
    }

    /// Turning the log on does not heed the busy time-out, so the waiting is done here.
    fn use_log(&self, connection: &Connection) -> rusqlite::Result<()> {
        const PAUSE: Duration = Duration::from_millis(20);
        let mut tries = self.patience.as_millis() / PAUSE.as_millis();
        loop {
            match connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())) {
                Err(error)
                    if tries > 0 && error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) =>
                {
                    tries -= 1;
                    std::thread::sleep(PAUSE);
                }
                outcome => return outcome,
            }
        }
    }

    /// All steps in one transaction; the version is asked for inside, another process may have been faster.
    fn migrate(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i64 = change.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let done = usize::try_from(version).unwrap_or(0);
        for step in self.steps.iter().skip(done) {
            change.execute_batch(step)?;
        }
        if done < self.steps.len() {
            change.pragma_update(None, "application_id", self.application_id)?;
            change.pragma_update(None, "user_version", self.version())?;
        }
        change.commit()
    }
}

/// Copies a database to `<file>.backup-v<version>`, whole or not at all.
fn back_up(connection: &Connection, file: &Path, version: i64) -> Result<PathBuf, StoreError> {
    let target = beside(file, &format!(".backup-v{version}"));
    let part = beside(file, &format!(".backup-v{version}.part"));
    let failed = |error| io_error("cannot write backup", &target, error);
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    private_file(OpenOptions::new().write(true))
        .create_new(true)
        .open(&part)
        .map_err(failed)?;
    let copy = || {
        let mut copy = Connection::open(&part)?;
        Backup::new(connection, &mut copy)?.run_to_completion(1024, Duration::ZERO, None)?;
        // A copy that stands alone: nothing of it may be in a log beside it.
        copy.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
        copy.close().map_err(|(_, error)| error)
    };
    copy().map_err(|error| sql_error(&part, error))?;
    File::open(&part)
        .and_then(|written| written.sync_all())
        .and_then(|()| fs::rename(&part, &target))
        .and_then(|()| sync_dir_of(&target))
        .map_err(failed)?;
    Ok(target)
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Backups that lie beside a database, newest schema first.
pub fn backups(file: &Path) -> Vec<PathBuf> {
    let prefix = beside(file, ".backup-v");
    let Some(prefix) = prefix.file_name().and_then(|name| name.to_str()) else {
        return Vec::new();
    };
    let mut found: Vec<(u64, PathBuf)> = file
        .parent()
        .and_then(|dir| fs::read_dir(dir).ok())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let version = name.to_str()?.strip_prefix(prefix)?.parse().ok()?;
            Some((version, entry.path()))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// An error about a database that is there and cannot be used.
pub fn damaged(file: &Path, reason: &str) -> StoreError {
    let backup = match backups(file).first() {
        Some(backup) => format!(
            "Backup: {}; to use it, move the damaged file away and copy the backup to its place",
            backup.display()
        ),
        None => format!(
            "There is no backup; to begin anew, move it aside: mv {0} {0}.damaged",
            file.display()
        ),
    };
    StoreError::Damaged {
        file: file.into(),
        reason: reason.into(),
        backup,
    }
}

/// Names the file; tells damage from everything else.
pub fn sql_error(file: &Path, error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            damaged(file, &error.to_string())
        }
        _ => StoreError::Sql {
            file: file.into(),
            error,
        },
    }
}

/// Names the path.
pub fn io_error(what: &'static str, path: &Path, error: io::Error) -> StoreError {
    StoreError::Io {
        what,
        path: path.into(),
        error,
    }
}

/// Makes a directory with what leads to it; new ones are 0700.
///
/// # Errors
/// As the system says.
pub fn make_private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// A file that is made will be 0600.
pub fn private_file(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Takes the rights of group and others from a file or directory that was there.
///
/// # Errors
/// As the system says.
pub fn make_private(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(path)?.permissions().mode();
        if mode & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700))?;
        }
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Puts the name of a new file on disk.
///
/// # Errors
/// As the system says.
pub fn sync_dir_of(file: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(dir) = file.parent() {
        File::open(dir)?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}
