//! What an engine runs: the [`Agent`] trait and its implementations.
//!
//! An agent answers one *step* (one model call); the engine executes the tool calls of the answer, and asks again with
//! their results, until an answer has none. An agent is a future: dropping it aborts it. Absent on purpose: stores,
//! policies, queues; an agent never sees them.

pub mod scripted;

use crate::model::key::{AgentId, SessionKey};
use crate::model::message::Usage;
use crate::text::Untrusted;
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::sync::Arc;

/// Something that answers.
pub trait Agent: Send + Sync {
    /// Answers one step. Text is told as it grows through `out`.
    ///
    /// # Errors
    /// [`AgentError`] ends the run as failed.
    fn step<'a>(
        &'a self,
        request: &'a Step,
        out: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<Answer, AgentError>>;

    /// Runs a tool that the agent brings along; `None` when it has no tool of that name. The engine's own tools come
    /// first.
    fn tool<'a>(
        &'a self,
        _session: &'a SessionKey,
        _call: &'a ToolCall,
    ) -> Option<BoxFuture<'a, ToolOutcome>> {
        None
    }
}

/// A shared agent.
pub type SharedAgent = Arc<dyn Agent>;

/// Where an agent tells how far it is.
pub trait Progress: Send + Sync {
    /// The whole text so far.
    fn text(&self, so_far: &str);
    /// The whole thinking so far.
    fn thinking(&self, so_far: &str);
}

/// What kind of message caused the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// A message of a person, a channel, a `sessions_send`, or a sub-agent's task.
    Message,
    /// A turn of the reply-back loop.
    Reply,
    /// The announce step.
    Announce,
    /// A child's report (N-14).
    Report,
}

/// One step to answer.
#[derive(Debug, Clone)]
pub struct Step {
    pub session: SessionKey,
    pub agent: AgentId,
    pub kind: StepKind,
    /// The bare text of the message that caused the run, as stored.
    pub message: Untrusted,
    /// For an announce step, the original request; for a report, the child's label or task.
    pub about: Option<Untrusted>,
    /// Extra system text of this run.
    pub system_text: Option<Untrusted>,
    /// `provider/model` chosen for the session.
    pub model: Option<String>,
    pub thinking: Option<String>,
    /// Names of the tools the agent may call.
    pub tools: Vec<String>,
    /// Results of the tool calls of this run so far, in order.
    pub results: Vec<ToolOutcome>,
    /// The context of the conversation, oldest first, as stored messages.
    pub context: Arc<Vec<Value>>,
}

/// Result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutcome {
    pub call_id: String,
    pub name: String,
    pub text: Untrusted,
    pub is_error: bool,
}

/// A tool call an agent asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: Value,
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    pub thinking: Option<Untrusted>,
    pub text: Untrusted,
    pub calls: Vec<ToolCall>,
    pub usage: Usage,
    /// What answered, for the transcript: provider and model.
    pub provider: String,
    pub model: String,
}

/// Why an agent failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.clean())]
pub struct AgentError(pub Untrusted);
