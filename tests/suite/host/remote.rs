//! A backend that survives its owner.

use super::fake::{Fake, event};
use super::owner::owner;
use crosstalk::backend::Backend;
use crosstalk::backend::remote::{Connector, RemoteBackend};
use crosstalk::client::Connection;
use crosstalk::clock::Clock;
use crosstalk::host::Record;
use crosstalk::model::event::{ConnectionState, Event, What};
use crosstalk::protocol::methods::{Code, Failure, Reply, Request};
use futures_util::future::BoxFuture;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;

/// Attaches to whoever owns the directory.
struct Whoever(PathBuf);

impl Connector for Whoever {
    fn connect(&self) -> BoxFuture<'_, Result<Connection, Failure>> {
        Box::pin(async {
            let nobody = || Failure::new(Code::Unavailable, "nobody is there");
            let endpoint = Record::read(&self.0).and_then(|record| record.endpoint);
            Connection::connect(&endpoint.ok_or_else(nobody)?)
                .await
                .map_err(|_| nobody())
        })
    }
}

struct Stage {
    dir: tempfile::TempDir,
    fake: Fake,
    remote: RemoteBackend,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let connector = Arc::new(Whoever(dir.path().into()));
        Self {
            fake: Fake::new(),
            remote: RemoteBackend::new(connector, None, Clock::system()),
            dir,
        }
    }

    /// Asks, and lets the owner go away as soon as the request has come to it; the next owner answers.
    async fn across(&self, request: Request) -> Result<Reply, Failure> {
        let first = owner(self.dir.path(), &self.fake);
        self.fake.open.send_replace(false);
        let before = *self.fake.waiting.borrow();
        let asking = tokio::spawn({
            let remote = self.remote.clone();
            async move { remote.call(request.into()).await }
        });
        soon(self.fake.until_waiting(before + 1)).await;
        first.close().await;
        self.fake.open.send_replace(true);
        let second = owner(self.dir.path(), &self.fake);
        let answer = soon(asking).await.unwrap();
        second.close().await;
        answer
    }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what)
        .await
        .expect("it takes too long")
}

async fn next(events: &mut mpsc::Receiver<Event>) -> Event {
    soon(events.recv()).await.expect("the stream goes on")
}

fn send(run_id: &str) -> Request {
    Request::Send {
        key: "main".into(),
        message: "hello".into(),
        run_id: run_id.into(),
    }
}

#[tokio::test]
async fn e_5_a_send_is_asked_again_and_begins_once() {
    let stage = Stage::new();
    let answer = stage.across(send("r1")).await;
    assert!(matches!(answer, Ok(Reply::Accepted(a)) if a.run_id == "r1"));
    assert_eq!(stage.fake.asked.lock().unwrap()["r1"], 2);
    assert_eq!(stage.fake.began.lock().unwrap()["r1"], 1);
}

#[tokio::test]
async fn e_9_a_wait_goes_on_at_the_next_owner() {
    let wait = Request::Wait {
        run_id: "r1".into(),
        timeout_ms: 60_000,
    };
    let answer = Stage::new().across(wait).await;
    assert!(matches!(answer, Ok(Reply::Waited(w)) if w.outcome.is_some()));
}

#[tokio::test]
async fn e_5_a_tool_call_is_asked_again_under_the_same_id() {
    let stage = Stage::new();
    let call = Request::Tool {
        name: "sessions_spawn".into(),
        arguments: serde_json::json!({"task": "x"}),
        call_id: None,
    };
    assert!(stage.across(call).await.is_ok());
    let ids = stage.fake.call_ids.lock().unwrap().clone();
    assert_eq!(ids.len(), 2);
    assert_eq!(ids[0], ids[1]);
    assert!(!ids[0].is_empty());
}

