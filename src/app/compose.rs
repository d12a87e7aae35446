//! The compose box: what is typed for a session, who sends it, how long is waited; and the ledger of what was sent.

use super::draft::{Draft, Edit};
use super::effect::Effect;
use super::sessions::{State, identity};
use super::update::{Wanted, wire};
use super::{App, Focus, Tone};
use crate::clean_format;
use crate::model::event::SendState;
use crate::model::key::SessionKey;
use crate::model::run::{Outcome, RunState};
use crate::model::session::SendPolicy;
use crate::protocol::methods::{Accepted, Code, Failure, Request, Waited};
use crate::store::client::LedgerEntry;
use crate::text::{Clean, Untrusted};
use serde_json::{Map, Value, json};
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
    /// When the draft is kept next.
    pub save_due_at: Option<i64>,
    /// On its way: text and id of the send that is not accepted yet. The text stays in the box until it is.
    pub sending: Option<(String, Untrusted)>,
    /// Every send of this screen, newest first.
    pub ledger: Vec<Sent>,
}

/// A send and what is known of it beyond what is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    pub entry: LedgerEntry,
    /// Runs before it in the session's queue, as told at acceptance.
    pub queued_behind: Option<u32>,
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
    /// The name of the sender.
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

/// Pause after which a changed draft is kept.
const SAVE_PAUSE_MS: i64 = 1_000;

impl Sent {
    /// Where it stands, in words.
    pub fn state_shown(&self) -> Clean {
        let why = |word: &'static str| match &self.entry.error {
            Some(error) => clean_format!("{}: {}", word, error.clean()),
            None => word.into(),
        };
        match self.entry.state {
            SendState::Outbox => "on its way".into(),
            SendState::Queued => match self.queued_behind {
                Some(n) if n > 0 => clean_format!("queued behind {}", n),
                _ => "queued".into(),
            },
            SendState::Running => "running".into(),
            SendState::Replied => "replied".into(),
            SendState::NoReply => "no reply".into(),
            SendState::WaitOver => "wait over, run goes on".into(),
            SendState::Failed => why("failed"),
            SendState::Refused => why("refused"),
            SendState::Unknown => why("not known whether it arrived"),
            SendState::Discarded => "discarded".into(),
        }
    }

    /// Nothing more will come.
    pub const fn is_settled(&self) -> bool {
        !matches!(
            self.entry.state,
            SendState::Outbox | SendState::Queued | SendState::Running | SendState::WaitOver
        )
    }
}

impl Compose {
    /// An answer is being waited for.
    pub fn is_waiting(&self) -> bool {
        self.ledger.iter().any(|sent| sent.wait_until.is_some())
    }

    fn find(&mut self, id: &str) -> Option<&mut Sent> {
        self.ledger.iter_mut().find(|sent| sent.entry.send_id == id)
    }

    /// Id of the same message, when it is not known whether it arrived: under it the engine takes the message once.
    fn unsure_id(&mut self, entry: &LedgerEntry) -> Option<String> {
        let is_it = |sent: &Sent| {
            sent.entry.state == SendState::Unknown
                && sent.entry.target == entry.target
                && sent.entry.text == entry.text
                && sent.entry.requester == entry.requester
        };
        let at = self.ledger.iter().position(is_it)?;
        Some(self.ledger.remove(at).entry.send_id)
    }

    /// Commands that fit what is typed.
    fn complete_list(&mut self) {
        let text = self.draft.text();
        let word = text.raw();
        self.completions = if word.starts_with('/') && !word.contains(char::is_whitespace) {
            let fits = |command: &&Command| command.name.starts_with(&word.to_lowercase());
            COMMANDS.iter().filter(fits).copied().collect()
        } else {
            Vec::new()
        };
    }
}

impl App {
    /// The text of the box changed.
    pub(super) fn draft_changed(&mut self) {
        self.compose.failure = None;
        self.compose.complete_list();
        self.compose.save_due_at = Some(self.now_ms + SAVE_PAUSE_MS);
    }

    /// Keeps the draft now.
    pub(super) fn save_draft(&mut self) {
        if self.compose.save_due_at.take().is_some()
            && let Some(key) = self.compose.target.clone()
        {
            let text = self.compose.text();
            self.out.push(Effect::SaveDraft { key, text });
        }
    }

