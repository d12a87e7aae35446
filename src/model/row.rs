//! From a stored session to a listed one (§3.3, §2.4): everything that can be said without a store.
//!
//! Absent on purpose: who may see what (it comes in as a closure), messages, and titles that need a transcript.

use super::key::{AgentId, Kind, KindFacts, SessionKey};
use super::session::{Entry, Origin, Row, Status};
use crate::text::Untrusted;
use serde_json::Value;
use std::path::PathBuf;

/// What a row depends on besides its entry.
pub struct RowFacts<'a> {
    /// The agent whose words display keys are in; `None` for a person (K-14, V-45).
    pub own: Option<&'a AgentId>,
    /// `session.mainKey`, canonical.
    pub main_key: &'a str,
    /// Model of the agent when neither a run nor an override names one (L-36).
    pub default_model: Option<&'a str>,
    /// Display keys of direct children the requester may see (L-47).
    pub children: Vec<Untrusted>,
    /// Absolute (L-42).
    pub transcript_path: Option<PathBuf>,
    /// Whether the requester may see a session that the row names (L-46).
    pub may_see: &'a dyn Fn(&SessionKey) -> bool,
    /// Milliseconds since 1970; a running time counts on to here (L-49).
    pub now_ms: i64,
    /// Runs that wait in the session's queue.
    pub queued: Option<u32>,
}

/// Makes a row. `derivedTitle`, `lastMessagePreview` and `messages` are left to the caller.
pub fn row(entry: &Entry, facts: &RowFacts<'_>) -> Row {
    let kind = kind(entry, facts.main_key);
    let route = entry.route();
    let display = |key: &SessionKey| Untrusted::new(key.display(facts.own, facts.main_key));
    let seen = |key: &Option<SessionKey>| {
        let key = key.as_ref().filter(|key| !key.as_str().is_empty())?;
        (facts.may_see)(key).then(|| display(key))
    };
    let running = entry.status == Some(Status::Running);
    let runtime_ms = match (running, entry.started_at) {
        (true, Some(started)) => Some((facts.now_ms - started).max(0)),
        _ => entry.runtime_ms.or_else(|| {
            let (started, ended) = (entry.started_at?, entry.ended_at?);
            Some((ended - started).max(0))
        }),
    };
    Row {
        key: display(&entry.key),
        kind,
        channel: channel(entry, kind).into(),
        label: filled(&entry.label),
        display_name: display_name(entry, kind),
        derived_title: None,
        last_message_preview: None,
        updated_at: (entry.updated_at > 0).then_some(entry.updated_at),
        session_id: entry.session_id.clone(),
        agent_id: entry.key.agent(),
        model: filled(&entry.model)
            .or_else(|| override_of(entry))
            .or_else(|| facts.default_model.map(Untrusted::from)),
        model_provider: entry.model_provider.as_deref().map(Untrusted::from),
        context_tokens: entry.context_tokens.filter(|n| *n >= 0),
        total_tokens: entry
            .total_tokens
            .filter(|n| *n >= 0 && entry.total_tokens_fresh != Some(false)),
        input_tokens: entry.input_tokens.filter(|n| *n >= 0),
        output_tokens: entry.output_tokens.filter(|n| *n >= 0),
        estimated_cost_usd: entry.estimated_cost_usd.filter(|cost| cost.is_finite()),
        thinking_level: entry.thinking_level.clone(),
        verbose_level: entry.verbose_level.clone(),
        reasoning_level: entry.reasoning_level.clone(),
        elevated_level: entry.elevated_level.clone(),
        fast_mode: entry.other.get("fastMode").and_then(Value::as_bool),
        response_usage: entry
            .other
            .get("responseUsage")
            .and_then(Value::as_str)
            .map(Untrusted::from),
        system_sent: entry.system_sent,
        aborted_last_run: entry.aborted_last_run,
        send_policy: entry.send_policy,
        last_channel: route.channel.clone(),
        last_to: route.to.clone(),
        last_account_id: filled(&entry.last_account_id).or_else(|| route.account_id.clone()),
        origin: origin(entry),
        transcript_path: facts
            .transcript_path
            .as_ref()
            .map(|path| Untrusted::new(path.to_string_lossy())),
        spawned_by: seen(&entry.spawned_by),
        parent_session_key: seen(&entry.parent_session_key),
        child_sessions: facts.children.clone(),
        status: entry.status,
        started_at: entry.started_at,
        ended_at: entry.ended_at.filter(|_| !running),
        runtime_ms,
        archived_at: entry.archived_at,
        message_count: entry.message_count,
        queued: facts.queued,
        messages: None,
        messages_omitted: None,
        delivery_context: (!route.is_empty()).then_some(route),
    }
}

