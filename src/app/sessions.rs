//! The list pane: every session of the source, kept compactly; filters, sorting and the tree are done here, so that a
//! key press shows at once and nothing is asked twice.
//!
//! Invariant: the cursor is a session key; re-sorting moves rows, never the cursor to another session.

use super::draft::Draft;
use super::fuzzy;
use crate::clean_format;
use crate::model::key::{AgentId, Kind, SessionKey};
use crate::model::session::{Row, SendPolicy, Status};
use crate::text::{Clean, Untrusted};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A session as the list needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub key: SessionKey,
    pub kind: Kind,
    pub agent: Option<AgentId>,
    pub channel: Clean,
    /// Display name, else label, else the telling part of the key.
    pub name: Clean,
    pub label: Option<Clean>,
    pub title: Option<Clean>,
    pub preview: Option<Clean>,
    pub updated_at: Option<i64>,
    pub started_at: Option<i64>,
    /// As the row says; see [`SessionsPane::state`] for what holds.
    pub status: Option<Status>,
    /// As the row says.
    pub queued: u32,
    pub archived: bool,
    /// The session that spawned it, else the one its thread hangs on.
    pub parent: Option<SessionKey>,
    pub spawned: bool,
    pub model: Option<Clean>,
    pub total_tokens: Option<i64>,
    pub context_tokens: Option<i64>,
    pub cost_usd: Option<f64>,
    pub send_policy: Option<SendPolicy>,
    pub message_count: Option<i64>,
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

impl Session {
    /// Reads a row.
    pub fn read(row: &Row) -> Self {
        let key = identity(&row.key);
        let one = |text: &Option<Untrusted>| {
            text.as_ref()
                .filter(|text| !text.is_blank())
                .map(Untrusted::clean)
        };
        let label = one(&row.label);
        let name = one(&row.display_name)
            .or_else(|| label.clone())
            .unwrap_or_else(|| key.short());
        Self {
            kind: row.kind,
            agent: row.agent_id.clone().or_else(|| key.agent()),
            channel: row.channel.clean(),
            name,
            label,
            title: one(&row.derived_title),
            preview: one(&row.last_message_preview),
            updated_at: row.updated_at.filter(|at| *at > 0),
            started_at: row.started_at,
            status: row.status,
            queued: row.queued.unwrap_or(0),
            archived: row.archived_at.is_some(),
            parent: row
                .spawned_by
                .as_ref()
                .or(row.parent_session_key.as_ref())
                .map(identity)
                .filter(|parent| *parent != key),
            spawned: row.spawned_by.is_some(),
            model: one(&row.model),
            total_tokens: row.total_tokens,
            context_tokens: row.context_tokens,
            cost_usd: row.estimated_cost_usd,
            send_policy: row.send_policy,
            message_count: row.message_count,
            key,
        }
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
    pub key: SessionKey,
    /// 0 for a root.
    pub depth: u16,
    /// The last child of its parent that is shown.
    pub is_last: bool,
    /// Per ancestor but the root, outermost first: its line goes on below.
    pub rails: Vec<bool>,
    /// Children that are folded away.
    pub folded: usize,
    /// Shown only because a child matches.
    pub is_context: bool,
}

/// The pane.
#[derive(Debug, Clone, Default)]
pub struct SessionsPane {
    pub all: HashMap<SessionKey, Session>,
    pub filters: Filters,
    pub sort: Sort,
    pub tree: bool,
    pub folded: HashSet<SessionKey>,
    pub selected: Option<SessionKey>,
    /// What is drawn, in order.
    pub lines: Vec<Line>,
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
    /// The selected session.
    pub fn current(&self) -> Option<&Session> {
        self.all.get(self.selected.as_ref()?)
    }

    /// A session by its key.
    pub fn get(&self, key: &SessionKey) -> Option<&Session> {
        self.all.get(key)
    }

    /// The name to show for a key: the session's, else the telling part of the key.
    pub fn name(&self, key: &SessionKey) -> Clean {
        self.all
            .get(key)
            .map_or_else(|| key.short(), |session| session.name.clone())
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
        let selected = self.selected.as_ref()?;
        self.lines.iter().position(|line| line.key == *selected)
    }

