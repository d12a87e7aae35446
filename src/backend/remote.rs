//! Another process as a backend, over our own methods.
//!
//! It survives the death of the process it is attached to: a [`Connector`] finds or starts the next one, what can be
//! repeated is asked again, event streams go on from their last cursor. Every event stream has a connection of its
//! own, so that a slow consumer delays no answer. Absent on purpose: how an owner is found or started (`host`).

use super::Backend;
use crate::client::{CallError, Connection, Subscription};
use crate::clock::Clock;
use crate::model::event::{ConnectionState, Event, What};
use crate::protocol::methods::{Call, Code, Failure, Reply, Request};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::time::Instant;

/// How long a request looks for a new owner before it gives up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);
/// How many owners a request may outlive: one that kills its owner must not kill them all.
const OWNERS: u32 = 6;
/// A stream that lived shorter than this counts as another failed attempt.
const STABLE_AFTER: Duration = Duration::from_secs(2);
/// Events that may wait for the consumer.
const EVENTS: usize = 64;
/// Attempts of an event stream after which it says `offline`; it goes on trying.
const OFFLINE_AFTER: u32 = 6;

/// Finds or starts the process to attach to.
pub trait Connector: Send + Sync {
    /// One attempt, bounded in time.
    ///
    /// # Errors
    /// [`Code::Unavailable`] when another attempt makes sense; any other code is final.
    fn connect(&self) -> BoxFuture<'_, Result<Connection, Failure>>;
}

/// Another process. Cheap to clone.
#[derive(Clone)]
pub struct RemoteBackend(Arc<Inner>);

struct Inner {
    connector: Arc<dyn Connector>,
    /// The connection for calls; its lock is held while a new one is sought, so that one seeks for all.
    connection: Mutex<Option<Arc<Connection>>>,
    /// Event streams that are not on yet: a call made after one was asked for waits for it, so that what the call
    /// causes is in the stream.
    opening: watch::Sender<usize>,
    clock: Clock,
}

/// An event stream that is not on yet.
struct Opening(Arc<Inner>);

impl Opening {
    fn new(inner: Arc<Inner>) -> Self {
        inner.opening.send_modify(|count| *count += 1);
        Self(inner)
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.opening.send_modify(|count| *count -= 1);
    }
}

impl RemoteBackend {
    /// A backend over a connector. `first` is a connection that is there already.
    pub fn new(connector: Arc<dyn Connector>, first: Option<Connection>, clock: Clock) -> Self {
        Self(Arc::new(Inner {
            connector,
            connection: Mutex::new(first.map(Arc::new)),
            opening: watch::channel(0).0,
            clock,
        }))
    }
}

impl Backend for RemoteBackend {
    fn call(&self, mut call: Call) -> BoxFuture<'_, Result<Reply, Failure>> {
        Box::pin(async move {
            make_repeatable(&mut call.request);
            // The sender lives as long as `self`: waiting cannot fail.
            let _ = self.0.opening.subscribe().wait_for(|n| *n == 0).await;
            self.0.call(call).await
        })
    }

    fn events(&self, since: Option<String>) -> mpsc::Receiver<Event> {
        let (out, events) = mpsc::channel(EVENTS);
        tokio::spawn(Stream::new(self.0.clone(), since, out).run());
        events
    }
}

/// A tool call gets an id of its own, so that asking twice does it once (E-5).
fn make_repeatable(request: &mut Request) {
    if let Request::Tool { call_id, .. } = request {
        call_id.get_or_insert_with(|| uuid::Uuid::new_v4().to_string());
    }
}

/// True when asking a second time does nothing a second time: reads, and what carries an idempotency key (E-5).
fn is_repeatable(request: &Request) -> bool {
    request.is_read()
        || matches!(
            request,
            Request::Send { .. }
                | Request::Tool {
                    call_id: Some(_),
                    ..
                }
        )
}

impl Inner {
    async fn call(&self, mut call: Call) -> Result<Reply, Failure> {
        let asked = Instant::now();
        let wait_ms = match &call.request {
            Request::Wait { timeout_ms, .. } => *timeout_ms,
            _ => 0,
        };
        for _ in 0..OWNERS {
            let connection = self.connection().await?;
            if let Request::Wait { timeout_ms, .. } = &mut call.request {
                let passed = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
                *timeout_ms = wait_ms.saturating_sub(passed);
            }
            match connection.call(&call).await {
                Ok(reply) => return Ok(reply),
                Err(CallError::Failed(failure)) => return Err(failure),
                Err(CallError::NotSent) => {}
                Err(CallError::Lost) if is_repeatable(&call.request) => {}
                Err(CallError::Lost) => {
                    return Err(Failure::new(
                        Code::Unavailable,
                        "the process that owns the state went away before it answered; \
                         look whether the change was made before trying again",
                    ));
                }
            }
        }
        Err(Failure::new(
            Code::Unavailable,
            format!(
                "{OWNERS} owners of the state went away, one after another, while this was asked of them"
            ),
        ))
    }

