//! One connection, over a stream in memory.

use super::fake::{Fake, event};
use crosstalk::client::{CallError, ConnectError, Connection};
use crosstalk::model::event::What;
use crosstalk::protocol::frames::{Connect, Frame, PROTOCOL, ServerInfo};
use crosstalk::protocol::methods::{Call, Code, Reply, Request};
use crosstalk::server::{Attached, Service, may_connect, serve_stream};
use futures_util::{SinkExt, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

fn serving(fake: &Fake, buffer: usize) -> (DuplexStream, JoinHandle<()>) {
    let (ours, theirs) = tokio::io::duplex(buffer);
    let service = Service {
        backend: fake.shared(),
        server: ServerInfo {
            version: "7".into(),
            ..ServerInfo::default()
        },
        attached: Arc::new(Attached::default()),
    };
    (ours, tokio::spawn(serve_stream(theirs, service)))
}

async fn connected(fake: &Fake) -> Connection {
    Connection::over(serving(fake, 4096).0, "here")
        .await
        .unwrap()
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what)
        .await
        .expect("it takes too long")
}

fn wait() -> Call {
    Request::Wait {
        run_id: "r".into(),
        timeout_ms: 60_000,
    }
    .into()
}

#[tokio::test]
async fn a_greeting_says_who_answers_and_what_it_can() {
    let connection = connected(&Fake::new()).await;
    let hello = connection.hello();
    assert_eq!(hello.kind, "hello-ok");
    assert_eq!(hello.protocol, PROTOCOL);
    assert_eq!(hello.server.version, "7");
    assert!(!hello.server.conn_id.is_empty());
    assert!(hello.features.methods.contains(&"crosstalk.list".into()));
    assert!(
        hello
            .features
            .methods
            .contains(&"crosstalk.subscribe".into())
    );
}

#[tokio::test]
async fn answers_come_in_any_order() {
    let fake = Fake::new();
    fake.open.send_replace(false);
    let connection = Arc::new(connected(&fake).await);
    let long = tokio::spawn({
        let connection = connection.clone();
        async move { connection.call(&wait()).await }
    });
    soon(fake.until_waiting(1)).await;
    let info = soon(connection.call(&Request::Info {}.into())).await;
    assert!(matches!(info, Ok(Reply::Info(info)) if info.source == "fake"));
    assert!(!long.is_finished());
    fake.open.send_replace(true);
    assert!(matches!(soon(long).await.unwrap(), Ok(Reply::Waited(_))));
}

#[tokio::test]
async fn a_failure_comes_as_it_is() {
    let connection = connected(&Fake::new()).await;
    let call = Request::Detail {
        key: "gone\u{1b}".into(),
    }
    .into();
    let Err(CallError::Failed(failure)) = soon(connection.call(&call)).await else {
        panic!("a failure is expected");
    };
    assert_eq!(failure.code, Code::NotFound);
    assert_eq!(failure.message.raw(), "gone\u{1b}");
}

#[tokio::test]
async fn whoever_waits_hears_that_the_connection_died() {
    let fake = Fake::new();
    fake.open.send_replace(false);
    let (stream, server) = serving(&fake, 4096);
    let connection = Arc::new(Connection::over(stream, "here").await.unwrap());
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let connection = connection.clone();
            tokio::spawn(async move { connection.call(&wait()).await })
        })
        .collect();
    soon(fake.until_waiting(20)).await;
    server.abort();
    for call in calls {
        assert_eq!(soon(call).await.unwrap(), Err(CallError::Lost));
    }
    assert!(connection.is_closed());
    let late = soon(connection.call(&wait())).await;
    assert_eq!(late, Err(CallError::NotSent));
}

