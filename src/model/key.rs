//! Session keys and what can be read off them: agent, kind, channel, parent (specification, chapter 2).
//!
//! A [`SessionKey`] is canonical: trimmed and in lower case (K-1). Absent on purpose: whether a session exists.

use crate::text::{Clean, Untrusted};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The canonical key of a session, as stored: `agent:<agentId>:<rest>` or the reserved `global`.
/// Read tolerantly from data (as [`SessionKey::foreign`]).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct SessionKey(String);

impl From<String> for SessionKey {
    fn from(text: String) -> Self {
        Self::foreign(&text)
    }
}

impl From<SessionKey> for String {
    fn from(key: SessionKey) -> Self {
        key.0
    }
}

/// Agent and rest of a well-formed `agent:` key (K-5).
fn of_agent(key: &str) -> Option<(&str, &str)> {
    let (agent, rest) = key.strip_prefix("agent:")?.split_once(':')?;
    let (agent, rest) = (agent.trim(), rest.trim());
    (!agent.is_empty() && !rest.is_empty() && !rest.starts_with(':')).then_some((agent, rest))
}

/// Why a text is no session key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed session key {:?}: expected agent:<agentId>:<rest>", .given.clean().as_str())]
pub struct KeyError {
    /// What was given.
    pub given: Untrusted,
}

