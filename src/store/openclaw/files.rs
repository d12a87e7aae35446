//! The spring format: `agents/<id>/sessions/sessions.json` and JSON lines (D-3 to D-8, K-16, L-70).
//!
//! Indexes are held in memory and looked at anew with each call: what did not change by time, length and inode is not
//! read again. Invariant: files are opened for reading, and only inside the sessions directories (D-29). Absent on
//! purpose: lock files; a writer replaces an index by rename, and whoever meets it half-written gets the last good
//! version (L-27).

use super::index::{self, Index};
use super::view::{Place, Session, Stamp, View, leads_into};
use crate::model::key::{AgentId, SessionKey, is_safe_session_id};
use crate::model::session::Entry;
use crate::store::{Filter, Page, Query, Sessions, Span, StoreError, TranscriptPage, transcript};
use crate::text::clean_str;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

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
    /// Transcripts without a session, by sessions directory.
    strays: BTreeMap<PathBuf, Strays>,
    view: Arc<View>,
    /// The view is to be made anew, whatever the files say.
    is_stale: bool,
}

/// Transcripts in a directory that no session of its index names.
struct Strays {
    /// `None`: to be counted again.
    stamp: Option<Stamp>,
    entries: Arc<Vec<Arc<Entry>>>,
    count: usize,
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

impl FilesStore {
    /// Opens a directory. `store_pattern` is the directory's own `session.store` (C-5). Blocks.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the directory is missing or cannot be read.
    pub fn open(dir: &Path, store_pattern: Option<&str>) -> Result<Self, StoreError> {
        let dir = std::path::absolute(dir).map_err(failed("cannot open", dir))?;
        fs::read_dir(&dir).map_err(failed("cannot open", &dir))?;
        let store = Self {
            pattern: store_pattern.map(str::to_owned),
            main_key: "main".into(),
            held: Mutex::default(),
            dir,
        };
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
            if let Some(agent) = place.dir().parent() {
                dirs.insert(agent.to_owned());
            }
            dirs.insert(place.dir().to_owned());
        }
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
        let view = self.view()?;
        let Some(session) = view.get(key, &self.main_key) else {
            return Ok(None);
        };
        let place = &session.place;
        let stored = read_text(&place.file).ok().and_then(|(text, _)| {
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
            file: self
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
                    file: resolved.replace("{agentId}", name).into(),
                })
                .collect()
        } else {
            vec![Place {
                agent: AgentId::main(),
                file: resolved.into(),
            }]
        };
        Ok((places, Vec::new()))
    }

    /// There is an index, good or bad.
    ///
    /// # Errors
    /// As [`Sessions::agents`].
    pub(super) fn has_index(&self) -> Result<bool, StoreError> {
        let (places, _) = self.places()?;
        let mut files = places.iter().map(|place| &place.file);
        Ok(files.any(|file| file.symlink_metadata().is_ok()))
    }

    /// The sessions as they are now.
    pub(super) fn view(&self) -> Result<Arc<View>, StoreError> {
        let (places, mut warnings) = self.places()?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: BTreeSet<&PathBuf> = places.iter().map(|place| &place.file).collect();
        let known = held.files.len();
        held.files.retain(|file, _| wanted.contains(file));
        let mut changed = held.files.len() != known || std::mem::take(&mut held.is_stale);
        for place in &places {
            changed |= refresh(held.files.entry(place.file.clone()).or_default(), place);
        }
        if places.is_empty() && warnings.is_empty() {
            warnings.push(format!(
                "{} has no agents: is it an OpenClaw state directory?",
                clean_str(&self.dir.display().to_string())
            ));
        }
        warnings.extend(held.files.values().filter_map(|file| file.warning.clone()));
        let Held { files, strays, .. } = &mut *held;
        for place in &places {
            let Some(file) = files.get(&place.file) else {
                continue;
            };
            let found = strays
                .entry(place.dir().to_owned())
                .and_modify(|strays| strays.refresh(place.dir(), &file.entries))
                .or_insert_with(|| Strays::of(place.dir(), &file.entries));
            if found.count > 0 {
                warnings.push(format!(
                    "{}: {} transcripts belong to no session and are not listed",
                    clean_str(&place.dir().display().to_string()),
                    found.count
                ));
            }
        }
        strays.retain(|dir, _| places.iter().any(|place| place.dir() == dir));
        let agents: BTreeSet<AgentId> = places.iter().map(|place| place.agent.clone()).collect();
        let agents: Vec<AgentId> = agents.into_iter().collect();
        if changed || held.view.warnings != warnings || held.view.agents != agents {
            let read = places.iter().filter_map(|place| {
                let entries = &held.files.get(&place.file)?.entries;
                Some((Arc::new(place.clone()), Arc::clone(entries)))
            });
            let sessions = read.flat_map(|(place, entries)| Session::all(&place, &entries));
            let mut view = View::of(sessions, &self.main_key);
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
            |session| session.place.dir().to_owned(),
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
        Ok(self.view()?.list(query, filter, &self.main_key))
    }

    fn entry(&self, key: &SessionKey) -> Result<Option<Entry>, StoreError> {
        Ok(self.view()?.entry(key, &self.main_key))
    }

    fn by_session_id(&self, id: &str) -> Result<Vec<Entry>, StoreError> {
        Ok(self.view()?.by_session_id(id))
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

impl Strays {
    fn of(dir: &Path, entries: &Arc<Vec<Arc<Entry>>>) -> Self {
        let mut strays = Self {
            stamp: None,
            entries: Arc::default(),
            count: 0,
        };
        strays.refresh(dir, entries);
        strays
    }

    /// Counts again when files came or went, or sessions did.
    fn refresh(&mut self, dir: &Path, entries: &Arc<Vec<Arc<Entry>>>) {
        let began = SystemTime::now();
        let stamp = fs::metadata(dir).ok().map(|found| Stamp::of(&found));
        if self.stamp.is_some() && self.stamp == stamp && Arc::ptr_eq(&self.entries, entries) {
            return;
        }
        self.stamp = stamp.filter(|stamp| stamp.is_settled(began));
        self.entries = Arc::clone(entries);
        let ids: HashSet<&str> = entries.iter().map(|entry| &*entry.session_id).collect();
        let stated = entries.iter().filter_map(|entry| {
            let file = entry.session_file.as_deref()?;
            file.rsplit(['/', '\\']).next()
        });
        let stated: HashSet<&str> = stated.collect();
        let is_stray = |name: &str| {
            name.strip_suffix(".jsonl").is_some_and(|stem| {
                let id = stem.split_once("-topic-").map_or(stem, |(id, _)| id);
                !ids.contains(stem) && !ids.contains(id) && !stated.contains(name)
            })
        };
        let names = fs::read_dir(dir).into_iter().flatten();
        let names = names.filter_map(|item| item.ok()?.file_name().into_string().ok());
        self.count = names.filter(|name| is_stray(name)).count();
    }
}

/// Reads an index again when it changed. True when there is something new.
fn refresh(file: &mut Cached, place: &Place) -> bool {
    let path = &place.file;
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
    file.stamp = Some(stamp).filter(|stamp| stamp.is_settled(before));
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

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |error| StoreError::Io { what, path, error }
}
