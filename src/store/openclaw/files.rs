//! The spring format: `agents/<id>/sessions/sessions.json` and JSON lines (D-3 to D-8, K-16, L-70).
//!
//! Indexes are held in memory and looked at anew with each call: what did not change by time, length and inode is not
//! read again. Invariant: files are opened for reading, and only inside the sessions directories (D-29). Absent on
//! purpose: lock files; a writer replaces an index by rename, and whoever meets it half-written gets the last good
//! version (L-27).

use super::index::{self, Index};
use super::query::Matcher;
use crate::model::key::{AgentId, SessionKey, is_safe_session_id};
use crate::model::session::Entry;
use crate::store::{Filter, Page, Query, Sessions, Span, StoreError, TranscriptPage, transcript};
use crate::text::clean_str;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// A file changed less than this before it was read may change again without a new time stamp: kernels count in
/// ticks of some milliseconds.
const TICK: Duration = Duration::from_millis(20);

/// An OpenClaw state directory in the spring format, read-only.
pub struct FilesStore {
    dir: PathBuf,
    pattern: Option<String>,
    main_key: String,
    held: Mutex<Held>,
}

/// What is in memory.
#[derive(Default)]
struct Held {
    files: BTreeMap<PathBuf, Cached>,
    view: Arc<View>,
    /// The view is to be made anew, whatever the files say.
    is_stale: bool,
}

/// One index file.
#[derive(Default)]
struct Cached {
    /// `None`: to be read again, whatever the file looks like.
    stamp: Option<Stamp>,
    /// The last good version.
    entries: Arc<Vec<Arc<Entry>>>,
    good: bool,
    warning: Option<String>,
}

/// What tells that a file is the one that was read.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

/// An agent and its index.
#[derive(Clone)]
struct Place {
    agent: AgentId,
    index: PathBuf,
}

/// All indexes as one.
#[derive(Default)]
struct View {
    /// By `updatedAt` descending, then key (L-20).
    sessions: Vec<Session>,
    by_key: HashMap<SessionKey, usize>,
    by_id: HashMap<String, Vec<usize>>,
    /// Children of a session, in the order of the list.
    by_parent: HashMap<SessionKey, Vec<usize>>,
    agents: Vec<AgentId>,
    warnings: Vec<String>,
}

#[derive(Clone)]
struct Session {
    entry: Arc<Entry>,
    place: Arc<Place>,
}

impl FilesStore {
    /// Opens a directory. `store_pattern` is the directory's own `session.store` (C-5). Blocks.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the directory is missing or cannot be read; [`StoreError::Format`] when its sessions
    /// are kept in databases only (D-8).
    pub fn open(dir: &Path, store_pattern: Option<&str>) -> Result<Self, StoreError> {
        let dir = std::path::absolute(dir).map_err(failed("cannot open", dir))?;
        fs::read_dir(&dir).map_err(failed("cannot open", &dir))?;
        let store = Self {
            pattern: store_pattern.map(str::to_owned),
            main_key: "main".into(),
            held: Mutex::default(),
            dir,
        };
        let (places, _) = store.places()?;
        let any_index = places
            .iter()
            .any(|place| place.index.symlink_metadata().is_ok());
        let any_database =
            !store.databases()?.is_empty() || store.dir.join("state/openclaw.sqlite").exists();
        if !any_index && any_database {
            return Err(StoreError::Format { dir: store.dir });
        }
        store.view()?;
        Ok(store)
    }

    /// With another `session.mainKey` than `main`: `agent:<id>:main` counts for it where it is missing (K-16).
    #[must_use]
    pub fn with_main_key(mut self, main_key: &str) -> Self {
        main_key.clone_into(&mut self.main_key);
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        held.is_stale = true;
        self
    }

    /// The directory, absolute.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directories that a follower of changes watches: where agents appear, and where their sessions are kept.
    ///
    /// # Errors
    /// As [`Sessions::agents`].
    pub fn watched(&self) -> Result<Vec<PathBuf>, StoreError> {
        let (places, _) = self.places()?;
        let mut dirs = BTreeSet::from([self.dir.clone(), self.dir.join("agents")]);
        for place in &places {
            dirs.insert(self.agent_dir(&place.agent));
            if let Some(agent) = place.sessions_dir().parent() {
                dirs.insert(agent.to_owned());
            }
            dirs.insert(place.sessions_dir().to_owned());
        }
        Ok(dirs.into_iter().filter(|dir| dir.is_dir()).collect())
    }

