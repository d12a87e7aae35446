//! An OpenClaw state directory, whatever its agents keep their sessions in: files, databases, or some this and some
//! that (D-8). Absent on purpose: formats; each has a store of its own.

use super::files::FilesStore;
use super::sqlite::SqliteStore;
use super::view::View;
use crate::model::key::{AgentId, SessionKey};
use crate::model::session::Entry;
use crate::store::{Filter, Page, Query, Sessions, Span, StoreError, TranscriptPage};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A directory, read-only.
pub struct Directory {
    files: FilesStore,
    databases: SqliteStore,
    main_key: String,
    united: Mutex<Option<United>>,
}

/// Both as one, and what it was made of.
struct United {
    files: Arc<View>,
    databases: Arc<View>,
    view: Arc<View>,
}

/// How far a transcript reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Tells transcripts apart: the path of a file, or a name within that of a database.
    pub source: PathBuf,
    /// Position after the last line; of a file its length, and the last line may be half written.
    pub end: u64,
    /// Positions are numbers of events in a database.
    pub is_numbered: bool,
}

impl Directory {
    /// Opens a directory. `store_pattern` is its own `session.store` (C-5), `main_key` its `session.mainKey`. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the directory is missing or cannot be read; [`StoreError::Format`] when its sessions
    /// are kept in databases alone, and none of them can be read (D-8).
    pub fn open(
        dir: &Path,
        store_pattern: Option<&str>,
        main_key: &str,
    ) -> Result<Self, StoreError> {
        let files = FilesStore::open(dir, store_pattern)?.with_main_key(main_key);
        let databases = SqliteStore::open(files.dir(), main_key)?;
        // Databases of which none can be read, or of the newer kind and without one that is known: not the same as
        // having no sessions.
        let readable = databases.readable()?;
        let unknown = readable == Some(0)
            || (readable.is_none() && files.dir().join("state/openclaw.sqlite").exists());
        if unknown && !files.has_index()? {
            return Err(StoreError::Format {
                dir: files.dir().into(),
            });
        }
        Ok(Self {
            files,
            databases,
            main_key: main_key.into(),
            united: Mutex::default(),
        })
    }

    /// The directory, absolute.
    pub fn dir(&self) -> &Path {
        self.files.dir()
    }

    /// The directories that a follower of changes watches.
    ///
    /// # Errors
    /// As [`Sessions::agents`].
    pub fn watched(&self) -> Result<Vec<PathBuf>, StoreError> {
        let mut dirs: BTreeSet<PathBuf> = self.files.watched()?.into_iter().collect();
        dirs.extend(self.databases.watched()?);
        Ok(dirs.into_iter().filter(|dir| dir.is_dir()).collect())
    }

    /// Every session that may be listed, archived ones too, newest first: for followers, which compare.
    ///
    /// # Errors
    /// As [`Sessions::agents`].
    pub fn entries(&self) -> Result<Vec<Arc<Entry>>, StoreError> {
        Ok(self.view()?.listed())
    }

    /// The entry as it is stored, every member; `None` when it is gone.
    ///
    /// # Errors
    /// As [`Sessions::agents`].
    pub fn stored(&self, key: &SessionKey) -> Result<Option<Value>, StoreError> {
        if self.is_in_database(key)? {
            self.databases.stored(key)
        } else {
            self.files.stored(key)
        }
    }

    /// How far a transcript reaches; `None` when none can be there. It goes by what [`Directory::entries`] found last,
    /// so that it can be asked for each of them.
    pub fn reach(&self, entry: &Entry) -> Option<Reach> {
        let united = self.united.lock().unwrap_or_else(PoisonError::into_inner);
        let view = united.as_ref().map(|united| Arc::clone(&united.view))?;
        drop(united);
        let session = view.get(&entry.key, &self.main_key)?;
        if session.place.is_database() {
            let (source, end) = self.databases.reach(entry)?;
            return Some(Reach {
                source,
                end,
                is_numbered: true,
            });
        }
        let source = self.files.transcript_path(entry)?;
        let end = std::fs::metadata(&source).map_or(0, |found| found.len());
        Some(Reach {
            source,
            end,
            is_numbered: false,
        })
    }

    /// Start of the line that a position in a transcript is in.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the file is there and cannot be read.
    pub fn line_start(&self, entry: &Entry, position: u64) -> Result<u64, StoreError> {
        if self.is_in_database(&entry.key)? {
            Ok(position)
        } else {
            self.files.line_start(entry, position)
        }
    }

    fn is_in_database(&self, key: &SessionKey) -> Result<bool, StoreError> {
        let view = self.view()?;
        Ok(view
            .get(key, &self.main_key)
            .is_some_and(|session| session.place.is_database()))
    }

    fn view(&self) -> Result<Arc<View>, StoreError> {
        let (files, databases) = (self.files.view()?, self.databases.view()?);
        let mut united = self.united.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &*united
            && Arc::ptr_eq(&last.files, &files)
            && Arc::ptr_eq(&last.databases, &databases)
        {
            return Ok(Arc::clone(&last.view));
        }
        let view = Arc::new(self.unite(&files, &databases));
        *united = Some(United {
            files,
            databases,
            view: Arc::clone(&view),
        });
        Ok(view)
    }

    fn unite(&self, files: &View, databases: &View) -> View {
        // Of equally new spellings that of the newer format.
        let sessions = databases.sessions.iter().chain(&files.sessions).cloned();
        let mut view = View::of(sessions, &self.main_key);
        let agents: BTreeSet<AgentId> = [files, databases]
            .into_iter()
            .flat_map(|view| view.agents.iter().cloned())
            .collect();
        view.agents = agents.into_iter().collect();
        view.warnings = [files, databases]
            .into_iter()
            .flat_map(|view| view.warnings.iter().cloned())
            .collect();
        view
    }
}

impl Sessions for Directory {
    fn agents(&self) -> Result<Vec<AgentId>, StoreError> {
        Ok(self.view()?.agents.clone())
    }

    fn list(&self, query: &Query, filter: Filter<'_>) -> Result<Page, StoreError> {
        Ok(self.view()?.list(query, filter, &self.main_key))
    }

    fn entry(&self, key: &SessionKey) -> Result<Option<Entry>, StoreError> {
        Ok(self.view()?.entry(key, &self.main_key))
    }

    fn by_session_id(&self, id: &str) -> Result<Vec<Entry>, StoreError> {
        Ok(self.view()?.by_session_id(id))
    }

    fn transcript_path(&self, entry: &Entry) -> Option<PathBuf> {
        if self.is_in_database(&entry.key).ok()? {
            self.databases.transcript_path(entry)
        } else {
            self.files.transcript_path(entry)
        }
    }

    fn transcript(
        &self,
        entry: &Entry,
        span: Span,
        limit: usize,
    ) -> Result<TranscriptPage, StoreError> {
        if self.is_in_database(&entry.key)? {
            self.databases.transcript(entry, span, limit)
        } else {
            self.files.transcript(entry, span, limit)
        }
    }

    fn warnings(&self) -> Vec<String> {
        match self.view() {
            Ok(view) => view.warnings.clone(),
            Err(error) => vec![error.to_string()],
        }
    }
}