#[tokio::test]
async fn a_caller_that_gives_up_leaves_nothing_behind() {
    let fake = Fake::new();
    fake.open.send_replace(false);
    let connection = connected(&fake).await;
    for n in 1..=3 {
        let call = wait();
        tokio::select! {
            _ = connection.call(&call) => panic!("nobody opened the gate"),
            () = fake.until_waiting(n) => {}
        }
    }
    fake.open.send_replace(true);
    let reply = soon(connection.call(&wait())).await;
    assert!(matches!(reply, Ok(Reply::Waited(_))), "{reply:?}");
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused_before_it_is_sent() {
    let connection = connected(&Fake::new()).await;
    let call = Request::Send {
        key: "main".into(),
        message: "x".repeat(65 * 1024 * 1024).into(),
        run_id: "r".into(),
    };
    let Err(CallError::Failed(failure)) = soon(connection.call(&call.into())).await else {
        panic!("a failure is expected");
    };
    assert_eq!(failure.code, Code::InvalidRequest);
    let info = soon(connection.call(&Request::Info {}.into())).await;
    assert!(info.is_ok(), "the connection goes on");
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_a_failure_and_the_connection_goes_on() {
    let connection = connected(&Fake::new()).await;
    let call = Request::Archive { key: "main".into() };
    let Err(CallError::Failed(failure)) = soon(connection.call(&call.into())).await else {
        panic!("a failure is expected");
    };
    assert_eq!(failure.code, Code::Refused);
    assert!(
        soon(connection.call(&Request::Info {}.into()))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn events_come_in_order() {
    let fake = Fake::new();
    let mut live = connected(&fake)
        .await
        .subscribe(Some("5".into()))
        .await
        .unwrap();
    assert_eq!(*fake.since.lock().unwrap(), [Some("5".to_owned())]);
    for seq in 6..10 {
        fake.tell(seq);
    }
    for seq in 6..10 {
        assert_eq!(soon(live.next()).await, Some(event(seq)));
    }
}

#[tokio::test]
async fn a_slow_consumer_stops_nobody_and_is_told_to_resync() {
    let fake = Fake::new();
    let (stream, _server) = serving(&fake, 1024);
    let mut live = Connection::over(stream, "here")
        .await
        .unwrap()
        .subscribe(None)
        .await
        .unwrap();
    // Telling never waits; the consumer has read nothing when the last one is told.
    for seq in 1..=5_000 {
        fake.tell(seq);
        if seq % 8 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let mut kept = 0;
    loop {
        let event = soon(live.next()).await.unwrap();
        if event.what == (What::Resync {}) {
            break;
        }
        kept += 1;
    }
    assert!(
        kept < 1_000,
        "{kept} events were kept for one that does not read"
    );
}

#[test]
fn only_our_own_user_may_connect() {
    assert!(may_connect(1000, 1000));
    assert!(!may_connect(1001, 1000));
    assert!(
        !may_connect(0, 1000),
        "root's files could not be changed by us"
    );
    assert!(!may_connect(1000, 0));
}

// From here on: a client that does not behave.

async fn plain(fake: &Fake) -> WebSocketStream<DuplexStream> {
    let (stream, _server) = serving(fake, 1 << 16);
    let (mut socket, _) = tokio_tungstenite::client_async("ws://x/", stream)
        .await
        .unwrap();
    assert!(
        matches!(hear(&mut socket).await, Some(Frame::Event { event, .. }) if event == "connect.challenge")
    );
    socket
}

async fn greeted(fake: &Fake) -> WebSocketStream<DuplexStream> {
    let mut socket = plain(fake).await;
    let connect = Frame::request("0", "connect", &Connect::ours()).unwrap();
    socket
        .send(Message::text(connect.into_text()))
        .await
        .unwrap();
    assert!(matches!(
        hear(&mut socket).await,
        Some(Frame::Res { answer: Ok(_), .. })
    ));
    socket
}

/// `None` when the server hung up.
async fn hear(socket: &mut WebSocketStream<DuplexStream>) -> Option<Frame> {
    loop {
        match soon(socket.next()).await {
            Some(Ok(Message::Text(text))) => return Some(Frame::parse(text.as_str()).unwrap()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
            Some(Ok(_)) => {}
        }
    }
}

#[tokio::test]
async fn garbage_is_answered_and_the_connection_goes_on() {
    let mut socket = greeted(&Fake::new()).await;
    let garbage: Vec<Message> = vec![
        Message::text(""),
        Message::text("}{"),
        Message::text("null"),
        Message::text("[1,2"),
        Message::text(r#"{"type":"req","id":"7"}"#),
        Message::text(r#"{"type":"req","id":"7","method":"rm -rf"}"#),
        Message::text(r#"{"type":"req","id":"7","method":"crosstalk.send","params":[]}"#),
        Message::text(
            r#"{"type":"req","id":"7","method":"crosstalk.subscribe","params":{"since":1}}"#,
        ),
        Message::text(r#"{"type":"event","event":"crosstalk"}"#),
        Message::text(r#"{"type":"res","id":"7","ok":true}"#),
        Message::text("[".repeat(100_000)),
        Message::binary(vec![0xff; 100]),
    ];
    for message in garbage {
        let shown = format!("{message:.60?}");
        socket.send(message).await.unwrap();
        let Some(Frame::Res {
            answer: Err(failure),
            ..
        }) = hear(&mut socket).await
        else {
            panic!("{shown} is answered with an error");
        };
        assert!(
            matches!(failure.code, Code::InvalidRequest | Code::UnknownMethod),
            "{shown}: {failure:?}"
        );
    }
    let info = Frame::request("8", "crosstalk.info", &serde_json::json!({})).unwrap();
    socket.send(Message::text(info.into_text())).await.unwrap();
    assert!(matches!(hear(&mut socket).await, Some(Frame::Res { id, answer: Ok(_) }) if id == "8"));
}

#[tokio::test]
async fn before_the_handshake_garbage_ends_the_connection_with_a_word() {
    for first in [
        "}{",
        r#"{"type":"req","id":"1","method":"crosstalk.info"}"#,
        r#"{"type":"req","id":"1","method":"connect","params":{}}"#,
        r#"{"type":"req","id":"1","method":"connect","params":{"minProtocol":90,"maxProtocol":99,"client":{"id":"x","version":"1","platform":"p","mode":"m"},"role":"operator"}}"#,
    ] {
        let mut socket = plain(&Fake::new()).await;
        socket.send(Message::text(first)).await.unwrap();
        assert!(
            matches!(
                hear(&mut socket).await,
                Some(Frame::Res { answer: Err(_), .. })
            ),
            "{first}"
        );
        assert!(hear(&mut socket).await.is_none(), "{first}");
    }
}

#[tokio::test]
async fn bytes_that_are_no_websocket_end_the_connection() {
    for bytes in [
        &b"GET / HTTP/1.0\r\n\r\n"[..],
        &[0; 4096],
        b"{\"type\":\"req\"}\n\n",
    ] {
        let (mut stream, server) = serving(&Fake::new(), 8192);
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        soon(server).await.unwrap();
    }
}

#[tokio::test]
async fn frames_that_break_the_framing_end_the_connection() {
    // Reserved bits, an unmasked frame, a length of 2^63.
    for bytes in [
        &[0xf1, 0x80, 0, 0, 0, 0][..],
        &[0x81, 0x01, b'x'],
        &[
            0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
        ],
    ] {
        let mut socket = greeted(&Fake::new()).await;
        socket.get_mut().write_all(bytes).await.unwrap();
        assert!(hear(&mut socket).await.is_none(), "{bytes:?}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_before_it_greets_is_told_apart() {
    let (ours, theirs) = tokio::io::duplex(64);
    drop(theirs);
    let error = soon(Connection::over(ours, "here")).await.err().unwrap();
    assert!(matches!(error, ConnectError::HungUp { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_told_apart() {
    let (ours, _theirs) = tokio::io::duplex(64);
    let error = Connection::over(ours, "here").await.err().unwrap();
    assert!(matches!(error, ConnectError::Silent { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_ticking_counts_as_gone() {
    let fake = Fake::new();
    fake.open.send_replace(false);
    // Between the two a piece of wire that can be held.
    let (ours, mut near) = tokio::io::duplex(4096);
    let (mut far, _server) = serving(&fake, 4096);
    let hold = Arc::new(tokio::sync::Notify::new());
    let held = hold.clone();
    let _wire = tokio::spawn(async move {
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
            () = held.notified() => {}
        }
        // Held, not cut: the ends stay open.
        std::future::pending::<()>().await;
    });
    let connection = Connection::over(ours, "here").await.unwrap();
    let call = wait();
    let pending = connection.call(&call);
    tokio::pin!(pending);
    // While it ticks, it may take hours.
    tokio::select! {
        _ = &mut pending => panic!("nobody answered"),
        () = tokio::time::sleep(Duration::from_secs(3 * 3600)) => {}
    }
    hold.notify_one();
    assert_eq!(pending.await, Err(CallError::Lost));
}
