//! A connection to another process: handshake, calls, events.
//!
//! Many calls may be in flight, answered in any order. When the connection dies, every pending call ends with
//! [`CallError::Lost`]; whether to ask again is for the caller, who knows what can be repeated. Absent on purpose:
//! reconnecting (`backend::remote`), finding or starting an owner (`host`).

use crate::model::event::Event;
use crate::protocol::frames::{
    CHALLENGE, CONNECT, Challenge, Connect, Frame, Hello, LIVE, MAX_FRAME_BYTES, SUBSCRIBE,
    Subscribe, raw, read, write_call,
};
use crate::protocol::methods::{Call, Code, Failure, Reply};
use futures_util::{SinkExt, StreamExt};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// How long a server may take to greet.
pub const GREETING_LIMIT: Duration = Duration::from_secs(5);
/// Ticks that may be missed before a silent server counts as gone.
const MISSED_TICKS: u32 = 2;
/// What a busy server gets on top.
const GRACE: Duration = Duration::from_secs(5);
/// Requests that may wait for the socket.
const OUTBOUND: usize = 64;
/// Events that may wait for the consumer; then the socket fills, and the server's side decides.
const INBOUND_EVENTS: usize = 64;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody listens there.
    #[error("nobody listens at {place}: {error}")]
    Nobody {
        place: String,
        error: std::io::Error,
    },
    /// Somebody does, and said nothing in time.
    #[error("{place} does not answer")]
    Silent { place: String },
    /// Somebody does, and is not who we are looking for.
    #[error("{place}: {reason}")]
    Stranger { place: String, reason: String },
    /// It hung up before it greeted.
    #[error("{place} hung up: {reason}")]
    HungUp { place: String, reason: String },
    /// It refused.
    #[error("{0}")]
    Refused(Failure),
}

/// Why a call has no reply.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The connection died before the reply came: the request may have been received or not.
    #[error("the connection was lost")]
    Lost,
    /// The connection had died before the request was handed to it: it was not received.
    #[error("the connection is closed")]
    NotSent,
    /// The other side answered with a failure.
    #[error("{0}")]
    Failed(#[from] Failure),
}

type Answer = Result<Option<Box<RawValue>>, Failure>;

/// Who waits for what; closed for good when the connection dies.
#[derive(Default)]
struct Pending {
    closed: bool,
    next_id: u64,
    waiting: HashMap<String, oneshot::Sender<Answer>>,
}

/// A greeted connection. Dropping it hangs up.
pub struct Connection {
    hello: Hello,
    pending: Arc<Mutex<Pending>>,
    outbound: mpsc::Sender<String>,
    events: Option<mpsc::Receiver<Event>>,
    tasks: [tokio::task::AbortHandle; 2],
}

