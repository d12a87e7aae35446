//! From what a caller writes to a session: keys, ids, labels, and whether the caller may see it (§2.5, chapter 13).
//!
//! Everything the tools and front doors know about existence goes through here, so that a refusal never tells more
//! than the caller brought along (V-40, V-41). Absent on purpose: transcripts; nothing here writes.

use super::context::Context;
use crate::config::Settings;
use crate::model::key::{self, AgentId, SessionKey};
use crate::model::session::Entry;
use crate::model::tools::ToolStatus;
use crate::model::visibility::{self, Cross, Denial, Doing, Level, Relation};
use crate::store::{Archived, Query, Sessions, StoreError};
use crate::text::Untrusted;
use serde_json::{Value, json};

/// A session the caller may use. `entry` is `None` for a well-formed key without a session (H-12, S-13).
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Canonical (K-15).
    pub key: SessionKey,
    pub entry: Option<Entry>,
}

/// Why there is no target.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// `Error` or `Forbidden`.
    pub status: ToolStatus,
    /// For the caller; says nothing about the target beyond what the caller gave (V-40).
    pub error: String,
    pub why: Why,
    /// The canonical key, when the caller named the session by a key (S-15).
    pub key: Option<SessionKey>,
}

/// Reason of a refusal, for front doors that answer with codes of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// No session key, or both key and label.
    Usage,
    Malformed,
    NotFound,
    Ambiguous,
    Denied,
    Store,
}

impl Refusal {
    fn error(why: Why, error: impl Into<String>) -> Self {
        Self {
            status: ToolStatus::Error,
            error: error.into(),
            why,
            key: None,
        }
    }

    fn forbidden(error: impl Into<String>) -> Self {
        Self {
            status: ToolStatus::Forbidden,
            error: error.into(),
            why: Why::Denied,
            key: None,
        }
    }

    /// `{ status, error }` and nothing else (H-11).
    pub fn payload(&self) -> Value {
        json!({ "status": self.status, "error": self.error })
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::error(Why::Store, error.to_string())
    }
}

/// Payload of a call with unusable arguments (E-15a).
pub fn usage_error(tool: &str, error: &str) -> Value {
    json!({ "status": "error", "tool": tool, "error": error })
}

/// Which part of a store can hold what a caller may see; [`Access::sees`] decides on each session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach<'a> {
    /// Everything is seen (V-45).
    All,
    /// This session and those it spawned.
    Tree(&'a SessionKey),
    /// Sessions of this agent, and `global`.
    Agent(&'a AgentId),
    /// Anything, by the policy.
    Any,
}

/// What a caller may see (chapter 13), worked out once per call.
#[derive(Debug, Clone)]
pub struct Access<'a> {
    settings: &'a Settings,
    context: &'a Context,
    requester: SessionKey,
    level: Level,
    restricted: bool,
}

impl<'a> Access<'a> {
    /// For the caller of a context.
    pub fn of(settings: &'a Settings, context: &'a Context) -> Self {
        let spawned_only = settings.sandbox_spawned_only;
        Self {
            requester: canonical(settings, &context.requester),
            level: settings.visibility.clamped(context.sandboxed, spawned_only),
            restricted: context.sandboxed
                && spawned_only
                && !context.person
                && !context.requester.is_subagent(),
            settings,
            context,
        }
    }

    /// V-10. `entry` is needed to know a child; without one nothing is spawned.
    fn relation(&self, key: &SessionKey, entry: Option<&Entry>) -> Relation {
        let parent = entry.and_then(|entry| entry.spawned_by.as_ref());
        Relation {
            same: *key == self.requester,
            own: *key == SessionKey::global() || key.agent().as_ref() == Some(&self.context.agent),
            spawned: parent.is_some_and(|by| canonical(self.settings, by) == self.requester),
        }
    }

    /// The cross-agent policy for a target (V-4).
    fn cross(&self, target: &AgentId) -> Cross {
        self.settings.cross_agent.check(&self.context.agent, target)
    }

    /// V-20 to V-26 for a canonical key and its entry, if there is one. A person is denied nothing (V-45).
    pub fn denial(&self, key: &SessionKey, entry: Option<&Entry>) -> Option<Denial> {
        if self.context.person {
            return None;
        }
        let cross = key.agent().map_or(Cross::Off, |agent| self.cross(&agent));
        visibility::check(self.level, self.relation(key, entry), cross)
    }

