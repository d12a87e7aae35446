//! A session as the list needs it, kept compactly: there may be very many.
//!
//! Invariant: every text of a session lies in one piece, in the order in which it is searched; what many sessions share
//! (agent, channel, model) is kept once. Absent on purpose: other sessions, and what a session does right now.

use crate::model::key::{AgentId, Kind, SessionKey};
use crate::model::session::{Row, SendPolicy, Status};
use crate::text::{Clean, Untrusted};
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub key: SessionKey,
    texts: Texts,
    pub agent: Option<Arc<AgentId>>,
    pub channel: Arc<Clean>,
    pub model: Option<Arc<Clean>>,
    pub updated_at: Option<i64>,
    pub total_tokens: Option<i64>,
    pub context_tokens: Option<i64>,
    /// As the row says.
    pub queued: u32,
    pub kind: Kind,
    /// As the row says; see [`super::SessionsPane::state`] for what holds.
    pub status: Option<Status>,
    pub send_policy: Option<SendPolicy>,
    pub archived: bool,
    /// Its parent spawned it (else its thread hangs on the parent).
    pub spawned: bool,
}

/// Name, title, label, key and channel with blanks between, then the preview; and where each of them stands.
#[derive(Debug, Clone, Default, PartialEq)]
struct Texts {
    all: Clean,
    name: Part,
    title: Part,
    label: Part,
    /// What the fuzzy filter looks at.
    searched: Part,
    preview: Part,
}

/// A range of bytes; no text at all when it begins behind its end.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Part(u32, u32);

impl Default for Part {
    fn default() -> Self {
        Self(1, 0)
    }
}

impl Part {
    fn range(self) -> Option<Range<usize>> {
        (self.0 <= self.1).then_some(self.0 as usize..self.1 as usize)
    }
}

impl Texts {
    fn add(&mut self, text: &Clean, blank: bool) -> Part {
        if blank {
            self.all.push(&Clean::fixed(" "));
        }
        let place = |text: &Clean| u32::try_from(text.as_str().len()).unwrap_or(u32::MAX);
        let from = place(&self.all);
        self.all.push(text);
        Part(from, place(&self.all))
    }

    fn get(&self, part: Part) -> Option<Clean> {
        part.range().map(|range| self.all.slice(range))
    }
}

/// The identity of a key as it was given out: canonical, with the operator's `main` for `global` undone (K-11).
pub fn identity(key: &Untrusted) -> SessionKey {
    let key = SessionKey::foreign(key.raw());
    if key.as_str() == "main" {
        SessionKey::global()
    } else {
        key
    }
}

/// What a session is doing, for its glyph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Running,
    Queued,
    Failed,
    Timeout,
    Killed,
    Done,
    Idle,
}

/// What is shared by many sessions.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared {
    pub agents: Words<AgentId>,
    pub channels: Words<Clean>,
    models: Words<Clean>,
}

/// A row that was read: the session, and what leads to others.
pub(super) struct Read {
    pub session: Session,
    /// The session that spawned it, else the one its thread hangs on.
    pub parent: Option<SessionKey>,
    /// Numbers in [`Shared`].
    pub agent: Option<u32>,
    pub channel: u32,
}

