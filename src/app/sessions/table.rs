//! The sessions by number: what filters and sorting ask of each lies side by side, texts and the rest apart.
//!
//! Invariant: a key has one number until everything is replaced, whether its session is there or not; so a parent that is
//! not there (yet, or any more) has one too, and numbers can be kept. Absent on purpose: what is shown, and in which order.

use super::session::{Read, Session, Shared, State};
use crate::model::key::{Kind, SessionKey};
use crate::model::session::{Row, Status};
use std::collections::BTreeSet;

/// No number.
pub(super) const NONE: u32 = u32::MAX;

/// What filters and sorting ask.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// Last activity; the least there is when unknown.
    pub at: i64,
    /// Number of the parent, or [`NONE`].
    pub parent: u32,
    /// Numbers of words, or [`NONE`].
    pub agent: u32,
    pub channel: u32,
    pub kind: Kind,
    /// What the row alone says.
    pub state: State,
    pub archived: bool,
    /// False for a key whose session is not there.
    pub here: bool,
}

const NOWHERE: Facts = Facts {
    at: i64::MIN,
    parent: NONE,
    agent: NONE,
    channel: NONE,
    kind: Kind::Other,
    state: State::Idle,
    archived: false,
    here: false,
};

impl Facts {
    fn of(read: &Read) -> Self {
        let session = &read.session;
        Self {
            at: session.updated_at.unwrap_or(i64::MIN),
            parent: NONE,
            agent: read.agent.unwrap_or(NONE),
            channel: read.channel,
            kind: session.kind,
            state: session.state_of_row(),
            archived: session.archived,
            here: true,
        }
    }
}

#[derive(Debug, Clone)]
enum Slot {
    Here(Session),
    Gone(SessionKey),
}

impl Slot {
    fn key(&self) -> &SessionKey {
        match self {
            Slot::Here(session) => &session.key,
            Slot::Gone(key) => key,
        }
    }
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    slots: Vec<Slot>,
    facts: Vec<Facts>,
    /// Numbers in the order of keys.
    by_key: Vec<u32>,
    /// Per number, the place of its key in the order of keys.
    ranks: Vec<u32>,
    here: usize,
    /// Sum of what the rows say.
    runs: (usize, usize),
    pub shared: Shared,
}

fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(NONE)
}

impl Table {
    /// Sessions that are there.
    pub fn len(&self) -> usize {
        self.here
    }

    /// Per number; also for keys whose session is not there.
    pub fn facts(&self) -> &[Facts] {
        &self.facts
    }

    /// Numbers in the order of keys.
    pub fn by_key(&self) -> &[u32] {
        &self.by_key
    }

    /// Place of a number's key in the order of keys.
    pub fn rank(&self, number: u32) -> u32 {
        self.ranks[number as usize]
    }

