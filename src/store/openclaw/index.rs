//! One `sessions.json`: a JSON object, key → entry, read in one pass from borrowed text.
//!
//! Invariant: what is wrong with one member costs that member its meaning, never the entry; what is wrong with one
//! entry never costs another. Members of some size that nobody lists (`skillsSnapshot`, `systemPromptReport`) are
//! passed over, so that an entry in memory stays small; [`stored`] gives them. Absent on purpose: files.

use crate::model::key::{AgentId, SessionKey};
use crate::model::message::read_time;
use crate::model::session::{DeliveryContext, Entry, Origin};
use crate::text::Untrusted;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Unlisted members longer than this stay on disk.
const KEPT_BYTES: usize = 1024;

/// What an index holds, in file order; spellings of one key are not yet united.
#[derive(Default)]
pub(super) struct Index {
    pub entries: Vec<Entry>,
    /// Entries that are no object.
    pub skipped: usize,
}

/// Reads an index. `agent` owns it: keys without an agent are its.
///
/// # Errors
/// What is wrong with the text: not JSON, or not an object.
pub(super) fn read(text: &str, agent: &AgentId) -> Result<Index, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let index = reader.deserialize_map(IndexVisitor {
        agent,
        blank: Entry::new(SessionKey::global(), "", 0),
    })?;
    reader.end()?;
    Ok(index)
}

/// Reads one entry that is kept by itself; `None` for anything that is no object.
pub(super) fn entry(text: &str, key: SessionKey, agent: &AgentId) -> Option<Entry> {
    let mut entry = Entry::new(SessionKey::global(), "", 0);
    entry.key = key;
    let mut reader = serde_json::Deserializer::from_str(text);
    EntrySeed { agent, entry }.deserialize(&mut reader).ok()?
}

/// One entry with every member, as it is stored: of several spellings the one with this `updatedAt`.
pub(super) fn stored(
    text: &str,
    agent: &AgentId,
    key: &SessionKey,
    updated_at: i64,
) -> Option<Value> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let found = reader
        .deserialize_map(StoredVisitor { agent, key })
        .unwrap_or_default();
    let at = found.iter().position(|value| {
        let at = value.get("updatedAt").and_then(|at| time(&at.to_string()));
        at.unwrap_or(0) == updated_at
    });
    found.into_iter().nth(at.unwrap_or(0))
}

/// The key of an entry as this program says it: keys of old versions carry no agent.
pub(super) fn canonical(text: &str, agent: &AgentId) -> SessionKey {
    let key = SessionKey::foreign(text);
    let whole = matches!(key.as_str(), "global" | "unknown") || key.as_str().starts_with("agent:");
    if whole {
        key
    } else {
        SessionKey::of(agent, key.as_str())
    }
}

struct IndexVisitor<'a> {
    agent: &'a AgentId,
    /// Cloned for each entry: cheaper than making it.
    blank: Entry,
}

impl<'de> Visitor<'de> for IndexVisitor<'_> {
    type Value = Index;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of sessions")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Index, A::Error> {
        let mut index = Index::default();
        while let Some(name) = map.next_key_seed(TextSeed)? {
            let mut entry = self.blank.clone();
            entry.key = canonical(&name, self.agent);
            match map.next_value_seed(EntrySeed {
                agent: self.agent,
                entry,
            })? {
                Some(entry) => index.entries.push(entry),
                None => index.skipped += 1,
            }
        }
        Ok(index)
    }
}

struct StoredVisitor<'a> {
    agent: &'a AgentId,
    key: &'a SessionKey,
}

impl<'de> Visitor<'de> for StoredVisitor<'_> {
    type Value = Vec<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of sessions")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Value>, A::Error> {
        let mut found = Vec::new();
        while let Some(name) = map.next_key_seed(TextSeed)? {
            let raw: &RawValue = map.next_value()?;
            if canonical(&name, self.agent) == *self.key
                && let Ok(value) = serde_json::from_str(raw.get())
            {
                found.push(value);
            }
        }
        Ok(found)
    }
}

/// Reads an entry into a blank one; `None` for anything that is no object.
struct EntrySeed<'a> {
    agent: &'a AgentId,
    entry: Entry,
}