    /// The box turns to another session; the draft stays with its own.
    pub(super) fn switch_draft(&mut self, key: &SessionKey) {
        if self.compose.target.as_ref() == Some(key) {
            return;
        }
        self.save_draft();
        let compose = &mut self.compose;
        let draft = std::mem::take(&mut compose.draft);
        if let Some(old) = compose.target.replace(key.clone())
            && !draft.is_empty()
        {
            compose.drafts.insert(old, draft);
        }
        compose.draft = compose.drafts.remove(key).unwrap_or_default();
        compose.failure = None;
        compose.recalled = None;
        if compose.sender == Sender::Session(key.clone()) {
            compose.sender = Sender::Operator;
        }
        compose.complete_list();
    }

    pub(super) fn drafts_loaded(&mut self, drafts: Vec<(Untrusted, Untrusted)>) {
        for (key, text) in drafts {
            let key = identity(&key);
            if self.compose.target.as_ref() == Some(&key) {
                // What is typed already is newer.
                if self.compose.draft.is_empty() {
                    self.compose.draft = Draft::new(&text);
                }
            } else {
                self.compose
                    .drafts
                    .entry(key)
                    .or_insert_with(|| Draft::new(&text));
            }
        }
    }

    pub(super) fn ledger_loaded(&mut self, entries: Vec<LedgerEntry>) {
        for entry in entries {
            if self.compose.find(&entry.send_id).is_none() {
                self.compose.ledger.push(Sent {
                    entry,
                    queued_behind: None,
                    wait_until: None,
                });
            }
        }
        self.compose
            .ledger
            .sort_by_key(|sent| std::cmp::Reverse(sent.entry.sent_at));
        self.ask_after_open_sends();
    }

    /// What became of sends while nobody looked.
    pub(super) fn ask_after_open_sends(&mut self) {
        let open: Vec<String> = self
            .compose
            .ledger
            .iter()
            .filter(|sent| !sent.is_settled() && sent.wait_until.is_none())
            .map(|sent| sent.entry.send_id.clone())
            .collect();
        for run_id in open {
            self.ask(
                Wanted::Wait(run_id.clone()),
                Request::Wait {
                    run_id,
                    timeout_ms: 0,
                },
            );
        }
    }

    /// Whether sends are allowed here is known, so a refusal of a former send says nothing more.
    pub const fn knows_policy(&self) -> bool {
        self.transcript.policy.is_some()
    }

    /// What to know before a word is typed.
    pub fn compose_hint(&self) -> Option<Clean> {
        let key = self.compose.target.as_ref()?;
        if let Some(why) = self.why_read_only() {
            return Some(why);
        }
        if let Some((SendPolicy::Deny, source)) = &self.transcript.policy {
            return Some(clean_format!("sends are denied here ({})", source));
        }
        if self.compose.sender == Sender::Session(key.clone()) {
            return Some("a session cannot send to itself".into());
        }
        let live = self.sessions.live.get(key);
        let ahead = live.map_or(0, |live| live.running.len() + live.queued.len());
        let session = self.sessions.get(key)?;
        match self.sessions.state(session) {
            State::Running | State::Queued => Some(clean_format!(
                "busy: a message waits behind {}",
                ahead.max(1)
            )),
            _ => None,
        }
    }

