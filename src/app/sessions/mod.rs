//! The list pane: every session of the source, kept compactly; filters, sorting and the tree are done here, so that a
//! key press shows at once and nothing is asked twice.
//!
//! Invariant: the cursor is a session key; re-sorting moves rows, never the cursor to another session.

mod order;
mod session;
mod table;

pub use session::{Session, State, identity};

use super::draft::Draft;
use super::fuzzy;
use crate::clean_format;
use crate::model::key::{AgentId, Kind, SessionKey};
use crate::model::session::{Row, Status};
use crate::text::{Clean, Untrusted};
use order::Sieve;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use table::{NONE, Table};

/// Order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    #[default]
    Recent,
    Name,
    Kind,
    Agent,
    State,
}

impl Sort {
    /// In the order the key cycles.
    pub const ALL: [Sort; 5] = [
        Sort::Recent,
        Sort::Name,
        Sort::Kind,
        Sort::Agent,
        Sort::State,
    ];
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Sort::Recent => "recent",
            Sort::Name => "name",
            Sort::Kind => "kind",
            Sort::Agent => "agent",
            Sort::State => "state",
        }
    }
    /// Reads the word.
    pub fn parse(word: &str) -> Option<Sort> {
        Sort::ALL.into_iter().find(|sort| sort.as_str() == word)
    }
}

/// Choices of "active within", minutes; `None` is any.
pub const ACTIVE: [Option<u64>; 7] = [
    None,
    Some(5),
    Some(15),
    Some(60),
    Some(240),
    Some(1440),
    Some(10_080),
];

/// What narrows the list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filters {
    pub kind: Option<Kind>,
    pub active_minutes: Option<u64>,
    pub agent: Option<AgentId>,
    pub channel: Option<Clean>,
    pub live_only: bool,
    pub archived_too: bool,
    /// Fuzzy, over name, title, key, agent and channel.
    pub text: Untrusted,
}

/// One drawn row: which session, where in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its number; see [`SessionsPane::key_of`] and [`SessionsPane::session_of`].
    session: u32,
    /// Per ancestor but the root, outermost in the lowest bit: its line goes on below. More than fit are not kept.
    rails: u32,
    /// Children that are folded away.
    pub folded: u32,
    /// 0 for a root.
    pub depth: u16,
    /// The last child of its parent that is shown.
    pub is_last: bool,
    /// Shown only because a child matches.
    pub is_context: bool,
}

impl Line {
    /// Per ancestor but the root, outermost first, as many as are kept: its line goes on below.
    pub fn rails(&self) -> impl Iterator<Item = bool> {
        let count = u32::from(self.depth.saturating_sub(1)).min(u32::BITS);
        let rails = self.rails;
        (0..count).map(move |at| rails >> at & 1 == 1)
    }
}

/// The pane.
#[derive(Debug, Clone, Default)]
pub struct SessionsPane {
    table: Table,
    pub filters: Filters,
    pub sort: Sort,
    pub tree: bool,
    pub folded: HashSet<SessionKey>,
    pub selected: Option<SessionKey>,
    /// What is drawn, in order.
    pub lines: Vec<Line>,
    /// Per number, the index of its line.
    places: Vec<u32>,
    /// Every number as it was sorted last: what is sorted again is nearly so already.
    order: Vec<u32>,
    /// Something changed since lines were made.
    stale: bool,
    /// First line on the screen; kept so that the cursor stays on its screen row when rows move.
    pub top: usize,
    /// Being typed; the filter holds at once.
    pub filter_input: Option<Draft>,
    /// Per kind: how many under the *other* filters; the last is `all`.
    pub kind_counts: BTreeMap<Option<Kind>, usize>,
    /// Sessions that match (context rows not counted).
    pub matching: usize,
    /// The first list has come.
    pub loaded: bool,
    /// Why the list could not be read.
    pub failure: Option<Clean>,
    /// Remarks of the source.
    pub warnings: Vec<Clean>,
    /// A session whose row has not come yet (a spawned child); the cursor goes there when it does.
    pub(super) awaited: Option<SessionKey>,
    /// Runs by session: started, accepted.
    pub live: HashMap<SessionKey, Live>,
}