    /// Where to look for what may be seen.
    pub fn reach(&self) -> Reach<'_> {
        match self.level {
            _ if self.context.person => Reach::All,
            Level::SelfOnly | Level::Tree => Reach::Tree(&self.requester),
            Level::Agent => Reach::Agent(&self.context.agent),
            Level::All => Reach::Any,
        }
    }

    /// Whether a stored session may be seen.
    pub fn sees(&self, entry: &Entry) -> bool {
        self.denial(&canonical(self.settings, &entry.key), Some(entry))
            .is_none()
    }

    /// Outside of what restricted mode knows at all (V-5).
    fn is_hidden(&self, key: &SessionKey, entry: Option<&Entry>) -> bool {
        let relation = self.relation(key, entry);
        self.restricted && !relation.same && !relation.spawned
    }

    /// Restricted mode first, then the level (H-10).
    fn admit(
        &self,
        key: SessionKey,
        entry: Option<Entry>,
        given: &str,
        doing: Doing,
    ) -> Result<Target, Refusal> {
        if self.is_hidden(&key, entry.as_ref()) {
            return Err(hidden(given));
        }
        match self.denial(&key, entry.as_ref()) {
            Some(denial) => Err(Refusal::forbidden(denial.text(doing))),
            None => Ok(Target { key, entry }),
        }
    }

    /// "Not found" in the words that fit the caller.
    fn nothing(&self, given: &str) -> Refusal {
        if self.restricted {
            return hidden(given);
        }
        Refusal::error(
            Why::NotFound,
            format!("no session \"{given}\" was found; sessions_list shows the sessions there are"),
        )
    }

    /// The display keys of those sessions that the caller may see.
    fn visible_keys(&self, entries: &[Entry]) -> String {
        let keys: Vec<String> = entries
            .iter()
            .filter(|entry| self.sees(entry))
            .map(|entry| {
                entry
                    .key
                    .display(self.context.own(), &self.settings.main_key)
            })
            .collect();
        keys.join(", ")
    }
}

fn hidden(given: &str) -> Refusal {
    Refusal::forbidden(format!(
        "session \"{given}\" is not visible from this sandboxed session"
    ))
}

/// Which stored sessions a caller may see, as a filter for lists (L-22).
pub fn visible_filter<'a>(
    settings: &'a Settings,
    context: &'a Context,
) -> impl Fn(&Entry) -> bool + 'a {
    let access = Access::of(settings, context);
    move |entry| access.sees(entry)
}

/// The one key of a session that has several: every form of an agent's main session is one (K-9, K-11, K-16).
pub fn canonical(settings: &Settings, key: &SessionKey) -> SessionKey {
    match key.agent() {
        Some(agent) if settings.is_main(key) => settings.main_session(&agent),
        _ => key.clone(),
    }
}

/// The session under a canonical key, also when its store spells it otherwise (K-16, K-6). Reserved keys name nothing
/// (K-12), but `global` where it is the one session (K-11).
///
/// # Errors
/// What the store says.
pub fn stored(
    store: &dyn Sessions,
    settings: &Settings,
    key: &SessionKey,
) -> Result<Option<Entry>, StoreError> {
    if is_unnameable(settings, key) {
        return Ok(None);
    }
    if let Some(entry) = store.entry(key)? {
        return Ok(Some(entry));
    }
    let other = match key.agent() {
        Some(agent) if settings.is_main(key) => Some(SessionKey::of(&agent, "main")),
        _ => key.other_direct_spelling(),
    };
    match other.filter(|other| other != key) {
        Some(other) => store.entry(&other),
        None => Ok(None),
    }
}

/// How deep a session was spawned (K-8): as stored; else one more than its parent; else as its key looks. A circle of
/// parents ends where it began.
///
/// # Errors
/// What the store says.
pub fn spawn_depth(
    store: &dyn Sessions,
    settings: &Settings,
    key: &SessionKey,
) -> Result<u32, StoreError> {
    let mut seen = Vec::new();
    let mut key = canonical(settings, key);
    loop {
        let entry = stored(store, settings, &key)?;
        let steps = u32::try_from(seen.len()).unwrap_or(u32::MAX);
        if let Some(depth) = entry.as_ref().and_then(|entry| entry.spawn_depth) {
            return Ok(depth.saturating_add(steps));
        }
        let parent = entry
            .and_then(|entry| entry.spawned_by)
            .map(|parent| canonical(settings, &parent));
        seen.push(key.clone());
        match parent {
            Some(parent) if !seen.contains(&parent) => key = parent,
            _ => return Ok(key.depth_by_shape().saturating_add(steps)),
        }
    }
}

