//! Live events of a foreign directory: what its files show when they change.
//!
//! Directories are watched, bursts are gathered, and what is found is compared with what was there before. Events that
//! a file shows are plain; what is only concluded from a difference (a session is gone, or has another id) is marked
//! as inferred. Absent on purpose: runs and sends, of which files tell nothing until they are over.

use super::Inner;
use crate::engine::context::Context;
use crate::engine::list;
use crate::model::event::{ConnectionState, Event, What};
use crate::model::key::SessionKey;
use crate::model::session::Entry;
use crate::protocol::methods::key_text;
use crate::store::{Sessions, Span, StoreError};
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// How many events may wait for a consumer before it is told to resync.
const WAITING: usize = 1024;
/// So many changed sessions at once are told as one `resync`.
const MANY: usize = 256;
/// Changes come in bursts: index, transcript and temporary files within milliseconds.
const BURST: Duration = Duration::from_millis(50);

/// Follows for as long as the receiver is held. The first event says that following has begun.
pub(super) fn follow(inner: Arc<Inner>, missed_some: bool) -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let gone = sender.clone();
        tokio::select! {
            () = gone.closed() => {}
            () = run(inner, missed_some, sender) => {}
        }
    });
    receiver
}

async fn run(inner: Arc<Inner>, missed_some: bool, sender: mpsc::Sender<Event>) {
    let changes = Arc::new(Changes::default());
    let mut outlet = Outlet {
        // Rising over restarts too.
        seq: u64::try_from(inner.clock.now_ms()).unwrap_or(0),
        inner: Arc::clone(&inner),
        sender,
    };
    // Watching begins before looking: what changes in between is looked at twice rather than never.
    let heard = Arc::clone(&changes);
    let begun = tokio::task::spawn_blocking(move || {
        let mut follower = Follower::new(inner, heard);
        follower.watch();
        let _ = follower.start();
        follower
    });
    let Ok(mut follower) = begun.await else {
        return;
    };
    let connected = What::Connection {
        state: ConnectionState::Connected,
        attempt: None,
        next_try_at: None,
        reason: None,
        missed: None,
    };
    let mut found = vec![Found::plain(None, connected)];
    if missed_some {
        found.push(Found::plain(None, What::Resync {}));
    }
    loop {
        if !outlet.send(found).await {
            return;
        }
        changes.arrived.notified().await;
        tokio::time::sleep(BURST).await;
        let names = changes.take();
        let looked = tokio::task::spawn_blocking(move || {
            let found = follower.look(&names);
            (follower, found)
        });
        let Ok((back, news)) = looked.await else {
            return;
        };
        follower = back;
        found = news;
    }
}

/// What was heard of since the last look.
#[derive(Default)]
struct Changes {
    names: Mutex<Names>,
    arrived: Notify,
}

/// Names of files, without their directories: transcripts carry ids, and a mistaken look costs little.
#[derive(Default)]
struct Names {
    files: BTreeSet<OsString>,
    /// The watcher lost its place: anything may have changed.
    all: bool,
}

impl Names {
    /// The file that a transcript is in is among them, or the log of a database.
    fn name(&self, tail: &Tail) -> bool {
        let named = |name: Option<&OsStr>| name.is_some_and(|name| self.files.contains(name));
        let database = tail.source.parent().filter(|_| tail.is_numbered);
        named(tail.source.file_name())
            || database.is_some_and(|file| {
                let mut log = file.as_os_str().to_owned();
                log.push("-wal");
                named(file.file_name()) || named(Path::new(&log).file_name())
            })
    }
}

impl Changes {
    fn take(&self) -> Names {
        std::mem::take(&mut *self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, event: notify::Result<notify::Event>) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            // Our own reading is heard too, and must not cause more of it.
            Ok(event) if is_reading(event.kind) => return,
            Ok(event) => {
                names.all |= event.need_rescan();
                let files = event.paths.iter().filter_map(|path| path.file_name());
                names.files.extend(files.map(OsString::from));
            }
            Err(_) => names.all = true,
        }
        drop(names);
        self.arrived.notify_one();
    }
}

fn is_reading(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) => true,
        _ => false,
    }
}

/// An event without its number.
struct Found {
    key: Option<SessionKey>,
    inferred: bool,
    what: What,
}

impl Found {
    fn plain(key: Option<&SessionKey>, what: What) -> Self {
        Self {
            key: key.cloned(),
            inferred: false,
            what,
        }
    }
}

/// Numbers events and hands them on.
struct Outlet {
    seq: u64,
    inner: Arc<Inner>,
    sender: mpsc::Sender<Event>,
}

impl Outlet {
    /// False when nobody listens any more. A consumer that does not keep up loses the rest and is told so.
    async fn send(&mut self, found: Vec<Found>) -> bool {
        for found in found {
            let event = self.event(found);
            match self.sender.try_send(event) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Closed(_)) => return false,
                Err(mpsc::error::TrySendError::Full(_)) => {
                    let resync = self.event(Found::plain(None, What::Resync {}));
                    return self.sender.send(resync).await.is_ok();
                }
            }
        }
        true
    }

    fn event(&mut self, found: Found) -> Event {
        self.seq += 1;
        Event {
            seq: self.seq,
            at: self.inner.clock.now_ms(),
            cursor: self.seq.to_string(),
            session_key: found.key.as_ref().map(key_text),
            run_id: None,
            caused_by_run: None,
            root_run: None,
            inferred: found.inferred,
            what: found.what,
        }
    }
}

/// What was there at the last look.
struct Follower {
    inner: Arc<Inner>,
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    entries: HashMap<SessionKey, Arc<Entry>>,
    tails: HashMap<SessionKey, Tail>,
}

