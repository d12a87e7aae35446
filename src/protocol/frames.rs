//! Frames of the gateway protocol: one JSON object per text frame, and the handshake that opens a connection.
//!
//! Payloads stay raw JSON here: a list of many rows goes from its struct to the wire and back without a tree of values
//! in between. Absent on purpose: sockets.

use super::methods::{Call, Caller, Code, Failure, METHODS, Request};
use crate::text::Untrusted;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// Version of the protocol we speak.
pub const PROTOCOL: u32 = 4;
/// The largest frame either side sends or takes, in bytes.
pub const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;
/// How often a server says that it is there, in milliseconds.
pub const TICK_MS: u64 = 5_000;

/// First event of a connection, from the server.
pub const CHALLENGE: &str = "connect.challenge";
/// First request of a connection, from the client.
pub const CONNECT: &str = "connect";
/// Turns live events on; its params are [`Subscribe`].
pub const SUBSCRIBE: &str = "crosstalk.subscribe";
/// Name of the event frames that carry a [`crate::model::event::Event`].
pub const LIVE: &str = "crosstalk";
/// Event without payload: the server is there.
pub const TICK: &str = "tick";

/// Any frame.
#[derive(Debug, Clone)]
pub enum Frame {
    /// A request.
    Req {
        id: String,
        method: String,
        params: Option<Box<RawValue>>,
    },
    /// The response to the request with this id; `Err` is `ok: false`.
    Res {
        id: String,
        answer: Result<Option<Box<RawValue>>, Failure>,
    },
    /// Something that happened.
    Event {
        event: String,
        payload: Option<Box<RawValue>>,
        seq: Option<u64>,
    },
}

/// Why a text is no frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .message.clean())]
pub struct FrameError {
    /// Id of the request, as far as it could be read; empty otherwise.
    pub id: String,
    pub message: Untrusted,
}

/// All members any frame may have: an internally tagged enum cannot hold raw JSON.
#[derive(Default, Serialize, Deserialize)]
struct Flat {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    params: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ok: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
}

impl Frame {
    /// Reads a text frame. Members that are not known are ignored.
    ///
    /// # Errors
    /// [`FrameError`] for anything that is no frame.
    pub fn parse(text: &str) -> Result<Self, FrameError> {
        let flat: Flat = serde_json::from_str(text).map_err(|error| FrameError {
            id: String::new(),
            message: format!("not a frame: {error}").into(),
        })?;
        let id = flat.id.clone().unwrap_or_default();
        let lacks = |member: &str| FrameError {
            id: id.clone(),
            message: format!("a {} frame without {member}", flat.kind).into(),
        };
        match flat.kind.as_str() {
            "req" => Ok(Frame::Req {
                id: flat.id.clone().ok_or_else(|| lacks("id"))?,
                method: flat.method.clone().ok_or_else(|| lacks("method"))?,
                params: flat.params,
            }),
            "res" => Ok(Frame::Res {
                id: flat.id.clone().ok_or_else(|| lacks("id"))?,
                answer: match (flat.ok, flat.error.clone()) {
                    (Some(true), _) => Ok(flat.payload),
                    (_, Some(failure)) => Err(failure),
                    _ => return Err(lacks("error")),
                },
            }),
            "event" => Ok(Frame::Event {
                event: flat.event.clone().ok_or_else(|| lacks("event"))?,
                payload: flat.payload,
                seq: flat.seq,
            }),
            other => Err(FrameError {
                id,
                message: format!("unknown frame type {other:?}").into(),
            }),
        }
    }

    /// The frame as text.
    pub fn into_text(self) -> String {
        let flat = match self {
            Frame::Req { id, method, params } => Flat {
                kind: "req".into(),
                id: Some(id),
                method: Some(method),
                params,
                ..Flat::default()
            },
            Frame::Res { id, answer } => {
                let ok = Some(answer.is_ok());
                let (payload, error) = match answer {
                    Ok(payload) => (payload, None),
                    Err(failure) => (None, Some(failure)),
                };
                Flat {
                    kind: "res".into(),
                    id: Some(id),
                    ok,
                    payload,
                    error,
                    ..Flat::default()
                }
            }
            Frame::Event {
                event,
                payload,
                seq,
            } => Flat {
                kind: "event".into(),
                event: Some(event),
                payload,
                seq,
                ..Flat::default()
            },
        };
        // Strings, numbers and JSON that is already written cannot fail to be written.
        serde_json::to_string(&flat).unwrap_or_default()
    }