/// Reserved, and not the one session of scope `global`.
pub fn is_unnameable(settings: &Settings, key: &SessionKey) -> bool {
    key.is_reserved() && !(settings.scope_global && *key == SessionKey::global())
}

/// From a key in any form, or a session id, to a session the caller may use (§2.5, chapter 13).
///
/// # Errors
/// [`Refusal`] for malformed keys, unknown ids, and sessions the caller may not see.
pub fn resolve(
    store: &dyn Sessions,
    settings: &Settings,
    context: &Context,
    input: &str,
    doing: Doing,
) -> Result<Target, Refusal> {
    let access = Access::of(settings, context);
    let given = input.trim();
    if given.is_empty() {
        return Err(Refusal::error(Why::Usage, "sessionKey is missing"));
    }
    let names_main = given.to_lowercase() == settings.main_key;
    let by_key = names_main || (key::looks_like_key(given) && !key::is_uuid(given));
    if by_key {
        let key = canonical_key(store, &access, given)?;
        if is_unnameable(settings, &key) {
            return Err(access.nothing(given));
        }
        let entry = stored(store, settings, &key)?;
        return access
            .admit(key.clone(), entry, given, doing)
            .map_err(|refusal| Refusal {
                key: Some(key),
                ..refusal
            });
    }
    // A bare word that names a session the caller may not see is treated like one that names nothing (V-41).
    for key in with_agents(settings, context, given) {
        if let Some(entry) = stored(store, settings, &key)?
            && access.sees(&entry)
        {
            return access.admit(key, Some(entry), given, doing);
        }
    }
    by_id(store, &access, given, doing)
}

/// A bare key under the own agent, then under the default agent (K-15).
fn with_agents(settings: &Settings, context: &Context, given: &str) -> Vec<SessionKey> {
    let mut keys: Vec<SessionKey> = [context.agent.clone(), settings.default_agent()]
        .iter()
        .map(|agent| canonical(settings, &SessionKey::of(agent, given)))
        .collect();
    keys.dedup();
    keys
}

/// K-15.
fn canonical_key(
    store: &dyn Sessions,
    access: &Access<'_>,
    given: &str,
) -> Result<SessionKey, Refusal> {
    let settings = access.settings;
    let word = given.to_lowercase();
    if word == "main" || word == settings.main_key {
        return Ok(settings.main_session(&access.context.agent));
    }
    if matches!(word.as_str(), "global" | "unknown") {
        return Ok(SessionKey::foreign(&word));
    }
    if word.starts_with("agent:") {
        let parsed = SessionKey::parse(given).or_else(|error| {
            // Foreign directories hold keys of any shape; what is listed can be asked for.
            let key = SessionKey::foreign(given);
            let known = store.entry(&key).ok().flatten().is_some();
            known.then_some(key).ok_or(error)
        });
        let key = parsed.map_err(|error| {
            Refusal::error(
                Why::Malformed,
                format!(
                    "malformed session key \"{}\": expected agent:<agentId>:<rest>",
                    error.given.raw()
                ),
            )
        })?;
        return Ok(canonical(settings, &key));
    }
    let candidates = with_agents(settings, access.context, given);
    for key in &candidates {
        if let Some(entry) = stored(store, settings, key)?
            && access.sees(&entry)
        {
            return Ok(key.clone());
        }
    }
    Ok(candidates
        .into_iter()
        .next()
        .unwrap_or_else(|| SessionKey::of(&access.context.agent, given)))
}

///
fn by_id(
    store: &dyn Sessions,
    access: &Access<'_>,
    given: &str,
    doing: Doing,
) -> Result<Target, Refusal> {
    let settings = access.settings;
    let mut found = store.by_session_id(given)?;
    let lower = given.to_lowercase();
    if found.is_empty() && lower != given && key::is_uuid(given) {
        found = store.by_session_id(&lower)?;
    }
    found.retain(|entry| {
        let key = canonical(settings, &entry.key);
        !is_unnameable(settings, &entry.key) && !access.is_hidden(&key, Some(entry))
    });
    let newest = found.iter().map(|entry| entry.updated_at).max();
    let named: Vec<usize> = positions(&found, |entry| entry.key.as_str().ends_with(&lower));
    let latest = positions(&found, |entry| Some(entry.updated_at) == newest);
    let at = match (named.as_slice(), latest.as_slice()) {
        _ if found.is_empty() => return Err(access.nothing(given)),
        ([at], _) | (_, [at]) => *at,
        _ => {
            let keys = access.visible_keys(&found);
            let which = if keys.is_empty() {
                String::new()
            } else {
                format!(" ({keys})")
            };
            return Err(Refusal::error(
                Why::Ambiguous,
                format!("session id \"{given}\" belongs to several sessions{which}; give a key"),
            ));
        }
    };
    let entry = found.swap_remove(at);
    access.admit(canonical(settings, &entry.key), Some(entry), given, doing)
}

