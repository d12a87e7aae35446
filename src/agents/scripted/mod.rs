//! Deterministic agents: the `directives` script (tests, demos) and the built-in cast.
//!
//! Both answer from the step alone: the same step gives the same answer, at the same pace of tokio's clock. Absent on
//! purpose: models, files, and any knowledge of sessions beyond what a step tells; what the cast does to other
//! sessions it does through the session tools, like any agent.

mod cast;
mod directives;

pub use cast::{Cast, Cue, CueKind, ScriptError, Seed};
pub use directives::Directives;

use super::ToolCall;
use serde_json::Value;
use std::time::Duration;

/// At most this many growing texts are told for one answer, whatever its length.
const MAX_PARTS: usize = 400;

/// The longest time a script may take; more would overflow timers.
const MAX_WAIT_S: f64 = 86_400.0;

/// Seconds as a script gives them; nonsense is no time at all.
fn seconds(value: f64) -> Duration {
    if value.is_finite() && value > 0.0 {
        Duration::from_secs_f64(value.min(MAX_WAIT_S))
    } else {
        Duration::ZERO
    }
}

/// Tells a text as it grows, word by word, so that it is whole after `over`.
async fn stream(text: &str, over: Duration, tell: impl Fn(&str)) {
    if text.is_empty() {
        tokio::time::sleep(over).await;
        return;
    }
    if over.is_zero() {
        tell(text);
        return;
    }
    let ends: Vec<usize> = text
        .char_indices()
        .filter(|(_, c)| c.is_whitespace())
        .map(|(at, c)| at + c.len_utf8())
        .filter(|end| *end < text.len())
        .chain([text.len()])
        .collect();
    let stride = ends.len().div_ceil(MAX_PARTS);
    let parts = ends.len().div_ceil(stride);
    let pause = over / u32::try_from(parts).unwrap_or(u32::MAX);
    let last = ends.len() - 1;
    for (at, end) in ends.iter().enumerate() {
        if at % stride == stride - 1 || at == last {
            tell(&text[..*end]);
            tokio::time::sleep(pause).await;
        }
    }
}

/// A call with an id of its own: a transcript pairs calls and results by it, over all runs.
fn call(name: impl Into<String>, arguments: Value) -> ToolCall {
    ToolCall {
        id: format!("call_{}", uuid::Uuid::now_v7().simple()),
        name: name.into(),
        arguments,
    }
}