    /// The connection, or a new one; one caller seeks, the others wait for what it finds.
    async fn connection(&self) -> Result<Arc<Connection>, Failure> {
        let mut slot = self.connection.lock().await;
        if let Some(connection) = slot.as_ref().filter(|c| !c.is_closed()) {
            return Ok(connection.clone());
        }
        *slot = None;
        let since = Instant::now();
        let mut attempt = 0;
        loop {
            tokio::time::sleep(pause_before(attempt)).await;
            attempt += 1;
            match self.connector.connect().await {
                Ok(connection) => {
                    let connection = Arc::new(connection);
                    *slot = Some(connection.clone());
                    return Ok(connection);
                }
                Err(failure)
                    if failure.code == Code::Unavailable && since.elapsed() < GIVE_UP_AFTER => {}
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// At once, then 50 ms, doubling up to 2 s.
fn pause_before(attempt: u32) -> Duration {
    match attempt {
        0 => Duration::ZERO,
        n => Duration::from_millis(50 << (n - 1).min(6)).min(Duration::from_secs(2)),
    }
}

/// One stream of events, across the lives of its connections.
struct Stream {
    inner: Arc<Inner>,
    out: mpsc::Sender<Event>,
    cursor: Option<String>,
    /// Of the last event, for those we add: they are of this process, not of the source.
    seq: u64,
    /// Attempts since the stream was last well.
    attempt: u32,
    /// Until the first attempt has been made.
    opening: Option<Opening>,
}

impl Stream {
    fn new(inner: Arc<Inner>, since: Option<String>, out: mpsc::Sender<Event>) -> Self {
        Self {
            opening: Some(Opening::new(inner.clone())),
            inner,
            out,
            cursor: since,
            seq: 0,
            attempt: 0,
        }
    }

    /// Ends when the consumer has gone.
    async fn run(mut self) {
        let out = self.out.clone();
        tokio::select! {
            () = out.closed() => {}
            () = self.pass_on() => {}
        }
    }

    async fn pass_on(&mut self) {
        let mut broken = false;
        loop {
            tokio::time::sleep(pause_before(self.attempt)).await;
            self.attempt += 1;
            let subscribed = self.subscribe().await;
            self.opening = None;
            let reason = match subscribed {
                Err(failure) => failure,
                Ok(mut live) => {
                    if broken {
                        self.say(ConnectionState::Connected, None).await;
                        self.tell(What::Resync {}).await;
                    }
                    let since = Instant::now();
                    while let Some(event) = live.next().await {
                        self.seq = event.seq;
                        self.cursor = Some(event.cursor.clone());
                        if self.out.send(event).await.is_err() {
                            return;
                        }
                    }
                    if since.elapsed() > STABLE_AFTER {
                        self.attempt = 0;
                    }
                    gone()
                }
            };
            broken = true;
            let state = if self.attempt >= OFFLINE_AFTER || reason.code != Code::Unavailable {
                ConnectionState::Offline
            } else {
                ConnectionState::Reconnecting
            };
            self.say(state, Some(reason)).await;
        }
    }

    async fn subscribe(&self) -> Result<Subscription, Failure> {
        let connection = self.inner.connector.connect().await?;
        match connection.subscribe(self.cursor.clone()).await {
            Ok(live) => Ok(live),
            Err(CallError::Failed(failure)) => Err(failure),
            Err(CallError::Lost | CallError::NotSent) => Err(gone()),
        }
    }

    async fn say(&self, state: ConnectionState, reason: Option<Failure>) {
        let pause = i64::try_from(pause_before(self.attempt).as_millis()).unwrap_or(0);
        self.tell(What::Connection {
            state,
            attempt: Some(self.attempt),
            next_try_at: reason.is_some().then(|| self.inner.clock.now_ms() + pause),
            reason: reason.map(|failure| failure.message),
            missed: None,
        })
        .await;
    }

    async fn tell(&self, what: What) {
        let event = Event {
            seq: self.seq,
            at: self.inner.clock.now_ms(),
            cursor: self.cursor.clone().unwrap_or_default(),
            session_key: None,
            run_id: None,
            caused_by_run: None,
            root_run: None,
            inferred: false,
            what,
        };
        // Nobody to tell: the stream is about to end.
        let _ = self.out.send(event).await;
    }
}

fn gone() -> Failure {
    Failure::new(
        Code::Unavailable,
        "the process that owns the state went away",
    )
}
