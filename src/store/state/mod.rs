//! Our own state: `state.db` (SQLite, WAL, `synchronous=FULL`, one writer with group commit, separate readers,
//! migrations by `user_version` with a backup) and the transcripts beside it (AM-1, D-1).
//!
//! One process owns a directory and has one store open on it; what a change promised is on disk when it returns.
//! Absent on purpose: the lock (`host`), and every rule about who may do what.

mod commit;
mod list;
mod record;
mod schema;
mod tx;

pub use tx::Tx;

use super::database::{self, Found, io_error, sql_error};
use super::{Filter, Page, Query, Sessions, Span, StoreError, TranscriptPage, transcript};
use crate::model::key::{AgentId, SessionKey, is_safe_session_id};
use crate::model::session::Entry;
use commit::Writer;
use record::Facts;
use rusqlite::Connection;
use schema::STATE;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const DATABASE: &str = "state.db";

/// Readers that are kept for the next reading.
const IDLE_READERS: usize = 4;

/// Our own state directory. Cheap to clone.
#[derive(Clone)]
pub struct StateStore {
    shared: Arc<Shared>,
}

struct Shared {
    dir: PathBuf,
    file: PathBuf,
    facts: Arc<Facts>,
    readers: Mutex<Vec<Connection>>,
    writer: Arc<Writer>,
}

impl StateStore {
    /// Opens or makes the database (0700 directory, 0600 files), migrating an older schema after a backup.
    /// `main_key` is `session.mainKey`: kinds are stored with the sessions and made anew when it changes.
    /// Blocks.
    ///
    /// # Errors
    /// [`StoreError::Foreign`], [`StoreError::Newer`], [`StoreError::Damaged`], [`StoreError::Io`].
    pub fn open(dir: &Path, main_key: &str) -> Result<Self, StoreError> {
        Self::open_scoped(dir, main_key, false)
    }

    /// As [`StateStore::open`]; with `scope_global` (`session.scope` is `global`) the session `global` is listed
    /// (K-11), else it is not (K-12).
    ///
    /// # Errors
    /// As [`StateStore::open`].
    pub fn open_scoped(dir: &Path, main_key: &str, scope_global: bool) -> Result<Self, StoreError> {
        let dir = &std::path::absolute(dir)
            .map_err(|error| io_error("cannot find state directory", dir, error))?;
        let file = dir.join(DATABASE);
        recognise(dir, &file)?;
        if !file.exists() {
            // It was missing or empty, and becomes ours.
            database::make_private_dir(dir)
                .and_then(|()| database::make_private(dir))
                .map_err(|error| io_error("cannot make state directory", dir, error))?;
        }
        let facts = Arc::new(Facts {
            main_key: main_key.trim().to_lowercase(),
            scope_global,
        });
        let mut connection = STATE.open(&file)?;
        let change = connection
            .transaction()
            .map_err(|error| sql_error(&file, error))?;
        Tx::new(&change, &file, &facts).refresh_columns()?;
        change.commit().map_err(|error| sql_error(&file, error))?;
        let writer = Writer::new(file.clone(), Arc::clone(&facts), connection);
        Ok(Self {
            shared: Arc::new(Shared {
                dir: dir.clone(),
                file,
                facts,
                readers: Mutex::default(),
                writer: Arc::new(writer),
            }),
        })
    }

    /// Refuses a directory that is not ours; one that is empty or missing may become ours. Makes nothing. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Foreign`], [`StoreError::Damaged`], [`StoreError::Io`].
    pub fn check(dir: &Path) -> Result<(), StoreError> {
        recognise(dir, &dir.join(DATABASE))
    }

    /// True when the directory holds a state of ours. Touches nothing.
    pub fn exists(dir: &Path) -> bool {
        dir.join(DATABASE).is_file()
    }

    /// The directory, absolute.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// How many transactions this store has committed since it was opened.
    pub fn commits(&self) -> u64 {
        self.shared.writer.commits()
    }

    /// As if the disk had room for so many pages only; for tests of a full disk.
    #[doc(hidden)]
    pub fn limit_pages(&self, pages: Option<u32>) {
        self.shared.writer.limit_pages(pages);
    }

    /// Runs a change in a transaction of its own savepoint; returns once it is committed. Changes that are waiting
    /// when a commit begins share it (group commit); one that fails is undone alone. Once this was polled, the change
    /// is carried out even when nobody waits for it any more.
    ///
    /// # Errors
    /// What the change or the database says.
    pub async fn write<T, F>(&self, change: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.shared.writer.add(change).await.unwrap_or_else(|_| {
            // The runtime is going down, and took the answer with it.
            Err(StoreError::Refused(
                "the program is ending; whether the change was made is not known".into(),
            ))
        })
    }

    /// Runs a reading on a reader connection, in one read transaction, through `spawn_blocking`.
    ///
    /// # Errors
    /// What the reading or the database says.
    pub async fn read<T, F>(&self, reading: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let store = self.clone();
        let task = tokio::task::spawn_blocking(move || {
            let shared = &store.shared;
            shared.reading(|connection| reading(&Tx::new(connection, &shared.file, &shared.facts)))
        });
        match task.await {
            Ok(outcome) => outcome,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(StoreError::Refused("the program is ending".into())),
        }
    }