    /// Every session that may be listed, archived ones too, newest first: for followers, which compare.
    ///
    /// # Errors
    /// As [`Sessions::agents`].
    pub fn entries(&self) -> Result<Vec<Arc<Entry>>, StoreError> {
        let view = self.view()?;
        let listed = view.sessions.iter().map(|session| &session.entry);
        Ok(listed
            .filter(|entry| is_listed(&entry.key))
            .map(Arc::clone)
            .collect())
    }

    /// The entry as it is stored, every member; `None` when it is gone.
    ///
    /// # Errors
    /// As [`Sessions::agents`].
    pub fn stored(&self, key: &SessionKey) -> Result<Option<Value>, StoreError> {
        let view = self.view()?;
        let Some(session) = view.get(key, &self.main_key) else {
            return Ok(None);
        };
        let place = &session.place;
        let stored = read_text(&place.index).ok().and_then(|(text, _)| {
            // Under the key that the index has, which is another one for a main session with a key of its own.
            [key, &SessionKey::of(&place.agent, "main")]
                .into_iter()
                .find_map(|key| index::stored(&text, &place.agent, key, session.entry.updated_at))
        });
        Ok(stored.or_else(|| serde_json::to_value(&*session.entry).ok()))
    }

    /// Start of the line that a position in a transcript is in: a follower that knows only how long a file was
    /// begins there.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the file is there and cannot be read.
    pub fn line_start(&self, entry: &Entry, position: u64) -> Result<u64, StoreError> {
        const STEP: u64 = 8192;
        let Some(path) = self.readable(entry)? else {
            return Ok(0);
        };
        let mut file = File::open(&path).map_err(failed("cannot read", &path))?;
        let mut end = position;
        while end > 0 {
            let start = end.saturating_sub(STEP);
            let mut part = Vec::new();
            file.seek(SeekFrom::Start(start))
                .and_then(|_| (&mut file).take(end - start).read_to_end(&mut part))
                .map_err(failed("cannot read", &path))?;
            if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
                return Ok(start + at as u64 + 1);
            }
            end = start;
        }
        Ok(0)
    }

    /// `<dir>/agents/<name>`, for each directory there (D-6).
    fn agent_names(&self) -> Result<Vec<String>, StoreError> {
        let agents = self.dir.join("agents");
        let listed = match fs::read_dir(&agents) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Only a directory that is there can be without agents.
                fs::metadata(&self.dir).map_err(failed("cannot read", &self.dir))?;
                return Ok(Vec::new());
            }
            other => other.map_err(failed("cannot read", &agents))?,
        };
        let mut names: Vec<String> = listed
            .filter_map(Result::ok)
            .filter(|item| item.path().is_dir())
            .filter_map(|item| item.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    fn agent_dir(&self, agent: &AgentId) -> PathBuf {
        self.dir.join("agents").join(agent.as_str())
    }

    /// Where indexes are looked for, and what is to be said about it.
    fn places(&self) -> Result<(Vec<Place>, Vec<String>), StoreError> {
        let names = self.agent_names()?;
        let usual = |name: &String| Place {
            agent: AgentId::mend(name),
            index: self
                .dir
                .join("agents")
                .join(name)
                .join("sessions/sessions.json"),
        };
        let pattern = self.pattern.as_deref().map(str::trim).unwrap_or_default();
        if pattern.is_empty() {
            return Ok((names.iter().map(usual).collect(), Vec::new()));
        }
        let resolved = match pattern.strip_prefix("~/") {
            Some(rest) => etcetera::home_dir()
                .ok()
                .map_or_else(|| self.dir.join(rest), |home| home.join(rest)),
            None => self.dir.join(pattern),
        };
        if !resolved.starts_with(&self.dir) || resolved.components().any(|c| c.as_os_str() == "..")
        {
            let warning = format!(
                "session.store {} lies outside {}: agents/*/sessions is read instead",
                clean_str(pattern),
                clean_str(&self.dir.display().to_string())
            );
            return Ok((names.iter().map(usual).collect(), vec![warning]));
        }
        let resolved = resolved.to_string_lossy().into_owned();
        let places = if resolved.contains("{agentId}") {
            names
                .iter()
                .map(|name| Place {
                    agent: AgentId::mend(name),
                    index: resolved.replace("{agentId}", name).into(),
                })
                .collect()
        } else {
            vec![Place {
                agent: AgentId::main(),
                index: resolved.into(),
            }]
        };
        Ok((places, Vec::new()))
    }

    /// Agents that keep sessions in a database of the newer format and have no index (D-8).
    fn databases(&self) -> Result<Vec<String>, StoreError> {
        let mut names = self.agent_names()?;
        names.retain(|name| {
            let agent = self.dir.join("agents").join(name);
            agent.join("agent/openclaw-agent.sqlite").exists()
                && !agent.join("sessions/sessions.json").exists()
        });
        Ok(names)
    }

    /// The sessions as they are now.
    fn view(&self) -> Result<Arc<View>, StoreError> {
        let (places, mut warnings) = self.places()?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: BTreeSet<&PathBuf> = places.iter().map(|place| &place.index).collect();
        let known = held.files.len();
        held.files.retain(|file, _| wanted.contains(file));
        let mut changed = held.files.len() != known || std::mem::take(&mut held.is_stale);
        for place in &places {
            changed |= refresh(held.files.entry(place.index.clone()).or_default(), place);
        }
        for name in self.databases()? {
            warnings.push(format!(
                "{}: sessions are in a database of a newer format, which is not readable yet",
                clean_str(&name)
            ));
        }
        if places.is_empty() && warnings.is_empty() {
            warnings.push(format!(
                "{} has no agents: is it an OpenClaw state directory?",
                clean_str(&self.dir.display().to_string())
            ));
        }
        warnings.extend(held.files.values().filter_map(|file| file.warning.clone()));
        let agents: BTreeSet<AgentId> = places.iter().map(|place| place.agent.clone()).collect();
        let agents: Vec<AgentId> = agents.into_iter().collect();
        if changed || held.view.warnings != warnings || held.view.agents != agents {
            let mut view = View::of(&places, &held.files, &self.main_key);
            view.warnings = warnings;
            view.agents = agents;
            held.view = Arc::new(view);
        }
        Ok(Arc::clone(&held.view))
    }

    /// Where the session's index stands, as far as it is known; else where its agent's would.
    fn home(&self, entry: &Entry) -> PathBuf {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.view.get(&entry.key, &self.main_key).map_or_else(
            || self.agent_dir(&entry.agent()).join("sessions"),
            |session| session.place.sessions_dir().to_owned(),
        )
    }

    /// The transcript, when it is there and may be opened.
    fn readable(&self, entry: &Entry) -> Result<Option<PathBuf>, StoreError> {
        let Some(path) = self.transcript_path(entry) else {
            return Ok(None);
        };
        let found = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed("cannot read", &path))?,
        };
        let refused =
            |why| failed("cannot read", &path)(io::Error::new(io::ErrorKind::InvalidInput, why));
        if !found.is_file() {
            return Err(refused("not a regular file"));
        }
        let homes = [
            self.home(entry),
            self.agent_dir(&entry.agent()).join("sessions"),
        ];
        if homes.iter().any(|home| leads_into(&path, home)) {
            Ok(Some(path))
        } else {
            Err(refused("a link that leads out of the sessions directory"))
        }
    }
}

