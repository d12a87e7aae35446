//! Parameters and results of the session tools, in their wire shapes (E-14, E-16).
//!
//! Arguments are read tolerantly: strings trimmed, blank counts as absent, snake case accepted, numbers as text
//! accepted. Members without a value are left out of results, never `null`. Absent on purpose: what the tools do.

use super::session::Row;
use crate::text::Untrusted;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The tools: the five of the requirement documents, and those of chapter 18.
pub const NAMES: [&str; 8] = [
    "sessions_list",
    "sessions_history",
    "sessions_send",
    "sessions_spawn",
    "agents_list",
    "session_status",
    "subagents",
    "sessions_yield",
];

/// Arguments of a call, with the reading rules of E-16.
#[derive(Debug, Clone, Copy)]
pub struct Arguments<'a>(pub &'a Map<String, Value>);

impl<'a> Arguments<'a> {
    /// A member by its camel-case name, else by its snake-case name.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        let given = |name: &str| self.0.get(name).filter(|value| !value.is_null());
        given(name).or_else(|| given(&snake(name)))
    }
    /// Trimmed; blank counts as absent. Anything but a string or number counts as absent.
    pub fn text(&self, name: &str) -> Option<String> {
        let text = match self.get(name)? {
            Value::String(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        (!text.is_empty()).then_some(text)
    }
    /// A finite number, also from text; not-a-number counts as absent.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.get(name)? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        }
        .filter(|number: &f64| number.is_finite())
    }
    /// A whole number cut and clamped to a range.
    pub fn whole(&self, name: &str, min: i64, max: i64) -> Option<i64> {
        self.number(name)
            .map(|n| (n.trunc() as i64).clamp(min, max))
    }
    /// Only `true` is true.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == Some(&Value::Bool(true))
    }
    /// A list of strings; one string is a list of one.
    pub fn list(&self, name: &str) -> Vec<String> {
        match self.get(name) {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(many)) => many
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            _ => Vec::new(),
        }
    }
    /// Seconds: fractions cut, between 0 and 1 counts as 1, negative becomes 0 (S-3).
    pub fn seconds(&self, name: &str) -> Option<u64> {
        self.number(name).map(|n| {
            if n > 0.0 && n < 1.0 {
                1
            } else {
                n.max(0.0) as u64
            }
        })
    }
}

fn snake(name: &str) -> String {
    name.chars().fold(String::new(), |mut out, c| {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
        out
    })
}

/// `run` or `session` (§8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpawnMode {
    #[default]
    Run,
    Session,
}

/// What becomes of a child after its announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cleanup {
    #[default]
    Keep,
    Delete,
}

/// Result of `sessions_list` (L-25).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListResult {
    pub count: usize,
    pub sessions: Vec<Row>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_applied: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_limit_applied: Option<usize>,
}

/// Result of `sessions_history` (H-40).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryResult {
    pub session_key: Untrusted,
    pub messages: Vec<Value>,
    pub truncated: bool,
    pub dropped_messages: bool,
    pub content_truncated: bool,
    pub content_redacted: bool,
    pub bytes: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_messages: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

/// `status` of a tool result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    Ok,
    Accepted,
    Timeout,
    Error,
    Forbidden,
}

/// Result of `sessions_send` (§5.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendResult {
    pub run_id: String,
    pub status: ToolStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
}

/// What follows a send (S-30 to S-32).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// `pending` or `skipped`.
    pub status: String,
    /// `announce`.
    pub mode: String,
}

/// Result of `sessions_spawn` (P-60).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnResult {
    pub status: ToolStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_session_key: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<SpawnMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_applied: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Receipt>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<Untrusted>,
}

/// Receipt for attachments (T-20).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    pub count: usize,
    pub total_bytes: u64,
    pub files: Vec<ReceiptFile>,
    pub rel_dir: String,
}

/// One file of a receipt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReceiptFile {
    pub name: Untrusted,
    pub bytes: u64,
    pub sha256: String,
}

/// Result of `agents_list` (G-1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentsResult {
    pub requester: String,
    pub allow_any: bool,
    pub agents: Vec<AgentRow>,
}

/// One agent (G-3 to G-7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRow {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Untrusted>,
    pub configured: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Untrusted>,
}