    /// "N of M": what matches, and all there are (archived ones counted when shown).
    pub fn counts(&self) -> (usize, usize) {
        (self.matching, self.all.len())
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
        match session.status {
            Some(Status::Running) => State::Running,
            _ if session.queued > 0 => State::Queued,
            Some(Status::Failed) => State::Failed,
            Some(Status::Timeout) => State::Timeout,
            Some(Status::Killed) => State::Killed,
            Some(Status::Done) => State::Done,
            None => State::Idle,
        }
    }

    /// Runs that run, and runs that wait, over all sessions.
    pub fn run_counts(&self) -> (usize, usize) {
        let mut counts = (0, 0);
        for session in self.all.values() {
            let live = self.live.get(&session.key);
            let running = live.map_or(0, |l| l.running.len());
            let queued = live.map_or(0, |l| l.queued.len());
            counts.0 += running.max(usize::from(session.status == Some(Status::Running)));
            counts.1 += queued.max(session.queued as usize);
        }
        counts
    }

    /// Replaces everything.
    pub fn replace(&mut self, rows: &[Row], now_ms: i64) {
        self.all = rows
            .iter()
            .map(Session::read)
            .map(|session| (session.key.clone(), session))
            .collect();
        self.loaded = true;
        self.failure = None;
        self.rebuild(now_ms);
    }

    /// Makes or replaces one session.
    pub fn put(&mut self, row: &Row, now_ms: i64) {
        let session = Session::read(row);
        self.all.insert(session.key.clone(), session);
        self.rebuild(now_ms);
    }

    /// Takes one away; the cursor goes to its neighbour.
    pub fn remove(&mut self, key: &SessionKey, now_ms: i64) {
        self.all.remove(key);
        self.live.remove(key);
        self.rebuild(now_ms);
    }

    /// A run ended: until the row comes, the list says how.
    pub(super) fn ended(&mut self, key: &SessionKey, outcome: crate::model::run::Outcome) {
        use crate::model::run::Outcome;
        if let Some(session) = self.all.get_mut(key) {
            session.status = Some(match outcome {
                Outcome::Ok => Status::Done,
                Outcome::Error | Outcome::Interrupted => Status::Failed,
                Outcome::Timeout => Status::Timeout,
                Outcome::Aborted => Status::Killed,
            });
        }
    }

    /// Runs began or ended. Rows move only where their place depends on it: with many sessions that is most of the work.
    pub(super) fn states_changed(&mut self, now_ms: i64) {
        if self.sort == Sort::State || self.filters.live_only {
            self.rebuild(now_ms);
        }
    }

    fn passes(&self, session: &Session, now_ms: i64, with_kind: bool) -> bool {
        let f = &self.filters;
        (f.archived_too || !session.archived)
            && (!with_kind || f.kind.is_none_or(|kind| kind == session.kind))
            && f.active_minutes.is_none_or(|minutes| {
                let since = now_ms.saturating_sub_unsigned(minutes.saturating_mul(60_000));
                session.updated_at.is_some_and(|at| at >= since)
            })
            && f.agent
                .as_ref()
                .is_none_or(|agent| session.agent.as_ref() == Some(agent))
            && f.channel.as_ref().is_none_or(|c| session.channel == *c)
            && (!f.live_only || matches!(self.state(session), State::Running | State::Queued))
    }

