//! A session as it is stored (*entry*) and as it is listed (*row*).
//!
//! An [`Entry`] keeps members it does not know (D-3). Absent on purpose: where it is stored.

use super::key::{AgentId, Kind, SessionKey};
use crate::text::Untrusted;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Where replies of a session go (L-41, L-60).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeliveryContext {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<Untrusted>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub to: Option<Untrusted>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub account_id: Option<Untrusted>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub thread_id: Option<Untrusted>,
}

/// A text that may be written as a number (L-61: cut to a whole one).
fn text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Untrusted>, D::Error> {
    match Option::<Value>::deserialize(from)? {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.into())),
        Some(Value::Number(number)) => Ok(Some(
            number
                .as_i64()
                .or_else(|| number.as_f64().map(|n| n.trunc() as i64))
                .map_or_else(|| number.to_string(), |n| n.to_string())
                .into(),
        )),
        Some(_) => Err(serde::de::Error::custom("expected a text or a number")),
    }
}

impl DeliveryContext {
    /// Normal form of a part: trimmed, blank members dropped, the channel in lower case (L-60).
    #[must_use]
    pub fn normal(&self) -> Self {
        let part = |text: &Option<Untrusted>| {
            let text = text.as_ref()?.raw().trim();
            (!text.is_empty()).then(|| Untrusted::from(text))
        };
        Self {
            channel: part(&self.channel).map(|c| c.raw().to_lowercase().into()),
            to: part(&self.to),
            account_id: part(&self.account_id),
            thread_id: part(&self.thread_id),
        }
    }

    /// Nothing in it.
    pub fn is_empty(&self) -> bool {
        self.channel.is_none()
            && self.to.is_none()
            && self.account_id.is_none()
            && self.thread_id.is_none()
    }
}

/// Where a session came from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Origin {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<Untrusted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Untrusted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<Untrusted>,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Override of the send policy (SP-20).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SendPolicy {
    Allow,
    Deny,
}

impl SendPolicy {
    /// The wire word.
    pub const fn as_str(self) -> &'static str {
        match self {
            SendPolicy::Allow => "allow",
            SendPolicy::Deny => "deny",
        }
    }
}

/// A stored session (15.1). Every member but the key, id and time is optional; what is not listed here is in `other`
/// and survives every change (D-3).
///
/// A member that does not have the type it should have is kept in `other` and counts as absent (SP-20, D-3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct Entry {
    /// Everything else, unchanged. First, so that a member we have set wins over one of the same name that was not
    /// understood.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// Canonical key. Not a member of the stored object: there the key is the name of the entry.
    #[serde(skip, default = "SessionKey::global")]
    pub key: SessionKey,
    #[serde(default)]
    pub session_id: String,
    /// Milliseconds since 1970; 0 when the store has none.
    #[serde(default)]
    pub updated_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_type: Option<String>,
    /// A hook, node or cron session with a key set by hand (K-26).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_origin: Option<Kind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_id: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_channel: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_context: Option<DeliveryContext>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_channel: Option<Untrusted>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "text"
    )]
    pub last_to: Option<Untrusted>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "text"
    )]
    pub last_account_id: Option<Untrusted>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "text"
    )]
    pub last_thread_id: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<SessionKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_workspace_dir: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawn_depth: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_role: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_control_scope: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session_key: Option<SessionKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_sent: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted_last_run: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbose_level: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_level: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elevated_level: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_policy: Option<SendPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_override: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_override: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens_fresh: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_cost_usd: Option<f64>,
    /// Number of messages in the transcript (AM-10); unknown in foreign stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_count: Option<i64>,
    /// The first user message that did not come from another session, cut (L-52, AM-10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_user_text: Option<Untrusted>,
    /// Text of the newest user or assistant message, one line, cut (L-53, AM-10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_text: Option<Untrusted>,
}

impl Serialize for Entry {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Entry::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let members = Map::deserialize(from)?;
        let read =
            |members: &Map<String, Value>| Entry::deserialize(&Value::Object(members.clone()));
        if let Ok(entry) = read(&members) {
            return Ok(entry);
        }
        let (fits, aside): (Map<_, _>, Map<_, _>) =
            members.into_iter().partition(|(name, value)| {
                read(&Map::from_iter([(name.clone(), value.clone())])).is_ok()
            });
        let mut entry = read(&fits).map_err(serde::de::Error::custom)?;
        entry.other.extend(aside);
        Ok(entry)
    }
}

impl Entry {
    /// A new session without anything but its identity.
    pub fn new(key: SessionKey, session_id: impl Into<String>, updated_at: i64) -> Self {
        let object = serde_json::json!({ "sessionId": session_id.into(), "updatedAt": updated_at });
        // An object with these two members fits: every other member has a default.
        let mut entry: Entry = serde_json::from_value(object).expect("identity alone is an entry");
        entry.key = key;
        entry
    }

    /// Where replies go, in normal form (L-60): the `last*` members first, filled from `deliveryContext`, unless the two
    /// name different channels.
    pub fn route(&self) -> DeliveryContext {
        let last = DeliveryContext {
            channel: self.last_channel.clone(),
            to: self.last_to.clone(),
            account_id: self.last_account_id.clone(),
            thread_id: self.last_thread_id.clone(),
        }
        .normal();
        let stored = self.delivery_context.clone().unwrap_or_default().normal();
        let differ =
            last.channel.is_some() && stored.channel.is_some() && last.channel != stored.channel;
        if differ {
            return last;
        }
        DeliveryContext {
            channel: last.channel.or(stored.channel),
            to: last.to.or(stored.to),
            account_id: last.account_id.or(stored.account_id),
            thread_id: last.thread_id.or(stored.thread_id),
        }
    }

    /// The agent the session belongs to; the default agent's id where the key has none.
    pub fn agent(&self) -> AgentId {
        self.key.agent().unwrap_or_else(AgentId::main)
    }
}

/// State of the last run of a session (L-48).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Running,
    Done,
    Failed,
    Killed,
    Timeout,
}

impl Status {
    /// The wire word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Done => "done",
            Status::Failed => "failed",
            Status::Killed => "killed",
            Status::Timeout => "timeout",
        }
    }
}

/// A listed session (§3.3): what `sessions_list` gives and every front door shows. Keys are display keys (K-14).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub key: Untrusted,
    pub kind: Kind,
    pub channel: Untrusted,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived_title: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message_preview: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<i64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbose_level: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_level: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elevated_level: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast_mode: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_usage: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_sent: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted_last_run: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_policy: Option<SendPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_channel: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_to: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_account_id: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_context: Option<DeliveryContext>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript_path: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session_key: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_sessions: Vec<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_count: Option<i64>,
    /// Runs that wait in the session's queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_omitted: Option<bool>,
}
