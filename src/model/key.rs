//! Session keys and what can be read off them: agent, kind, channel, parent (specification, chapter 2).
//!
//! A [`SessionKey`] is canonical: trimmed and in lower case (K-1). Absent on purpose: whether a session exists.

use crate::text::{Clean, Untrusted};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The canonical key of a session, as stored: `agent:<agentId>:<rest>` or the reserved `global`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionKey(String);

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
        let well_formed = match key.strip_prefix("agent:") {
            Some(tail) => tail.split_once(':').is_some_and(|(agent, rest)| {
                !agent.trim().is_empty() && !rest.trim().is_empty() && !rest.starts_with(':')
            }),
            None => key == "global",
        };
        if well_formed {
            Ok(Self(key))
        } else {
            Err(KeyError { given: text.into() })
        }
    }

    /// A key as a foreign store holds it: anything goes, only the spelling is unified (K-16).
    pub fn foreign(text: &str) -> Self {
        Self(text.trim().to_lowercase())
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

    /// The session that a thread key hangs on (K-7).
    pub fn thread_parent(&self) -> Option<SessionKey> {
        let at = self.0.rfind(":thread:").max(self.0.rfind(":topic:"))?;
        (at > 0).then(|| Self(self.0[..at].to_owned()))
    }

    /// Spawn depth as far as the key tells (K-8, last step): the number of `:subagent:` parts.
    pub fn depth_by_shape(&self) -> u32 {
        u32::try_from(self.0.matches(":subagent:").count()).unwrap_or(u32::MAX)
    }

    /// Channel part and the rest of a group or channel key: `<channel>:group:<id>` → (`channel`, is channel, `id`).
    pub fn group_parts(&self) -> Option<GroupParts<'_>> {
        let rest = self.rest();
        for (marker, is_channel) in [(":group:", false), (":channel:", true)] {
            if let Some((channel, id)) = rest.split_once(marker) {
                return Some(GroupParts {
                    channel: Some(channel),
                    is_channel,
                    id,
                });
            }
        }
        rest.strip_prefix("group:").map(|id| GroupParts {
            channel: None,
            is_channel: false,
            id,
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
            || self.0.contains(":group:")
            || self.0.contains(":channel:")
            || rest.starts_with("group:")
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentId(String);

impl AgentId {
    /// The id of the agent that is always there.
    pub fn main() -> Self {
        Self("main".into())
    }

    /// An id given by a caller: refused when it has another shape (K-2, P-6).
    pub fn parse(text: &str) -> Option<Self> {
        let id = text.trim().to_lowercase();
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
        for c in text.trim().to_lowercase().chars() {
            if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-' {
                mended.push(c);
            } else if !mended.ends_with('-') {
                mended.push('-');
            }
        }
        let mended: String = mended.trim_matches('-').chars().take(64).collect();
        let mended = mended.trim_start_matches('_').trim_matches('-');
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
