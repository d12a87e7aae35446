//! The tables of `state.db`, a step for each version. A step that was released is never changed.

use crate::store::database::Database;
use std::time::Duration;

/// `state.db`.
pub const STATE: Database = Database {
    // "Xtlk"
    application_id: 0x5874_6c6b,
    steps: &[VERSION_1],
    patience: Duration::from_secs(5),
};

/// Columns beside `entry` and `record` are read off them when they are written, for finding and ordering.
/// `tally` counts sessions by what a list without further filters asks for, so that its total needs no scan; only the
/// triggers write it.
const VERSION_1: &str = "
CREATE TABLE sessions (
    id         INTEGER PRIMARY KEY,
    key        TEXT NOT NULL UNIQUE,
    agent      TEXT NOT NULL,
    kind       TEXT NOT NULL,
    channel    TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    archived_at INTEGER,
    archived   INTEGER NOT NULL AS (archived_at IS NOT NULL) STORED,
    spawned_by TEXT,
    label      TEXT,
    session_id TEXT NOT NULL,
    listed     INTEGER NOT NULL,
    words      TEXT NOT NULL,
    entry      TEXT NOT NULL
) STRICT;
CREATE INDEX sessions_order ON sessions (listed, archived, updated_at DESC, key);
CREATE INDEX sessions_kind ON sessions (listed, archived, kind, updated_at DESC, key);
CREATE INDEX sessions_agent ON sessions (listed, archived, agent, updated_at DESC, key);
CREATE UNIQUE INDEX sessions_label ON sessions (agent, label) WHERE label IS NOT NULL;
CREATE INDEX sessions_spawned ON sessions (spawned_by) WHERE spawned_by IS NOT NULL;
CREATE INDEX sessions_session_id ON sessions (session_id);

CREATE TABLE tally (
    listed   INTEGER NOT NULL,
    archived INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    agent    TEXT NOT NULL,
    n        INTEGER NOT NULL,
    PRIMARY KEY (listed, archived, kind, agent)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER sessions_inserted AFTER INSERT ON sessions BEGIN
    INSERT INTO tally VALUES (new.listed, new.archived, new.kind, new.agent, 1)
        ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER sessions_deleted AFTER DELETE ON sessions BEGIN
    UPDATE tally SET n = n - 1 WHERE listed = old.listed AND archived = old.archived
        AND kind = old.kind AND agent = old.agent;
END;
CREATE TRIGGER sessions_moved AFTER UPDATE ON sessions
    WHEN (old.listed, old.archived, old.kind, old.agent) IS NOT (new.listed, new.archived, new.kind, new.agent) BEGIN
    UPDATE tally SET n = n - 1 WHERE listed = old.listed AND archived = old.archived
        AND kind = old.kind AND agent = old.agent;
    INSERT INTO tally VALUES (new.listed, new.archived, new.kind, new.agent, 1)
        ON CONFLICT DO UPDATE SET n = n + 1;
END;

CREATE TABLE runs (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id      TEXT NOT NULL UNIQUE,
    session_key TEXT NOT NULL,
    state       TEXT NOT NULL,
    root_run    TEXT NOT NULL,
    ended_at    INTEGER,
    record      TEXT NOT NULL
) STRICT;
CREATE INDEX runs_state ON runs (state, seq);
CREATE INDEX runs_root ON runs (root_run, ended_at);
CREATE INDEX runs_session ON runs (session_key, seq);
CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE subagents (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id     TEXT NOT NULL UNIQUE,
    child      TEXT NOT NULL,
    controller TEXT NOT NULL,
    record     TEXT NOT NULL
) STRICT;
CREATE INDEX subagents_controller ON subagents (controller, seq);

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";
