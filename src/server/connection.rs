//! One connection: challenge, connect, then requests and events.

use super::Service;
use crate::clock::Clock;
use crate::protocol::frames::{
    CHALLENGE, CONNECT, Challenge, Connect, Frame, Hello, LIVE, MAX_FRAME_BYTES, PROTOCOL,
    SUBSCRIBE, Subscribe, TICK, TICK_MS, raw, read, read_call,
};
use crate::protocol::methods::{Call, Code, Failure, Reply};
use futures_util::stream::SplitStream;
use futures_util::{SinkExt, StreamExt};
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// How long a client may take to introduce itself.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Frames that may wait for the socket.
const OUTBOUND: usize = 64;
/// Requests of one connection that may be in work.
const IN_WORK: usize = 1024;

/// Serves one connection until either side ends it. Garbage is answered with an error; before the handshake it ends
/// the connection.
pub async fn serve_stream<S>(stream: S, service: Service)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_FRAME_BYTES))
        .max_frame_size(Some(MAX_FRAME_BYTES));
    let accepted = tokio::time::timeout(
        CONNECT_LIMIT,
        tokio_tungstenite::accept_async_with_config(stream, Some(config)),
    );
    let Ok(Ok(socket)) = accepted.await else {
        return;
    };
    let (mut sink, mut stream) = socket.split();
    let (out, mut to_send) = mpsc::channel::<Frame>(OUTBOUND);
    // In this task rather than one of its own: whoever drops the connection drops its writer too.
    let writer = async move {
        let mut tick = tokio::time::interval(Duration::from_millis(TICK_MS));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tick.tick().await;
        loop {
            let frame = tokio::select! {
                frame = to_send.recv() => match frame {
                    Some(frame) => frame,
                    None => break,
                },
                _ = tick.tick() => Frame::Event { event: TICK.into(), payload: None, seq: None },
            };
            if sink.send(Message::text(frame.into_text())).await.is_err() {
                return;
            }
        }
        let _ = sink.close().await;
    };
    let talk = async move {
        if greet(&mut stream, &service, &out).await {
            work(&mut stream, service, out).await;
        }
    };
    tokio::pin!(writer);
    tokio::select! {
        () = &mut writer => {}
        // What was said last (an error, most likely) is still written.
        () = talk => {
            let _ = tokio::time::timeout(Duration::from_secs(1), writer).await;
        }
    }
}

/// True when the client introduced itself.
async fn greet<S>(
    stream: &mut SplitStream<WebSocketStream<S>>,
    service: &Service,
    out: &mpsc::Sender<Frame>,
) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let conn_id = uuid::Uuid::new_v4().to_string();
    let challenge = raw(&Challenge {
        nonce: uuid::Uuid::new_v4().to_string(),
        ts: Clock::system().now_ms(),
    });
    let challenge = Frame::Event {
        event: CHALLENGE.into(),
        payload: challenge.ok(),
        seq: None,
    };
    if out.send(challenge).await.is_err() {
        return false;
    }
    let first = tokio::time::timeout(CONNECT_LIMIT, next(stream)).await;
    let (id, answer) = match first {
        Err(_) | Ok(None) => return false,
        Ok(Some(Err((id, failure)))) => (id, Err(failure)),
        Ok(Some(Ok(Request { id, method, params }))) => {
            let answer = if method == CONNECT {
                check(params.as_deref())
            } else {
                Err(invalid("the first request has to be connect"))
            };
            (id, answer)
        }
    };
    let hello = answer.map(|()| {
        let mut server = service.server.clone();
        server.conn_id = conn_id;
        Hello::ours(server)
    });
    let greeted = hello.is_ok();
    out.send(Frame::response(id, hello)).await.is_ok() && greeted
}

fn check(params: Option<&RawValue>) -> Result<(), Failure> {
    let connect: Connect = read(CONNECT, params)?;
    if (connect.min_protocol..=connect.max_protocol).contains(&PROTOCOL) {
        Ok(())
    } else {
        Err(Failure::new(
            Code::Refused,
            format!(
                "this process speaks protocol {PROTOCOL}, the other one {} to {}; \
                 end the older of the two programs and try again",
                connect.min_protocol, connect.max_protocol
            ),
        ))
    }
}

