//! Which sessions are shown, in which order, where in the tree: from filters, sort and parents to lines.
//!
//! Invariant: the work is a few passes over numbers, whatever the depth of the tree, with or without loops of parents;
//! texts are looked at by the fuzzy filter and the sort by name alone. Absent on purpose: the cursor.

use super::session::State;
use super::table::{Facts, NONE, Table};
use super::{Filters, Line, SessionsPane, Sort};
use crate::app::fuzzy;
use crate::model::key::Kind;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

/// Filters but the fuzzy one, ready to be asked many times.
pub(super) struct Sieve<'a> {
    facts: &'a [Facts],
    states: &'a [State],
    kind: Option<Kind>,
    since: Option<i64>,
    /// A word that has not come yet fits nothing.
    agent: Option<Option<u32>>,
    channel: Option<Option<u32>>,
    archived_too: bool,
    live_only: bool,
}

impl<'a> Sieve<'a> {
    /// `states` per number, asked only when `filters.live_only`.
    pub fn new(filters: &Filters, table: &'a Table, states: &'a [State], now_ms: i64) -> Self {
        let shared = &table.shared;
        Self {
            facts: table.facts(),
            states,
            kind: filters.kind,
            since: filters
                .active_minutes
                .map(|minutes| now_ms.saturating_sub_unsigned(minutes.saturating_mul(60_000))),
            agent: filters.agent.as_ref().map(|a| shared.agents.find(a)),
            channel: filters.channel.as_ref().map(|c| shared.channels.find(c)),
            archived_too: filters.archived_too,
            live_only: filters.live_only,
        }
    }

    /// Passes every filter but that of the kind.
    pub fn passes(&self, number: u32) -> bool {
        let facts = &self.facts[number as usize];
        let is_live = || {
            let state = self.states.get(number as usize);
            matches!(state, Some(State::Running | State::Queued))
        };
        facts.here
            && (self.archived_too || !facts.archived)
            && self
                .since
                .is_none_or(|since| facts.at != i64::MIN && facts.at >= since)
            && self.agent.is_none_or(|agent| agent == Some(facts.agent))
            && self
                .channel
                .is_none_or(|channel| channel == Some(facts.channel))
            && (!self.live_only || is_live())
    }

    /// Passes the filter of the kind.
    pub fn is_kind(&self, number: u32) -> bool {
        self.kind
            .is_none_or(|kind| kind == self.facts[number as usize].kind)
    }
}

impl SessionsPane {
    /// Per number what its session is doing; empty unless that is `wanted`.
    pub(super) fn states(&self, wanted: bool) -> Vec<State> {
        if !wanted {
            return Vec::new();
        }
        let mut states: Vec<State> = self.table.facts().iter().map(|facts| facts.state).collect();
        for key in self.live.keys() {
            if let Some(number) = self.table.number(key)
                && let Some(session) = self.table.get(number)
            {
                states[number as usize] = self.state(session);
            }
        }
        states
    }

    /// Makes lines and counts.
    pub(super) fn arrange(&mut self, now_ms: i64) {
        let known = self.order.len();
        let all = self.table.facts().len();
        self.order
            .extend((known..all).filter_map(|at| u32::try_from(at).ok()));

        let states = self.states(self.filters.live_only || self.sort == Sort::State);
        let sieve = Sieve::new(&self.filters, &self.table, &states, now_ms);
        let is_ranked = !self.filters.text.is_blank();
        let passing = |numbers: &[u32]| -> Vec<u32> {
            let numbers = numbers.iter().copied();
            numbers.filter(|number| sieve.passes(*number)).collect()
        };
        let mut matching = if is_ranked {
            let passing = passing(self.table.by_key());
            let texts: Vec<&str> = passing
                .iter()
                .map(|number| self.table.get(*number).map_or("", |s| s.searched()))
                .collect();
            let ranked = fuzzy::ranked(&self.filters.text, &texts);
            ranked.into_iter().map(|at| passing[at]).collect()
        } else {
            passing(&self.order)
        };
        let mut counts = [0_usize; Kind::ALL.len()];
        for number in &matching {
            counts[self.table.facts()[*number as usize].kind as usize] += 1;
        }
        let mut kind_counts: BTreeMap<Option<Kind>, usize> = Kind::ALL
            .iter()
            .map(|kind| (Some(*kind), counts[*kind as usize]))
            .collect();
        kind_counts.insert(None, matching.len());
        if self.filters.kind.is_some() {
            matching.retain(|number| sieve.is_kind(*number));
        }
        let matching_count = matching.len();

        let sorting = Sorting {
            table: &self.table,
            states: &states,
            sort: self.sort,
            is_ranked,
        };
        let facts = self.table.facts();
        let has_parents = self.tree && matching.iter().any(|n| facts[*n as usize].parent != NONE);
        let (lines, sorted): (Vec<Line>, Vec<u32>) = if has_parents {
            let mut tree = Tree::new(&self.table, matching);
            tree.sort(&sorting);
            let folded = self.folded.iter().filter_map(|key| self.table.number(key));
            (tree.lines(&folded.collect()), tree.shown)
        } else {
            if !is_ranked {
                sorting.sort(&mut matching, |number| sorting.time(number));
            }
            let lines = matching.iter().map(|number| Line::flat(*number));
            (lines.collect(), matching)
        };
        let mut places = vec![NONE; all];
        for (place, line) in (0..).zip(&lines) {
            places[line.session as usize] = place;
        }
        if !is_ranked {
            self.order = if sorted.len() == all {
                sorted
            } else {
                // What is folded away is sorted, and has no place.
                let mut is_sorted = vec![false; all];
                for number in &sorted {
                    is_sorted[*number as usize] = true;
                }
                let rest = self.order.iter().filter(|at| !is_sorted[**at as usize]);
                sorted.iter().chain(rest).copied().collect()
            };
        }
        self.kind_counts = kind_counts;
        self.matching = matching_count;
        self.lines = lines;
        self.places = places;
    }
}