/// Runs of a session that have not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Live {
    pub running: BTreeSet<String>,
    pub queued: BTreeSet<String>,
}

/// Why something is not in the list, and how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenPart {
    pub why: Clean,
    pub count: usize,
}

impl SessionsPane {
    /// A pane that has seen nothing yet.
    pub fn new(tree: bool, sort: Sort) -> Self {
        Self {
            tree,
            sort,
            ..Self::default()
        }
    }

    /// The selected session.
    pub fn current(&self) -> Option<&Session> {
        self.get(self.selected.as_ref()?)
    }

    /// A session by its key.
    pub fn get(&self, key: &SessionKey) -> Option<&Session> {
        self.table.get(self.table.number(key)?)
    }

    /// Every session, in no order that means something.
    pub fn iter(&self) -> impl Iterator<Item = &Session> {
        self.table.iter()
    }

    /// Sessions there are, shown or not.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// There is not one.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// The parent of a session, whether it is there or not.
    pub fn parent(&self, key: &SessionKey) -> Option<&SessionKey> {
        let number = self.table.number(key)?;
        let parent = self.table.facts()[number as usize].parent;
        (parent != NONE).then(|| self.table.key(parent))
    }

    /// The sessions that have this one as their parent.
    pub fn children(&self, key: &SessionKey) -> impl Iterator<Item = &Session> {
        let parent = self.table.number(key);
        let facts = self.table.facts().iter();
        (0..)
            .zip(facts)
            .filter(move |(_, facts)| Some(facts.parent) == parent)
            .filter_map(|(number, _)| self.table.get(number))
    }

    /// The session of a line; none when it went since the lines were made.
    pub fn session_of(&self, line: &Line) -> Option<&Session> {
        self.table.get(line.session)
    }

    /// The key of a line.
    pub fn key_of(&self, line: &Line) -> &SessionKey {
        self.table.key(line.session)
    }

    /// Keys of what is drawn, in order.
    pub fn shown(&self) -> impl Iterator<Item = &SessionKey> {
        self.lines.iter().map(|line| self.key_of(line))
    }

    /// Index of the line of a session.
    pub fn line_of(&self, key: &SessionKey) -> Option<usize> {
        self.place_of(self.table.number(key)?)
    }

    fn place_of(&self, number: u32) -> Option<usize> {
        let place = *self.places.get(number as usize)?;
        (place != NONE).then_some(place as usize)
    }

    /// The name to show for a key: the session's, else the telling part of the key.
    pub fn name(&self, key: &SessionKey) -> Clean {
        self.get(key).map_or_else(|| key.short(), Session::name)
    }

    /// Who speaks in a session: the agent for its main session, else the session's name.
    pub fn speaker(&self, key: &SessionKey) -> Clean {
        match key.agent() {
            Some(agent) if self.get(key).is_none_or(|s| s.kind == Kind::Main) => agent.clean(),
            _ => self.name(key),
        }
    }

    /// Index of the selected line.
    pub fn selected_line(&self) -> Option<usize> {
        self.line_of(self.selected.as_ref()?)
    }

    /// "N of M": what matches, and all there are (archived ones counted when shown).
    pub fn counts(&self) -> (usize, usize) {
        (self.matching, self.len())
    }

    /// What the session is doing.
    pub fn state(&self, session: &Session) -> State {
        let live = self.live.get(&session.key);
        if live.is_some_and(|l| !l.running.is_empty()) {
            return State::Running;
        }
        if live.is_some_and(|l| !l.queued.is_empty()) {
            return State::Queued;
        }
        session.state_of_row()
    }

