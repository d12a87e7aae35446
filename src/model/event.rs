//! The one event set: what `watch`, the traffic view, the send ledger and tapes live on.
//!
//! The same from every backend; a member a backend cannot know is absent, and what was concluded rather than told
//! carries `inferred: true`.

use super::message::{RawLine, Usage};
use super::run::{Outcome, RunId, RunOrigin};
use super::session::Row;
use crate::text::Untrusted;
use serde::{Deserialize, Serialize};

/// An event with what is common to all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Per source, rising.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub at: i64,
    /// Where a consumer can go on with `--since`.
    pub cursor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caused_by_run: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_run: Option<RunId>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum What {
    #[serde(rename = "session.created")]
    SessionCreated { row: Box<Row> },
    #[serde(rename = "session.changed")]
    SessionChanged { row: Box<Row> },
    #[serde(rename = "session.archived")]
    SessionArchived { row: Box<Row> },
    #[serde(rename = "session.deleted")]
    SessionDeleted { row: Box<Row> },
    #[serde(rename = "session.reset")]
    SessionReset { row: Box<Row> },
    #[serde(rename = "message.appended")]
    MessageAppended {
        message: Box<RawLine>,
        position: u64,
    },
    #[serde(rename = "run.accepted")]
    RunAccepted {
        origin: RunOrigin,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queued_behind: Option<u32>,
    },
    #[serde(rename = "run.started")]
    RunStarted { origin: RunOrigin },
    /// `text` is the whole text so far.
    #[serde(rename = "run.delta")]
    RunDelta {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<Untrusted>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delta: Option<Untrusted>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking: Option<Untrusted>,
    },
    #[serde(rename = "run.tool")]
    RunTool {
        name: Untrusted,
        call_id: Untrusted,
        phase: ToolPhase,
    },
    #[serde(rename = "run.ended")]
    RunEnded {
        origin: RunOrigin,
        outcome: Outcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Untrusted>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    #[serde(rename = "send.state")]
    SendState {
        send_id: String,
        /// Absent for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requester: Option<Untrusted>,
        target: Untrusted,
        state: SendState,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply: Option<Untrusted>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Untrusted>,
    },
    #[serde(rename = "a2a.turn")]
    A2aTurn {
        requester: Untrusted,
        target: Untrusted,
        turn: u32,
        limit: u32,
        speaker: Untrusted,
        skipped: bool,
    },
    #[serde(rename = "announce")]
    Announce {
        kind: AnnounceKind,
        from: Untrusted,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Untrusted>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<Untrusted>,
        fate: Fate,
        /// The post itself (N-20), or what the announce step said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<Untrusted>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Untrusted>,
    },
    #[serde(rename = "spawn")]
    Spawn {
        parent: Untrusted,
        child: Untrusted,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<Untrusted>,
        agent_id: Untrusted,
    },
    #[serde(rename = "loop")]
    Loop { path: Vec<Untrusted>, turns: u32 },
    #[serde(rename = "connection")]
    Connection {
        state: ConnectionState,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_try_at: Option<i64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Untrusted>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missed: Option<u64>,
    },
    /// The consumer was too slow or the source lost its place: read list and open transcripts again.
    #[serde(rename = "resync")]
    Resync {},
}

/// Where a tool call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolPhase {
    Start,
    Result,
    Error,
}

/// Where a send stands. `WaitOver` is not an end: the run's own end follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendState {
    Outbox,
    Queued,
    Running,
    Replied,
    NoReply,
    WaitOver,
    Failed,
    Refused,
    Unknown,
    Discarded,
}

/// Which mechanism announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnnounceKind {
    A2a,
    Subagent,
}

/// What became of an announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    Delivered,
    Skipped,
    Denied,
    Failed,
    NoRoute,
}

/// Liveness of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionState {
    Connected,
    Reconnecting,
    Offline,
}