    /// The sessions that are there.
    pub fn iter(&self) -> impl Iterator<Item = &Session> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Here(session) => Some(session),
            Slot::Gone(_) => None,
        })
    }

    /// A session by its number.
    pub fn get(&self, number: u32) -> Option<&Session> {
        match self.slots.get(number as usize)? {
            Slot::Here(session) => Some(session),
            Slot::Gone(_) => None,
        }
    }

    /// The key of a number.
    pub fn key(&self, number: u32) -> &SessionKey {
        self.slots[number as usize].key()
    }

    /// The number of the parent, when it is there.
    pub fn parent(&self, number: u32) -> Option<u32> {
        let parent = self.facts[number as usize].parent;
        (parent != NONE && self.facts[parent as usize].here).then_some(parent)
    }

    fn place(&self, key: &SessionKey) -> Result<usize, usize> {
        self.by_key
            .binary_search_by(|number| self.key(*number).cmp(key))
    }

    /// The number of a key, whether its session is there or not.
    pub fn number(&self, key: &SessionKey) -> Option<u32> {
        self.place(key).ok().map(|at| self.by_key[at])
    }

    /// Runs that run, and runs that wait, as the rows say.
    pub fn runs(&self) -> (usize, usize) {
        self.runs
    }

    /// Replaces everything; of rows with one key the last counts.
    pub fn fill(&mut self, rows: &[Row]) {
        *self = Self::default();
        let mut shared = Shared::default();
        let mut read: Vec<Read> = rows
            .iter()
            .map(|row| Session::read(row, &mut shared))
            .collect();
        read.sort_by(|a, b| b.session.key.cmp(&a.session.key));
        // Of equals the first is kept, and that is to be the last.
        read.reverse();
        read.dedup_by(|later, earlier| later.session.key == earlier.session.key);
        self.shared = shared;
        let mut parents = Vec::with_capacity(read.len());
        self.slots.reserve_exact(read.len());
        self.facts.reserve_exact(read.len());
        for read in read {
            self.facts.push(Facts::of(&read));
            self.slots.push(Slot::Here(read.session));
            parents.push(read.parent);
        }
        self.here = self.slots.len();
        self.by_key = (0..number(self.here)).collect();
        let absent: BTreeSet<SessionKey> = parents
            .iter()
            .flatten()
            .filter(|parent| self.place(parent).is_err())
            .cloned()
            .collect();
        for key in absent {
            self.by_key.push(number(self.slots.len()));
            self.slots.push(Slot::Gone(key));
            self.facts.push(NOWHERE);
        }
        let slots = &self.slots;
        self.by_key
            .sort_by(|a, b| slots[*a as usize].key().cmp(slots[*b as usize].key()));
        self.ranks = vec![0; self.slots.len()];
        for (rank, number) in (0..).zip(&self.by_key) {
            self.ranks[*number as usize] = rank;
        }
        for (at, parent) in parents.iter().enumerate() {
            self.facts[at].parent = parent.as_ref().and_then(|p| self.number(p)).unwrap_or(NONE);
        }
        self.runs = self.iter().fold((0, 0), |sum, session| {
            let (running, queued) = session.runs_of_row();
            (sum.0 + running, sum.1 + queued)
        });
    }

    /// Makes or replaces one session.
    pub fn put(&mut self, row: &Row) {
        let read = Session::read(row, &mut self.shared);
        let at = self.numbered(&read.session.key);
        let parent = read.parent.as_ref().map_or(NONE, |key| self.numbered(key));
        let facts = Facts {
            parent,
            ..Facts::of(&read)
        };
        self.set(at, Slot::Here(read.session), facts);
    }

    /// Takes one away.
    pub fn remove(&mut self, key: &SessionKey) {
        if let Some(at) = self.number(key) {
            self.set(at, Slot::Gone(key.clone()), NOWHERE);
        }
    }

    /// Says how the last run of a session ended.
    pub fn set_status(&mut self, key: &SessionKey, status: Status) {
        let Some(at) = self.number(key) else { return };
        let Slot::Here(session) = &mut self.slots[at as usize] else {
            return;
        };
        let was = session.runs_of_row();
        session.status = Some(status);
        self.facts[at as usize].state = session.state_of_row();
        let is = session.runs_of_row();
        self.runs = (self.runs.0 + is.0 - was.0, self.runs.1 + is.1 - was.1);
    }

    fn set(&mut self, at: u32, slot: Slot, facts: Facts) {
        let runs = |slot: &Slot| match slot {
            Slot::Here(session) => session.runs_of_row(),
            Slot::Gone(_) => (0, 0),
        };
        let at = at as usize;
        let (was, is) = (runs(&self.slots[at]), runs(&slot));
        self.runs = (self.runs.0 + is.0 - was.0, self.runs.1 + is.1 - was.1);
        self.here += usize::from(facts.here);
        self.here -= usize::from(self.facts[at].here);
        self.slots[at] = slot;
        self.facts[at] = facts;
    }

    /// The number of a key, new when it has none.
    fn numbered(&mut self, key: &SessionKey) -> u32 {
        let place = match self.place(key) {
            Ok(place) => return self.by_key[place],
            Err(place) => place,
        };
        let new = number(self.slots.len());
        self.slots.push(Slot::Gone(key.clone()));
        self.facts.push(NOWHERE);
        self.by_key.insert(place, new);
        let rank = number(place);
        for other in &mut self.ranks {
            *other += u32::from(*other >= rank);
        }
        self.ranks.push(rank);
        new
    }
}