    /// Runs that run, and runs that wait, over all sessions.
    pub fn run_counts(&self) -> (usize, usize) {
        let mut counts = self.table.runs();
        for (key, live) in &self.live {
            if let Some(session) = self.get(key) {
                let (running, queued) = session.runs_of_row();
                counts.0 += live.running.len().saturating_sub(running);
                counts.1 += live.queued.len().saturating_sub(queued);
            }
        }
        counts
    }

    /// Replaces everything.
    pub fn replace(&mut self, rows: &[Row], now_ms: i64) {
        let old_line = self.selected_line();
        self.table.fill(rows);
        // They speak of numbers that are no more.
        self.order.clear();
        self.places.clear();
        self.loaded = true;
        self.failure = None;
        let is_elsewhere = self.take_awaited();
        self.renew(old_line.filter(|_| !is_elsewhere), now_ms);
    }

    /// Makes or replaces one session; lines follow with [`SessionsPane::settle`].
    pub(super) fn put(&mut self, row: &Row) {
        self.table.put(row);
        self.stale = true;
    }

    /// Takes one away; with [`SessionsPane::settle`] the cursor goes to its neighbour.
    pub(super) fn remove(&mut self, key: &SessionKey) {
        self.table.remove(key);
        self.live.remove(key);
        self.stale = true;
    }

    /// A run ended: until the row comes, the list says how.
    pub(super) fn ended(&mut self, key: &SessionKey, outcome: crate::model::run::Outcome) {
        use crate::model::run::Outcome;
        let status = match outcome {
            Outcome::Ok => Status::Done,
            Outcome::Error | Outcome::Interrupted => Status::Failed,
            Outcome::Timeout => Status::Timeout,
            Outcome::Aborted => Status::Killed,
        };
        self.table.set_status(key, status);
    }

    /// Runs began or ended. Rows move only where their place depends on it.
    pub(super) fn states_changed(&mut self) {
        self.stale |= self.sort == Sort::State || self.filters.live_only;
    }

    /// Makes lines anew if something changed since.
    pub fn settle(&mut self, now_ms: i64) {
        if self.stale {
            self.rebuild(now_ms);
        }
    }

    /// Makes lines, counts and cursor anew after a change. Keeps the cursor on its session and on its screen row.
    pub fn rebuild(&mut self, now_ms: i64) {
        self.take_awaited();
        self.renew(self.selected_line(), now_ms);
    }

    /// Selects the session that was waited for, when it has come.
    fn take_awaited(&mut self) -> bool {
        let has_come = self
            .awaited
            .as_ref()
            .is_some_and(|key| self.get(key).is_some());
        if has_come {
            self.selected = self.awaited.take();
        }
        has_come
    }

    fn renew(&mut self, old_line: Option<usize>, now_ms: i64) {
        self.stale = false;
        let screen_row = old_line.map_or(0, |at| at.saturating_sub(self.top));
        self.arrange(now_ms);
        let index = match self.selected_line() {
            Some(index) => index,
            None if self.lines.is_empty() => {
                // The cursor stays remembered: what comes back is selected again.
                self.top = 0;
                return;
            }
            None => {
                // Folded or filtered away: the nearest shown ancestor, else the neighbour at the old place.
                let ancestor = self
                    .selected
                    .as_ref()
                    .and_then(|key| self.shown_ancestor(key));
                let at =
                    ancestor.unwrap_or_else(|| old_line.unwrap_or(0).min(self.lines.len() - 1));
                self.selected = Some(self.key_of(&self.lines[at]).clone());
                at
            }
        };
        self.top = index.saturating_sub(screen_row);
    }

    fn shown_ancestor(&self, key: &SessionKey) -> Option<usize> {
        let mut at = self.table.number(key)?;
        let mut seen = HashSet::new();
        while seen.insert(at) {
            self.table.get(at)?;
            at = self.table.parent(at)?;
            if let Some(place) = self.place_of(at) {
                return Some(place);
            }
        }
        None
    }

    /// Moves the cursor by lines, staying inside.
    pub fn step(&mut self, by: isize) {
        let at = self
            .selected_line()
            .map_or(0, |at| at.saturating_add_signed(by));
        let at = at.min(self.lines.len().saturating_sub(1));
        self.awaited = None;
        if let Some(line) = self.lines.get(at) {
            self.selected = Some(self.key_of(line).clone());
        }
    }

