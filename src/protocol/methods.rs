//! Our own methods: every request a front door can make, and every reply.
//!
//! Closed enums: what is not here cannot be asked of a backend, by whatever way it is reached.

use crate::model::key::{Kind, SessionKey};
use crate::model::message::RawLine;
use crate::model::run::{Outcome, Run, RunId, RunState};
use crate::model::session::{Row, SendPolicy};
use crate::text::Untrusted;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who asks: a person, or a session (`--as`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Caller {
    /// `None` is the operator (V-45).
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub session: Option<Untrusted>,
}

/// A request with its caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    #[serde(default)]
    pub caller: Caller,
    pub request: Request,
}

impl From<Request> for Call {
    fn from(request: Request) -> Self {
        Self {
            caller: Caller::default(),
            request,
        }
    }
}

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", content = "params", rename_all_fields = "camelCase")]
pub enum Request {
    /// What the source is. → [`Reply::Info`]
    #[serde(rename = "crosstalk.info")]
    Info {},
    /// Sessions. → [`Reply::Rows`]
    #[serde(rename = "crosstalk.list")]
    List(ListRequest),
    /// One session, with what the details pane shows. → [`Reply::Detail`]
    #[serde(rename = "crosstalk.detail")]
    Detail { key: Untrusted },
    /// Lines of a transcript, uncut. → [`Reply::Lines`]
    #[serde(rename = "crosstalk.history")]
    History(HistoryRequest),
    /// One tool call; the payload is the tool's own. `callId` makes it repeatable. → [`Reply::Tool`]
    #[serde(rename = "crosstalk.tool")]
    Tool {
        name: String,
        arguments: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<RunId>,
    },
    /// A person's plain message. The run id is the idempotency key (E-5). → [`Reply::Accepted`]
    #[serde(rename = "crosstalk.send")]
    Send {
        key: Untrusted,
        message: Untrusted,
        run_id: RunId,
    },
    /// Waits for a run (E-9). → [`Reply::Waited`]
    #[serde(rename = "crosstalk.wait")]
    Wait { run_id: RunId, timeout_ms: u64 },
    /// Who may be spawned, and with which models. → [`Reply::Choices`]
    #[serde(rename = "crosstalk.choices")]
    Choices {},
    /// Session settings; `null` clears. → [`Reply::Done`]
    #[serde(rename = "crosstalk.patch")]
    Patch {
        key: Untrusted,
        fields: Map<String, Value>,
    },
    /// Aborts the active run of a session, or a run by its id; `tree` takes the descendants too. → [`Reply::Aborted`]
    #[serde(rename = "crosstalk.abort")]
    Abort { target: Untrusted, tree: bool },
    #[serde(rename = "crosstalk.reset")]
    Reset { key: Untrusted },
    #[serde(rename = "crosstalk.archive")]
    Archive { key: Untrusted },
    #[serde(rename = "crosstalk.restore")]
    Restore { key: Untrusted },
    #[serde(rename = "crosstalk.delete")]
    Delete { key: Untrusted },
    /// An inbound channel message (AM-13). → [`Reply::Accepted`] or [`Reply::Done`]
    #[serde(rename = "crosstalk.incoming")]
    Incoming {
        channel: String,
        from: String,
        owner: bool,
        key: Untrusted,
        text: Untrusted,
    },
    /// Runs that are accepted or started, in order of acceptance. → [`Reply::Runs`]
    #[serde(rename = "crosstalk.runs")]
    Runs {},
    /// Plays the built-in cast's script again. → [`Reply::Done`]
    #[serde(rename = "crosstalk.demo")]
    PlayDemo {},
}

/// The methods of [`Request`].
pub const METHODS: [&str; 17] = [
    "crosstalk.info",
    "crosstalk.list",
    "crosstalk.detail",
    "crosstalk.history",
    "crosstalk.tool",
    "crosstalk.send",
    "crosstalk.wait",
    "crosstalk.choices",
    "crosstalk.patch",
    "crosstalk.abort",
    "crosstalk.reset",
    "crosstalk.archive",
    "crosstalk.restore",
    "crosstalk.delete",
    "crosstalk.incoming",
    "crosstalk.runs",
    "crosstalk.demo",
];

impl Request {
    /// True when the request changes nothing: it may be asked of a source that is read-only, and asked again.
    pub fn is_read(&self) -> bool {
        match self {
            Request::Info {}
            | Request::List(_)
            | Request::Detail { .. }
            | Request::History(_)
            | Request::Wait { .. }
            | Request::Choices {}
            | Request::Runs {} => true,
            Request::Tool { name, .. } => matches!(
                name.as_str(),
                "sessions_list" | "sessions_history" | "agents_list"
            ),
            _ => false,
        }
    }
}

