//! A backend that counts, and an engine around it.

use crosstalk::backend::{Backend, SharedBackend};
use crosstalk::host::Resident;
use crosstalk::model::event::{Event, What};
use crosstalk::protocol::methods::{Accepted, Call, Code, Failure, Info, Reply, Request, Waited};
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{broadcast, mpsc, watch};

/// What outlives an owner: the "disk".
#[derive(Clone)]
pub struct Fake(Arc<Inner>);

pub struct Inner {
    /// How often each run id was asked for, and how often it began.
    pub asked: Mutex<BTreeMap<String, usize>>,
    pub began: Mutex<BTreeMap<String, usize>>,
    /// Ids of tool calls, as they came.
    pub call_ids: Mutex<Vec<String>>,
    pub patches: AtomicUsize,
    /// Waits and sends are answered once this is true.
    pub open: watch::Sender<bool>,
    pub waiting: watch::Sender<usize>,
    pub events: broadcast::Sender<Event>,
    /// Cursors that were asked to go on from.
    pub since: Mutex<Vec<Option<String>>>,
    pub settled: AtomicBool,
    pub settled_asked: AtomicUsize,
    pub shut_down: AtomicUsize,
}

impl std::ops::Deref for Fake {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Fake {
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            asked: Mutex::default(),
            began: Mutex::default(),
            call_ids: Mutex::default(),
            patches: AtomicUsize::new(0),
            open: watch::channel(true).0,
            waiting: watch::channel(0).0,
            events: broadcast::channel(16).0,
            since: Mutex::default(),
            settled: AtomicBool::new(true),
            settled_asked: AtomicUsize::new(0),
            shut_down: AtomicUsize::new(0),
        }))
    }

    pub fn shared(&self) -> SharedBackend {
        Arc::new(self.clone())
    }

    pub fn resident(&self) -> Arc<dyn Resident> {
        Arc::new(self.clone())
    }

    /// Tells an event with this number as `seq` and cursor.
    pub fn tell(&self, seq: u64) {
        let _ = self.events.send(event(seq));
    }

    async fn gate(&self) {
        self.waiting.send_modify(|count| *count += 1);
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }

    /// Until so many calls have come to the gate.
    pub async fn until_waiting(&self, calls: usize) {
        let mut waiting = self.waiting.subscribe();
        waiting.wait_for(|count| *count >= calls).await.unwrap();
    }
}

/// A loop event: the smallest one with a number.
pub fn event(seq: u64) -> Event {
    Event {
        seq,
        at: 0,
        cursor: seq.to_string(),
        session_key: None,
        run_id: None,
        caused_by_run: None,
        root_run: None,
        inferred: false,
        what: What::Loop {
            path: Vec::new(),
            turns: 1,
        },
    }
}

impl Backend for Fake {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Failure>> {
        Box::pin(async move {
            match call.request {
                Request::Info {} => Ok(Reply::Info(Box::new(Info {
                    source: "fake".into(),
                    ..Info::default()
                }))),
                Request::Send { key, run_id, .. } => {
                    *self
                        .asked
                        .lock()
                        .unwrap()
                        .entry(run_id.clone())
                        .or_default() += 1;
                    // Accepted before it is answered: the answer may get lost.
                    self.began
                        .lock()
                        .unwrap()
                        .entry(run_id.clone())
                        .or_insert(1);
                    self.gate().await;
                    Ok(Reply::Accepted(Accepted {
                        run_id,
                        session_key: key,
                        queued_behind: 0,
                    }))
                }
                Request::Tool { call_id, .. } => {
                    let id = call_id.unwrap_or_default();
                    self.call_ids.lock().unwrap().push(id);
                    self.gate().await;
                    Ok(Reply::Tool {
                        payload: serde_json::json!({"status": "ok"}),
                    })
                }
                Request::Wait { run_id, .. } => {
                    self.gate().await;
                    let waited = serde_json::json!({"runId": run_id, "outcome": "ok"});
                    Ok(Reply::Waited(
                        serde_json::from_value::<Waited>(waited).unwrap(),
                    ))
                }
                Request::Patch { .. } => {
                    self.patches.fetch_add(1, Ordering::SeqCst);
                    self.gate().await;
                    Ok(Reply::Done { note: None })
                }
                Request::Archive { .. } => Ok(Reply::Done {
                    note: Some("x".repeat(65 << 20).into()),
                }),
                Request::Detail { key } => Err(Failure::new(Code::NotFound, key)),
                _ => Err(Failure::new(Code::Refused, "not in this play")),
            }
        })
    }

    fn events(&self, since: Option<String>) -> mpsc::Receiver<Event> {
        self.since.lock().unwrap().push(since);
        let (out, events) = mpsc::channel(4);
        let mut live = self.events.subscribe();
        tokio::spawn(async move {
            loop {
                let event = match live.recv().await {
                    Ok(event) => event,
                    Err(broadcast::error::RecvError::Lagged(_)) => Event {
                        what: What::Resync {},
                        ..event(0)
                    },
                    Err(broadcast::error::RecvError::Closed) => return,
                };
                if out.send(event).await.is_err() {
                    return;
                }
            }
        });
        events
    }
}

impl Resident for Fake {
    fn backend(&self) -> SharedBackend {
        self.shared()
    }
    fn is_settled(&self) -> bool {
        self.settled_asked.fetch_add(1, Ordering::SeqCst);
        // Each look finds it more settled than the one before.
        self.settled.swap(true, Ordering::SeqCst)
    }
    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.shut_down.fetch_add(1, Ordering::SeqCst);
        })
    }
}