impl SessionKey {
    /// Reads a full key. `agent:` keys need three non-empty parts (K-5); `global` is the only other stored key.
    ///
    /// # Errors
    /// [`KeyError`] for anything else.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let key = text.trim().to_lowercase();
        match of_agent(&key) {
            Some((agent, rest)) => Ok(Self::of(&AgentId::mend(agent), rest)),
            None if key == "global" => Ok(Self::global()),
            None => Err(KeyError { given: text.into() }),
        }
    }

    /// A key as a foreign store holds it: anything goes, only the spelling is unified (K-16, K-2).
    pub fn foreign(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|_| Self(text.trim().to_lowercase()))
    }

    /// `agent:<agent>:<rest>`.
    pub fn of(agent: &AgentId, rest: &str) -> Self {
        Self(format!("agent:{agent}:{}", rest.trim().to_lowercase()))
    }

    /// The `global` session (K-11).
    pub fn global() -> Self {
        Self("global".into())
    }

    /// The key as stored; for stores, comparisons and the wire, never for a sink.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key as something to show. Keys of foreign stores are hostile like any text.
    pub fn clean(&self) -> Clean {
        Untrusted::new(self.0.as_str()).clean()
    }

    /// The agent of the key; `None` for `global` and for keys that have none.
    pub fn agent(&self) -> Option<AgentId> {
        let (agent, _) = self.0.strip_prefix("agent:")?.split_once(':')?;
        Some(AgentId::mend(agent))
    }

    /// The key without its `agent:<id>:` part.
    pub fn rest(&self) -> &str {
        self.0
            .strip_prefix("agent:")
            .and_then(|tail| tail.split_once(':'))
            .map_or(self.0.as_str(), |(_, rest)| rest)
    }

    /// True for `global` and `unknown`, which are never given out (K-10).
    pub fn is_reserved(&self) -> bool {
        matches!(self.0.as_str(), "global" | "unknown")
            || matches!(self.rest(), "global" | "unknown")
    }

    /// A run of a cron job, left out of lists (K-13).
    pub fn is_cron_run(&self) -> bool {
        self.rest()
            .strip_prefix("cron:")
            .is_some_and(|tail| tail.contains(":run:"))
    }

    /// A sub-agent's key, flat or nested.
    pub fn is_subagent(&self) -> bool {
        self.rest().starts_with("subagent:") || self.0.contains(":subagent:")
    }

    /// The session that a thread key hangs on (K-7). A marker with nothing but the agent before it does not count.
    pub fn thread_parent(&self) -> Option<SessionKey> {
        let at = self.0.rfind(":thread:").max(self.0.rfind(":topic:"))?;
        let parent = &self.0[..at];
        let whole = !parent.is_empty() && (self.agent().is_none() || of_agent(parent).is_some());
        whole.then(|| Self(parent.to_owned()))
    }

    /// What sort of chat the key names: `group`, `channel`, `direct` (`dm` is read as `direct`, K-6), or nothing of
    /// the kind (SP-12).
    pub fn chat_type(&self) -> Option<&'static str> {
        if let Some(parts) = self.group_parts() {
            return Some(if parts.is_channel { "channel" } else { "group" });
        }
        let direct = self
            .rest()
            .split(':')
            .rev()
            .skip(1)
            .any(|part| part == "direct" || part == "dm");
        direct.then_some("direct")
    }

    /// The key with `dm` for `direct` or the other way round: one chat, two spellings (K-6).
    pub fn other_direct_spelling(&self) -> Option<SessionKey> {
        let head = self.0.len() - self.rest().len();
        let rest = format!(":{}", self.rest());
        let swapped = if rest.contains(":direct:") {
            rest.replacen(":direct:", ":dm:", 1)
        } else if rest.contains(":dm:") {
            rest.replacen(":dm:", ":direct:", 1)
        } else {
            return None;
        };
        Some(Self(format!("{}{}", &self.0[..head], &swapped[1..])))
    }

    /// Spawn depth as far as the key tells (K-8, last step): the number of `:subagent:` parts.
    pub fn depth_by_shape(&self) -> u32 {
        u32::try_from(self.0.matches(":subagent:").count()).unwrap_or(u32::MAX)
    }

    /// Channel part and the rest of a group or channel key: `<channel>:group:<id>` → (`channel`, is channel, `id`).
    pub fn group_parts(&self) -> Option<GroupParts<'_>> {
        let rest = self.rest();
        let marked = [(":group:", false), (":channel:", true)]
            .into_iter()
            .filter_map(|(marker, is_channel)| Some((rest.find(marker)?, marker, is_channel)))
            .min();
        if let Some((at, marker, is_channel)) = marked {
            return Some(GroupParts {
                channel: Some(&rest[..at]),
                is_channel,
                id: &rest[at + marker.len()..],
            });
        }
        [("group:", false), ("channel:", true)]
            .into_iter()
            .find_map(|(prefix, is_channel)| {
                rest.strip_prefix(prefix).map(|id| GroupParts {
                    channel: None,
                    is_channel,
                    id,
                })
            })
    }

    /// Kind of the session (K-20 to K-26).
    pub fn kind(&self, facts: &KindFacts<'_>) -> Kind {
        if let Some(origin) = facts.set_origin {
            return origin;
        }
        let rest = self.rest();
        if self.0 == "global" || rest == "main" || rest == facts.main_key {
            Kind::Main
        } else if rest.starts_with("cron:") {
            Kind::Cron
        } else if rest.starts_with("hook:") {
            Kind::Hook
        } else if rest.starts_with("node-") || rest.starts_with("node:") {
            Kind::Node
        } else if matches!(facts.chat_type, Some("group" | "channel"))
            || self.group_parts().is_some()
        {
            Kind::Group
        } else {
            Kind::Other
        }
    }

    /// How the key is given out to `own` (K-14): own main session → `main`; own cron, hook, node → short form.
    /// `None` is a person, who sees full keys (V-45), with `global` as `main` (K-11).
    pub fn display(&self, own: Option<&AgentId>, main_key: &str) -> String {
        if self.0 == "global" {
            return "main".into();
        }
        let (Some(own), Some(agent)) = (own, self.agent()) else {
            return self.0.clone();
        };
        if agent != *own {
            return self.0.clone();
        }
        let rest = self.rest();
        if rest == "main" || rest == main_key {
            return "main".into();
        }
        if ["cron:", "hook:", "node-", "node:"]
            .iter()
            .any(|prefix| rest.starts_with(prefix))
        {
            return rest.to_owned();
        }
        self.0.clone()
    }

    /// The telling part of a key, for a row without any name: the last part, ids shortened.
    pub fn short(&self) -> Clean {
        let rest = self.rest();
        let tail = rest
            .rsplit(':')
            .next()
            .filter(|tail| !tail.is_empty())
            .unwrap_or(rest);
        let shown = if is_uuid(tail) {
            tail[..8].to_owned()
        } else {
            tail.to_owned()
        };
        Untrusted::new(shown).clean()
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.clean())
    }
}

