//! The send policy: rules and decision (specification, chapter 7).

use super::key::SessionKey;
use super::session::{Entry, SendPolicy};
use crate::text::Untrusted;
use serde::Deserialize;

/// `session.sendPolicy`. Unknown members are an error (SP-1).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    pub default: Option<SendPolicy>,
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// One rule of the policy.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A missing or unreadable action counts as allow (SP-17).
    #[serde(default)]
    pub action: Option<String>,
    #[serde(default, rename = "match")]
    pub matches: Option<Match>,
}

/// What a rule states; every stated member must match (SP-13).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Match {
    pub channel: Option<String>,
    pub chat_type: Option<String>,
    pub key_prefix: Option<String>,
    pub raw_key_prefix: Option<String>,
}

/// The answer, with where it comes from (details pane).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    pub policy: SendPolicy,
    pub source: Source,
}

/// Where a decision comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The entry's override (SP-10).
    Override,
    /// Rule N, counted from 1.
    Rule(usize),
    /// `default` of the policy, or allow without one (SP-11, SP-16).
    Default,
}

fn norm(text: &str) -> String {
    text.trim().to_lowercase()
}

/// A blank member states nothing.
fn stated(member: &Option<String>) -> Option<&String> {
    member.as_ref().filter(|text| !text.trim().is_empty())
}

fn chat_type_of(word: &str) -> String {
    let word = norm(word);
    if word == "dm" { "direct".into() } else { word }
}

/// SP-10 to SP-17. `channel` and `chat_type` are those of the current message, when there is one.
pub fn decide(
    config: Option<&PolicyConfig>,
    key: &SessionKey,
    entry: Option<&Entry>,
    channel: Option<&str>,
    chat_type: Option<&str>,
) -> Decision {
    if let Some(policy) = entry.and_then(|e| e.send_policy) {
        return Decision {
            policy,
            source: Source::Override,
        };
    }
    let Some(config) = config else {
        return Decision {
            policy: SendPolicy::Allow,
            source: Source::Default,
        };
    };
    let stored = |pick: fn(&Entry) -> Option<&str>| {
        entry
            .and_then(pick)
            .map(norm)
            .filter(|text| !text.is_empty())
    };
    let channel = channel
        .map(norm)
        .filter(|text| !text.is_empty())
        .or_else(|| stored(|e| e.channel.as_ref().map(Untrusted::raw)))
        .or_else(|| stored(|e| e.last_channel.as_ref().map(Untrusted::raw)))
        .or_else(|| key.group_parts().and_then(|parts| parts.channel).map(norm));
    let chat_type = chat_type
        .map(chat_type_of)
        .filter(|text| !text.is_empty())
        .or_else(|| stored(|e| e.chat_type.as_deref()).map(|t| chat_type_of(&t)))
        .or_else(|| key.chat_type().map(str::to_owned));
    let matches = |rule: &Rule| {
        let Some(m) = &rule.matches else { return true };
        let equal = |wanted: &Option<String>, given: &Option<String>, read: fn(&str) -> String| {
            stated(wanted).is_none_or(|w| given.as_ref().is_some_and(|g| read(w) == *g))
        };
        let full = key.as_str();
        equal(&m.channel, &channel, norm)
            && equal(&m.chat_type, &chat_type, chat_type_of)
            && stated(&m.raw_key_prefix).is_none_or(|p| full.starts_with(&norm(p)))
            && stated(&m.key_prefix)
                .is_none_or(|p| full.starts_with(&norm(p)) || key.rest().starts_with(&norm(p)))
    };
    let is_deny = |rule: &Rule| rule.action.as_deref().is_some_and(|a| norm(a) == "deny");
    let hit = |deny: bool| {
        config
            .rules
            .iter()
            .position(|rule| is_deny(rule) == deny && matches(rule))
    };
    if let Some(at) = hit(true) {
        return Decision {
            policy: SendPolicy::Deny,
            source: Source::Rule(at + 1),
        };
    }
    if let Some(at) = hit(false) {
        return Decision {
            policy: SendPolicy::Allow,
            source: Source::Rule(at + 1),
        };
    }
    Decision {
        policy: config.default.unwrap_or(SendPolicy::Allow),
        source: Source::Default,
    }
}