    /// `Enter` in the box.
    pub(super) fn compose_send(&mut self) {
        let Some(key) = self.compose.target.clone() else {
            return self.say(Tone::Info, "choose a session first");
        };
        let text = self.compose.text();
        if text.is_blank() {
            return self.say(Tone::Info, "there is nothing to send");
        }
        if self.compose.sending.is_some() {
            return self.say(Tone::Info, "the last message is still on its way");
        }
        if let Some(why) = self.why_read_only() {
            self.compose.failure = Some(why);
            return;
        }
        if text.raw().starts_with('/') {
            if self.command(&key, text.raw()) {
                return;
            }
            let name = text.raw().split_whitespace().next().unwrap_or("/");
            // A path is not meant as a command.
            let is_meant = name[1..]
                .bytes()
                .all(|b| b.is_ascii_alphabetic() || b == b'-');
            if is_meant && !is_command(name) {
                self.compose.failure = Some(clean_format!(
                    "unknown command {}; start with a space to send it as text",
                    Untrusted::new(name).clean()
                ));
                return;
            }
        }
        let text = Untrusted::new(text.raw().trim());
        let id = self.new_id();
        let wait_s = self.compose.wait.seconds();
        let sender = match &self.compose.sender {
            Sender::Operator => None,
            Sender::Session(session) => Some(session.clone()),
        };
        let mut entry = LedgerEntry {
            send_id: id,
            target: wire(&key),
            requester: sender.as_ref().map(wire),
            text: text.clone(),
            wait_s,
            state: SendState::Outbox,
            reply: None,
            error: None,
            sent_at: self.now_ms,
            changed_at: self.now_ms,
        };
        if let Some(known) = self.compose.unsure_id(&entry) {
            entry.send_id = known;
        }
        let id = entry.send_id.clone();
        self.compose.ledger.insert(
            0,
            Sent {
                entry: entry.clone(),
                queued_behind: None,
                wait_until: None,
            },
        );
        self.out.push(Effect::SaveSend(Box::new(entry)));
        self.compose.sending = Some((id.clone(), self.compose.text()));
        self.compose.failure = None;
        match sender {
            None => {
                let request = Request::Send {
                    key: wire(&key),
                    message: text,
                    run_id: id.clone(),
                };
                self.ask(Wanted::Send(id), request);
            }
            Some(session) => {
                let request = Request::Tool {
                    name: "sessions_send".into(),
                    arguments: json!({
                        "sessionKey": key.as_str(),
                        "message": text.raw(),
                        "timeoutSeconds": wait_s,
                    }),
                    call_id: Some(id.clone()),
                };
                if wait_s > 0 {
                    let until = self.now_ms + i64::try_from(wait_s * 1000).unwrap_or(0);
                    if let Some(sent) = self.compose.find(&id) {
                        sent.wait_until = Some(until);
                    }
                }
                self.ask_as(Wanted::ToolSend(id), Some(&session), request);
            }
        }
    }

    /// The message is safe with the engine: the box is free, unless something else was typed meanwhile.
    fn sent_safely(&mut self, id: &str) {
        let is_it = self
            .compose
            .sending
            .as_ref()
            .is_some_and(|(sending, _)| sending == id);
        if !is_it {
            return;
        }
        let Some((_, text)) = self.compose.sending.take() else {
            return;
        };
        let Some(target) = self
            .compose
            .find(id)
            .map(|sent| identity(&sent.entry.target))
        else {
            return;
        };
        if self.compose.target.as_ref() == Some(&target) {
            if self.compose.text() == text {
                self.compose.draft = Draft::default();
                self.compose.recalled = None;
                self.compose.complete_list();
            }
        } else if self
            .compose
            .drafts
            .get(&target)
            .is_some_and(|draft| draft.text() == text)
        {
            self.compose.drafts.remove(&target);
        }
        let text = if self.compose.target.as_ref() == Some(&target) {
            self.compose.save_due_at = None;
            self.compose.text()
        } else {
            self.compose
                .drafts
                .get(&target)
                .map(Draft::text)
                .unwrap_or_default()
        };
        self.out.push(Effect::SaveDraft { key: target, text });
    }

    fn change_send(&mut self, id: &str, change: impl FnOnce(&mut Sent)) {
        let now = self.now_ms;
        let Some(sent) = self.compose.find(id) else {
            return;
        };
        let before = sent.entry.clone();
        change(sent);
        if sent.is_settled() {
            sent.wait_until = None;
        }
        if sent.entry != before {
            sent.entry.changed_at = now;
            let entry = Box::new(sent.entry.clone());
            self.out.push(Effect::SaveSend(entry));
        }
    }

    pub(super) fn send_accepted(&mut self, id: &str, accepted: Accepted) {
        self.sent_safely(id);
        let now = self.now_ms;
        let mut wait_ms = 0;
        self.change_send(id, |sent| {
            if sent.entry.state == SendState::Outbox {
                sent.entry.state = SendState::Queued;
                sent.queued_behind = Some(accepted.queued_behind);
            }
            if !sent.is_settled() && sent.entry.wait_s > 0 {
                wait_ms = sent.entry.wait_s.saturating_mul(1000);
                sent.wait_until = Some(now.saturating_add_unsigned(wait_ms));
            }
        });
        if wait_ms > 0 {
            let run_id = accepted.run_id;
            let request = Request::Wait {
                run_id,
                timeout_ms: wait_ms,
            };
            self.ask(Wanted::Wait(id.to_owned()), request);
        }
    }

