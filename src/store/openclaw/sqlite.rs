//! The newer format: one database per agent, `agents/<id>/agent/openclaw-agent.sqlite` (D-8, AM-2).
//!
//! Entries are held in memory, transcripts are read from the last copy of their database; with each call the files are
//! looked at anew, and what changed is copied again. Another schema than the one that is known is tried, and a warning
//! says so. Invariant: a database that cannot be read is never an empty one. Positions in a transcript are the numbers
//! of its events.

use super::index;
use super::snapshot::{Snapshot, Trouble};
use super::view::{Place, Session, View, leads_into};
use crate::model::key::{AgentId, SessionKey};
use crate::model::message::{Damage, RawLine, read_time};
use crate::model::session::Entry;
use crate::store::transcript::{self, MAX_LINE_BYTES, Room};
use crate::store::{Filter, Page, Query, Sessions, Span, StoreError, TranscriptPage};
use crate::text::{Untrusted, clean_str};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};
use ruzstd::decoding::StreamingDecoder;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The schema of an agent's database that is known.
const SCHEMA: i64 = 23;

/// An OpenClaw state directory in the newer format, read-only.
pub struct SqliteStore {
    dir: PathBuf,
    main_key: String,
    held: Mutex<Held>,
}

/// What is in memory.
#[derive(Default)]
struct Held {
    databases: BTreeMap<PathBuf, Database>,
    view: Arc<View>,
}

/// The database of an agent.
struct Database {
    place: Arc<Place>,
    snapshot: Snapshot,
    /// Of the last good copy.
    contents: Option<Contents>,
    trouble: Option<String>,
}

/// What a database holds, without its transcripts.
struct Contents {
    entries: Vec<Arc<Entry>>,
    /// How far each transcript reaches: the number after its last event.
    ends: HashMap<String, u64>,
    /// Events may be packed.
    has_packed: bool,
    warnings: Vec<String>,
}

impl SqliteStore {
    /// Opens a directory; one without databases is empty. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the directory cannot be read. A database that cannot be is a warning.
    pub fn open(dir: &Path, main_key: &str) -> Result<Self, StoreError> {
        let store = Self {
            dir: std::path::absolute(dir).map_err(failed("cannot open", dir))?,
            main_key: main_key.into(),
            held: Mutex::default(),
        };
        store.view()?;
        Ok(store)
    }

    /// How many databases can be read; `None` when there are none at all.
    ///
    /// # Errors
    /// As [`Sessions::agents`].
    pub(super) fn readable(&self) -> Result<Option<usize>, StoreError> {
        let (held, _) = self.look()?;
        let good = held.databases.values().filter(|one| one.contents.is_some());
        Ok((!held.databases.is_empty()).then(|| good.count()))
    }

    /// Directories in which a change of a database shows.
    ///
    /// # Errors
    /// As [`Sessions::agents`].
    pub fn watched(&self) -> Result<Vec<PathBuf>, StoreError> {
        let agents = agent_dirs(&self.dir)?;
        Ok(agents
            .into_iter()
            .map(|(_, dir)| dir.join("agent"))
            .collect())
    }

    /// The entry as it is stored, every member; `None` when it is gone or cannot be read.
    ///
    /// # Errors
    /// As [`Sessions::agents`].
    pub fn stored(&self, key: &SessionKey) -> Result<Option<Value>, StoreError> {
        let (held, view) = self.look()?;
        let Some(session) = view.get(key, &self.main_key) else {
            return Ok(None);
        };
        let Some(connection) = held.connection(&session.place.file) else {
            return Ok(None);
        };
        let agent = &session.place.agent;
        let stored = || {
            let mut statement = connection.prepare_cached(
                "SELECT session_key, entry_json FROM session_nodes WHERE current_session_id = ?1 OR session_key = ?2",
            )?;
            let mut rows = statement.query(params![session.entry.session_id, key.as_str()])?;
            while let Some(row) = rows.next()? {
                let named = text(row, 0)?.map(|name| index::canonical(&name, agent));
                let is_main = |named: &SessionKey| *named == SessionKey::of(agent, "main");
                if named.is_some_and(|named| named == *key || is_main(&named)) {
                    return text(row, 1);
                }
            }
            Ok(None)
        };
        let stored = stored().map_err(refused(&session.place.file))?;
        Ok(stored
            .and_then(|text| serde_json::from_str(&text).ok())
            .or_else(|| serde_json::to_value(&*session.entry).ok()))
    }

