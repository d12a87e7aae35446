//! A run: one agent turn in one session, from acceptance to its end.

use super::key::SessionKey;
use super::message::{Provenance, Usage};
use crate::text::Untrusted;
use serde::{Deserialize, Serialize};

/// Id of a run; equal to the idempotency key of its acceptance (E-4, E-5).
pub type RunId = String;

/// What caused a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOrigin {
    /// A person's plain message.
    Operator,
    /// `sessions_send`.
    Send,
    /// A turn of the reply-back loop.
    Reply,
    /// The announce step.
    Announce,
    /// The task of a sub-agent.
    Spawn,
    /// A child's report to its requester.
    Report,
    /// A message from a channel.
    Channel,
    Cron,
    Hook,
}

/// The lane a run takes a slot in (E-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    Main,
    Subagent,
    Nested,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    Accepted,
    Started,
    Ended,
}

/// How a run ended. `Timeout` is the run's own limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Ok,
    Error,
    Timeout,
    Aborted,
    /// The engine was restarted while it ran (AM-4).
    Interrupted,
}

/// The reply-back loop and announce step that follow a `sessions_send` (chapter 6); stored with the run, so that a
/// send accepted before a restart still gets them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Flow {
    pub requester: SessionKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester_channel: Option<Untrusted>,
    /// Session id of the requester at acceptance: a reset or delete since then ends the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester_session_id: Option<String>,
    /// Budget of each step in milliseconds.
    pub step_budget_ms: u64,
}

/// A stored run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub run_id: RunId,
    pub session_key: SessionKey,
    pub origin: RunOrigin,
    pub lane: Lane,
    pub state: RunState,
    /// The message as it will be stored.
    pub message: Untrusted,
    /// Id that the user message has in the transcript; fixed at acceptance, so that a restart can see whether it is there.
    pub message_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// Extra system text of this run only (S-23, A-14, A-15, P-53).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_text: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Limit from the moment the run begins, milliseconds; `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caused_by_run: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_run: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
    /// For an announce step the original request, for a report the child's label or task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Untrusted>,
    pub accepted_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Untrusted>,
    /// Visible text of the last assistant message of this run (S-40).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// A record of the sub-agent registry (LC-21).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentRecord {
    pub run_id: RunId,
    pub child_session_key: SessionKey,
    pub requester_session_key: SessionKey,
    pub controller_session_key: SessionKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester_origin: Option<super::session::DeliveryContext>,
    pub task: Untrusted,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Untrusted>,
    /// `keep` or `delete`.
    pub cleanup: super::tools::Cleanup,
    pub spawn_mode: super::tools::SpawnMode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_timeout_seconds: Option<u64>,
    pub created_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ChildOutcome>,
    /// `subagent-complete`, `subagent-error`, `subagent-killed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_result_text: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_result_captured_at: Option<i64>,
    /// The announce is settled: delivered, silent, or given up.
    #[serde(default)]
    pub cleanup_handled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup_completed_at: Option<i64>,
    #[serde(default)]
    pub announce_retry_count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_announce_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments_dir: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments_root_dir: Option<String>,
    #[serde(default)]
    pub retain_attachments_on_keep: bool,
    #[serde(flatten)]
    pub other: serde_json::Map<String, serde_json::Value>,
}

/// Outcome of a child (N-1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildOutcome {
    /// `ok`, `error`, `timeout`, `unknown`.
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Untrusted>,
}
