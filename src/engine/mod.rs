//! The embedded engine: session tools, runs, lanes, agent-to-agent flow, sub-agents.
//!
//! What was promised is committed before the promise is given (AM-4). Runs of one session follow one another in order
//! of acceptance, different sessions run in parallel (E-6). The engine does not know who is asking or how: front doors
//! reach it only through `backend`. Absent on purpose: terminals, sockets, and any wait of a run for a screen.

pub mod agents_list;
pub mod announce;
pub mod attachments;
pub mod channels;
pub mod context;
pub mod control;
pub mod demo;
pub mod events;
pub mod history;
pub mod incoming;
pub mod lanes;
pub mod lines;
pub mod list;
pub mod ping_pong;
pub mod recovery;
pub mod reference;
pub mod runs;
pub mod send;
pub mod spawn;
pub mod status;
pub mod subagents;
pub mod tools;

use crate::agents::SharedAgent;
use crate::agents::scripted::{Cast, Directives};
use crate::clock::Clock;
use crate::config::{Runtime, Settings};
use crate::model::event::{Event, What};
use crate::model::key::{AgentId, SessionKey};
use crate::model::row::RowFacts;
use crate::model::session::Entry;
use crate::store::state::{StateStore, Tx};
use crate::store::{Sessions, StoreError};
use crate::text::Untrusted;
use events::{About, Hub};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How an engine is opened.
pub struct Options {
    pub clock: Clock,
    /// The built-in cast: seeds the sessions, answers for its agents, and plays.
    pub cast: Option<Arc<Cast>>,
    /// Agents that take the place of what the configuration names; for tests.
    pub agents: HashMap<AgentId, SharedAgent>,
    /// Where announces and replies to channels go.
    pub channels: channels::Channels,
    /// False: only reading; no run is started or recovered, nothing is written.
    pub start_runs: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Clock::system(),
            cast: None,
            agents: HashMap::new(),
            channels: channels::Channels::default(),
            start_runs: true,
        }
    }
}

/// The engine. Cheap to clone; ends with [`Engine::shutdown`] or with its last clone and run.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    store: StateStore,
    settings: RwLock<Loaded>,
    clock: Clock,
    hub: Hub,
    agents: HashMap<AgentId, SharedAgent>,
    cast: Option<Arc<Cast>>,
    channels: channels::Channels,
    lanes: lanes::Lanes,
    live: Mutex<HashMap<String, Arc<runs::Live>>>,
    writers: Mutex<HashMap<SessionKey, Arc<tokio::sync::Mutex<lines::Writer>>>>,
    /// Places that spawns have reserved and not yet recorded, by requester (P-18).
    reserved: Mutex<HashMap<SessionKey, u32>>,
    /// One at a time settles a child, by its run.
    settling: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    tasks: TaskTracker,
    closing: CancellationToken,
    start_runs: bool,
    expiry: tokio::sync::Notify,
    /// The cast's script is playing.
    playing: std::sync::atomic::AtomicBool,
}

struct Loaded {
    settings: Arc<Settings>,
    stamp: Option<(SystemTime, u64)>,
}

/// Locks a mutex of ours; nothing is left half-done under one of them, so a panic elsewhere is no reason to stop.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stamp_of(settings: &Settings) -> Option<(SystemTime, u64)> {
    let meta = std::fs::metadata(settings.source.as_ref()?).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