async fn work<S>(
    stream: &mut SplitStream<WebSocketStream<S>>,
    service: Service,
    out: mpsc::Sender<Frame>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut tasks = JoinSet::new();
    let mut events: Option<AbortHandle> = None;
    loop {
        let request = tokio::select! {
            request = next(stream) => request,
            Some(_) = tasks.join_next(), if !tasks.is_empty() => continue,
        };
        let refusal = match request {
            None => return,
            Some(Err((id, failure))) => Frame::response(id, Err::<(), _>(failure)),
            Some(Ok(Request { id, .. })) if tasks.len() >= IN_WORK => {
                let failure = Failure::new(
                    Code::Unavailable,
                    format!("{IN_WORK} requests of this connection are in work; wait for one"),
                );
                Frame::response(id, Err::<(), _>(failure))
            }
            Some(Ok(Request { id, method, params })) if method == SUBSCRIBE => {
                match read::<Subscribe>(SUBSCRIBE, params.as_deref()) {
                    Err(failure) => Frame::response(id, Err::<(), _>(failure)),
                    Ok(Subscribe { since }) => {
                        if let Some(earlier) = events.take() {
                            earlier.abort();
                        }
                        // Taken before the answer, so that nothing that happens after it is missed.
                        let live = service.backend.events(since);
                        events = Some(tasks.spawn(forward(id, live, out.clone())));
                        continue;
                    }
                }
            }
            Some(Ok(Request { id, method, params })) => {
                match read_call(&method, params.as_deref()) {
                    Err(failure) => Frame::response(id, Err::<(), _>(failure)),
                    Ok(call) => {
                        tasks.spawn(answer(id, call, service.clone(), out.clone()));
                        continue;
                    }
                }
            }
        };
        if out.send(refusal).await.is_err() {
            return;
        }
    }
}

async fn answer(id: String, call: Call, service: Service, out: mpsc::Sender<Frame>) {
    let reply = service.backend.call(call).await.map(|mut reply| {
        if let Reply::Info(info) = &mut reply {
            info.attached = service.attached.count();
        }
        reply
    });
    let mut frame = Frame::response(id.as_str(), reply);
    if let Frame::Res {
        answer: Ok(Some(payload)),
        ..
    } = &frame
        && payload.get().len() + 1024 > MAX_FRAME_BYTES
    {
        let failure = Failure::new(
            Code::Refused,
            format!(
                "the answer has {} bytes, {MAX_FRAME_BYTES} are possible; ask for less (a limit)",
                payload.get().len()
            ),
        );
        frame = Frame::response(id, Err::<(), _>(failure));
    }
    let _ = out.send(frame).await;
}

async fn forward(
    id: String,
    mut live: mpsc::Receiver<crate::model::event::Event>,
    out: mpsc::Sender<Frame>,
) {
    let accepted = Frame::response(id, Ok(serde_json::Map::new()));
    if out.send(accepted).await.is_err() {
        return;
    }
    while let Some(event) = live.recv().await {
        let frame = Frame::Event {
            event: LIVE.into(),
            payload: raw(&event).ok(),
            seq: Some(event.seq),
        };
        if out.send(frame).await.is_err() {
            return;
        }
    }
}

struct Request {
    id: String,
    method: String,
    params: Option<Box<RawValue>>,
}

/// The next request, or what to answer to something that is none; `None` at the end of the connection.
async fn next<S>(
    stream: &mut SplitStream<WebSocketStream<S>>,
) -> Option<Result<Request, (String, Failure)>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let refuse = |id: String, message: &str| Some(Err((id, invalid(message))));
        return match stream.next().await?.ok()? {
            Message::Text(text) => match Frame::parse(text.as_str()) {
                Ok(Frame::Req { id, method, params }) => Some(Ok(Request { id, method, params })),
                Ok(_) => refuse(String::new(), "only requests can be sent to a server"),
                Err(error) => {
                    let message = error.to_string();
                    refuse(error.id, &message)
                }
            },
            Message::Binary(_) => refuse(String::new(), "frames have to be text"),
            Message::Close(_) => None,
            _ => continue,
        };
    }
}

fn invalid(message: &str) -> Failure {
    Failure::new(Code::InvalidRequest, message)
}