impl Line {
    fn flat(session: u32) -> Self {
        Self {
            session,
            rails: 0,
            folded: 0,
            depth: 0,
            is_last: false,
            is_context: false,
        }
    }
}

/// What comes before what.
struct Sorting<'a> {
    table: &'a Table,
    states: &'a [State],
    sort: Sort,
    /// The fuzzy filter says the order.
    is_ranked: bool,
}

impl Sorting<'_> {
    /// Less for what is more recent.
    fn time(&self, number: u32) -> i64 {
        !self.table.facts()[number as usize].at
    }

    /// Sorts; `best` is asked where the order is by time or by match, less comes first. Keys decide between equals.
    fn sort(&self, numbers: &mut [u32], best: impl Fn(u32) -> i64) {
        if self.sort == Sort::Name && !self.is_ranked {
            let name = |number: u32| self.table.get(number).map_or("", |s| s.name_str());
            numbers.sort_by(|a, b| {
                by_name(name(*a), name(*b))
                    .then_with(|| self.table.rank(*a).cmp(&self.table.rank(*b)))
            });
            return;
        }
        let agents = match self.sort {
            Sort::Agent => self.table.shared.agents.ranks(),
            _ => Vec::new(),
        };
        let group = |number: u32| {
            let facts = &self.table.facts()[number as usize];
            match self.sort {
                _ if self.is_ranked => 0,
                Sort::Recent | Sort::Name => 0,
                Sort::Kind => facts.kind as u32,
                // Without an agent first.
                Sort::Agent => agents.get(facts.agent as usize).map_or(0, |rank| rank + 1),
                Sort::State => self.states[number as usize] as u32,
            }
        };
        // Numbers beside numbers: comparing looks nowhere else. A stable sort is quick where the order is nearly right.
        let mut keyed: Vec<(u32, i64, u32, u32)> = numbers
            .iter()
            .map(|number| {
                (
                    group(*number),
                    best(*number),
                    self.table.rank(*number),
                    *number,
                )
            })
            .collect();
        keyed.sort();
        for (number, keyed) in numbers.iter_mut().zip(keyed) {
            *number = keyed.3;
        }
    }
}

/// As lower case compares, made only where that is not byte by byte.
fn by_name(a: &str, b: &str) -> Ordering {
    if a.is_ascii() && b.is_ascii() {
        let lower = |byte: u8| byte.to_ascii_lowercase();
        a.bytes().map(lower).cmp(b.bytes().map(lower))
    } else {
        a.to_lowercase().cmp(&b.to_lowercase())
    }
}

/// In place of the number of children that are left: has told its parent.
const TOLD: u32 = u32::MAX;

/// A session in the tree.
#[derive(Clone, Copy)]
struct Node {
    /// Of its own and what hangs on it: the most recent, or the best match; less is better.
    best: i64,
    /// [`NONE`] for a root.
    parent: u32,
    /// Children that have not been looked at.
    left: u32,
    first_child: u32,
    next_sibling: u32,
    is_shown: bool,
    is_match: bool,
}

struct Tree {
    /// What is shown: at first matches, then their ancestors, which are shown as context.
    shown: Vec<u32>,
    /// Per number.
    nodes: Vec<Node>,
}