impl Session {
    pub(super) fn read(row: &Row, shared: &mut Shared) -> Read {
        let key = identity(&row.key);
        let one = |text: &Option<Untrusted>| {
            text.as_ref()
                .filter(|text| !text.is_blank())
                .map(Untrusted::clean)
        };
        let label = one(&row.label);
        // Display name, else label, else the telling part of the key.
        let name = one(&row.display_name)
            .or_else(|| label.clone())
            .unwrap_or_else(|| key.short());
        let channel = row.channel.clean();
        let mut texts = Texts::default();
        texts.name = texts.add(&name, false);
        if let Some(title) = one(&row.derived_title) {
            texts.title = texts.add(&title, true);
        }
        texts.label = match label {
            Some(label) if label == name => texts.name,
            Some(label) => texts.add(&label, true),
            None => Part::default(),
        };
        texts.add(&key.clean(), true);
        texts.searched = Part(0, texts.add(&channel, true).1);
        if let Some(preview) = one(&row.last_message_preview) {
            texts.preview = texts.add(&preview, false);
        }
        // A copy has no room to spare.
        texts.all = texts.all.clone();

        let agent = row.agent_id.clone().or_else(|| key.agent());
        let agent = agent.map(|agent| shared.agents.number(agent));
        let channel = shared.channels.number(channel);
        let model = one(&row.model).map(|model| shared.models.number(model));
        Read {
            parent: row
                .spawned_by
                .as_ref()
                .or(row.parent_session_key.as_ref())
                .map(identity)
                .filter(|parent| *parent != key),
            agent,
            channel,
            session: Session {
                texts,
                agent: agent.map(|agent| shared.agents.word(agent)),
                channel: shared.channels.word(channel),
                model: model.map(|model| shared.models.word(model)),
                updated_at: row.updated_at.filter(|at| *at > 0),
                total_tokens: row.total_tokens,
                context_tokens: row.context_tokens,
                queued: row.queued.unwrap_or(0),
                kind: row.kind,
                status: row.status,
                send_policy: row.send_policy,
                archived: row.archived_at.is_some(),
                spawned: row.spawned_by.is_some(),
                key,
            },
        }
    }

    /// Display name, else label, else the telling part of the key.
    pub fn name(&self) -> Clean {
        self.texts.get(self.texts.name).unwrap_or_default()
    }

    /// [`Session::name`], to compare.
    pub(super) fn name_str(&self) -> &str {
        self.str(self.texts.name)
    }

    /// The label, where there is one.
    pub fn label(&self) -> Option<Clean> {
        self.texts.get(self.texts.label)
    }

    /// The derived title.
    pub fn title(&self) -> Option<Clean> {
        self.texts.get(self.texts.title)
    }

    /// The newest message, cut.
    pub fn preview(&self) -> Option<Clean> {
        self.texts.get(self.texts.preview)
    }

    /// What the fuzzy filter looks at: name, title, label, key and channel.
    pub(super) fn searched(&self) -> &str {
        self.str(self.texts.searched)
    }

    fn str(&self, part: Part) -> &str {
        let text = part.range().and_then(|r| self.texts.all.as_str().get(r));
        text.unwrap_or_default()
    }

    /// What its row alone says it is doing.
    pub(super) fn state_of_row(&self) -> State {
        match self.status {
            Some(Status::Running) => State::Running,
            _ if self.queued > 0 => State::Queued,
            Some(Status::Failed) => State::Failed,
            Some(Status::Timeout) => State::Timeout,
            Some(Status::Killed) => State::Killed,
            Some(Status::Done) => State::Done,
            None => State::Idle,
        }
    }

    /// Runs that run, and runs that wait, as its row says.
    pub(super) fn runs_of_row(&self) -> (usize, usize) {
        let running = usize::from(self.status == Some(Status::Running));
        (running, self.queued as usize)
    }
}

/// Words that are numbered as they come.
#[derive(Debug, Clone)]
pub(super) struct Words<T> {
    words: Vec<Arc<T>>,
    numbers: HashMap<Arc<T>, u32>,
}

impl<T> Default for Words<T> {
    fn default() -> Self {
        Self {
            words: Vec::new(),
            numbers: HashMap::new(),
        }
    }
}

impl<T: Eq + Hash + Ord> Words<T> {
    fn number(&mut self, word: T) -> u32 {
        if let Some(number) = self.numbers.get(&word) {
            return *number;
        }
        let number = u32::try_from(self.words.len()).unwrap_or(u32::MAX);
        let word = Arc::new(word);
        self.words.push(word.clone());
        self.numbers.insert(word, number);
        number
    }

    fn word(&self, number: u32) -> Arc<T> {
        self.words[number as usize].clone()
    }

    /// The number of a word that has come.
    pub fn find(&self, word: &T) -> Option<u32> {
        self.numbers.get(word).copied()
    }

    /// Per number, its place in the order of words.
    pub fn ranks(&self) -> Vec<u32> {
        let mut order: Vec<usize> = (0..self.words.len()).collect();
        order.sort_by(|a, b| self.words[*a].cmp(&self.words[*b]));
        let mut ranks = vec![0; order.len()];
        for (rank, number) in (0_u32..).zip(order) {
            ranks[number] = rank;
        }
        ranks
    }
}