/// What a group or channel key says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupParts<'a> {
    /// The channel, absent in the legacy form `group:<id>`.
    pub channel: Option<&'a str>,
    /// `:channel:` rather than `:group:`.
    pub is_channel: bool,
    /// The id, with any thread suffix.
    pub id: &'a str,
}

/// What the kind depends on besides the key.
#[derive(Debug, Clone, Copy)]
pub struct KindFacts<'a> {
    /// `session.mainKey`, canonical.
    pub main_key: &'a str,
    /// The entry's `chatType`.
    pub chat_type: Option<&'a str>,
    /// A hook, node or cron session whose key was set by hand (K-26).
    pub set_origin: Option<Kind>,
}

/// The six kinds of a session (§2.3).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The main session of an agent.
    Main,
    /// A group chat or room.
    Group,
    /// A cron job.
    Cron,
    /// A hook.
    Hook,
    /// A node.
    Node,
    /// Sub-agents, direct chats, everything else.
    #[default]
    Other,
}

impl Kind {
    /// In the order of the screen.
    pub const ALL: [Kind; 6] = [
        Kind::Main,
        Kind::Group,
        Kind::Cron,
        Kind::Hook,
        Kind::Node,
        Kind::Other,
    ];

    /// The wire word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Main => "main",
            Kind::Group => "group",
            Kind::Cron => "cron",
            Kind::Hook => "hook",
            Kind::Node => "node",
            Kind::Other => "other",
        }
    }

    /// Reads a word, trimmed, in any case (L-1).
    pub fn parse(word: &str) -> Option<Kind> {
        let word = word.trim().to_lowercase();
        Kind::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// An agent's id, canonical: `[a-z0-9][a-z0-9_-]{0,63}` (K-2).
/// Mended when read from data.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct AgentId(String);

impl From<String> for AgentId {
    fn from(text: String) -> Self {
        Self::mend(&text)
    }
}

impl From<AgentId> for String {
    fn from(id: AgentId) -> Self {
        id.0
    }
}

impl AgentId {
    /// The id of the agent that is always there.
    pub fn main() -> Self {
        Self("main".into())
    }

    /// An id given by a caller: refused when it has another shape (K-2, P-6).
    pub fn parse(text: &str) -> Option<Self> {
        let id = text.trim().to_ascii_lowercase();
        let mut chars = id.chars();
        let first = chars.next()?;
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        (fits(first) && id.len() <= 64 && chars.all(|c| fits(c) || c == '_' || c == '-'))
            .then_some(Self(id))
    }

    /// An id taken from data: mended to the shape (K-2).
    pub fn mend(text: &str) -> Self {
        if let Some(id) = Self::parse(text) {
            return id;
        }
        let mut mended = String::new();
        let mut in_run = false;
        for c in text.trim().to_lowercase().chars() {
            let fits = c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
            if fits {
                mended.push(c);
            } else if !in_run {
                mended.push('-');
            }
            in_run = !fits;
        }
        // A leading `_` would not fit the shape either.
        let mended = mended.trim_start_matches(['-', '_']);
        let mended = mended[..mended.len().min(64)].trim_end_matches('-');
        if mended.is_empty() {
            Self::main()
        } else {
            Self(mended.to_owned())
        }
    }

    /// The id. Its shape makes it safe to show.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as something to show.
    pub fn clean(&self) -> Clean {
        Untrusted::new(self.0.as_str()).clean()
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The usual 8-4-4-4-12 hexadecimal form.
pub fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// A session id that may become a file name.
pub fn is_safe_session_id(id: &str) -> bool {
    let mut bytes = id.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphanumeric())
        && id.len() <= 128
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// What an input of a `sessionKey` parameter looks like.
pub fn looks_like_key(input: &str) -> bool {
    let input = input.trim().to_lowercase();
    matches!(input.as_str(), "main" | "global" | "unknown")
        || ["agent:", "acp:", "cron:", "hook:", "node-", "node:"]
            .iter()
            .any(|p| input.starts_with(p))
        || input.contains(":group:")
        || input.contains(":channel:")
}
