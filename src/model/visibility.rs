//! Who may see which session (specification, chapter 13): levels, relations, the decision table.

use super::key::AgentId;

/// `tools.sessions.visibility` (V-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    // In order of width: a clamp takes the smaller one.
    SelfOnly,
    Tree,
    Agent,
    All,
}

impl Level {
    /// Tolerant reading: trimmed, any case, anything else is `tree` (V-1).
    pub fn read(word: Option<&str>) -> Level {
        match word.map(|w| w.trim().to_lowercase()).as_deref() {
            Some("self") => Level::SelfOnly,
            Some("agent") => Level::Agent,
            Some("all") => Level::All,
            _ => Level::Tree,
        }
    }
    /// The configuration's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::SelfOnly => "self",
            Level::Tree => "tree",
            Level::Agent => "agent",
            Level::All => "all",
        }
    }
    /// V-3: a sandboxed requester with `sessionToolsVisibility: "spawned"` sees at most its tree.
    #[must_use]
    pub fn clamped(self, sandboxed: bool, spawned_only: bool) -> Level {
        if sandboxed && spawned_only {
            self.min(Level::Tree)
        } else {
            self
        }
    }
}

/// What the target is to the requester (V-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relation {
    pub same: bool,
    /// The same agent, or the `global` session.
    pub own: bool,
    /// Spawned by the requester, directly.
    pub spawned: bool,
}

/// `tools.agentToAgent` (V-4).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CrossAgent {
    pub enabled: bool,
    /// Missing or empty: every agent.
    pub allow: Vec<String>,
}

/// What the cross-agent policy says of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cross {
    Ok,
    Off,
    NotListed,
}

impl CrossAgent {
    /// Both ids must match an entry (V-4).
    pub fn check(&self, requester: &AgentId, target: &AgentId) -> Cross {
        if !self.enabled {
            return Cross::Off;
        }
        let listed = |id: &AgentId| self.allow.iter().any(|pattern| glob(pattern, id.as_str()));
        if self.allow.is_empty() || (listed(requester) && listed(target)) {
            Cross::Ok
        } else {
            Cross::NotListed
        }
    }
}

/// Exact id, or a pattern in which `*` stands for any text, ignoring case; a pattern without `*` is compared exactly,
/// and ids are lower case, so `Main` does not match `main` (AC-131). Blank patterns match nothing.
fn glob(pattern: &str, id: &str) -> bool {
    let pattern = pattern.trim();
    if !pattern.contains('*') {
        return !pattern.is_empty() && pattern == id;
    }
    let pattern = pattern.to_lowercase();
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = id.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Why a session may not be seen (V-30 to V-34).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    SelfOnly,
    Tree,
    Scope,
    Switch,
    List,
}

/// What the requester wants to do; stands in the text of a denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    List,
    History,
    Send,
    Status,
}

impl Doing {
    /// The word in the text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Doing::List => "list",
            Doing::History => "history",
            Doing::Send => "send",
            Doing::Status => "status",
        }
    }
}

/// The decision table V-20 to V-26. `None` allows.
pub fn check(level: Level, relation: Relation, cross: Cross) -> Option<Denial> {
    match (level, relation) {
        (_, Relation { same: true, .. }) => None,
        (Level::SelfOnly, Relation { own: true, .. }) => Some(Denial::SelfOnly),
        (Level::SelfOnly, _) => Some(Denial::Scope),
        (Level::Tree | Level::All, Relation { spawned: true, .. }) => None,
        (Level::Tree, Relation { own: true, .. }) => Some(Denial::Tree),
        (Level::Agent | Level::All, Relation { own: true, .. }) => None,
        (Level::Tree | Level::Agent, _) => Some(Denial::Scope),
        (Level::All, _) => match cross {
            Cross::Ok => None,
            Cross::Off => Some(Denial::Switch),
            Cross::NotListed => Some(Denial::List),
        },
    }
}

impl Denial {
    /// The text of a denial (V-30 to V-34); it says nothing about the target (V-40).
    pub fn text(self, doing: Doing) -> String {
        let what = doing.as_str();
        match self {
            Denial::SelfOnly => {
                format!(
                    "session {what} is limited to the calling session (tools.sessions.visibility=self)"
                )
            }
            Denial::Tree => format!(
                "session {what} is limited to the calling session and those it spawned (tools.sessions.visibility=tree)"
            ),
            Denial::Scope => format!(
                "session {what} is not possible for this session; tools.sessions.visibility=all would be needed"
            ),
            Denial::Switch => {
                format!(
                    "session {what} across agents is switched off; set tools.agentToAgent.enabled=true to allow it"
                )
            }
            Denial::List => {
                format!(
                    "session {what} between these agents is not allowed by tools.agentToAgent.allow"
                )
            }
        }
    }
}