    pub(super) fn send_failed(&mut self, id: &str, failure: Failure) {
        let mut text = failure.message.clean();
        let is_it = self
            .compose
            .sending
            .as_ref()
            .is_some_and(|(sending, _)| sending == id);
        let target = self
            .compose
            .find(id)
            .map(|sent| identity(&sent.entry.target));
        if is_it {
            self.compose.sending = None;
            if let Some(target) = target.as_ref().filter(|_| self.compose.target == target) {
                // Its key stands in the title of the box.
                let key = target.clean();
                let own = text.as_str().replace(key.as_str(), "this session");
                let own = own.replace("session this session", "this session");
                text = Untrusted::new(own).clean();
                let arrived = failure.code == Code::Unavailable;
                self.compose.failure = Some(if arrived {
                    clean_format!(
                        "not known whether it arrived; sending it again sends it once: {}",
                        &text
                    )
                } else {
                    clean_format!("not sent: {}", &text)
                });
                if matches!(failure.code, Code::Forbidden | Code::Refused) {
                    self.ask_policy();
                }
            }
        }
        // A connection that broke leaves open whether the message arrived; its id makes a repeat harmless.
        let state = match failure.code {
            Code::Unavailable if is_it => SendState::Unknown,
            Code::Forbidden | Code::Refused => SendState::Refused,
            _ => SendState::Failed,
        };
        self.change_send(id, |sent| {
            sent.wait_until = None;
            if !sent.is_settled() {
                sent.entry.state = state;
                sent.entry.error = Some(failure.message);
            }
        });
        if target.is_some() && self.compose.target != target {
            self.say(
                Tone::Bad,
                clean_format!("not sent, kept as draft: {}", text),
            );
        }
    }

    pub(super) fn waited(&mut self, id: &str, waited: Waited) {
        self.change_send(id, |sent| {
            let waits = sent.wait_until.take().is_some();
            let (state, error) = match waited.outcome {
                // Asked without waiting: it goes on, or nothing is known of it.
                None if !waits => match waited.state {
                    Some(RunState::Accepted) => (SendState::Queued, None),
                    Some(_) => (SendState::Running, None),
                    None if sent.entry.state == SendState::Outbox => (SendState::Unknown, None),
                    None => return,
                },
                None => (SendState::WaitOver, None),
                Some(outcome) => end_of(outcome, waited.reply.as_ref(), waited.error),
            };
            sent.entry.state = state;
            sent.entry.error = error;
            sent.entry.reply = waited.reply.filter(|reply| !reply.is_blank());
        });
    }

    pub(super) fn wait_failed(&mut self, id: &str) {
        self.change_send(id, |sent| {
            sent.wait_until = None;
            if !sent.is_settled() {
                sent.entry.state = SendState::WaitOver;
            }
        });
    }

    /// `Ctrl+C` with an empty box: stops waiting, never the run. False when nothing was waited for.
    pub(super) fn stop_waiting(&mut self) -> bool {
        if !self.compose.is_waiting() {
            return false;
        }
        self.give_up(|wanted| matches!(wanted, Wanted::Wait(_)));
        let waiting: Vec<String> = self
            .compose
            .ledger
            .iter()
            .filter(|sent| sent.wait_until.is_some())
            .map(|sent| sent.entry.send_id.clone())
            .collect();
        for id in waiting {
            self.change_send(&id, |sent| {
                sent.wait_until = None;
                // What was not accepted yet may still be refused, and go back into the box.
                if sent.entry.state != SendState::Outbox {
                    sent.entry.state = SendState::WaitOver;
                }
            });
        }
        self.say(Tone::Info, "not waiting any more; the run goes on");
        true
    }

    pub(super) fn tool_send_answered(&mut self, id: &str, payload: Value) {
        let text = |name: &str| {
            payload
                .get(name)
                .and_then(Value::as_str)
                .map(Untrusted::from)
        };
        let status = payload
            .get("status")
            .and_then(Value::as_str)
            .unwrap_or("error");
        let error = text("error");
        if matches!(status, "error" | "forbidden") {
            // A run that failed was accepted before: only what never began goes back into the box.
            let is_new = self
                .compose
                .find(id)
                .is_some_and(|s| s.entry.state == SendState::Outbox);
            if is_new {
                let code = if status == "forbidden" {
                    Code::Forbidden
                } else {
                    Code::InvalidRequest
                };
                let reason = error.unwrap_or_else(|| "the tool refused without a reason".into());
                return self.send_failed(id, Failure::new(code, reason));
            }
        }
        self.sent_safely(id);
        let reply = text("reply");
        self.change_send(id, |sent| {
            sent.wait_until = None;
            sent.entry.state = match status {
                "accepted" if sent.entry.state == SendState::Outbox => SendState::Queued,
                "accepted" => sent.entry.state,
                "ok" if reply.as_ref().is_some_and(|r| !r.is_blank()) => SendState::Replied,
                "ok" => SendState::NoReply,
                "timeout" => SendState::WaitOver,
                _ => SendState::Failed,
            };
            if sent.entry.state == SendState::Failed {
                sent.entry.error = error;
            }
            sent.entry.reply = reply;
        });
    }

