//! All sessions of a directory as one list, wherever they are kept, and what tells that a file has changed.
//!
//! Invariant: a view is made whole and never changed after. Absent on purpose: reading.

use super::super::{Filter, Page, Query};
use super::query::Matcher;
use crate::model::key::{AgentId, SessionKey};
use crate::model::session::Entry;
use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A file changed less than this before it was read may change again without a new time stamp: kernels count in
/// ticks of some milliseconds.
const TICK: Duration = Duration::from_millis(20);

/// What tells that a file is the one that was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub modified: Option<SystemTime>,
    pub bytes: u64,
    inode: u64,
}

/// An agent and the file that its sessions are listed in: an index, or a database.
#[derive(Clone)]
pub(super) struct Place {
    pub agent: AgentId,
    pub file: PathBuf,
}

#[derive(Clone)]
pub(super) struct Session {
    pub entry: Arc<Entry>,
    pub place: Arc<Place>,
}

/// All sessions.
#[derive(Default)]
pub(super) struct View {
    /// By `updatedAt` descending, then key (L-20).
    pub sessions: Vec<Session>,
    by_key: HashMap<SessionKey, usize>,
    by_id: HashMap<String, Vec<usize>>,
    /// Children of a session, in the order of the list.
    by_parent: HashMap<SessionKey, Vec<usize>>,
    pub agents: Vec<AgentId>,
    pub warnings: Vec<String>,
}

impl Place {
    pub fn dir(&self) -> &Path {
        self.file.parent().unwrap_or(&self.file)
    }

    pub fn is_database(&self) -> bool {
        self.file.extension().is_some_and(|end| end == "sqlite")
    }
}

impl Session {
    /// The sessions of a place.
    pub fn all(place: &Arc<Place>, entries: &[Arc<Entry>]) -> Vec<Session> {
        let sessions = entries.iter().map(|entry| Session {
            entry: Arc::clone(entry),
            place: Arc::clone(place),
        });
        sessions.collect()
    }
}

impl View {
    /// Unites spellings of a key: of several the newest, of equally new ones the first (K-16).
    pub fn of(sessions: impl IntoIterator<Item = Session>, main_key: &str) -> Self {
        let mut newest: HashMap<SessionKey, Session> = HashMap::new();
        for session in sessions {
            let older = newest
                .get(&session.entry.key)
                .is_some_and(|other| other.entry.updated_at >= session.entry.updated_at);
            if !older {
                newest.insert(session.entry.key.clone(), session);
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

    /// A page of what is listed.
    pub fn list(&self, query: &Query, filter: Filter<'_>, main_key: &str) -> Page {
        let matcher = Matcher::new(query, main_key);
        let end = query
            .limit
            .map_or(usize::MAX, |limit| query.offset.saturating_add(limit));
        let mut page = Page::default();
        for session in self.candidates(query) {
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
        page
    }

    /// Every session that may be listed, newest first.
    pub fn listed(&self) -> Vec<Arc<Entry>> {
        let entries = self.sessions.iter().map(|session| &session.entry);
        let listed = entries.filter(|entry| is_listed(&entry.key));
        listed.map(Arc::clone).collect()
    }

    pub fn entry(&self, key: &SessionKey, main_key: &str) -> Option<Entry> {
        self.get(key, main_key)
            .map(|session| (*session.entry).clone())
    }

    pub fn by_session_id(&self, id: &str) -> Vec<Entry> {
        let found = self.by_id.get(id).into_iter().flatten();
        found
            .filter_map(|at| self.sessions.get(*at))
            .map(|session| (*session.entry).clone())
            .collect()
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

    /// By key; `agent:<id>:main` finds the main session under its own key (K-16).
    pub fn get(&self, key: &SessionKey, main_key: &str) -> Option<&Session> {
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
    pub fn of(metadata: &Metadata) -> Self {
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

    /// Whatever changes after this moment has another stamp.
    pub fn is_settled(&self, moment: SystemTime) -> bool {
        self.modified
            .is_some_and(|at| at.checked_add(TICK).is_some_and(|end| end <= moment))
    }
}

/// K-12, K-13.
fn is_listed(key: &SessionKey) -> bool {
    !key.is_reserved() && !key.is_cron_run()
}

/// Lies in the directory once all links are resolved.
pub(super) fn leads_into(path: &Path, dir: &Path) -> bool {
    match (path.canonicalize(), dir.canonicalize()) {
        (Ok(path), Ok(dir)) => path.starts_with(dir),
        _ => false,
    }
}
