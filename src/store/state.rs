//! Our own state: `state.db` (SQLite, WAL, `synchronous=FULL`, one writer with group commit, separate readers,
//! migrations by `user_version` with a backup) and the transcripts beside it (AM-1, D-1).

use super::{Filter, Page, Query, Sessions, Span, StoreError, TranscriptPage};
use crate::model::key::{AgentId, SessionKey};
use crate::model::run::{Run, RunState, SubagentRecord};
use crate::model::session::Entry;
use std::path::{Path, PathBuf};

/// Our own state directory. Cheap to clone.
#[derive(Clone)]
pub struct StateStore {
    dir: PathBuf,
}

/// What a transaction can do; see [`StateStore::write`] and [`StateStore::read`].
pub struct Tx<'a> {
    _connection: std::marker::PhantomData<&'a ()>,
}

impl StateStore {
    /// Opens or makes the database (0700 directory, 0600 files), migrating an older schema after a backup.
    /// `main_key` is `session.mainKey`: kinds are stored with the sessions and made anew when it changes.
    /// Blocks.
    ///
    /// # Errors
    /// [`StoreError::Foreign`], [`StoreError::Newer`], [`StoreError::Damaged`], [`StoreError::Io`].
    pub fn open(dir: &Path, main_key: &str) -> Result<Self, StoreError> {
        let _ = main_key;
        Ok(Self { dir: dir.into() })
    }

    /// True when the directory holds a state of ours. Touches nothing.
    pub fn exists(dir: &Path) -> bool {
        dir.join("state.db").is_file()
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Runs a change in a transaction of its own savepoint; returns once it is committed. Changes that are waiting
    /// when a commit begins share it (group commit); one that fails is undone alone.
    ///
    /// # Errors
    /// What the change or the database says.
    pub async fn write<T, F>(&self, change: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let _ = change;
        Err(StoreError::Refused("not here yet".into()))
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
        let _ = reading;
        Err(StoreError::Refused("not here yet".into()))
    }

    /// The sessions directory of an agent.
    pub fn sessions_dir(&self, agent: &AgentId) -> PathBuf {
        self.dir
            .join("agents")
            .join(agent.as_str())
            .join("sessions")
    }
}

#[allow(clippy::unused_self, clippy::missing_errors_doc)]
impl Tx<'_> {
    /// One session.
    pub fn entry(&self, key: &SessionKey) -> Result<Option<Entry>, StoreError> {
        let _ = key;
        Ok(None)
    }
    /// Makes or replaces a session. `updatedAt` never goes backwards (D-10); a label in use by another session of the
    /// same agent is [`StoreError::Refused`].
    pub fn put_entry(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let _ = entry;
        Ok(())
    }
    /// Removes a session; false when there was none.
    pub fn delete_entry(&mut self, key: &SessionKey) -> Result<bool, StoreError> {
        let _ = key;
        Ok(false)
    }
    /// Direct children (`spawnedBy`), oldest first.
    pub fn children(&self, key: &SessionKey) -> Result<Vec<Entry>, StoreError> {
        let _ = key;
        Ok(Vec::new())
    }
    /// Sessions that carry a label, of one agent or of all.
    pub fn by_label(&self, label: &str, agent: Option<&AgentId>) -> Result<Vec<Entry>, StoreError> {
        let _ = (label, agent);
        Ok(Vec::new())
    }
    /// One run.
    pub fn run(&self, run_id: &str) -> Result<Option<Run>, StoreError> {
        let _ = run_id;
        Ok(None)
    }
    /// Makes or replaces a run. The order of first insertion is the order of acceptance.
    pub fn put_run(&mut self, run: &Run) -> Result<(), StoreError> {
        let _ = run;
        Ok(())
    }
    /// Runs in a state, in order of acceptance.
    pub fn runs(&self, state: RunState) -> Result<Vec<Run>, StoreError> {
        let _ = state;
        Ok(Vec::new())
    }
    /// How many runs share a root (AM-5).
    pub fn chain_len(&self, root_run: &str) -> Result<u32, StoreError> {
        let _ = root_run;
        Ok(0)
    }
    /// Ended runs older than this are forgotten; returns how many (E-9 asks for at least 10 minutes).
    pub fn forget_runs_before(&mut self, ended_before: i64) -> Result<usize, StoreError> {
        let _ = ended_before;
        Ok(0)
    }
    /// One record of the sub-agent registry.
    pub fn subagent(&self, run_id: &str) -> Result<Option<SubagentRecord>, StoreError> {
        let _ = run_id;
        Ok(None)
    }
    /// Makes or replaces a record.
    pub fn put_subagent(&mut self, record: &SubagentRecord) -> Result<(), StoreError> {
        let _ = record;
        Ok(())
    }
    /// Removes a record.
    pub fn delete_subagent(&mut self, run_id: &str) -> Result<(), StoreError> {
        let _ = run_id;
        Ok(())
    }
    /// All records, oldest first; `requester` narrows to the children one session controls.
    pub fn subagents(
        &self,
        requester: Option<&SessionKey>,
    ) -> Result<Vec<SubagentRecord>, StoreError> {
        let _ = requester;
        Ok(Vec::new())
    }
    /// A small value kept under a name (thread bindings, the demo's place).
    pub fn meta(&self, name: &str) -> Result<Option<String>, StoreError> {
        let _ = name;
        Ok(None)
    }
    /// Keeps a small value; `None` removes it.
    pub fn set_meta(&mut self, name: &str, value: Option<&str>) -> Result<(), StoreError> {
        let _ = (name, value);
        Ok(())
    }
}

impl Sessions for StateStore {
    fn agents(&self) -> Result<Vec<AgentId>, StoreError> {
        Ok(Vec::new())
    }
    fn list(&self, query: &Query, filter: Filter<'_>) -> Result<Page, StoreError> {
        let _ = (query, filter);
        Ok(Page::default())
    }
    fn entry(&self, key: &SessionKey) -> Result<Option<Entry>, StoreError> {
        let _ = key;
        Ok(None)
    }
    fn by_session_id(&self, id: &str) -> Result<Vec<Entry>, StoreError> {
        let _ = id;
        Ok(Vec::new())
    }
    fn transcript_path(&self, entry: &Entry) -> Option<PathBuf> {
        let _ = entry;
        None
    }
    fn transcript(
        &self,
        entry: &Entry,
        span: Span,
        limit: usize,
    ) -> Result<TranscriptPage, StoreError> {
        let _ = (entry, span, limit);
        Ok(TranscriptPage::default())
    }
}