    /// How far the session's transcript reached at the last look, and where it is.
    pub(super) fn reach(&self, entry: &Entry) -> Option<(PathBuf, u64)> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let file = &held.view.get(&entry.key, &self.main_key)?.place.file;
        let ends = &held.databases.get(file)?.contents.as_ref()?.ends;
        let end = ends.get(&entry.session_id).copied().unwrap_or(0);
        // With the id: a session with another one has another transcript in the same file.
        Some((file.join(&entry.session_id), end))
    }

    /// The sessions as they are now.
    pub(super) fn view(&self) -> Result<Arc<View>, StoreError> {
        Ok(self.look()?.1)
    }

    fn look(&self) -> Result<(MutexGuard<'_, Held>, Arc<View>), StoreError> {
        let agents = agent_dirs(&self.dir)?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = false;
        let mut wanted = BTreeSet::new();
        for (name, dir) in agents {
            let file = dir.join("agent/openclaw-agent.sqlite");
            // What was there before is shown on, with a remark.
            if file.symlink_metadata().is_ok() || held.databases.contains_key(&file) {
                let database = held
                    .databases
                    .entry(file.clone())
                    .or_insert_with(|| Database::new(AgentId::mend(&name), &file));
                changed |= database.refresh(&dir);
                wanted.insert(file);
            }
        }
        let known = held.databases.len();
        held.databases.retain(|file, _| wanted.contains(file));
        changed |= held.databases.len() != known;
        let warnings: Vec<String> = held
            .databases
            .values()
            .flat_map(Database::warnings)
            .collect();
        if changed || held.view.warnings != warnings {
            let sessions = held.databases.values().flat_map(|one| {
                let entries = one.contents.as_ref().map(|found| &found.entries);
                entries.map_or_else(Vec::new, |entries| Session::all(&one.place, entries))
            });
            let mut view = View::of(sessions, &self.main_key);
            view.warnings = warnings;
            let agents: BTreeSet<AgentId> = held
                .databases
                .values()
                .map(|one| one.place.agent.clone())
                .collect();
            view.agents = agents.into_iter().collect();
            held.view = Arc::new(view);
        }
        let view = Arc::clone(&held.view);
        Ok((held, view))
    }
}

impl Sessions for SqliteStore {
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

    /// None: there is no file of its own (L-71).
    fn transcript_path(&self, _: &Entry) -> Option<PathBuf> {
        None
    }

    fn transcript(
        &self,
        entry: &Entry,
        span: Span,
        limit: usize,
    ) -> Result<TranscriptPage, StoreError> {
        let (held, view) = self.look()?;
        let place = view
            .get(&entry.key, &self.main_key)
            .map(|found| &found.place);
        let found = place.and_then(|place| {
            let database = held.databases.get(&place.file)?;
            Some((
                place,
                database.snapshot.connection()?,
                database.contents.as_ref()?,
            ))
        });
        let Some((place, connection, contents)) = found else {
            return Ok(TranscriptPage::default());
        };
        let events = Events {
            connection,
            has_packed: contents.has_packed,
            session_id: &entry.session_id,
            end: contents.ends.get(&entry.session_id).copied().unwrap_or(0),
        };
        events.page(span, limit).map_err(refused(&place.file))
    }

    fn warnings(&self) -> Vec<String> {
        match self.view() {
            Ok(view) => view.warnings.clone(),
            Err(error) => vec![error.to_string()],
        }
    }
}

impl Held {
    fn connection(&self, file: &Path) -> Option<&Connection> {
        self.databases.get(file)?.snapshot.connection()
    }
}