impl Engine {
    /// Opens the engine on a store. What a crash left is put right (AM-4, LC-22) and what was accepted begins to run,
    /// unless `start_runs` is false.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read or put right.
    pub async fn open(
        store: StateStore,
        settings: Settings,
        options: Options,
    ) -> Result<Self, StoreError> {
        let stamp = stamp_of(&settings);
        let lanes = lanes::Lanes::new(&settings);
        let engine = Self {
            inner: Arc::new(Inner {
                hub: Hub::new(options.clock.clone()),
                clock: options.clock,
                store,
                settings: RwLock::new(Loaded {
                    settings: Arc::new(settings),
                    stamp,
                }),
                agents: options.agents,
                cast: options.cast,
                channels: options.channels,
                lanes,
                live: Mutex::default(),
                writers: Mutex::default(),
                reserved: Mutex::default(),
                settling: Mutex::default(),
                tasks: TaskTracker::new(),
                closing: CancellationToken::new(),
                start_runs: options.start_runs,
                expiry: tokio::sync::Notify::new(),
                playing: std::sync::atomic::AtomicBool::new(false),
            }),
        };
        if options.start_runs {
            engine.recover().await?;
            engine.watch_expiry();
            if engine.inner.cast.is_some() {
                engine.seed().await?;
            }
        }
        Ok(engine)
    }