    /// The sessions directory of an agent.
    pub fn sessions_dir(&self, agent: &AgentId) -> PathBuf {
        self.shared
            .dir
            .join("agents")
            .join(agent.as_str())
            .join("sessions")
    }
}

impl Shared {
    /// One read transaction. Blocks.
    fn reading<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let readers = || self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = readers().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => STATE.reader(&self.file)?,
        };
        let sql =
            |outcome: rusqlite::Result<()>| outcome.map_err(|error| sql_error(&self.file, error));
        sql(connection.execute_batch("BEGIN"))?;
        let outcome = read(&connection);
        // A connection that cannot end its transaction is not used again.
        sql(connection.execute_batch("ROLLBACK"))?;
        let mut readers = readers();
        if readers.len() < IDLE_READERS {
            readers.push(connection);
        }
        outcome
    }

    fn reading_sql<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.reading(|connection| read(connection).map_err(|error| sql_error(&self.file, error)))
    }
}

/// What a damaged database is called once it was moved aside.
const ASIDE: &str = "state.db.damaged";

/// Refuses a directory that is not ours (D-4). Makes nothing.
fn recognise(dir: &Path, file: &Path) -> Result<(), StoreError> {
    let foreign = |found: String| {
        Err(StoreError::Foreign {
            dir: dir.into(),
            found,
        })
    };
    let failed = |error| io_error("cannot open state directory", dir, error);
    let names = match fs::read_dir(dir) {
        Ok(entries) => entries
            .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(failed)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    match STATE.look(file)? {
        Found::Ours(_) => Ok(()),
        Found::Other => foreign(format!("{DATABASE} of another program")),
        Found::Nothing => {
            // A damaged database that was moved aside leaves the transcripts.
            let was_ours = names.iter().any(|name| name.starts_with(ASIDE));
            let mut others: Vec<_> = names
                .into_iter()
                .filter(|name| !is_made_by_us(name))
                .filter(|name| !(was_ours && (name == "agents" || name.starts_with(ASIDE))))
                .collect();
            others.sort();
            match (others.as_slice(), file.exists()) {
                ([], _) => Ok(()),
                (_, true) => Err(database::damaged(file, "it is empty")),
                ([first], false) => foreign(clean(first)),
                ([first, rest @ ..], false) => {
                    foreign(format!("{} and {} more", clean(first), rest.len()))
                }
            }
        }
    }
}

fn clean(name: &str) -> String {
    crate::text::clean_str(name).into_string()
}

/// What an owner puts into a directory before there is a database, and the database itself before its first commit.
fn is_made_by_us(name: &str) -> bool {
    name.starts_with("host.")
        || name == "serve.token"
        || matches!(
            name.strip_prefix(DATABASE),
            Some("" | "-wal" | "-shm" | "-journal")
        )
}

impl Sessions for StateStore {
    fn agents(&self) -> Result<Vec<AgentId>, StoreError> {
        self.shared.reading_sql(list::agents)
    }

    fn list(&self, query: &Query, filter: Filter<'_>) -> Result<Page, StoreError> {
        self.shared
            .reading_sql(|connection| list::page(connection, query, filter))
    }

    fn entry(&self, key: &SessionKey) -> Result<Option<Entry>, StoreError> {
        self.shared
            .reading_sql(|connection| list::entry(connection, key))
    }

    fn by_session_id(&self, id: &str) -> Result<Vec<Entry>, StoreError> {
        self.shared
            .reading_sql(|connection| list::by_session_id(connection, id))
    }

    fn transcript_path(&self, entry: &Entry) -> Option<PathBuf> {
        let dir = self.sessions_dir(&entry.agent());
        let named = entry
            .session_file
            .as_deref()
            .filter(|named| !named.trim().is_empty())
            .map(|named| dir.join(named.trim()))
            .filter(|path| lies_in(path, &dir));
        named.or_else(|| {
            is_safe_session_id(&entry.session_id)
                .then(|| dir.join(format!("{}.jsonl", entry.session_id)))
        })
    }

    fn transcript(
        &self,
        entry: &Entry,
        span: Span,
        limit: usize,
    ) -> Result<TranscriptPage, StoreError> {
        match self.transcript_path(entry) {
            Some(path) => transcript::read(&path, span, limit),
            None => Ok(TranscriptPage {
                at_start: true,
                ..TranscriptPage::default()
            }),
        }
    }
}

/// Is the file, links resolved, in the directory (L-70)? It need not exist, its directory must.
fn lies_in(path: &Path, dir: &Path) -> bool {
    let (Some(name), Ok(dir)) = (path.file_name(), dir.canonicalize()) else {
        return false;
    };
    let resolved = match path.canonicalize() {
        Ok(resolved) => Ok(resolved),
        // A link that leads nowhere may lead somewhere later.
        Err(_) if path.is_symlink() => return false,
        Err(_) => path
            .parent()
            .unwrap_or(Path::new(""))
            .canonicalize()
            .map(|parent| parent.join(name)),
    };
    resolved.is_ok_and(|resolved| resolved.starts_with(&dir) && resolved != dir)
}