#[tokio::test]
async fn what_cannot_be_repeated_is_not_and_says_so() {
    let stage = Stage::new();
    let patch = Request::Patch {
        key: "main".into(),
        fields: serde_json::Map::new(),
    };
    let failure = stage.across(patch).await.unwrap_err();
    assert_eq!(failure.code, Code::Unavailable);
    assert!(failure.message.raw().contains("before it answered"));
    assert_eq!(stage.fake.patches.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_was_never_sent_may_be_sent_whatever_it_is() {
    let stage = Stage::new();
    let first = owner(stage.dir.path(), &stage.fake);
    assert!(stage.remote.call(Request::Info {}.into()).await.is_ok());
    first.close().await;
    let _second = owner(stage.dir.path(), &stage.fake);
    // Sent into a connection whose end may not have been noticed yet: once at most, and never silently lost.
    let patch = Request::Patch {
        key: "main".into(),
        fields: serde_json::Map::new(),
    };
    let answer = soon(stage.remote.call(patch.into())).await;
    let patches = stage.fake.patches.load(Ordering::SeqCst);
    match answer {
        Ok(_) => assert_eq!(patches, 1),
        Err(failure) => assert_eq!((failure.code, patches), (Code::Unavailable, 0)),
    }
}

#[tokio::test]
async fn events_go_on_from_their_cursor_and_tell_what_happened() {
    let stage = Stage::new();
    let first = owner(stage.dir.path(), &stage.fake);
    let mut events = stage.remote.events(None);
    // A call that follows is answered after the stream is on: nothing it causes is missed.
    assert!(
        soon(stage.remote.call(Request::Info {}.into()))
            .await
            .is_ok()
    );
    stage.fake.tell(1);
    stage.fake.tell(2);
    assert_eq!(next(&mut events).await, event(1));
    assert_eq!(next(&mut events).await, event(2));
    first.close().await;
    let lost = next(&mut events).await;
    assert!(
        matches!(
            &lost.what,
            What::Connection {
                state: ConnectionState::Reconnecting,
                reason: Some(_),
                next_try_at: Some(_),
                ..
            }
        ),
        "{lost:?}"
    );
    assert_eq!(
        lost.cursor, "2",
        "what we add leaves the cursor where it was"
    );
    let second = owner(stage.dir.path(), &stage.fake);
    let back = loop {
        let event = next(&mut events).await;
        match &event.what {
            What::Connection {
                state: ConnectionState::Connected,
                ..
            } => break event,
            What::Connection { .. } => {}
            other => panic!("{other:?} before the connection is back"),
        }
    };
    assert_eq!(back.cursor, "2");
    assert_eq!(next(&mut events).await.what, What::Resync {});
    assert_eq!(
        *stage.fake.since.lock().unwrap(),
        [None, Some("2".to_owned())]
    );
    stage.fake.tell(3);
    assert_eq!(next(&mut events).await, event(3));
    second.close().await;
}

#[tokio::test]
async fn a_stream_that_begins_without_an_owner_tells_so_and_goes_on() {
    let stage = Stage::new();
    let mut events = stage.remote.events(Some("7".into()));
    let first = next(&mut events).await;
    assert!(matches!(
        first.what,
        What::Connection {
            state: ConnectionState::Reconnecting,
            ..
        }
    ));
    loop {
        let event = next(&mut events).await;
        if matches!(
            event.what,
            What::Connection {
                state: ConnectionState::Offline,
                ..
            }
        ) {
            break;
        }
    }
    let owner = owner(stage.dir.path(), &stage.fake);
    while next(&mut events).await.what != (What::Resync {}) {}
    assert_eq!(*stage.fake.since.lock().unwrap(), [Some("7".to_owned())]);
    owner.close().await;
}

#[tokio::test]
async fn a_consumer_that_goes_takes_its_connection_along() {
    let stage = Stage::new();
    let owner = owner(stage.dir.path(), &stage.fake);
    let events = stage.remote.events(None);
    assert!(
        soon(stage.remote.call(Request::Info {}.into()))
            .await
            .is_ok()
    );
    drop(events);
    drop(stage.remote);
    // It ends only when nobody is attached.
    soon(owner.until_idle()).await;
    owner.close().await;
}

/// A connector that knows there is no use in trying.
struct Hopeless;

impl Connector for Hopeless {
    fn connect(&self) -> BoxFuture<'_, Result<Connection, Failure>> {
        Box::pin(async { Err(Failure::new(Code::Refused, "not yours")) })
    }
}

#[tokio::test]
async fn what_is_final_is_said_at_once() {
    let remote = RemoteBackend::new(Arc::new(Hopeless), None, Clock::system());
    let failure = remote.call(Request::Info {}.into()).await.unwrap_err();
    assert_eq!(failure, Failure::new(Code::Refused, "not yours"));
    let mut events = remote.events(None);
    assert!(matches!(
        next(&mut events).await.what,
        What::Connection {
            state: ConnectionState::Offline,
            ..
        }
    ));
}

#[tokio::test(start_paused = true)]
async fn a_request_without_any_owner_ends_with_the_reason() {
    let stage = Stage::new();
    let failure = stage.remote.call(send("r1").into()).await.unwrap_err();
    assert_eq!(failure, Failure::new(Code::Unavailable, "nobody is there"));
}