/// Kind of an entry (§2.3).
pub fn kind(entry: &Entry, main_key: &str) -> Kind {
    let chat_type = entry
        .chat_type
        .as_deref()
        .map(|word| word.trim().to_lowercase());
    entry.key.kind(&KindFacts {
        main_key,
        chat_type: chat_type.as_deref(),
        set_origin: entry.set_origin,
    })
}

/// Channel of a row (§2.4).
pub fn channel(entry: &Entry, kind: Kind) -> String {
    let stored = || filled(&entry.channel);
    let delivered = || entry.route().channel;
    let direct = entry.key.chat_type() == Some("direct")
        || matches!(
            entry.chat_type.as_deref().map(str::trim),
            Some("direct" | "dm")
        );
    let found = match kind {
        Kind::Cron | Kind::Hook | Kind::Node => return "internal".into(),
        Kind::Group => stored()
            .or_else(|| filled(&entry.origin.as_ref()?.provider))
            .or_else(|| filled(&entry.last_channel))
            .or_else(|| entry.key.group_parts()?.channel.map(Untrusted::from)),
        Kind::Other if !direct => stored().or_else(delivered),
        Kind::Main | Kind::Other => delivered().or_else(stored),
    };
    found.map_or_else(|| "unknown".into(), |text| text.raw().trim().to_lowercase())
}

/// A text that says something, trimmed.
fn filled(text: &Option<Untrusted>) -> Option<Untrusted> {
    let text = text.as_ref()?.raw().trim();
    (!text.is_empty()).then(|| text.into())
}

fn override_of(entry: &Entry) -> Option<Untrusted> {
    let model = entry.model_override.as_deref()?.trim();
    (!model.is_empty()).then(|| model.into())
}

/// L-51: provider and account, nothing else of the origin.
fn origin(entry: &Entry) -> Option<Origin> {
    let stored = entry.origin.as_ref()?;
    let origin = Origin {
        provider: filled(&stored.provider),
        account_id: filled(&stored.account_id),
        ..Origin::default()
    };
    (origin != Origin::default()).then_some(origin)
}

/// L-33.
fn display_name(entry: &Entry, kind: Kind) -> Option<Untrusted> {
    filled(&entry.display_name)
        .or_else(|| (kind == Kind::Group).then(|| group_name(entry).into()))
        .or_else(|| filled(&entry.label))
        .or_else(|| filled(&entry.origin.as_ref()?.label))
}

/// `<channel>:g-<slug>` for a group without a name of its own.
fn group_name(entry: &Entry) -> String {
    let parts = entry.key.group_parts();
    let channel = filled(&entry.channel)
        .map(|c| c.raw().to_lowercase())
        .or_else(|| parts?.channel.map(str::to_owned))
        .unwrap_or_else(|| "group".into());
    let group_channel = filled(&entry.group_channel);
    let space = filled(&entry.space);
    let id = filled(&entry.group_id)
        .or_else(|| parts.map(|p| p.id.into()))
        .unwrap_or_else(|| entry.key.as_str().into());
    let detail = match (&group_channel, &space) {
        (Some(name), Some(space)) => {
            let hash = if name.raw().starts_with('#') { "" } else { "#" };
            format!("{}{hash}{}", space.raw(), name.raw())
        }
        _ => group_channel
            .clone()
            .or_else(|| filled(&entry.subject))
            .or(space)
            .unwrap_or(id)
            .into_raw(),
    };
    let mut slug = slug(&detail);
    if group_channel.is_none() {
        slug = slug.trim_start_matches('#').to_owned();
    }
    if slug.is_empty() {
        return channel;
    }
    if slug.starts_with('@') || slug.contains('#') || slug.starts_with("g-") {
        return format!("{channel}:{slug}");
    }
    format!("{channel}:g-{slug}")
}

/// Lower case, everything but letters, digits and `#@._+-` as one `-`.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.trim().to_lowercase().chars() {
        let fits = c.is_ascii_alphanumeric() || "#@._+".contains(c);
        if fits {
            slug.push(c);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_matches(['-', '.']).to_owned()
}