fn positions(entries: &[Entry], wanted: impl Fn(&Entry) -> bool) -> Vec<usize> {
    let matching = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| wanted(entry));
    matching.map(|(at, _)| at).collect()
}

/// The session that carries a label (S-7, S-8). Sessions the caller may not see do not count (V-41).
///
/// # Errors
/// [`Refusal`]: no such label, several sessions with it, or an agent the caller may not reach.
pub fn resolve_label(
    store: &dyn Sessions,
    settings: &Settings,
    context: &Context,
    label: &str,
    agent: Option<&str>,
    doing: Doing,
) -> Result<Target, Refusal> {
    let access = Access::of(settings, context);
    let label = label.trim();
    let agent = agent.map(AgentId::mend);
    let foreign = agent.as_ref().filter(|agent| **agent != context.agent);
    if let Some(foreign) = foreign
        && !context.person
    {
        if access.restricted {
            return Err(hidden(label));
        }
        let denial = match access.cross(foreign) {
            Cross::Ok => None,
            Cross::Off => Some(Denial::Switch),
            Cross::NotListed => Some(Denial::List),
        };
        if let Some(denial) = denial {
            return Err(Refusal::forbidden(denial.text(doing)));
        }
    }
    let query = Query {
        label: Some(label.to_owned()),
        agent,
        archived: Archived::Both,
        ..Query::default()
    };
    let visible = |entry: &Entry| access.sees(entry) && !is_unnameable(settings, &entry.key);
    let mut found = store.list(&query, Some(&visible))?.entries;
    match (found.pop(), found.is_empty()) {
        (None, _) if access.restricted => Err(hidden(label)),
        (None, _) => Err(Refusal::error(
            Why::NotFound,
            format!(
                "no session with the label \"{label}\" was found; sessions_list shows the sessions there are"
            ),
        )),
        (Some(entry), true) => {
            access.admit(canonical(settings, &entry.key), Some(entry), label, doing)
        }
        (Some(entry), false) => {
            found.push(entry);
            Err(Refusal::error(
                Why::Ambiguous,
                format!(
                    "the label \"{label}\" is carried by several sessions ({}); give a key or an agentId",
                    access.visible_keys(&found)
                ),
            ))
        }
    }
}

/// The target of a send: `sessionKey`, or `label` with or without `agentId`, or `agentId` alone, which is that agent's
/// main session (S-4 to S-8).
///
/// # Errors
/// [`Refusal`] as [`resolve`] and [`resolve_label`]; also for both of key and label, none of the three, and an
/// `agentId` alone that is not configured.
pub fn resolve_target(
    store: &dyn Sessions,
    settings: &Settings,
    context: &Context,
    given: (Option<&str>, Option<&str>, Option<&str>),
    doing: Doing,
) -> Result<Target, Refusal> {
    match given {
        (Some(_), Some(_), _) => Err(Refusal::error(
            Why::Usage,
            "only one of sessionKey and label may be given",
        )),
        (Some(key), None, _) => resolve(store, settings, context, key, doing),
        (None, Some(label), agent) => resolve_label(store, settings, context, label, agent, doing),
        (None, None, Some(agent)) => {
            let id = AgentId::parse(agent)
                .filter(|id| *id == context.agent || settings.agent(id).is_some());
            let Some(id) = id else {
                return Err(Refusal::error(
                    Why::NotFound,
                    format!(
                        "no agent \"{agent}\" is configured; agents_list shows the agents there are"
                    ),
                ));
            };
            let main = settings.main_session(&id);
            resolve(store, settings, context, main.as_str(), doing)
        }
        (None, None, None) => Err(Refusal::error(
            Why::Usage,
            "one of sessionKey and label must be given",
        )),
    }
}

/// A key as it is given out to the caller (K-14).
pub fn display(settings: &Settings, context: &Context, key: &SessionKey) -> Untrusted {
    Untrusted::new(key.display(context.own(), &settings.main_key))
}