impl Database {
    fn new(agent: AgentId, file: &Path) -> Self {
        let place = Place {
            agent,
            file: file.into(),
        };
        Self {
            snapshot: Snapshot::new(file),
            place: Arc::new(place),
            contents: None,
            trouble: None,
        }
    }

    /// Reads it again when it changed. True when there is something new.
    fn refresh(&mut self, agent_dir: &Path) -> bool {
        let file = &self.place.file;
        if file.exists() && !leads_into(file, agent_dir) {
            // D-29
            self.trouble = Some("it is a link that leads out of the agent's directory".into());
            return false;
        }
        let agent = &self.place.agent;
        match self
            .snapshot
            .refresh(|connection| Contents::read(connection, agent))
        {
            Ok(None) => false,
            Ok(Some(contents)) => {
                self.contents = Some(contents);
                self.trouble = None;
                true
            }
            Err(Trouble::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                self.trouble = Some("it is gone".into());
                false
            }
            Err(trouble) => {
                self.trouble = Some(trouble.to_string());
                false
            }
        }
    }

    fn warnings(&self) -> Vec<String> {
        let name = clean_str(&self.place.file.display().to_string());
        let trouble = self.trouble.as_ref().map(|reason| {
            let reason = clean_str(reason);
            if self.contents.is_some() {
                format!("{name} cannot be read again ({reason}): its last good copy is shown")
            } else {
                format!("{name} is in a newer format, or damaged, and cannot be read: {reason}")
            }
        });
        let others = self.contents.iter().flat_map(|found| &found.warnings);
        trouble
            .into_iter()
            .chain(others.map(|warning| format!("{name}: {warning}")))
            .collect()
    }
}

impl Contents {
    fn read(connection: &Connection, agent: &AgentId) -> Result<Self, Trouble> {
        let nodes = columns(connection, "session_nodes")?;
        let events = columns(connection, "transcript_events")?;
        need(&nodes, "session_nodes", &["session_key", "entry_json"])?;
        need(
            &events,
            "transcript_events",
            &["session_id", "seq", "event_json"],
        )?;
        let mut contents = Self {
            entries: Vec::new(),
            ends: HashMap::new(),
            has_packed: events.contains("event_zstd"),
            warnings: Vec::new(),
        };
        let schema: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if schema != SCHEMA {
            contents.warnings.push(format!(
                "schema {schema}, where {SCHEMA} is known: it is read as far as it is alike"
            ));
        }
        contents.read_entries(connection, &nodes, agent)?;
        contents.read_ends(connection)?;
        contents.read_rest(connection)?;
        Ok(contents)
    }

    fn read_entries(
        &mut self,
        connection: &Connection,
        there: &BTreeSet<String>,
        agent: &AgentId,
    ) -> Result<(), Trouble> {
        const COLUMNS: [&str; 10] = [
            "session_key",
            "entry_json",
            "current_session_id",
            "updated_at",
            "status",
            "parent_session_key",
            "spawned_by",
            "label",
            "display_name",
            "archived_at",
        ];
        let picked = COLUMNS.map(|name| if there.contains(name) { name } else { "NULL" });
        let sql = format!("SELECT {} FROM session_nodes", picked.join(", "));
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        let mut damaged = 0;
        while let Some(row) = rows.next()? {
            let key = index::canonical(&text(row, 0)?.unwrap_or_default(), agent);
            let stored = text(row, 1)?.unwrap_or_default();
            let mut entry = index::entry(&stored, key.clone(), agent).unwrap_or_else(|| {
                damaged += 1;
                Entry::new(key, "", 0)
            });
            // The columns are what OpenClaw itself goes by; the object may say more than they can.
            if let Some(id) = text(row, 2)? {
                entry.session_id = id;
            }
            let time =
                |at| Ok::<_, rusqlite::Error>(number(row, at)?.and_then(|n| read_time(&n.into())));
            let word = |at| Ok::<_, rusqlite::Error>(text(row, at)?.map(Untrusted::from));
            let key = |at| {
                Ok::<_, rusqlite::Error>(text(row, at)?.map(|key| index::canonical(&key, agent)))
            };
            entry.updated_at = time(3)?.unwrap_or(entry.updated_at);
            if let Some(status) = text(row, 4)? {
                entry.status = serde_json::from_value(status.into()).ok().or(entry.status);
            }
            entry.parent_session_key = key(5)?.or(entry.parent_session_key);
            entry.spawned_by = key(6)?.or(entry.spawned_by);
            entry.label = word(7)?.or(entry.label);
            entry.display_name = word(8)?.or(entry.display_name);
            entry.archived_at = time(9)?.or(entry.archived_at);
            // A path would lead to a file that is not there.
            entry.session_file = None;
            self.entries.push(Arc::new(entry));
        }
        if damaged > 0 {
            self.warnings.push(format!(
                "{damaged} entries cannot be read in full: what the table says of them is shown"
            ));
        }
        Ok(())
    }

