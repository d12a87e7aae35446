//! Events to any number of subscribers (E-17). A slow or absent one never delays a run: it is told to resync.

use crate::clock::Clock;
use crate::model::event::{Event, What};
use crate::model::key::SessionKey;
use crate::model::run::Run;
use crate::text::Untrusted;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// How many events can be had again with a cursor.
const KEPT: usize = 4096;
/// How many events may wait for one subscriber.
const WAITING: usize = 1024;

/// Numbers, keeps and hands out events.
pub struct Hub {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

struct State {
    seq: u64,
    kept: VecDeque<Event>,
    subscribers: Vec<Subscriber>,
}

struct Subscriber {
    sender: mpsc::Sender<Event>,
    /// It missed something, and is told so as soon as it has room: until then it gets nothing.
    behind: Arc<AtomicBool>,
}

impl Subscriber {
    fn new(sender: mpsc::Sender<Event>) -> Self {
        Self {
            sender,
            behind: Arc::default(),
        }
    }

    /// False when nobody listens any more.
    fn offer(&self, event: &Event, droppable: bool, hub: &Arc<Mutex<State>>) -> bool {
        // A growing text is told whole each time: one that does not fit well is left to the next.
        let crowded = droppable && self.sender.capacity() < WAITING / 2;
        if crowded || self.behind.load(Ordering::SeqCst) {
            return !self.sender.is_closed();
        }
        match self.sender.try_send(event.clone()) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => false,
            Err(mpsc::error::TrySendError::Full(event)) => {
                self.behind.store(true, Ordering::SeqCst);
                let (sender, behind) = (self.sender.clone(), self.behind.clone());
                let hub = hub.clone();
                tokio::spawn(async move {
                    if let Ok(place) = sender.reserve().await {
                        // Under the lock, so that it is newer than what was sent and older than what follows.
                        let mut state = hub.lock().unwrap_or_else(PoisonError::into_inner);
                        state.seq += 1;
                        place.send(resync(state.seq, event.at));
                        behind.store(false, Ordering::SeqCst);
                    }
                });
                true
            }
        }
    }
}

fn resync(seq: u64, at: i64) -> Event {
    Event {
        seq,
        at,
        cursor: seq.to_string(),
        session_key: None,
        run_id: None,
        caused_by_run: None,
        root_run: None,
        inferred: false,
        what: What::Resync {},
    }
}

/// What an event is about.
#[derive(Debug, Clone, Default)]
pub struct About {
    pub session: Option<SessionKey>,
    pub run: Option<String>,
    pub caused_by: Option<String>,
    pub root: Option<String>,
}

impl About {
    /// A session.
    pub fn session(key: &SessionKey) -> Self {
        Self {
            session: Some(key.clone()),
            ..Self::default()
        }
    }
    /// A run and its session.
    pub fn run(run: &Run) -> Self {
        Self {
            session: Some(run.session_key.clone()),
            run: Some(run.run_id.clone()),
            caused_by: run.caused_by_run.clone(),
            root: run.root_run.clone(),
        }
    }
}

impl Hub {
    /// Numbers begin at the current time in milliseconds, so that they rise over restarts of the engine too.
    pub fn new(clock: Clock) -> Self {
        let seq = u64::try_from(clock.now_ms()).unwrap_or(0);
        Self {
            clock,
            state: Arc::new(Mutex::new(State {
                seq,
                kept: VecDeque::new(),
                subscribers: Vec::new(),
            })),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes an event.
    pub fn publish(&self, about: About, what: What) {
        let mut guard = self.state();
        let state = &mut *guard;
        state.seq += 1;
        let event = Event {
            seq: state.seq,
            at: self.clock.now_ms(),
            cursor: state.seq.to_string(),
            session_key: about.session.map(|key| Untrusted::new(key.as_str())),
            run_id: about.run,
            caused_by_run: about.caused_by,
            root_run: about.root,
            inferred: false,
            what,
        };
        let droppable = matches!(event.what, What::RunDelta { .. });
        state
            .subscribers
            .retain(|subscriber| subscriber.offer(&event, droppable, &self.state));
        if !droppable {
            state.kept.push_back(event);
            if state.kept.len() > KEPT {
                state.kept.pop_front();
            }
        }
    }

    /// Events from now on, or those after a cursor first. A cursor that is not kept any more gives a `resync`; `0` is
    /// before everything that is kept.
    pub fn subscribe(&self, since: Option<&str>) -> mpsc::Receiver<Event> {
        let mut state = self.state();
        let missed: Option<Vec<Event>> = match since {
            None => Some(Vec::new()),
            Some(cursor) => cursor.parse::<u64>().ok().and_then(|seq| {
                let known = seq == 0
                    || seq == state.seq
                    || state
                        .kept
                        .front()
                        .is_some_and(|oldest| oldest.seq <= seq.saturating_add(1));
                known.then(|| {
                    state
                        .kept
                        .iter()
                        .filter(|event| event.seq > seq)
                        .cloned()
                        .collect()
                })
            }),
        };
        let catch_up = missed.unwrap_or_else(|| {
            // Something is missing before what is kept; what is kept is news all the same.
            let before = state
                .kept
                .front()
                .map_or(state.seq, |oldest| oldest.seq - 1);
            let mut events = vec![resync(before, self.clock.now_ms())];
            events.extend(state.kept.iter().cloned());
            events
        });
        let (sender, receiver) = mpsc::channel(WAITING + catch_up.len());
        for event in catch_up {
            // The channel was made large enough for all of these.
            let _ = sender.try_send(event);
        }
        state.subscribers.push(Subscriber::new(sender));
        receiver
    }
}