    /// Makes lines, counts and cursor anew after a change. Keeps the cursor on its session and on its screen row.
    pub fn rebuild(&mut self, now_ms: i64) {
        if let Some(key) = self.awaited.take_if(|key| self.all.contains_key(key)) {
            self.selected = Some(key);
        }
        let old_line = self.selected_line();
        let screen_row = old_line.map_or(0, |at| at.saturating_sub(self.top));

        let mut candidates: Vec<&Session> = self
            .all
            .values()
            .filter(|session| self.passes(session, now_ms, false))
            .collect();
        if !self.filters.text.is_blank() {
            candidates.sort_by(|a, b| a.key.cmp(&b.key));
            let words: Vec<Clean> = candidates.iter().map(|s| haystack(s)).collect();
            candidates = fuzzy::ranked(&self.filters.text, &words)
                .into_iter()
                .map(|at| candidates[at])
                .collect();
        }
        let mut kind_counts: BTreeMap<Option<Kind>, usize> =
            Kind::ALL.iter().map(|kind| (Some(*kind), 0)).collect();
        kind_counts.insert(None, candidates.len());
        for session in &candidates {
            *kind_counts.entry(Some(session.kind)).or_default() += 1;
        }
        candidates.retain(|s| self.filters.kind.is_none_or(|kind| kind == s.kind));
        let matching: HashSet<&SessionKey> = candidates.iter().map(|s| &s.key).collect();
        let matching_count = matching.len();
        let ranked = !self.filters.text.is_blank();

        let lines = if self.tree {
            self.tree_lines(&candidates, &matching, ranked)
        } else {
            if !ranked {
                candidates.sort_by(|a, b| self.compare(a, b));
            }
            candidates
                .iter()
                .map(|s| Line {
                    key: s.key.clone(),
                    depth: 0,
                    is_last: false,
                    rails: Vec::new(),
                    folded: 0,
                    is_context: false,
                })
                .collect()
        };
        self.kind_counts = kind_counts;
        self.matching = matching_count;
        self.lines = lines;

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
                    .clone()
                    .and_then(|key| self.shown_ancestor(&key));
                let at =
                    ancestor.unwrap_or_else(|| old_line.unwrap_or(0).min(self.lines.len() - 1));
                self.selected = Some(self.lines[at].key.clone());
                at
            }
        };
        self.top = index.saturating_sub(screen_row);
    }

    fn shown_ancestor(&self, key: &SessionKey) -> Option<usize> {
        let mut seen = HashSet::new();
        let mut key = key.clone();
        while seen.insert(key.clone()) {
            key = self.all.get(&key)?.parent.clone()?;
            if let Some(at) = self.lines.iter().position(|line| line.key == key) {
                return Some(at);
            }
        }
        None
    }

    fn compare(&self, a: &Session, b: &Session) -> std::cmp::Ordering {
        let recent = || b.updated_at.cmp(&a.updated_at);
        let name = || {
            a.name
                .as_str()
                .to_lowercase()
                .cmp(&b.name.as_str().to_lowercase())
        };
        match self.sort {
            Sort::Recent => recent(),
            Sort::Name => name(),
            Sort::Kind => a.kind.cmp(&b.kind).then_with(recent),
            Sort::Agent => a.agent.cmp(&b.agent).then_with(recent),
            Sort::State => self.state(a).cmp(&self.state(b)).then_with(recent),
        }
        .then_with(|| a.key.cmp(&b.key))
    }

    fn tree_lines(
        &self,
        candidates: &[&Session],
        matching: &HashSet<&SessionKey>,
        ranked: bool,
    ) -> Vec<Line> {
        // Ancestors of what matches are shown too, as context; a loop of parents (foreign stores) is cut.
        let mut shown: HashSet<&SessionKey> = matching.clone();
        for session in candidates {
            let mut at = *session;
            let mut seen = HashSet::from([&at.key]);
            while let Some(parent) = at.parent.as_ref().and_then(|key| self.all.get(key)) {
                if !seen.insert(&parent.key) {
                    break;
                }
                shown.insert(&parent.key);
                at = parent;
            }
        }
        let mut children: HashMap<&SessionKey, Vec<&Session>> = HashMap::new();
        let mut roots: Vec<&Session> = Vec::new();
        for key in &shown {
            let Some(session) = self.all.get(*key) else {
                continue;
            };
            match session
                .parent
                .as_ref()
                .filter(|parent| shown.contains(parent))
            {
                Some(parent) if !self.is_in_loop(session) => {
                    children.entry(parent).or_default().push(session);
                }
                _ => roots.push(session),
            }
        }
        let rank: HashMap<&SessionKey, usize> = if ranked {
            candidates
                .iter()
                .enumerate()
                .map(|(at, s)| (&s.key, at))
                .collect()
        } else {
            HashMap::new()
        };
        // A tree is as recent, and as good a match, as the best in it.
        let mut best: HashMap<&SessionKey, (usize, i64)> = HashMap::new();
        for key in &shown {
            let Some(session) = self.all.get(*key) else {
                continue;
            };
            let own = (
                rank.get(key).copied().unwrap_or(usize::MAX),
                session.updated_at.unwrap_or(i64::MIN),
            );
            let mut at = session;
            let mut seen = HashSet::new();
            loop {
                if !seen.insert(&at.key) {
                    break;
                }
                let entry = best.entry(&at.key).or_insert((usize::MAX, i64::MIN));
                entry.0 = entry.0.min(own.0);
                entry.1 = entry.1.max(own.1);
                match at.parent.as_ref().and_then(|key| self.all.get(key)) {
                    Some(parent) => at = parent,
                    None => break,
                }
            }
        }
        let order = |a: &&Session, b: &&Session| {
            let (a_best, b_best) = (best.get(&a.key), best.get(&b.key));
            if ranked {
                return a_best
                    .map(|x| x.0)
                    .cmp(&b_best.map(|x| x.0))
                    .then_with(|| a.key.cmp(&b.key));
            }
            if self.sort == Sort::Recent {
                return b_best
                    .map(|x| x.1)
                    .cmp(&a_best.map(|x| x.1))
                    .then_with(|| a.key.cmp(&b.key));
            }
            self.compare(a, b)
        };
        roots.sort_by(order);
        for list in children.values_mut() {
            list.sort_by(order);
        }
        let mut lines = Vec::with_capacity(shown.len());
        // Depth first without recursion: a hostile store may nest as deep as it likes.
        let mut stack: Vec<(&Session, u16, bool, Vec<bool>)> = roots
            .iter()
            .rev()
            .map(|root| (*root, 0, false, Vec::new()))
            .collect();
        while let Some((session, depth, is_last, rails)) = stack.pop() {
            let own = children.get(&session.key).map_or(&[][..], Vec::as_slice);
            let is_folded = self.folded.contains(&session.key);
            lines.push(Line {
                key: session.key.clone(),
                depth,
                is_last,
                rails: rails.clone(),
                folded: if is_folded { own.len() } else { 0 },
                is_context: !matching.contains(&session.key),
            });
            if is_folded {
                continue;
            }
            for (at, child) in own.iter().enumerate().rev() {
                let mut rails = rails.clone();
                if depth > 0 {
                    rails.push(!is_last);
                }
                stack.push((child, depth.saturating_add(1), at + 1 == own.len(), rails));
            }
        }
        lines
    }

    fn is_in_loop(&self, session: &Session) -> bool {
        let mut at = session;
        let mut seen = HashSet::new();
        while let Some(parent) = at.parent.as_ref().and_then(|key| self.all.get(key)) {
            if parent.key == session.key {
                return true;
            }
            if !seen.insert(&parent.key) {
                return false;
            }
            at = parent;
        }
        false
    }

    /// Moves the cursor by lines, staying inside.
    pub fn step(&mut self, by: isize) {
        let at = self
            .selected_line()
            .map_or(0, |at| at.saturating_add_signed(by));
        let at = at.min(self.lines.len().saturating_sub(1));
        self.awaited = None;
        if let Some(line) = self.lines.get(at) {
            self.selected = Some(line.key.clone());
        }
    }

    /// Selects a session wherever it is, unfolding and, when filters hide it, clearing what hides it.
    pub fn reveal(&mut self, key: &SessionKey, now_ms: i64) {
        if !self.all.contains_key(key) {
            self.awaited = Some(key.clone());
            return;
        }
        let mut at = key.clone();
        let mut seen = HashSet::new();
        while let Some(parent) = self.all.get(&at).and_then(|s| s.parent.clone()) {
            if !seen.insert(parent.clone()) {
                break;
            }
            self.folded.remove(&parent);
            at = parent;
        }
        self.selected = Some(key.clone());
        self.rebuild(now_ms);
        if self.selected.as_ref() != Some(key) {
            let archived = self.all.get(key).is_some_and(|s| s.archived);
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
            let probe = SessionsPane {
                filters: only,
                live: self.live.clone(),
                ..SessionsPane::default()
            };
            let count = self
                .all
                .values()
                .filter(|s| !probe.passes(s, now_ms, true))
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
            let words: Vec<Clean> = self.all.values().map(haystack).collect();
            parts.push(HiddenPart {
                why: clean_format!("does not match \"{}\" (/)", f.text.clean()),
                count: words.len() - fuzzy::ranked(&f.text, &words).len(),
            });
        }
        if self.tree && !self.folded.is_empty() {
            let count = self.lines.iter().map(|line| line.folded).sum();
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

fn haystack(session: &Session) -> Clean {
    let mut text = session.name.clone();
    let mut add = |part: &Clean| {
        text.push(&Clean::fixed(" "));
        text.push(part);
    };
    if let Some(title) = &session.title {
        add(title);
    }
    if let Some(label) = session.label.as_ref().filter(|l| **l != session.name) {
        add(label);
    }
    add(&session.key.clean());
    add(&session.channel);
    text
}