/// What a list asks for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListRequest {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<Kind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_minutes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// Only archived rows.
    pub archived_only: bool,
    /// Archived rows too.
    pub archived_too: bool,
    pub offset: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Messages per row (L-23).
    pub messages: usize,
}

/// Which lines of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryRequest {
    pub key: Untrusted,
    #[serde(flatten)]
    pub span: HistorySpan,
    /// Message lines at most; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// As [`crate::store::Span`], on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "span", content = "position", rename_all = "lowercase")]
pub enum HistorySpan {
    Tail,
    Before(u64),
    After(u64),
    Whole,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "reply",
    content = "value",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Reply {
    Info(Box<Info>),
    Rows(Rows),
    Detail(Box<Detail>),
    Lines(Lines),
    Tool {
        payload: Value,
    },
    Accepted(Accepted),
    Waited(Waited),
    Choices(Choices),
    /// Done; one line that says what, when there is something to say.
    Done {
        note: Option<Untrusted>,
    },
    Aborted {
        run_ids: Vec<RunId>,
    },
    Runs {
        runs: Vec<Run>,
    },
}

/// What a source is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Info {
    /// `embedded`, `openclaw files`, a gateway's name.
    pub source: String,
    /// State directory or URL.
    pub place: Untrusted,
    /// Configuration file in use.
    pub config: Option<Untrusted>,
    pub version: String,
    pub read_only: bool,
    /// The built-in cast.
    pub demo: bool,
    pub default_agent: String,
    pub main_key: String,
    /// Process id of the owner.
    pub pid: Option<u32>,
    pub warnings: Vec<Untrusted>,
    /// Runs started and queued.
    pub running: u32,
    pub queued: u32,
    /// Processes attached to the owner, this one included.
    pub attached: u32,
}

/// A page of rows with the counts that belong to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rows {
    pub rows: Vec<Row>,
    /// How many match, whatever the limit.
    pub total: usize,
    /// How many there are without any filter (archived ones not counted).
    pub all: usize,
    /// Archived sessions.
    pub archived: usize,
    pub warnings: Vec<Untrusted>,
}

/// One session in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Detail {
    pub row: Row,
    /// Send policy that holds, and where it comes from: `override`, `rule N`, `default`.
    pub send_policy: SendPolicy,
    pub send_policy_source: String,
    /// The stored entry, every member.
    pub entry: Value,
    /// Runs of the session that are accepted or started.
    pub runs: Vec<Run>,
}

/// Lines of a transcript, in file order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lines {
    /// Full key of the session that was found.
    pub key: Untrusted,
    /// False when there is no such session (H-12).
    pub exists: bool,
    pub lines: Vec<RawLine>,
    pub start: u64,
    pub end: u64,
    pub at_start: bool,
}

/// A run was accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    pub run_id: RunId,
    pub session_key: Untrusted,
    pub queued_behind: u32,
}

/// What became of a wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waited {
    pub run_id: RunId,
    /// `None`: the wait is over, the run goes on (or is not known, E-12).
    pub outcome: Option<Outcome>,
    /// Where the run stands; `None`: it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RunState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Untrusted>,
    /// For a sub-agent's task: what was posted to the requester (N-20), once the announce is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post: Option<Untrusted>,
    /// Nothing more follows: there is no announce, or it is settled (also when it was silent).
    #[serde(default)]
    pub settled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
}

/// What a spawn dialog can offer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Choices {
    pub requester: String,
    pub allow_any: bool,
    pub agents: Vec<crate::model::tools::AgentRow>,
    pub models: Vec<String>,
    pub default_model: Option<String>,
    /// Sandboxing that a child would get.
    pub sandboxed: bool,
    pub depth: u32,
    pub max_depth: u32,
    pub children: u32,
    pub max_children: u32,
    pub run_timeout_s: u64,
    /// Channel the report goes to.
    pub report_to: Untrusted,
    /// The channel can bind threads.
    pub threads: bool,
    pub attachments: bool,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{}", .message.clean())]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub code: Code,
    pub message: Untrusted,
}

impl Failure {
    /// A failure with its text.
    pub fn new(code: Code, message: impl Into<Untrusted>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// Stable codes of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// Unusable arguments, malformed keys.
    InvalidRequest,
    NotFound,
    /// Visibility, policy, observing only, read-only source.
    Forbidden,
    /// The request is fine, but refused now: a label in use, a session still active.
    Refused,
    /// No connection, or the owner went away.
    Unavailable,
    /// Disk full and the like.
    Io,
    /// The method is not known here.
    UnknownMethod,
}

/// A full key for the caller's own words: `main`, a key, a session id or a short form.
pub fn key_text(key: &SessionKey) -> Untrusted {
    Untrusted::new(key.as_str())
}
