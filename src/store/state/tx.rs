//! What can be done inside a transaction.

use super::record::{self, Columns, Facts};
use crate::model::key::{AgentId, SessionKey};
use crate::model::run::{Run, RunState, SubagentRecord};
use crate::model::session::Entry;
use crate::store::StoreError;
use crate::store::database::sql_error;
use crate::text::Untrusted;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use serde::de::DeserializeOwned;
use std::path::Path;

/// What a transaction can do; see [`super::StateStore::write`] and [`super::StateStore::read`].
pub struct Tx<'a> {
    connection: &'a Connection,
    file: &'a Path,
    facts: &'a Facts,
}

const fn state_word(state: RunState) -> &'static str {
    match state {
        RunState::Accepted => "accepted",
        RunState::Started => "started",
        RunState::Ended => "ended",
    }
}

impl<'a> Tx<'a> {
    pub(super) fn new(connection: &'a Connection, file: &'a Path, facts: &'a Facts) -> Self {
        Self {
            connection,
            file,
            facts,
        }
    }

    fn failed(&self, error: rusqlite::Error) -> StoreError {
        sql_error(self.file, error)
    }

    fn change(&self, sql: &str, params: impl Params) -> Result<usize, StoreError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(params))
            .map_err(|error| self.failed(error))
    }

    fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row(params, read).optional())
            .map_err(|error| self.failed(error))
    }

    fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_map(params, read)?.collect())
            .map_err(|error| self.failed(error))
    }

    fn record<T: DeserializeOwned>(&self, what: &str, json: &str) -> Result<T, StoreError> {
        serde_json::from_str(json).map_err(|error| StoreError::Record {
            what: format!("a {what} in {}", self.file.display()),
            reason: error.to_string(),
        })
    }

    /// One session.
    ///
    /// # Errors
    /// [`StoreError::Sql`], [`StoreError::Damaged`]; so for all that follow.
    pub fn entry(&self, key: &SessionKey) -> Result<Option<Entry>, StoreError> {
        self.one(
            "SELECT key, entry FROM sessions WHERE key = ?1",
            [key.as_str()],
            read_entry,
        )
    }

    /// Makes or replaces a session. `updatedAt` never goes backwards (D-10).
    ///
    /// # Errors
    /// A label in use by another session of the same agent is [`StoreError::Refused`].
    pub fn put_entry(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let key = &entry.key;
        let before = self.one(
            "SELECT updated_at FROM sessions WHERE key = ?1",
            [key.as_str()],
            |row| row.get::<_, i64>(0),
        )?;
        let mut entry = entry.clone();
        entry.updated_at = before.map_or(entry.updated_at, |at| at.max(entry.updated_at));
        let columns = Columns::of(&entry, self.facts);
        if let Some(label) = &columns.label {
            self.refuse_label_in_use(label, &columns.agent, key)?;
        }
        // By way of a value: a member that is set now must not stand beside one of its name that was not understood.
        let json = serde_json::to_value(&entry).map_err(|error| StoreError::Record {
            what: format!("session {}", key.clean()),
            reason: error.to_string(),
        })?;
        self.change(
            "INSERT INTO sessions
                (key, agent, kind, channel, updated_at, archived_at, spawned_by, label, session_id, listed, words, entry)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
             ON CONFLICT (key) DO UPDATE SET
                agent = ?2, kind = ?3, channel = ?4, updated_at = ?5, archived_at = ?6, spawned_by = ?7, label = ?8,
                session_id = ?9, listed = ?10, words = ?11, entry = ?12",
            params![
                key.as_str(),
                columns.agent.as_str(),
                columns.kind.as_str(),
                columns.channel,
                entry.updated_at,
                entry.archived_at,
                entry.spawned_by.as_ref().map(SessionKey::as_str),
                columns.label,
                entry.session_id,
                columns.listed,
                columns.words,
                json.to_string(),
            ],
        )?;
        Ok(())
    }

    fn refuse_label_in_use(
        &self,
        label: &str,
        agent: &AgentId,
        key: &SessionKey,
    ) -> Result<(), StoreError> {
        let holder = self.one(
            "SELECT key FROM sessions WHERE agent = ?1 AND label = ?2 AND key <> ?3",
            [agent.as_str(), label, key.as_str()],
            |row| row.get::<_, String>(0),
        )?;
        match holder {
            Some(holder) => Err(StoreError::Refused(format!(
                "label already in use: {} is the label of {}; {} needs another one",
                Untrusted::from(label).clean(),
                SessionKey::foreign(&holder).clean(),
                key.clean(),
            ))),
            None => Ok(()),
        }
    }

    /// Removes a session; false when there was none.
    pub fn delete_entry(&mut self, key: &SessionKey) -> Result<bool, StoreError> {
        self.change("DELETE FROM sessions WHERE key = ?1", [key.as_str()])
            .map(|removed| removed > 0)
    }

    /// Direct children (`spawnedBy`), oldest first, the archived ones too.
    pub fn children(&self, key: &SessionKey) -> Result<Vec<Entry>, StoreError> {
        self.all(
            "SELECT key, entry FROM sessions WHERE spawned_by = ?1 ORDER BY id",
            [key.as_str()],
            read_entry,
        )
    }

    /// Sessions that carry a label, of one agent or of all.
    pub fn by_label(&self, label: &str, agent: Option<&AgentId>) -> Result<Vec<Entry>, StoreError> {
        self.all(
            "SELECT key, entry FROM sessions WHERE label = ?1 AND (?2 IS NULL OR agent = ?2) ORDER BY key",
            (label, agent.map(AgentId::as_str)),
            read_entry,
        )
    }

    /// One run.
    pub fn run(&self, run_id: &str) -> Result<Option<Run>, StoreError> {
        self.one("SELECT record FROM runs WHERE run_id = ?1", [run_id], text)?
            .map(|json| self.record("run", &json))
            .transpose()
    }

    /// Makes or replaces a run. The order of first insertion is the order of acceptance.
    pub fn put_run(&mut self, run: &Run) -> Result<(), StoreError> {
        let json = serde_json::to_string(run).map_err(|error| StoreError::Record {
            what: "a new run".into(),
            reason: error.to_string(),
        })?;
        self.change(
            "INSERT INTO runs (run_id, session_key, state, root_run, ended_at, record)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (run_id) DO UPDATE SET
                session_key = ?2, state = ?3, root_run = ?4, ended_at = ?5, record = ?6",
            params![
                run.run_id,
                run.session_key.as_str(),
                state_word(run.state),
                run.root_run.as_ref().unwrap_or(&run.run_id),
                run.ended_at,
                json,
            ],
        )?;
        Ok(())
    }

    /// Place of a run in the order of acceptance; 0 when there is no such run.
    pub fn order_of(&self, run_id: &str) -> Result<u64, StoreError> {
        self.one("SELECT seq FROM runs WHERE run_id = ?1", [run_id], |row| {
            row.get::<_, i64>(0)
        })
        .map(|seq| seq.and_then(|seq| u64::try_from(seq).ok()).unwrap_or(0))
    }

    /// Runs in a state, in order of acceptance.
    pub fn runs(&self, state: RunState) -> Result<Vec<Run>, StoreError> {
        self.all(
            "SELECT record FROM runs WHERE state = ?1 ORDER BY seq",
            [state_word(state)],
            text,
        )?
        .iter()
        .map(|json| self.record("run", json))
        .collect()
    }

    /// Runs of one session, in order of acceptance.
    pub fn runs_of(&self, key: &SessionKey) -> Result<Vec<Run>, StoreError> {
        self.all(
            "SELECT record FROM runs WHERE session_key = ?1 ORDER BY seq",
            [key.as_str()],
            text,
        )?
        .iter()
        .map(|json| self.record("run", json))
        .collect()
    }

    /// How many runs share a root, the root among them (AM-5).
    pub fn chain_len(&self, root_run: &str) -> Result<u32, StoreError> {
        self.one(
            "SELECT count(*) FROM runs WHERE root_run = ?1",
            [root_run],
            |row| row.get(0),
        )
        .map(Option::unwrap_or_default)
    }

    /// Ended runs older than this are forgotten; returns how many (E-9 asks for at least 10 minutes). A chain is
    /// forgotten as a whole, so that its length stays true while it goes on (AM-5).
    pub fn forget_runs_before(&mut self, ended_before: i64) -> Result<usize, StoreError> {
        self.change(
            "DELETE FROM runs WHERE ended_at < ?1 AND NOT EXISTS (
                SELECT 1 FROM runs AS other WHERE other.root_run = runs.root_run
                    AND (other.ended_at IS NULL OR other.ended_at >= ?1))",
            [ended_before],
        )
    }

    /// One record of the sub-agent registry.
    pub fn subagent(&self, run_id: &str) -> Result<Option<SubagentRecord>, StoreError> {
        self.one(
            "SELECT record FROM subagents WHERE run_id = ?1",
            [run_id],
            text,
        )?
        .map(|json| self.record("sub-agent record", &json))
        .transpose()
    }

    /// Makes or replaces a record.
    pub fn put_subagent(&mut self, record: &SubagentRecord) -> Result<(), StoreError> {
        let json = serde_json::to_string(record).map_err(|error| StoreError::Record {
            what: "a new sub-agent record".into(),
            reason: error.to_string(),
        })?;
        self.change(
            "INSERT INTO subagents (run_id, child, controller, record) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (run_id) DO UPDATE SET child = ?2, controller = ?3, record = ?4",
            [
                record.run_id.as_str(),
                record.child_session_key.as_str(),
                record.controller_session_key.as_str(),
                &json,
            ],
        )?;
        Ok(())
    }

    /// Removes a record.
    pub fn delete_subagent(&mut self, run_id: &str) -> Result<(), StoreError> {
        self.change("DELETE FROM subagents WHERE run_id = ?1", [run_id])?;
        Ok(())
    }

    /// All records, oldest first; `requester` narrows to the children one session controls.
    pub fn subagents(
        &self,
        requester: Option<&SessionKey>,
    ) -> Result<Vec<SubagentRecord>, StoreError> {
        self.all(
            "SELECT record FROM subagents WHERE ?1 IS NULL OR controller = ?1 ORDER BY seq",
            [requester.map(SessionKey::as_str)],
            text,
        )?
        .iter()
        .map(|json| self.record("sub-agent record", json))
        .collect()
    }

    /// A small value kept under a name (thread bindings, the demo's place).
    pub fn meta(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.one("SELECT value FROM meta WHERE name = ?1", [name], text)
    }

    /// Keeps a small value; `None` removes it.
    pub fn set_meta(&mut self, name: &str, value: Option<&str>) -> Result<(), StoreError> {
        match value {
            Some(value) => self.change(
                "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2",
                [name, value],
            ),
            None => self.change("DELETE FROM meta WHERE name = ?1", [name]),
        }?;
        Ok(())
    }

    /// Makes anew what was made for another `session.mainKey` or `session.scope`.
    pub(super) fn refresh_columns(&mut self) -> Result<(), StoreError> {
        const MADE_FOR: &str = "store.facts";
        let facts = serde_json::json!([self.facts.main_key, self.facts.scope_global]).to_string();
        if self.meta(MADE_FOR)?.as_deref() == Some(&facts) {
            return Ok(());
        }
        let changed = self.all(
            "SELECT key, entry, id, kind, channel, listed FROM sessions",
            [],
            |row| {
                let columns = Columns::of(&read_entry(row)?, self.facts);
                let same = columns.kind.as_str() == row.get_ref(3)?.as_str()?
                    && columns.channel == row.get_ref(4)?.as_str()?
                    && columns.listed == row.get::<_, bool>(5)?;
                Ok((!same).then_some((row.get::<_, i64>(2)?, columns)))
            },
        )?;
        for (id, columns) in changed.into_iter().flatten() {
            self.change(
                "UPDATE sessions SET kind = ?2, channel = ?3, listed = ?4 WHERE id = ?1",
                params![id, columns.kind.as_str(), columns.channel, columns.listed],
            )?;
        }
        self.set_meta(MADE_FOR, Some(&facts))
    }
}

fn text(row: &Row<'_>) -> rusqlite::Result<String> {
    row.get(0)
}

/// Of a row that begins with key and JSON.
pub(super) fn read_entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(record::read_entry(
        row.get_ref(0)?.as_str()?,
        row.get_ref(1)?.as_str()?,
    ))
}