impl Connection {
    /// Connects to a Unix socket whose server must run as the same user.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(socket: &Path) -> Result<Self, ConnectError> {
        let place = socket.display().to_string();
        let stream = UnixStream::connect(socket)
            .await
            .map_err(|error| ConnectError::Nobody {
                place: place.clone(),
                error,
            })?;
        let own = rustix::process::geteuid().as_raw();
        match stream.peer_cred().map(|peer| peer.uid()) {
            Ok(uid) if uid == own => {}
            Ok(uid) => {
                let reason = format!("its server runs as another user ({uid}, not {own})");
                return Err(ConnectError::Stranger { place, reason });
            }
            Err(error) => {
                let reason = format!("whose server it is cannot be told: {error}");
                return Err(ConnectError::Stranger { place, reason });
            }
        }
        Self::over(stream, &place).await
    }

    /// Shakes hands over any stream; `place` is for messages.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn over<S>(stream: S, place: &str) -> Result<Self, ConnectError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        tokio::time::timeout(GREETING_LIMIT, Self::greet(stream, place))
            .await
            .unwrap_or_else(|_| {
                Err(ConnectError::Silent {
                    place: place.into(),
                })
            })
    }

    async fn greet<S>(stream: S, place: &str) -> Result<Self, ConnectError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let hung_up = |reason: String| ConnectError::HungUp {
            place: place.into(),
            reason,
        };
        let (mut socket, _) = tokio_tungstenite::client_async_with_config(
            "ws://crosstalk.local/",
            stream,
            Some(socket_config()),
        )
        .await
        .map_err(|error| hung_up(error.to_string()))?;
        // The nonce is for signing, which a socket of the same user does without.
        let _: Challenge = loop {
            match next_frame(&mut socket).await.map_err(hung_up)? {
                Frame::Event { event, payload, .. } if event == CHALLENGE => {
                    break read("challenge", payload.as_deref()).map_err(ConnectError::Refused)?;
                }
                _ => {}
            }
        };
        let request = Frame::request("connect", CONNECT, &Connect::ours())
            .map_err(ConnectError::Refused)?
            .into_text();
        socket
            .send(Message::text(request))
            .await
            .map_err(|error| hung_up(error.to_string()))?;
        let hello: Hello = loop {
            match next_frame(&mut socket).await.map_err(hung_up)? {
                Frame::Res { id, answer } if id == "connect" => {
                    let payload = answer.map_err(ConnectError::Refused)?;
                    break read("hello", payload.as_deref()).map_err(ConnectError::Refused)?;
                }
                _ => {}
            }
        };
        Ok(Self::run(socket, hello))
    }

    fn run<S>(socket: WebSocketStream<S>, hello: Hello) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sink, mut stream) = socket.split();
        let (outbound, mut to_send) = mpsc::channel::<String>(OUTBOUND);
        let (events_in, events) = mpsc::channel(INBOUND_EVENTS);
        let pending = Arc::new(Mutex::new(Pending::default()));
        let writer = tokio::spawn(async move {
            while let Some(text) = to_send.recv().await {
                if sink.send(Message::text(text)).await.is_err() {
                    break;
                }
            }
            let _ = sink.close().await;
        });
        // A server that is stopped or hangs keeps its socket open; its ticks stop.
        let tick = Duration::from_millis(hello.policy.tick_interval_ms.max(1));
        let silence = tick * MISSED_TICKS + GRACE;
        let reader = tokio::spawn({
            let close = CloseOnDrop(pending.clone(), writer.abort_handle());
            async move {
                while let Ok(Some(Ok(message))) = tokio::time::timeout(silence, stream.next()).await
                {
                    match message {
                        Message::Text(text) => close.take(text.as_str(), &events_in).await,
                        Message::Close(_) => break,
                        _ => {}
                    }
                }
            }
        });
        Self {
            hello,
            pending,
            outbound,
            events: Some(events),
            tasks: [writer.abort_handle(), reader.abort_handle()],
        }
    }

    /// What the server said of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// True once the connection has died.
    pub fn is_closed(&self) -> bool {
        lock(&self.pending).closed
    }

    /// Asks. Dropping the future gives the answer up.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call(&self, call: &Call) -> Result<Reply, CallError> {
        let (method, params) = write_call(call)?;
        let payload = self.ask(&method, &params).await?;
        Ok(read(&method, payload.as_deref())?)
    }

    /// Turns the connection into a stream of live events, from now on or from a cursor. The channel closes when the
    /// connection dies. A connection serves calls or events, never both: so a slow consumer of events delays nothing
    /// else.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn subscribe(mut self, since: Option<String>) -> Result<Subscription, CallError> {
        self.ask(SUBSCRIBE, &Subscribe { since }).await?;
        let events = self.events.take().ok_or(CallError::NotSent)?;
        Ok(Subscription {
            events,
            _connection: self,
        })
    }

    async fn ask(
        &self,
        method: &str,
        params: &impl serde::Serialize,
    ) -> Result<Option<Box<RawValue>>, CallError> {
        let params = raw(params)?;
        if params.get().len() + 1024 > MAX_FRAME_BYTES {
            return Err(CallError::Failed(Failure::new(
                Code::InvalidRequest,
                format!(
                    "{method}: the request has {} bytes; {MAX_FRAME_BYTES} are possible",
                    params.get().len()
                ),
            )));
        }
        let (answer_in, answer) = oneshot::channel();
        let id = {
            let mut pending = lock(&self.pending);
            if pending.closed {
                return Err(CallError::NotSent);
            }
            pending.next_id += 1;
            let id = pending.next_id.to_string();
            pending.waiting.insert(id.clone(), answer_in);
            id
        };
        let _forget = Forget(&self.pending, &id);
        let frame = Frame::Req {
            id: id.clone(),
            method: method.into(),
            params: Some(params),
        };
        self.outbound
            .send(frame.into_text())
            .await
            .map_err(|_| CallError::NotSent)?;
        match answer.await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(CallError::Lost),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Live events over a connection of their own.
pub struct Subscription {
    events: mpsc::Receiver<Event>,
    _connection: Connection,
}

impl Subscription {
    /// The next event; `None` when the connection has died.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

/// What the reader holds: when it ends, however it ends, nobody waits any longer.
struct CloseOnDrop(Arc<Mutex<Pending>>, tokio::task::AbortHandle);

impl CloseOnDrop {
    async fn take(&self, text: &str, events: &mpsc::Sender<Event>) {
        match Frame::parse(text) {
            Ok(Frame::Res { id, answer }) => {
                let waiting = lock(&self.0).waiting.remove(&id);
                if let Some(waiting) = waiting {
                    let _ = waiting.send(answer);
                }
            }
            Ok(Frame::Event { event, payload, .. }) if event == LIVE => {
                match read::<Event>("event", payload.as_deref()) {
                    Ok(event) => {
                        let _ = events.send(event).await;
                    }
                    Err(failure) => {
                        tracing::warn!("an event could not be read: {}", failure.message.clean());
                    }
                }
            }
            Ok(_) => {}
            Err(error) => tracing::warn!("{error}"),
        }
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        let mut pending = lock(&self.0);
        pending.closed = true;
        pending.waiting.clear();
        drop(pending);
        self.1.abort();
    }
}

/// Takes a request out of the book when nobody waits for it any longer.
struct Forget<'a>(&'a Mutex<Pending>, &'a str);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(self.0).waiting.remove(self.1);
    }
}

/// The book is a plain map: a panic elsewhere cannot leave it half changed.
fn lock(pending: &Mutex<Pending>) -> std::sync::MutexGuard<'_, Pending> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

fn socket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MAX_FRAME_BYTES))
        .max_frame_size(Some(MAX_FRAME_BYTES))
}

async fn next_frame<S>(socket: &mut WebSocketStream<S>) -> Result<Frame, String>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => {
                return Frame::parse(text.as_str()).map_err(|error| error.to_string());
            }
            Some(Ok(Message::Close(_))) | None => return Err("the connection was closed".into()),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.to_string()),
        }
    }
}