    fn read_ends(&mut self, connection: &Connection) -> Result<(), Trouble> {
        let mut statement =
            connection.prepare("SELECT max(seq) FROM transcript_events WHERE session_id = ?1")?;
        for entry in &self.entries {
            let last = statement.query_row([&entry.session_id], |row| number(row, 0))?;
            if let Some(last) = last {
                let end = u64::try_from(last).map_or(0, |last| last + 1);
                self.ends.insert(entry.session_id.clone(), end);
            }
        }
        Ok(())
    }

    /// What is there and not shown.
    fn read_rest(&mut self, connection: &Connection) -> Result<(), Trouble> {
        let known: BTreeSet<&str> = self
            .entries
            .iter()
            .map(|entry| &*entry.session_id)
            .collect();
        let mut warnings = Vec::new();
        let mut count = |table: &str, remark: &str, may_be_known: bool| -> Result<(), Trouble> {
            if columns(connection, table)?.contains("session_id") {
                let sql = format!("SELECT DISTINCT session_id FROM {table}");
                let mut statement = connection.prepare(&sql)?;
                let ids: Vec<Option<String>> = statement
                    .query_map([], |row| text(row, 0))?
                    .collect::<Result<_, _>>()?;
                let ids = ids.into_iter().flatten();
                let left = ids
                    .filter(|id| may_be_known || !known.contains(&**id))
                    .count();
                if left > 0 {
                    warnings.push(format!("{left} {remark}"));
                }
            }
            Ok(())
        };
        count(
            "session_windows",
            "older transcripts that no session holds any more are not listed",
            false,
        )?;
        count(
            "session_transcript_cold_archives",
            "transcripts are in cold storage, which is not read",
            true,
        )?;
        self.warnings.append(&mut warnings);
        Ok(())
    }
}

/// The events of one session.
struct Events<'a> {
    connection: &'a Connection,
    has_packed: bool,
    session_id: &'a str,
    /// The number after the last one.
    end: u64,
}

impl Events<'_> {
    fn page(&self, span: Span, limit: usize) -> rusqlite::Result<TranscriptPage> {
        match span {
            Span::Tail => self.backwards(self.end, limit),
            Span::Before(position) => self.backwards(position.min(self.end), limit),
            Span::Whole => self.forwards(0, limit),
            // After what is no longer there: it was written anew.
            Span::After(position) if position > self.end => self.forwards(0, limit),
            Span::After(position) => self.forwards(position, limit),
        }
    }

    fn backwards(&self, end: u64, limit: usize) -> rusqlite::Result<TranscriptPage> {
        let mut page = TranscriptPage {
            start: end,
            end,
            at_start: true,
            ..TranscriptPage::default()
        };
        self.read("seq < ?2 ORDER BY seq DESC", end, limit, &mut page)?;
        page.lines.reverse();
        if let Some(first) = page.lines.first() {
            page.start = first.position;
        }
        page.at_start = !self.any_before(page.start)?;
        Ok(page)
    }

    fn forwards(&self, start: u64, limit: usize) -> rusqlite::Result<TranscriptPage> {
        let mut page = TranscriptPage {
            start,
            end: start,
            ..TranscriptPage::default()
        };
        self.read("seq >= ?2 ORDER BY seq", start, limit, &mut page)?;
        if let Some(last) = page.lines.last() {
            page.end = last.position + 1;
        }
        page.at_start = !self.any_before(start)?;
        Ok(page)
    }

    fn read(
        &self,
        part: &str,
        edge: u64,
        limit: usize,
        page: &mut TranscriptPage,
    ) -> rusqlite::Result<()> {
        let packed = if self.has_packed {
            "event_zstd"
        } else {
            "NULL"
        };
        let sql = format!(
            "SELECT seq, event_json, {packed} FROM transcript_events WHERE session_id = ?1 AND {part}"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params![self.session_id, signed(edge)])?;
        let mut room = Room::of(limit);
        while room.is_left() {
            let Some(row) = rows.next()? else { break };
            let line = event(row)?;
            room.take(&line);
            page.lines.push(line);
        }
        Ok(())
    }

    fn any_before(&self, position: u64) -> rusqlite::Result<bool> {
        let mut statement = self.connection.prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM transcript_events WHERE session_id = ?1 AND seq < ?2)",
        )?;
        statement.query_row(params![self.session_id, signed(position)], |row| row.get(0))
    }
}