impl Sessions for FilesStore {
    fn agents(&self) -> Result<Vec<AgentId>, StoreError> {
        Ok(self.view()?.agents.clone())
    }

    fn list(&self, query: &Query, filter: Filter<'_>) -> Result<Page, StoreError> {
        let view = self.view()?;
        let matcher = Matcher::new(query, &self.main_key);
        let end = query
            .limit
            .map_or(usize::MAX, |limit| query.offset.saturating_add(limit));
        let mut page = Page::default();
        for session in view.candidates(query) {
            let entry = &*session.entry;
            let listed = is_listed(&entry.key)
                && matcher.fits(entry)
                && filter.is_none_or(|may_see| may_see(entry));
            if listed {
                if (query.offset..end).contains(&page.total) {
                    page.entries.push(entry.clone());
                }
                page.total += 1;
            }
        }
        Ok(page)
    }

    fn entry(&self, key: &SessionKey) -> Result<Option<Entry>, StoreError> {
        let view = self.view()?;
        Ok(view
            .get(key, &self.main_key)
            .map(|session| (*session.entry).clone()))
    }

    fn by_session_id(&self, id: &str) -> Result<Vec<Entry>, StoreError> {
        let view = self.view()?;
        let found = view.by_id.get(id).map(Vec::as_slice).unwrap_or_default();
        Ok(found
            .iter()
            .map(|at| (*view.sessions[*at].entry).clone())
            .collect())
    }