    /// Settings as they are now: a changed file is read at the next call (E-2). A file that cannot be used any more
    /// leaves the last good settings in force, with a warning in the log.
    pub fn settings(&self) -> Arc<Settings> {
        let read = || {
            self.inner
                .settings
                .read()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let (settings, stamp) = {
            let loaded = read();
            (loaded.settings.clone(), loaded.stamp)
        };
        let Some(file) = settings.source.as_deref() else {
            return settings;
        };
        let now = stamp_of(&settings);
        if now == stamp || now.is_none() {
            return settings;
        }
        let mut loaded = self
            .inner
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        loaded.stamp = now;
        match crate::config::load(file) {
            Ok(fresh) => loaded.settings = Arc::new(fresh),
            Err(error) => {
                tracing::warn!(error = %crate::text::clean_str(&error.to_string()), "configuration kept");
            }
        }
        loaded.settings.clone()
    }

    /// The store.
    pub fn store(&self) -> &StateStore {
        &self.inner.store
    }

    /// Now, by the engine's clock.
    pub fn now_ms(&self) -> i64 {
        self.inner.clock.now_ms()
    }

    /// Has the built-in cast.
    pub fn has_cast(&self) -> bool {
        self.inner.cast.is_some()
    }

    /// Live events, or those after a cursor first.
    pub fn events(&self, since: Option<&str>) -> mpsc::Receiver<Event> {
        self.inner.hub.subscribe(since)
    }

    /// Nothing runs, waits or has an announce open.
    pub fn settled(&self) -> bool {
        lock(&self.inner.live).is_empty() && self.inner.tasks.is_empty()
    }

    /// Stops: no further run starts, and tasks are dropped where they stand. What was accepted runs after the next
    /// start.
    pub async fn shutdown(&self) {
        self.inner.closing.cancel();
        self.inner.tasks.close();
        // Writes that are under way end by themselves; the rest is recovered at the next start.
        let _ =
            tokio::time::timeout(std::time::Duration::from_secs(2), self.inner.tasks.wait()).await;
    }

    fn publish(&self, about: About, what: What) {
        self.inner.hub.publish(about, what);
    }

    /// Work that outlives whoever asked for it. Dropped at shutdown.
    fn spawn<F>(&self, work: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let closing = self.inner.closing.clone();
        self.inner.tasks.spawn(async move {
            tokio::select! {
                () = closing.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Runs work in a task of its own, so that a caller who goes away cannot leave it half-done.
    async fn unbroken<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<String> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        match self.inner.tasks.spawn(work).await {
            Ok(result) => result,
            Err(error) => Err(format!("internal error: {error}").into()),
        }
    }

    /// A reading of the store through its common interface, off the async threads.
    async fn look<T, F>(&self, reading: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&StateStore) -> T + Send + 'static,
    {
        let store = self.inner.store.clone();
        match tokio::task::spawn_blocking(move || reading(&store)).await {
            Ok(value) => value,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is going away, and with it whoever waits here.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// The agent that answers for a session.
    fn agent_for(&self, settings: &Settings, id: &AgentId) -> Result<SharedAgent, String> {
        if let Some(agent) = self.inner.agents.get(id) {
            return Ok(agent.clone());
        }
        match settings.agent(id).map(|agent| &agent.runtime) {
            Some(Runtime::Directives) => Ok(Arc::new(Directives)),
            Some(Runtime::Script(_)) if self.inner.cast.is_some() => Ok(self
                .inner
                .cast
                .as_ref()
                .map(|cast| cast.agent())
                .expect("checked by the guard")),
            Some(Runtime::Script(file)) => Err(format!(
                "agent {id}: script {} is not one that can be played here",
                file.display()
            )),
            Some(Runtime::Command(_) | Runtime::Llm) => Err(format!(
                "agent {id}: this version runs scripted agents only; set runtime: {{ type: \"scripted\", script: \"directives\" }}"
            )),
            Some(Runtime::None) | None => Err(format!("no runtime configured for agent {id}")),
        }
    }

    /// Changes an entry in a transaction and tells about it. `None` when there is no such session.
    async fn change_entry<F>(
        &self,
        key: &SessionKey,
        change: F,
    ) -> Result<Option<Entry>, StoreError>
    where
        F: FnOnce(&mut Entry) -> Result<(), StoreError> + Send + 'static,
    {
        self.change_entry_with(key, |_, entry| change(entry)).await
    }

    /// As [`Engine::change_entry`], for changes that depend on what else is stored.
    async fn change_entry_with<F>(
        &self,
        key: &SessionKey,
        change: F,
    ) -> Result<Option<Entry>, StoreError>
    where
        F: FnOnce(&Tx<'_>, &mut Entry) -> Result<(), StoreError> + Send + 'static,
    {
        let wanted = key.clone();
        let changed = self
            .inner
            .store
            .write(move |tx: &mut Tx<'_>| {
                let Some(mut entry) = tx.entry(&wanted)? else {
                    return Ok(None);
                };
                change(tx, &mut entry)?;
                tx.put_entry(&entry)?;
                Ok(Some(entry))
            })
            .await?;
        if let Some(entry) = &changed {
            self.tell_changed(entry);
        }
        Ok(changed)
    }

    fn tell_changed(&self, entry: &Entry) {
        self.publish(
            About::session(&entry.key),
            What::SessionChanged {
                row: Box::new(self.row(entry)),
            },
        );
    }

    /// The row of an entry as a person sees it.
    pub fn row(&self, entry: &Entry) -> crate::model::session::Row {
        let settings = self.settings();
        let queued = self.inner.lanes.queued(&entry.key);
        let model = self.model_of(&settings, entry);
        let facts = RowFacts {
            own: None,
            main_key: &settings.main_key,
            default_model: model.as_deref(),
            // Children have rows of their own that name their parent; looking them up here would read the store.
            children: Vec::new(),
            transcript_path: self.inner.store.transcript_path(entry),
            may_see: &|_| true,
            now_ms: self.now_ms(),
            queued: (queued > 0).then_some(queued),
        };
        let mut row = crate::model::row::row(entry, &facts);
        list::add_known_words(&mut row, &self.inner.store, entry, &settings.masker);
        row
    }
}

/// Why something was not done, for people; it reads as its text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Trouble {
    pub text: String,
    /// Storing failed (disk full, unreadable file): nothing is wrong with what was asked.
    pub is_io: bool,
}

impl std::ops::Deref for Trouble {
    type Target = str;
    fn deref(&self) -> &str {
        &self.text
    }
}

impl From<String> for Trouble {
    fn from(text: String) -> Self {
        Self { text, is_io: false }
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self {
            text: error.to_string(),
            is_io: matches!(error, StoreError::Io { .. } | StoreError::Sql { .. }),
        }
    }
}

impl From<Trouble> for String {
    fn from(trouble: Trouble) -> Self {
        trouble.text
    }
}

/// A key as it goes into events and results for a person: `global` is never given out (K-10).
fn shown(key: &SessionKey) -> Untrusted {
    Untrusted::new(if key.as_str() == "global" {
        "main"
    } else {
        key.as_str()
    })
}