    /// Selects a session wherever it is, unfolding and, when filters hide it, clearing what hides it.
    pub fn reveal(&mut self, key: &SessionKey, now_ms: i64) {
        if self.get(key).is_none() {
            self.awaited = Some(key.clone());
            return;
        }
        let mut at = key.clone();
        let mut seen = HashSet::new();
        while let Some(parent) = self.parent(&at).cloned() {
            if !seen.insert(parent.clone()) {
                break;
            }
            self.folded.remove(&parent);
            at = parent;
        }
        self.selected = Some(key.clone());
        self.rebuild(now_ms);
        if self.selected.as_ref() != Some(key) {
            let archived = self.get(key).is_some_and(|s| s.archived);
            self.filters = Filters {
                archived_too: self.filters.archived_too || archived,
                ..Filters::default()
            };
            self.selected = Some(key.clone());
            self.rebuild(now_ms);
        }
    }

    /// What is not shown, and which filter hides it; each part counts what that filter alone would hide.
    pub fn hidden(&self, now_ms: i64) -> Vec<HiddenPart> {
        let f = &self.filters;
        let mut parts = Vec::new();
        let mut part = |why: Clean, only: Filters| {
            let states = self.states(only.live_only);
            let sieve = Sieve::new(&only, &self.table, &states, now_ms);
            let facts = self.table.facts();
            let count = (0..)
                .zip(facts)
                .filter(|(at, facts)| facts.here && !(sieve.passes(*at) && sieve.is_kind(*at)))
                .count();
            parts.push(HiddenPart { why, count });
        };
        let open = Filters {
            archived_too: true,
            ..Filters::default()
        };
        if !f.archived_too {
            part(Clean::fixed("archived (. shows them)"), Filters::default());
        }
        if let Some(kind) = f.kind {
            part(
                clean_format!("kind is not {} (K)", kind.as_str()),
                Filters {
                    kind: f.kind,
                    ..open.clone()
                },
            );
        }
        if let Some(minutes) = f.active_minutes {
            part(
                clean_format!("not active within {} (A)", minutes_shown(minutes)),
                Filters {
                    active_minutes: f.active_minutes,
                    ..open.clone()
                },
            );
        }
        if let Some(agent) = &f.agent {
            part(
                clean_format!("agent is not {} (a)", agent.clean()),
                Filters {
                    agent: f.agent.clone(),
                    ..open.clone()
                },
            );
        }
        if let Some(channel) = &f.channel {
            part(
                clean_format!("channel is not {} (C)", channel),
                Filters {
                    channel: f.channel.clone(),
                    ..open.clone()
                },
            );
        }
        if f.live_only {
            part(
                Clean::fixed("nothing runs or waits there (L)"),
                Filters {
                    live_only: true,
                    ..open.clone()
                },
            );
        }
        if !f.text.is_blank() {
            let words: Vec<&str> = self.iter().map(Session::searched).collect();
            parts.push(HiddenPart {
                why: clean_format!("does not match \"{}\" (/)", f.text.clean()),
                count: words.len() - fuzzy::ranked(&f.text, &words).len(),
            });
        }
        if self.tree && !self.folded.is_empty() {
            let count = self.lines.iter().map(|line| line.folded as usize).sum();
            if count > 0 {
                parts.push(HiddenPart {
                    why: Clean::fixed("folded away in the tree (za)"),
                    count,
                });
            }
        }
        parts
    }
}

/// `15 min`, `4 h`, `7 d`.
pub fn minutes_shown(minutes: u64) -> Clean {
    match minutes {
        m if m >= 1440 && m % 1440 == 0 => clean_format!("{} d", m / 1440),
        m if m >= 60 && m % 60 == 0 => clean_format!("{} h", m / 60),
        m => clean_format!("{} min", m),
    }
}