    fn transcript_path(&self, entry: &Entry) -> Option<PathBuf> {
        if !is_safe_session_id(&entry.session_id) {
            return None;
        }
        let home = self.home(entry);
        if let Some(file) = &entry.session_file
            && let Some(found) = stated(
                file,
                &home,
                &self.agent_dir(&entry.agent()).join("sessions"),
            )
        {
            return Some(found);
        }
        let id = &entry.session_id;
        let topic = entry
            .key
            .as_str()
            .rsplit_once(":topic:")
            .filter(|(_, topic)| is_safe_session_id(topic))
            .map(|(_, topic)| home.join(format!("{id}-topic-{topic}.jsonl")))
            .filter(|path| path.is_file());
        Some(topic.unwrap_or_else(|| home.join(format!("{id}.jsonl"))))
    }

    fn transcript(
        &self,
        entry: &Entry,
        span: Span,
        limit: usize,
    ) -> Result<TranscriptPage, StoreError> {
        match self.readable(entry)? {
            Some(path) => transcript::read(&path, span, limit),
            None => Ok(TranscriptPage::default()),
        }
    }

    fn warnings(&self) -> Vec<String> {
        match self.view() {
            Ok(view) => view.warnings.clone(),
            Err(error) => vec![error.to_string()],
        }
    }
}

impl Place {
    fn sessions_dir(&self) -> &Path {
        self.index.parent().unwrap_or(&self.index)
    }
}

impl View {
    fn of(places: &[Place], files: &BTreeMap<PathBuf, Cached>, main_key: &str) -> Self {
        let mut newest: HashMap<SessionKey, Session> = HashMap::new();
        for place in places {
            let Some(file) = files.get(&place.index) else {
                continue;
            };
            let place = Arc::new(place.clone());
            for entry in file.entries.iter() {
                // K-16: of several spellings the newest; of equally new ones the first.
                let older = newest
                    .get(&entry.key)
                    .is_some_and(|other| other.entry.updated_at >= entry.updated_at);
                if !older {
                    let session = Session {
                        entry: Arc::clone(entry),
                        place: Arc::clone(&place),
                    };
                    newest.insert(entry.key.clone(), session);
                }
            }
        }
        if main_key != "main" {
            rename_main(&mut newest, main_key);
        }
        let mut sessions: Vec<Session> = newest.into_values().collect();
        sessions.sort_unstable_by(|a, b| {
            (b.entry.updated_at, &a.entry.key).cmp(&(a.entry.updated_at, &b.entry.key))
        });
        let mut view = View::default();
        for (at, session) in sessions.iter().enumerate() {
            view.by_key.insert(session.entry.key.clone(), at);
            if let Some(parent) = &session.entry.spawned_by {
                view.by_parent.entry(parent.clone()).or_default().push(at);
            }
            if !session.entry.session_id.is_empty() {
                let same = view.by_id.entry(session.entry.session_id.clone());
                same.or_default().push(at);
            }
        }
        view.sessions = sessions;
        view
    }

    /// Sessions that can answer a query, in the order of the list: children are asked for row by row.
    fn candidates<'a>(&'a self, query: &Query) -> Box<dyn Iterator<Item = &'a Session> + 'a> {
        match &query.spawned_by {
            None => Box::new(self.sessions.iter()),
            Some(parent) => {
                let children = self.by_parent.get(parent).into_iter().flatten();
                Box::new(children.filter_map(|at| self.sessions.get(*at)))
            }
        }
    }

    fn get(&self, key: &SessionKey, main_key: &str) -> Option<&Session> {
        let at = self.by_key.get(key).or_else(|| {
            let agent = key.agent().filter(|_| key.rest() == "main")?;
            self.by_key.get(&SessionKey::of(&agent, main_key))
        })?;
        self.sessions.get(*at)
    }
}

/// K-16: `agent:<id>:main` counts for `agent:<id>:<mainKey>`, and gives way to it; children name it likewise.
fn rename_main(sessions: &mut HashMap<SessionKey, Session>, main_key: &str) {
    let renamed = |key: &SessionKey| {
        let agent = key.agent().filter(|_| key.rest() == "main")?;
        Some(SessionKey::of(&agent, main_key))
    };
    for session in sessions.values_mut() {
        if let Some(parent) = session.entry.spawned_by.as_ref().and_then(renamed) {
            Arc::make_mut(&mut session.entry).spawned_by = Some(parent);
        }
    }
    let old: Vec<(SessionKey, SessionKey)> = sessions
        .keys()
        .filter_map(|key| Some((key.clone(), renamed(key)?)))
        .collect();
    for (key, main) in old {
        if let Some(mut session) = sessions.remove(&key) {
            sessions.entry(main.clone()).or_insert_with(|| {
                Arc::make_mut(&mut session.entry).key = main;
                session
            });
        }
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Self {
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
            inode,
        }
    }
}