impl<'de> DeserializeSeed<'de> for EntrySeed<'_> {
    type Value = Option<Entry>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Option<Entry>, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for EntrySeed<'_> {
    type Value = Option<Entry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a session")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Option<Entry>, A::Error> {
        while let Some(name) = map.next_key_seed(TextSeed)? {
            if matches!(&*name, "skillsSnapshot" | "systemPromptReport") {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let raw = map.next_value::<&RawValue>()?.get();
            if !set(&mut self.entry, &name, raw, self.agent) && raw.len() <= KEPT_BYTES {
                self.entry.other.insert(name.into_owned(), any(raw));
            }
        }
        rename_old(&mut self.entry);
        Ok(Some(self.entry))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<Entry>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
    fn visit_unit<E>(self) -> Result<Option<Entry>, E> {
        Ok(None)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Option<Entry>, E> {
        Ok(None)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Option<Entry>, E> {
        Ok(None)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Option<Entry>, E> {
        Ok(None)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Option<Entry>, E> {
        Ok(None)
    }
    fn visit_str<E>(self, _: &str) -> Result<Option<Entry>, E> {
        Ok(None)
    }
}

/// Reads a member; false when it is not known or of the wrong type: then it is kept as it is.
fn set(entry: &mut Entry, name: &str, raw: &str, agent: &AgentId) -> bool {
    fn fill<T>(slot: &mut Option<T>, value: Option<T>) -> bool {
        let fits = value.is_some();
        if fits {
            *slot = value;
        }
        fits
    }
    fn put<T>(slot: &mut T, value: Option<T>) -> bool {
        value.map(|value| *slot = value).is_some()
    }
    let untrusted = || text(raw).map(Untrusted::from);
    let key = || text(raw).map(|key| canonical(&key, agent));
    match name {
        "sessionId" => put(&mut entry.session_id, text(raw)),
        "updatedAt" => put(&mut entry.updated_at, time(raw)),
        "sessionFile" => fill(&mut entry.session_file, text(raw)),
        "label" => fill(&mut entry.label, untrusted()),
        "displayName" => fill(&mut entry.display_name, untrusted()),
        "archivedAt" => fill(&mut entry.archived_at, time(raw)),
        "channel" => fill(&mut entry.channel, untrusted()),
        "chatType" => fill(&mut entry.chat_type, text(raw)),
        "groupId" => fill(&mut entry.group_id, untrusted()),
        "subject" => fill(&mut entry.subject, untrusted()),
        "groupChannel" => fill(&mut entry.group_channel, untrusted()),
        "space" => fill(&mut entry.space, untrusted()),
        "origin" => fill(&mut entry.origin, origin(raw)),
        "deliveryContext" => fill(&mut entry.delivery_context, delivery(raw)),
        "lastChannel" => fill(&mut entry.last_channel, untrusted()),
        "lastTo" => fill(&mut entry.last_to, id(&any(raw))),
        "lastAccountId" => fill(&mut entry.last_account_id, id(&any(raw))),
        "lastThreadId" => fill(&mut entry.last_thread_id, id(&any(raw))),
        "spawnedBy" => fill(&mut entry.spawned_by, key()),
        "spawnedWorkspaceDir" => fill(&mut entry.spawned_workspace_dir, text(raw)),
        "spawnDepth" => fill(
            &mut entry.spawn_depth,
            number(raw).and_then(|n| n.try_into().ok()),
        ),
        "subagentRole" => fill(&mut entry.subagent_role, text(raw)),
        "subagentControlScope" => fill(&mut entry.subagent_control_scope, text(raw)),
        "parentSessionKey" => fill(&mut entry.parent_session_key, key()),
        "systemSent" => fill(&mut entry.system_sent, flag(raw)),
        "abortedLastRun" => fill(&mut entry.aborted_last_run, flag(raw)),
        "status" => fill(&mut entry.status, word(raw)),
        "startedAt" => fill(&mut entry.started_at, time(raw)),
        "endedAt" => fill(&mut entry.ended_at, time(raw)),
        "runtimeMs" => fill(&mut entry.runtime_ms, count(raw)),
        "thinkingLevel" => fill(&mut entry.thinking_level, text(raw)),
        "verboseLevel" => fill(&mut entry.verbose_level, text(raw)),
        "reasoningLevel" => fill(&mut entry.reasoning_level, text(raw)),
        "elevatedLevel" => fill(&mut entry.elevated_level, text(raw)),
        "sendPolicy" => fill(&mut entry.send_policy, word(raw)),
        "providerOverride" => fill(&mut entry.provider_override, text(raw)),
        "modelOverride" => fill(&mut entry.model_override, text(raw)),
        "modelProvider" => fill(&mut entry.model_provider, text(raw)),
        "model" => fill(&mut entry.model, untrusted()),
        "inputTokens" => fill(&mut entry.input_tokens, count(raw)),
        "outputTokens" => fill(&mut entry.output_tokens, count(raw)),
        "totalTokens" => fill(&mut entry.total_tokens, count(raw)),
        "totalTokensFresh" => fill(&mut entry.total_tokens_fresh, flag(raw)),
        "contextTokens" => fill(&mut entry.context_tokens, count(raw)),
        "estimatedCostUsd" => fill(
            &mut entry.estimated_cost_usd,
            serde_json::from_str(raw).ok().filter(|cost| *cost >= 0.0),
        ),
        _ => false,
    }
}

/// Names of old versions (D-7); a new one beside it wins.
fn rename_old(entry: &mut Entry) {
    let slots: [(&str, &mut Option<Untrusted>); 3] = [
        ("provider", &mut entry.channel),
        ("lastProvider", &mut entry.last_channel),
        ("room", &mut entry.group_channel),
    ];
    for (old, slot) in slots {
        if slot.is_none()
            && let Some(Value::String(text)) = entry.other.get(old)
        {
            *slot = Some(text.as_str().into());
            entry.other.shift_remove(old);
        }
    }
}

/// A string. Halves of surrogate pairs, which JavaScript writes when it cuts a text, become replacement characters.
fn text(raw: &str) -> Option<String> {
    if !raw.starts_with('"') {
        return None;
    }
    let mut reader = serde_json::Deserializer::from_str(raw);
    TextSeed.deserialize(&mut reader).ok().map(Cow::into_owned)
}

/// A number, cut to a whole one.
fn number(raw: &str) -> Option<i64> {
    serde_json::from_str::<i64>(raw).ok().or_else(|| {
        serde_json::from_str::<f64>(raw)
            .ok()
            .filter(|number| number.is_finite())
            .map(|number| number as i64)
    })
}

/// A time in seconds, milliseconds or text; nonsense is none, never 1970.
fn time(raw: &str) -> Option<i64> {
    read_time(&any(raw))
}

/// A number of tokens or milliseconds; an impossible one is none.
fn count(raw: &str) -> Option<i64> {
    const MOST: i64 = 1_000_000_000_000;
    number(raw).filter(|count| (0..=MOST).contains(count))
}

fn flag(raw: &str) -> Option<bool> {
    serde_json::from_str(raw).ok()
}

/// A word of a closed set.
fn word<'a, T: serde::Deserialize<'a>>(raw: &'a str) -> Option<T> {
    serde_json::from_str(raw).ok()
}

/// Any value; one that cannot be held is kept as its text.
fn any(raw: &str) -> Value {
    serde_json::from_str(raw)
        .unwrap_or_else(|_| Value::String(text(raw).unwrap_or_else(|| raw.into())))
}

/// An id of a channel: a text, or a number cut to a whole one (L-61).
fn id(value: &Value) -> Option<Untrusted> {
    match value {
        Value::String(text) => Some(text.trim().into()),
        Value::Number(number) => number
            .as_i64()
            .or_else(|| number.as_f64().map(|n| n as i64))
            .map(|n| n.to_string().into()),
        _ => None,
    }
}

fn object(raw: &str) -> Option<serde_json::Map<String, Value>> {
    match any(raw) {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

fn delivery(raw: &str) -> Option<DeliveryContext> {
    let object = object(raw)?;
    let part = |name: &str| object.get(name).and_then(id);
    Some(DeliveryContext {
        channel: part("channel"),
        to: part("to"),
        account_id: part("accountId"),
        thread_id: part("threadId"),
    })
}

fn origin(raw: &str) -> Option<Origin> {
    let mut other = object(raw)?;
    let mut text = |name: &str| {
        let found = other.get(name).and_then(Value::as_str).map(Untrusted::from);
        if found.is_some() {
            other.shift_remove(name);
        }
        found
    };
    Some(Origin {
        label: text("label"),
        provider: text("provider"),
        account_id: text("accountId"),
        other,
    })
}

/// Reads a JSON string through its bytes: the only way that lets half a surrogate pair pass.
struct TextSeed;

impl<'de> DeserializeSeed<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_bytes(self)
    }
}

impl<'de> Visitor<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(String::from_utf8_lossy(bytes))
    }
    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(String::from_utf8_lossy(bytes).into_owned()))
    }
}