/// How far a transcript was followed.
#[derive(Clone, PartialEq)]
struct Tail {
    source: PathBuf,
    end: u64,
    /// `end` is where a line begins; else only how long the file was.
    is_line_start: bool,
    /// It stands in a database.
    is_numbered: bool,
}

impl Follower {
    fn new(inner: Arc<Inner>, changes: Arc<Changes>) -> Self {
        let watcher = notify::recommended_watcher(move |event| changes.add(event));
        Self {
            inner,
            watcher: watcher.ok(),
            watched: BTreeSet::new(),
            entries: HashMap::new(),
            tails: HashMap::new(),
        }
    }

    /// Watches what is there now; agents may have come.
    fn watch(&mut self) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let dirs = self.inner.store.watched().unwrap_or_default();
        self.watched.retain(|dir| dirs.contains(dir));
        for dir in dirs {
            if !self.watched.contains(&dir)
                && watcher.watch(&dir, RecursiveMode::NonRecursive).is_ok()
            {
                self.watched.insert(dir);
            }
        }
    }

    /// Takes everything as it is, as known.
    fn start(&mut self) -> Result<(), StoreError> {
        let entries = self.inner.store.entries()?;
        for entry in &entries {
            if let Some(reach) = self.inner.store.reach(entry) {
                self.tails.insert(
                    entry.key.clone(),
                    Tail {
                        source: reach.source,
                        end: reach.end,
                        is_line_start: reach.is_numbered || reach.end == 0,
                        is_numbered: reach.is_numbered,
                    },
                );
            }
        }
        self.entries = by_key(entries);
        Ok(())
    }

    /// What is new. A store that cannot be read shows nothing new.
    fn look(&mut self, names: &Names) -> Vec<Found> {
        self.watch();
        let mut found = Vec::new();
        let Ok(entries) = self.inner.store.entries() else {
            return found;
        };
        let inner = Arc::clone(&self.inner);
        let person = Context::person(&inner.settings);
        let now = inner.clock.now_ms();
        let row = |entry: &Entry| {
            let row = list::one(&inner.store, &inner.settings, &person, entry, now);
            Box::new(row.unwrap_or_default())
        };
        let is_new = |entry: &&Arc<Entry>| self.entries.get(&entry.key) != Some(*entry);
        if entries.iter().filter(is_new).take(MANY).count() == MANY {
            let _ = self.start();
            return vec![Found::plain(None, What::Resync {})];
        }
        for entry in entries.iter().rev() {
            let old = self.entries.get(&entry.key);
            let (what, inferred) = match old.map(Arc::as_ref) {
                None => (What::SessionCreated { row: row(entry) }, false),
                Some(old) if *old == **entry => continue,
                Some(old) if old.session_id != entry.session_id => {
                    (What::SessionReset { row: row(entry) }, true)
                }
                Some(old) if old.archived_at.is_none() && entry.archived_at.is_some() => {
                    (What::SessionArchived { row: row(entry) }, false)
                }
                Some(_) => (What::SessionChanged { row: row(entry) }, false),
            };
            found.push(Found {
                key: Some(entry.key.clone()),
                inferred,
                what,
            });
        }
        let entries = by_key(entries);
        for (key, entry) in &self.entries {
            if !entries.contains_key(key) {
                found.push(Found {
                    key: Some(key.clone()),
                    inferred: true,
                    what: What::SessionDeleted { row: row(entry) },
                });
                self.tails.remove(key);
            }
        }
        for (key, entry) in &entries {
            let old = self.entries.get(key);
            let same = old.is_some_and(|old| Arc::ptr_eq(old, entry) || old == entry);
            let named = self.tails.get(key).is_some_and(|tail| names.name(tail));
            if !same || named || names.all {
                self.follow(entry, &mut found);
            }
        }
        self.entries = entries;
        found
    }

    /// Reads what was added to a transcript.
    fn follow(&mut self, entry: &Entry, found: &mut Vec<Found>) {
        let store = &self.inner.store;
        let Some(reach) = store.reach(entry) else {
            return;
        };
        let mut tail = match self.tails.remove(&entry.key) {
            Some(tail) if tail.source == reach.source => tail,
            // A new session, or another file after a reset: from its start.
            _ => Tail {
                source: reach.source,
                end: 0,
                is_line_start: true,
                is_numbered: reach.is_numbered,
            },
        };
        let long = reach.end;
        if long < tail.end {
            // Rewritten: positions mean nothing any more.
            found.push(Found::plain(Some(&entry.key), What::Resync {}));
            tail.end = long;
            tail.is_line_start = reach.is_numbered;
        } else if long > tail.end {
            if !tail.is_line_start
                && let Ok(start) = store.line_start(entry, tail.end)
            {
                tail.end = start;
                tail.is_line_start = true;
            }
            if let Ok(page) = store.transcript(entry, Span::After(tail.end), usize::MAX) {
                // A last line without its end is still being written: it comes with the next look.
                let whole = page
                    .lines
                    .into_iter()
                    .filter(|line| line.position < page.end);
                found.extend(whole.map(|line| {
                    let what = What::MessageAppended {
                        position: line.position,
                        message: Box::new(line),
                    };
                    Found::plain(Some(&entry.key), what)
                }));
                tail.end = page.end.max(tail.end);
            }
        }
        self.tails.insert(entry.key.clone(), tail);
    }
}

fn by_key(entries: Vec<Arc<Entry>>) -> HashMap<SessionKey, Arc<Entry>> {
    let keyed = entries.into_iter().map(|entry| (entry.key.clone(), entry));
    keyed.collect()
}