/// K-12, K-13.
fn is_listed(key: &SessionKey) -> bool {
    !key.is_reserved() && !key.is_cron_run()
}

/// Reads an index again when it changed. True when there is something new.
fn refresh(file: &mut Cached, place: &Place) -> bool {
    let path = &place.index;
    let name = || clean_str(&path.display().to_string());
    let now = match fs::metadata(path) {
        Ok(metadata) => Stamp::of(&metadata),
        Err(error) => {
            file.stamp = None;
            // Missing: an agent without sessions; or being replaced, or removed, when it was there before.
            let missing = error.kind() == io::ErrorKind::NotFound;
            file.warning = match (missing, file.good) {
                (true, false) => None,
                (true, true) => Some(format!("{} is gone: its last version is shown", name())),
                (false, _) => Some(format!("{} cannot be read: {error}", name())),
            };
            return false;
        }
    };
    if file.stamp == Some(now) {
        return false;
    }
    let before = SystemTime::now();
    let (text, stamp) = match read_text(path) {
        Ok(read) => read,
        Err(error) => {
            file.stamp = None;
            file.warning = Some(format!("{} cannot be read: {error}", name()));
            return false;
        }
    };
    let settled = stamp
        .modified
        .is_some_and(|at| at.checked_add(TICK).is_some_and(|end| end <= before));
    file.stamp = settled.then_some(stamp);
    let last = if file.good {
        "its last good version is shown"
    } else {
        "it counts as empty; nothing was changed"
    };
    if text.trim().is_empty() {
        // A writer that empties the file first is at work when there was something before; else there is nothing.
        file.warning = file.good.then(|| format!("{} is empty: {last}", name()));
        return false;
    }
    match index::read(&text, &place.agent) {
        Ok(Index { entries, skipped }) => {
            file.entries = Arc::new(entries.into_iter().map(Arc::new).collect());
            file.good = true;
            file.warning = (skipped > 0)
                .then(|| format!("{}: {skipped} entries are no objects and left out", name()));
            true
        }
        Err(error) => {
            file.warning = Some(format!("{} cannot be understood ({error}): {last}", name()));
            false
        }
    }
}

/// The text of an index, and the stamp it had all the while it was read (or in the end, if it never stood still).
fn read_text(path: &Path) -> io::Result<(String, Stamp)> {
    const TRIES: usize = 3;
    let mut tries = 0;
    loop {
        tries += 1;
        // Asked before opening: opening a pipe would wait for its writer.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        let mut file = File::open(path)?;
        let before = Stamp::of(&file.metadata()?);
        let mut bytes = Vec::with_capacity(usize::try_from(before.bytes).unwrap_or(0));
        file.read_to_end(&mut bytes)?;
        let after = Stamp::of(&file.metadata()?);
        if before == after || tries == TRIES {
            let text = String::from_utf8(bytes)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
            let text = match text.strip_prefix('\u{feff}') {
                Some(rest) => rest.to_owned(),
                None => text,
            };
            return Ok((text, after));
        }
    }
}

/// L-70 with AM-2: the stated file when it lies in a sessions directory; else the one of its base name there.
fn stated(file: &str, home: &Path, own: &Path) -> Option<PathBuf> {
    let given = home.join(file);
    if !is_transcript_name(&given) {
        return None;
    }
    let stays = |path: &Path, dir: &Path| {
        (path.parent() == Some(dir) && !is_link(path)) || leads_into(path, dir)
    };
    let elsewhere = file.contains('\\') && !cfg!(windows);
    if !elsewhere && [home, own].into_iter().any(|dir| stays(&given, dir)) {
        return Some(given);
    }
    // Paths of another machine may have another separator.
    let name = file.rsplit(['/', '\\']).next()?;
    [home, own]
        .into_iter()
        .map(|dir| (dir, dir.join(name)))
        .find(|(dir, path)| is_transcript_name(path) && path.is_file() && stays(path, dir))
        .map(|(_, path)| path)
}

/// D-28: what was put aside (`….jsonl.reset.<time>`) is never a live transcript, nor is any other kind of file.
fn is_transcript_name(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "jsonl")
}

fn is_link(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|found| found.is_symlink())
}

/// Lies in the directory once all links are resolved.
fn leads_into(path: &Path, dir: &Path) -> bool {
    match (path.canonicalize(), dir.canonicalize()) {
        (Ok(path), Ok(dir)) => path.starts_with(dir),
        _ => false,
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |error| StoreError::Io { what, path, error }
}