/// A row of events as a line.
fn event(row: &Row<'_>) -> rusqlite::Result<RawLine> {
    let position = u64::try_from(number(row, 0)?.unwrap_or(0)).unwrap_or(0);
    let (line, bytes) = match (row.get_ref(1)?, row.get_ref(2)?) {
        (ValueRef::Text(text) | ValueRef::Blob(text), _) => (transcript::record(text), text.len()),
        (_, ValueRef::Blob(packed)) => match unpack(packed) {
            Ok(text) => (transcript::record(&text), text.len()),
            Err(damage) => (Err(damage), packed.len()),
        },
        _ => (Err(Damage::NotAnObject), 0),
    };
    let (line, damage) = match line {
        Ok(line) => (line, None),
        Err(damage) => (Value::Null, Some(damage)),
    };
    Ok(RawLine {
        position,
        bytes: bytes as u64,
        line,
        damage,
    })
}

fn unpack(packed: &[u8]) -> Result<Vec<u8>, Damage> {
    let mut text = Vec::new();
    let decoder = StreamingDecoder::new(packed).map_err(|_| Damage::NotUnpacked)?;
    // A few bytes can hold gigabytes.
    decoder
        .take(MAX_LINE_BYTES as u64 + 1)
        .read_to_end(&mut text)
        .map_err(|_| Damage::NotUnpacked)?;
    if text.len() > MAX_LINE_BYTES {
        return Err(Damage::TooLong);
    }
    Ok(text)
}

/// The columns of a table; none when there is no such table.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<BTreeSet<String>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

fn need(there: &BTreeSet<String>, table: &str, wanted: &[&str]) -> Result<(), Trouble> {
    match wanted.iter().find(|name| !there.contains(**name)) {
        Some(name) => Err(Trouble::Unknown(format!("it has no {table}.{name}"))),
        None => Ok(()),
    }
}

fn text(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Text(text) | ValueRef::Blob(text) => {
            Some(String::from_utf8_lossy(text).into_owned())
        }
        _ => None,
    })
}

fn number(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<i64>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Integer(number) => Some(number),
        ValueRef::Real(number) if number.is_finite() => Some(number as i64),
        _ => None,
    })
}

fn signed(position: u64) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}

/// `<dir>/agents/<name>`, for each directory there (D-6).
fn agent_dirs(dir: &Path) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let agents = dir.join("agents");
    let listed = match fs::read_dir(&agents) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed("cannot read", &agents))?,
    };
    let mut found: Vec<(String, PathBuf)> = listed
        .filter_map(Result::ok)
        .filter(|item| item.path().is_dir())
        .filter_map(|item| Some((item.file_name().into_string().ok()?, item.path())))
        .collect();
    found.sort_unstable();
    Ok(found)
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |error| StoreError::Io { what, path, error }
}

fn refused(file: &Path) -> impl FnOnce(rusqlite::Error) -> StoreError {
    let file = file.to_owned();
    move |error| StoreError::Sql { file, error }
}
