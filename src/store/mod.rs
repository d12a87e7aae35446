//! Where things are kept: the only module that opens session files or databases.
//!
//! One reading interface, [`Sessions`], for our own state and for foreign directories; writing is only for our own
//! ([`state::StateStore`], [`transcript`]). What a person's screen keeps is in [`client`], a database of its own;
//! [`database`] is how both are opened.
//! Everything here blocks: callers go through `spawn_blocking`. Absent on purpose: who may see what.

pub mod client;
pub mod database;
pub mod openclaw;
pub mod state;
pub mod transcript;

use crate::model::key::{AgentId, Kind, SessionKey};
use crate::model::message::RawLine;
use crate::model::session::Entry;
use std::path::PathBuf;

/// What can go wrong with a store. Messages say what failed, on what, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory holds something that is not ours.
    #[error("{} is not a Crosstalk state directory ({found}); browse it read-only with --openclaw {}", .dir.display(), .dir.display())]
    Foreign { dir: PathBuf, found: String },
    /// A database of a newer program (AC-124).
    #[error("{} was written by a newer Crosstalk (schema {found}, this one knows {known}); nothing was changed", .file.display())]
    Newer {
        file: PathBuf,
        found: i64,
        known: i64,
    },
    /// A foreign directory that keeps its sessions in databases only, none of which can be read (D-8).
    #[error("{} keeps its sessions in a newer format (databases) that cannot be read here; reach it through its gateway: --gateway URL", .dir.display())]
    Format { dir: PathBuf },
    /// Our own database is damaged (D-5).
    #[error("{} is damaged: {reason}; nothing was overwritten. {backup}", .file.display())]
    Damaged {
        file: PathBuf,
        reason: String,
        backup: String,
    },
    /// Reading or writing failed.
    #[error("{what} {}: {error}", .path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        error: std::io::Error,
    },
    /// The database refused.
    #[error("database {}: {error}", .file.display())]
    Sql {
        file: PathBuf,
        error: rusqlite::Error,
    },
    /// A stored record cannot be read.
    #[error("{what} cannot be read: {reason}")]
    Record { what: String, reason: String },
    /// A change that the store's rules forbid (a label in use, R-7).
    #[error("{0}")]
    Refused(String),
}

/// What a list asks for. The default asks for everything that is not archived.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// Empty: all kinds.
    pub kinds: Vec<Kind>,
    pub channel: Option<String>,
    pub agent: Option<AgentId>,
    /// Keeps rows with `updatedAt` at or after this (L-3).
    pub active_since: Option<i64>,
    /// Exact (L-5).
    pub label: Option<String>,
    /// "Contains", ignoring case, over display name, label, subject, session id, key (L-7).
    pub search: Option<String>,
    pub archived: Archived,
    pub spawned_by: Option<SessionKey>,
    pub offset: usize,
    /// `None`: all.
    pub limit: Option<usize>,
}

/// L-9.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Archived {
    #[default]
    Hide,
    Only,
    Both,
}

/// A page of a list, ordered by `updatedAt` descending, then key (L-20).
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// How many match, whatever `offset` and `limit`.
    pub total: usize,
}

/// Which entries a caller may see; `None` sees everything.
pub type Filter<'a> = Option<&'a (dyn Fn(&Entry) -> bool + 'a)>;

/// Part of a transcript, in file order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TranscriptPage {
    pub lines: Vec<RawLine>,
    /// Position of the first line looked at: give it as `before` to go on backwards.
    pub start: u64,
    /// Position after the last whole line looked at: give it as `after` to follow growth.
    pub end: u64,
    /// Nothing stands before `start`.
    pub at_start: bool,
}

/// Which part of a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// The newest lines.
    Tail,
    /// What stands before a position.
    Before(u64),
    /// What was added after a position.
    After(u64),
    /// From the start.
    Whole,
}

/// The one reading interface of stores. Implementations: [`state::StateStore`] (our own), [`openclaw::directory`]
/// (foreign ones, of files or databases). Reserved keys and cron runs are left out of lists by the store (K-12, K-13).
pub trait Sessions: Send + Sync {
    /// Agents that have sessions (D-6).
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read at all; single bad records never are one.
    fn agents(&self) -> Result<Vec<AgentId>, StoreError>;
    /// A page of the sessions that match and pass the filter.
    ///
    /// # Errors
    /// As [`Sessions::agents`].
    fn list(&self, query: &Query, filter: Filter<'_>) -> Result<Page, StoreError>;
    /// One session by its canonical key.
    ///
    /// # Errors
    /// As [`Sessions::agents`].
    fn entry(&self, key: &SessionKey) -> Result<Option<Entry>, StoreError>;
    /// Sessions with this id, in any store.
    ///
    /// # Errors
    /// As [`Sessions::agents`].
    fn by_session_id(&self, id: &str) -> Result<Vec<Entry>, StoreError>;
    /// Where the transcript of an entry is (L-70 to L-72), absolute; `None` when no path can be formed.
    fn transcript_path(&self, entry: &Entry) -> Option<PathBuf>;
    /// Lines of a transcript. `limit` counts lines of type message (`usize::MAX`: all). No transcript is an empty page.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the file is there and cannot be read.
    fn transcript(
        &self,
        entry: &Entry,
        span: Span,
        limit: usize,
    ) -> Result<TranscriptPage, StoreError>;
    /// Remarks about the store as a whole: unreadable indexes, ignored files (D-5).
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}
