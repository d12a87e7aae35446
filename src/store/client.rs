//! What a person's screen keeps, by source: drafts, the send ledger, small preferences. A database of its own
//! (`client.db`, 0600), never the engine's. Several processes may have it open (WAL, a busy time-out).

use super::StoreError;
use super::database::{Database, io_error, make_private_dir, sql_error};
use crate::model::event::SendState;
use crate::text::Untrusted;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const CLIENT: Database = Database {
    // "Xtlc"
    application_id: 0x5874_6c63,
    steps: &[VERSION_1],
    patience: Duration::from_secs(2),
};

const VERSION_1: &str = "
CREATE TABLE drafts (
    source TEXT NOT NULL,
    key    TEXT NOT NULL,
    text   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (source, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE sends (
    source     TEXT NOT NULL,
    send_id    TEXT NOT NULL,
    target     TEXT NOT NULL,
    requester  TEXT,
    text       TEXT NOT NULL,
    wait_s     INTEGER NOT NULL,
    state      TEXT NOT NULL,
    reply      TEXT,
    error      TEXT,
    sent_at    INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (source, send_id)
) STRICT;
CREATE INDEX sends_order ON sends (source, sent_at DESC, send_id);

CREATE TABLE preferences (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// The client's database. Every call is a transaction of its own, and blocks.
pub struct ClientStore {
    file: PathBuf,
    connection: Mutex<Connection>,
}

/// One send of this screen.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerEntry {
    /// The run id, which is the idempotency key.
    pub send_id: String,
    pub target: Untrusted,
    /// `None` is the operator.
    pub requester: Option<Untrusted>,
    pub text: Untrusted,
    pub wait_s: u64,
    pub state: SendState,
    pub reply: Option<Untrusted>,
    pub error: Option<Untrusted>,
    pub sent_at: i64,
    pub changed_at: i64,
}

impl ClientStore {
    /// Opens or makes it. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Newer`], [`StoreError::Damaged`], [`StoreError::Io`], [`StoreError::Sql`].
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        if let Some(dir) = file.parent() {
            make_private_dir(dir).map_err(|error| io_error("cannot make directory", dir, error))?;
        }
        Ok(Self {
            file: file.into(),
            connection: Mutex::new(CLIENT.open(file)?),
        })
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        // Each call is one statement: a panic leaves nothing half done.
        let connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        work(&connection).map_err(|error| sql_error(&self.file, error))
    }

    /// The draft for a session of a source, if there is one.
    ///
    /// # Errors
    /// [`StoreError::Sql`], [`StoreError::Damaged`]; so for all that follow.
    pub fn draft(&self, source: &str, key: &str) -> Result<Option<Untrusted>, StoreError> {
        self.with(|connection| {
            connection
                .prepare_cached("SELECT text FROM drafts WHERE source = ?1 AND key = ?2")?
                .query_row([source, key], |row| untrusted(row, 0))
                .optional()
        })
    }

    /// Keeps a draft; blank text removes it.
    pub fn set_draft(
        &self,
        source: &str,
        key: &str,
        text: &Untrusted,
        at: i64,
    ) -> Result<(), StoreError> {
        self.with(|connection| {
            if text.is_blank() {
                connection
                    .prepare_cached("DELETE FROM drafts WHERE source = ?1 AND key = ?2")?
                    .execute([source, key])
            } else {
                connection
                    .prepare_cached("INSERT OR REPLACE INTO drafts VALUES (?1, ?2, ?3, ?4)")?
                    .execute(params![source, key, text.raw(), at])
            }
            .map(drop)
        })
    }

    /// All drafts of a source: key and text, newest first.
    pub fn drafts(&self, source: &str) -> Result<Vec<(Untrusted, Untrusted)>, StoreError> {
        self.with(|connection| {
            connection
                .prepare_cached(
                    "SELECT key, text FROM drafts WHERE source = ?1 ORDER BY at DESC, key",
                )?
                .query_map([source], |row| Ok((untrusted(row, 0)?, untrusted(row, 1)?)))?
                .collect()
        })
    }

    /// Makes or replaces a ledger entry.
    pub fn put_send(&self, source: &str, entry: &LedgerEntry) -> Result<(), StoreError> {
        let raw = |text: &Option<Untrusted>| text.as_ref().map(|text| text.raw().to_owned());
        self.with(|connection| {
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO sends VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                )?
                .execute(params![
                    source,
                    entry.send_id,
                    entry.target.raw(),
                    raw(&entry.requester),
                    entry.text.raw(),
                    i64::try_from(entry.wait_s).unwrap_or(i64::MAX),
                    state_word(entry.state),
                    raw(&entry.reply),
                    raw(&entry.error),
                    entry.sent_at,
                    entry.changed_at,
                ])
                .map(drop)
        })
    }

    /// The newest entries, newest first.
    pub fn sends(&self, source: &str, limit: usize) -> Result<Vec<LedgerEntry>, StoreError> {
        self.with(|connection| {
            connection
                .prepare_cached(
                    "SELECT send_id, target, requester, text, wait_s, state, reply, error, sent_at, changed_at
                     FROM sends WHERE source = ?1 ORDER BY sent_at DESC, send_id LIMIT ?2",
                )?
                .query_map(
                    params![source, i64::try_from(limit).unwrap_or(i64::MAX)],
                    read_send,
                )?
                .collect()
        })
    }

    /// A small preference (pane width, tree, sort).
    pub fn preference(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.with(|connection| {
            connection
                .prepare_cached("SELECT value FROM preferences WHERE name = ?1")?
                .query_row([name], |row| row.get(0))
                .optional()
        })
    }

    /// Keeps a preference.
    pub fn set_preference(&self, name: &str, value: &str) -> Result<(), StoreError> {
        self.with(|connection| {
            connection
                .prepare_cached("INSERT OR REPLACE INTO preferences VALUES (?1, ?2)")?
                .execute([name, value])
                .map(drop)
        })
    }
}

fn untrusted(row: &Row<'_>, at: usize) -> rusqlite::Result<Untrusted> {
    row.get::<_, String>(at).map(Untrusted::from)
}

fn read_send(row: &Row<'_>) -> rusqlite::Result<LedgerEntry> {
    let optional = |at| {
        row.get::<_, Option<String>>(at)
            .map(|text| text.map(Untrusted::from))
    };
    Ok(LedgerEntry {
        send_id: row.get(0)?,
        target: untrusted(row, 1)?,
        requester: optional(2)?,
        text: untrusted(row, 3)?,
        wait_s: row.get::<_, i64>(4)?.try_into().unwrap_or(0),
        state: read_state(row.get_ref(5)?.as_str()?),
        reply: optional(6)?,
        error: optional(7)?,
        sent_at: row.get(8)?,
        changed_at: row.get(9)?,
    })
}

const STATES: [(SendState, &str); 10] = [
    (SendState::Outbox, "outbox"),
    (SendState::Queued, "queued"),
    (SendState::Running, "running"),
    (SendState::Replied, "replied"),
    (SendState::NoReply, "no_reply"),
    (SendState::WaitOver, "wait_over"),
    (SendState::Failed, "failed"),
    (SendState::Refused, "refused"),
    (SendState::Unknown, "unknown"),
    (SendState::Discarded, "discarded"),
];

fn state_word(state: SendState) -> &'static str {
    STATES
        .iter()
        .find(|(known, _)| *known == state)
        .map_or("unknown", |(_, word)| word)
}

fn read_state(word: &str) -> SendState {
    STATES
        .iter()
        .find(|(_, known)| *known == word)
        .map_or(SendState::Unknown, |(state, _)| *state)
}