    pub(super) fn send_queued(&mut self, run: &str, queued_behind: Option<u32>) {
        self.sent_safely(run);
        self.change_send(run, |sent| {
            if sent.entry.state == SendState::Outbox {
                sent.entry.state = SendState::Queued;
            }
            sent.queued_behind = queued_behind.or(sent.queued_behind);
        });
    }

    pub(super) fn send_running(&mut self, run: &str) {
        self.sent_safely(run);
        self.change_send(run, |sent| {
            if matches!(sent.entry.state, SendState::Outbox | SendState::Queued) {
                sent.entry.state = SendState::Running;
            }
        });
    }

    pub(super) fn send_ended(&mut self, run: &str, outcome: Outcome, error: Option<Untrusted>) {
        self.change_send(run, |sent| {
            // The answer of a wait knows more; it is on its way.
            if sent.wait_until.is_none() && !sent.is_settled() {
                (sent.entry.state, sent.entry.error) = match outcome {
                    Outcome::Ok => (SendState::Replied, None),
                    other => end_of(other, None, error),
                };
            }
        });
    }

    pub(super) fn send_state(
        &mut self,
        send_id: &str,
        run_id: Option<String>,
        state: SendState,
        reply: Option<Untrusted>,
        error: Option<Untrusted>,
    ) {
        let known = self
            .compose
            .ledger
            .iter()
            .any(|sent| sent.entry.send_id == send_id);
        let id = if known {
            send_id.to_owned()
        } else {
            run_id.unwrap_or_default()
        };
        if !matches!(
            state,
            SendState::Outbox | SendState::Refused | SendState::Failed | SendState::Unknown
        ) {
            self.sent_safely(&id);
        }
        self.change_send(&id, |sent| {
            let goes_back = sent.is_settled()
                && matches!(
                    state,
                    SendState::Outbox
                        | SendState::Queued
                        | SendState::Running
                        | SendState::WaitOver
                );
            if !goes_back {
                sent.entry.state = state;
                sent.entry.reply = reply.or_else(|| sent.entry.reply.take());
                sent.entry.error = error.or_else(|| sent.entry.error.take());
            }
        });
    }

    /// `↑` in an empty box, and on from there.
    pub(super) fn recall(&mut self, older: bool) -> bool {
        let walks = self.compose.recalled.is_some();
        let begins = older && self.compose.draft.is_empty();
        if !walks && !begins {
            return false;
        }
        let mut texts: Vec<Untrusted> = Vec::new();
        for sent in &self.compose.ledger {
            if !texts.contains(&sent.entry.text) {
                texts.push(sent.entry.text.clone());
            }
        }
        let next = match (self.compose.recalled, older) {
            (None, _) => Some(0),
            (Some(at), true) => Some((at + 1).min(texts.len().saturating_sub(1))),
            (Some(0), false) => None,
            (Some(at), false) => Some(at - 1),
        };
        let text = match next {
            Some(at) => match texts.get(at) {
                Some(text) => text.clone(),
                None => return false,
            },
            None => Untrusted::default(),
        };
        self.compose.recalled = next;
        self.compose.draft.set(&text);
        self.draft_changed();
        true
    }

    /// `Tab` completes a command.
    pub(super) fn complete(&mut self) {
        match self.compose.completions.as_slice() {
            [] => self.say(Tone::Info, "commands begin with /"),
            [one] => {
                let space = if one.arguments.is_empty() { "" } else { " " };
                let text = Untrusted::new(format!("{}{space}", one.name));
                self.compose.draft.set(&text);
                self.draft_changed();
            }
            many => {
                let first = many[0].name;
                let shared = (1..=first.len())
                    .rev()
                    .find(|len| many.iter().all(|c| c.name.starts_with(&first[..*len])))
                    .unwrap_or(1);
                let text = Untrusted::new(&first[..shared]);
                if text != self.compose.text() {
                    self.compose.draft.set(&text);
                    self.draft_changed();
                }
            }
        }
    }