    /// A request for a method with its params.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] when the params cannot be written as JSON.
    pub fn request(
        id: impl Into<String>,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Self, Failure> {
        Ok(Frame::Req {
            id: id.into(),
            method: method.into(),
            params: Some(raw(params)?),
        })
    }

    /// The response to a request.
    pub fn response(id: impl Into<String>, answer: Result<impl Serialize, Failure>) -> Self {
        Frame::Res {
            id: id.into(),
            answer: answer.and_then(|payload| raw(&payload).map(Some)),
        }
    }
}

/// Anything as raw JSON.
///
/// # Errors
/// [`Code::InvalidRequest`] when it cannot be written as JSON.
pub fn raw(value: &impl Serialize) -> Result<Box<RawValue>, Failure> {
    serde_json::value::to_raw_value(value)
        .map_err(|error| Failure::new(Code::InvalidRequest, format!("not JSON: {error}")))
}

/// Reads raw JSON that must be there.
///
/// # Errors
/// [`Code::InvalidRequest`] naming what could not be read.
pub fn read<T: for<'de> Deserialize<'de>>(
    what: &str,
    value: Option<&RawValue>,
) -> Result<T, Failure> {
    let text = value.map_or("{}", RawValue::get);
    serde_json::from_str(text)
        .map_err(|error| Failure::new(Code::InvalidRequest, format!("{what}: {error}")))
}

/// Payload of the challenge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    pub nonce: String,
    /// Milliseconds since 1970.
    pub ts: i64,
}

/// Params of `connect`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connect {
    pub min_protocol: u32,
    pub max_protocol: u32,
    pub client: ClientInfo,
    pub role: String,
    #[serde(default)]
    pub scopes: Vec<String>,
}

/// Who connects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientInfo {
    pub id: String,
    pub version: String,
    pub platform: String,
    pub mode: String,
}

impl Connect {
    /// What we say of ourselves.
    pub fn ours() -> Self {
        Self {
            min_protocol: PROTOCOL,
            max_protocol: PROTOCOL,
            client: ClientInfo {
                id: "crosstalk".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                platform: std::env::consts::OS.into(),
                mode: "cli".into(),
            },
            role: "operator".into(),
            scopes: vec!["operator.read".into(), "operator.write".into()],
        }
    }
}

/// Payload of the response to `connect`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// Always `hello-ok`.
    #[serde(rename = "type")]
    pub kind: String,
    pub protocol: u32,
    pub server: ServerInfo,
    #[serde(default)]
    pub features: Features,
    pub policy: Limits,
}

/// Who answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerInfo {
    pub version: String,
    pub conn_id: String,
    /// Process id; absent where it means nothing to the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Configuration file it runs on; absent for the empty configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<std::path::PathBuf>,
    /// The built-in cast.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub demo: bool,
}

/// What it can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Features {
    pub methods: Vec<String>,
    pub events: Vec<String>,
}

/// Its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Largest frame, bytes.
    pub max_payload: usize,
    /// A tick comes at least this often.
    pub tick_interval_ms: u64,
}

impl Hello {
    /// Our own greeting.
    pub fn ours(server: ServerInfo) -> Self {
        Self {
            kind: "hello-ok".into(),
            protocol: PROTOCOL,
            server,
            features: Features {
                methods: METHODS
                    .iter()
                    .chain(&[SUBSCRIBE])
                    .map(|&method| method.to_owned())
                    .collect(),
                events: vec![LIVE.to_owned(), TICK.to_owned()],
            },
            policy: Limits {
                max_payload: MAX_FRAME_BYTES,
                tick_interval_ms: TICK_MS,
            },
        }
    }
}

/// Params of [`SUBSCRIBE`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribe {
    /// Cursor to go on from; absent: from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// A call as method and params: the members of the request, plus `as` for the caller.
///
/// # Errors
/// [`Code::InvalidRequest`] when it cannot be written as JSON.
pub fn write_call(call: &Call) -> Result<(String, Value), Failure> {
    let unwritable =
        |error: String| Failure::new(Code::InvalidRequest, format!("not JSON: {error}"));
    let mut request =
        serde_json::to_value(&call.request).map_err(|error| unwritable(error.to_string()))?;
    let method = request["method"].as_str().unwrap_or_default().to_owned();
    let mut params = request["params"].take();
    if let (Some(session), Some(members)) = (&call.caller.session, params.as_object_mut()) {
        members.insert("as".into(), session.raw().into());
    }
    Ok((method, params))
}

/// Reads a call.
///
/// # Errors
/// [`Code::UnknownMethod`], [`Code::InvalidRequest`].
pub fn read_call(method: &str, params: Option<&RawValue>) -> Result<Call, Failure> {
    if !METHODS.contains(&method) {
        return Err(Failure::new(
            Code::UnknownMethod,
            format!("unknown method {method}"),
        ));
    }
    let caller: Caller = read(method, params)?;
    // The method is one of ours, so it needs no escaping; this keeps the params from becoming a tree of values.
    let text = format!(
        r#"{{"method":"{method}","params":{}}}"#,
        params.map_or("{}", RawValue::get)
    );
    let request: Request = serde_json::from_str(&text)
        .map_err(|error| Failure::new(Code::InvalidRequest, format!("{method}: {error}")))?;
    Ok(Call { caller, request })
}