impl Tree {
    fn new(table: &Table, matching: Vec<u32>) -> Self {
        let none = Node {
            best: i64::MAX,
            parent: NONE,
            left: 0,
            first_child: NONE,
            next_sibling: NONE,
            is_shown: false,
            is_match: false,
        };
        let mut nodes = vec![none; table.facts().len()];
        for number in &matching {
            let node = &mut nodes[*number as usize];
            (node.is_shown, node.is_match) = (true, true);
        }
        let mut shown = matching;
        let mut at = 0;
        while let Some(number) = shown.get(at).copied() {
            at += 1;
            let Some(parent) = table.parent(number) else {
                continue;
            };
            nodes[number as usize].parent = parent;
            let parent_node = &mut nodes[parent as usize];
            parent_node.left += 1;
            if !parent_node.is_shown {
                parent_node.is_shown = true;
                shown.push(parent);
            }
        }
        Self { shown, nodes }
    }

    /// Sorts what is shown, so that siblings come in their order, and makes every session of a loop of parents
    /// (foreign stores) a root.
    fn sort(&mut self, sorting: &Sorting<'_>) {
        for (rank, number) in (0..).zip(&self.shown) {
            let node = &mut self.nodes[*number as usize];
            node.best = match (sorting.is_ranked, node.is_match) {
                (false, _) => sorting.time(*number),
                (true, true) => rank,
                (true, false) => i64::MAX,
            };
        }
        // A tree is as recent, and as good a match, as the best in it: told upwards, from each session whose children
        // have all told.
        for number in &self.shown {
            let mut at = *number;
            while self.nodes[at as usize].left == 0 {
                let node = self.nodes[at as usize];
                // Told once.
                self.nodes[at as usize].left = TOLD;
                let Some(parent) = self.nodes.get_mut(node.parent as usize) else {
                    break;
                };
                parent.best = parent.best.min(node.best);
                parent.left -= 1;
                at = node.parent;
            }
        }
        for number in &self.shown {
            if self.nodes[*number as usize].left != TOLD {
                Self::cut_loop(&mut self.nodes, *number);
            }
        }
        let by_best = sorting.is_ranked || sorting.sort == Sort::Recent;
        sorting.sort(&mut self.shown, |number| {
            if by_best {
                self.nodes[number as usize].best
            } else {
                sorting.time(number)
            }
        });
        for number in self.shown.iter().rev() {
            let parent = self.nodes[*number as usize].parent;
            if parent != NONE {
                let first = self.nodes[parent as usize].first_child;
                self.nodes[*number as usize].next_sibling = first;
                self.nodes[parent as usize].first_child = *number;
            }
        }
    }

    /// All that hang in a loop are as good as the best of them.
    fn cut_loop(nodes: &mut [Node], start: u32) {
        let mut members = Vec::new();
        let mut at = start;
        while nodes[at as usize].left != TOLD {
            nodes[at as usize].left = TOLD;
            members.push(at);
            at = nodes[at as usize].parent;
        }
        let best = members.iter().map(|at| nodes[*at as usize].best).min();
        for at in members {
            let node = &mut nodes[at as usize];
            node.parent = NONE;
            node.best = best.unwrap_or(node.best);
        }
    }

    /// Depth first, without recursion: a hostile store may nest as deep as it likes.
    fn lines(&self, folded: &HashSet<u32>) -> Vec<Line> {
        let node = |number: u32| &self.nodes[number as usize];
        let mut lines = Vec::with_capacity(self.shown.len());
        let mut stack: Vec<(u32, u16, u32)> = Vec::new();
        for root in &self.shown {
            if node(*root).parent != NONE {
                continue;
            }
            stack.push((*root, 0, 0));
            while let Some((number, depth, rails)) = stack.pop() {
                let Node {
                    first_child,
                    next_sibling,
                    is_match,
                    ..
                } = *node(number);
                let is_last = depth > 0 && next_sibling == NONE;
                let is_folded = first_child != NONE && folded.contains(&number);
                let some = |number: u32| (number != NONE).then_some(number);
                let children =
                    || std::iter::successors(some(first_child), |at| some(node(*at).next_sibling));
                lines.push(Line {
                    session: number,
                    rails,
                    folded: if is_folded {
                        u32::try_from(children().count()).unwrap_or(u32::MAX)
                    } else {
                        0
                    },
                    depth,
                    is_last,
                    is_context: !is_match,
                });
                if next_sibling != NONE {
                    stack.push((next_sibling, depth, rails));
                }
                if first_child != NONE && !is_folded {
                    let goes_on = u32::from(depth > 0 && !is_last);
                    let bit = u32::from(depth.saturating_sub(1));
                    let rails = rails | goes_on.checked_shl(bit).unwrap_or(0);
                    stack.push((first_child, depth.saturating_add(1), rails));
                }
            }
        }
        lines
    }
}
