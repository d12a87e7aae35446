//! The compose box: what is typed for a session, who sends it, how long is waited; and the ledger of what was sent.

use super::draft::Draft;
use crate::clean_format;
use crate::model::key::SessionKey;
use crate::store::client::LedgerEntry;
use crate::text::{Clean, Untrusted};
use std::collections::HashMap;

/// The box. Its target is the session whose transcript is shown.
#[derive(Debug, Clone, Default)]
pub struct Compose {
    pub target: Option<SessionKey>,
    pub draft: Draft,
    /// Drafts of other sessions.
    pub drafts: HashMap<SessionKey, Draft>,
    pub sender: Sender,
    pub wait: Wait,
    /// Why the last try with this text failed.
    pub failure: Option<Clean>,
    /// Commands that fit what is typed, while it begins with `/`.
    pub completions: Vec<Command>,
    /// Place in the history while `↑` walks it.
    pub recalled: Option<usize>,
    /// Text and session of the next save, and when it is due.
    pub save_due_at: Option<i64>,
    pub saved_revision: u64,
    /// Every send of this screen, newest first.
    pub ledger: Vec<Sent>,
}

/// A send and what is known of it beyond what is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    pub entry: LedgerEntry,
    /// Runs before it in the session's queue, as told at acceptance.
    pub queued_behind: Option<u32>,
    /// The run, once known.
    pub run_id: Option<String>,
    /// The person waits for it until then.
    pub wait_until: Option<i64>,
}

/// Who sends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Sender {
    /// A plain message from outside.
    #[default]
    Operator,
    /// A `sessions_send` of this session.
    Session(SessionKey),
}

/// How long is waited for the answer. The run goes on in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wait {
    None,
    S10,
    #[default]
    S30,
    Min2,
    Min10,
}

impl Wait {
    /// In the order of the menu.
    pub const ALL: [Wait; 5] = [Wait::None, Wait::S10, Wait::S30, Wait::Min2, Wait::Min10];
    /// Seconds.
    pub const fn seconds(self) -> u64 {
        match self {
            Wait::None => 0,
            Wait::S10 => 10,
            Wait::S30 => 30,
            Wait::Min2 => 120,
            Wait::Min10 => 600,
        }
    }
    /// The word of the title.
    pub const fn as_str(self) -> &'static str {
        match self {
            Wait::None => "none",
            Wait::S10 => "10 s",
            Wait::S30 => "30 s",
            Wait::Min2 => "2 min",
            Wait::Min10 => "10 min",
        }
    }
}

/// A command of the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    pub name: &'static str,
    /// What may follow.
    pub arguments: &'static str,
    pub words: &'static str,
}

/// Every command.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "/send",
        arguments: "on|off|inherit",
        words: "send policy of this session",
    },
    Command {
        name: "/stop",
        arguments: "",
        words: "stop the run and its sub-agents",
    },
    Command {
        name: "/new",
        arguments: "",
        words: "begin a new transcript",
    },
    Command {
        name: "/reset",
        arguments: "",
        words: "begin a new transcript",
    },
    Command {
        name: "/label",
        arguments: "NAME",
        words: "name the session; without NAME: no label",
    },
    Command {
        name: "/model",
        arguments: "MODEL",
        words: "model of this session; without: the default",
    },
    Command {
        name: "/think",
        arguments: "LEVEL",
        words: "thinking level; without: the default",
    },
    Command {
        name: "/abort",
        arguments: "",
        words: "abort the run",
    },
    Command {
        name: "/archive",
        arguments: "",
        words: "archive the session",
    },
    Command {
        name: "/spawn",
        arguments: "TASK",
        words: "spawn a sub-agent",
    },
];

impl Compose {
    /// Lines the title says about sender and wait.
    pub fn sender_shown(&self, name: impl Fn(&SessionKey) -> Clean) -> Clean {
        match &self.sender {
            Sender::Operator => Clean::fixed("operator"),
            Sender::Session(key) => name(key),
        }
    }

    /// `from operator · wait 30 s`.
    pub fn terms_shown(&self, name: impl Fn(&SessionKey) -> Clean) -> Clean {
        clean_format!(
            "from {} · wait {}",
            self.sender_shown(name),
            self.wait.as_str()
        )
    }

    /// Sends to a session, newest first.
    pub fn sends_to<'a>(&'a self, key: &'a SessionKey) -> impl Iterator<Item = &'a Sent> {
        self.ledger
            .iter()
            .filter(move |sent| super::sessions::identity(&sent.entry.target) == *key)
    }

    /// The whole text.
    pub fn text(&self) -> Untrusted {
        self.draft.text()
    }
}