    /// Does a command; false when the text is an ordinary message.
    fn command(&mut self, key: &SessionKey, text: &str) -> bool {
        let text = text.trim();
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        let name = name.to_lowercase();
        if !is_command(&name) || text.contains('\n') && name != "/spawn" {
            return false;
        }
        let value = |text: &str| {
            if text.is_empty() {
                Value::Null
            } else {
                text.into()
            }
        };
        match (name.as_str(), rest) {
            ("/send", rest) => match rest.to_lowercase().as_str() {
                "on" | "allow" => {
                    self.patch(key, "sendPolicy", "allow".into(), "sends are on here");
                }
                "off" | "deny" => {
                    self.patch(key, "sendPolicy", "deny".into(), "sends are off here");
                }
                "inherit" | "default" | "reset" => {
                    self.patch(
                        key,
                        "sendPolicy",
                        Value::Null,
                        "sends follow the policy again",
                    );
                }
                // SP-23: several words are an ordinary message, one other word is a question how to use it.
                word if word.contains(char::is_whitespace) => return false,
                _ => {
                    self.compose.failure = Some("usage: /send on|off|inherit".into());
                    return true;
                }
            },
            ("/stop", "") => self.abort(key, true),
            ("/abort", "") => self.abort(key, false),
            ("/new" | "/reset", "") => {
                let request = Request::Reset { key: wire(key) };
                self.ask(Wanted::Change("a new transcript begins".into()), request);
            }
            ("/archive", "") => {
                let request = Request::Archive { key: wire(key) };
                self.ask(Wanted::Change("archived".into()), request);
            }
            ("/label", label) => self.patch(key, "label", value(label), "label changed"),
            ("/model", model) => self.patch(key, "model", value(model), "model changed"),
            ("/think", level) => {
                self.patch(key, "thinkingLevel", value(level), "thinking level changed");
            }
            ("/spawn", task) => {
                let task = Untrusted::new(task);
                self.compose.draft.edit(Edit::Clear);
                self.draft_changed();
                self.open_spawn(Some(task));
                return true;
            }
            _ => return false,
        }
        self.compose.draft.edit(Edit::Clear);
        self.draft_changed();
        true
    }

    /// Changes one setting of a session; `null` clears it.
    pub(super) fn patch(
        &mut self,
        key: &SessionKey,
        field: &str,
        value: Value,
        done: &'static str,
    ) {
        let mut fields = Map::new();
        fields.insert(field.to_owned(), value);
        let request = Request::Patch {
            key: wire(key),
            fields,
        };
        self.ask(Wanted::Change(done.into()), request);
    }

    pub(super) fn abort(&mut self, key: &SessionKey, tree: bool) {
        let request = Request::Abort {
            target: wire(key),
            tree,
        };
        self.ask(Wanted::Change("aborted".into()), request);
    }

    /// Goes to the box.
    pub(super) fn focus_compose(&mut self) {
        if let Some(why) = self.why_read_only() {
            return self.say(Tone::Bad, why);
        }
        if self.focus == Focus::List {
            self.open_selected();
        }
        if self.compose.target.is_some() {
            self.focus = Focus::Compose;
        } else {
            self.say(Tone::Info, "choose a session first");
        }
    }
}

fn is_command(name: &str) -> bool {
    let name = name.to_lowercase();
    COMMANDS.iter().any(|command| command.name == name)
}

fn end_of(
    outcome: Outcome,
    reply: Option<&Untrusted>,
    error: Option<Untrusted>,
) -> (SendState, Option<Untrusted>) {
    let or = |words: &str| Some(error.clone().unwrap_or_else(|| words.into()));
    match outcome {
        Outcome::Ok if reply.is_some_and(|reply| !reply.is_blank()) => (SendState::Replied, None),
        Outcome::Ok => (SendState::NoReply, None),
        Outcome::Error => (SendState::Failed, or("the run failed")),
        Outcome::Timeout => (SendState::Failed, or("the run ran out of time")),
        Outcome::Aborted => (SendState::Failed, or("the run was aborted")),
        Outcome::Interrupted => (
            SendState::Failed,
            or("the engine was restarted while it ran"),
        ),
    }
}
