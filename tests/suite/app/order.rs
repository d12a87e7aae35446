//! The list against a slow and simple one: whatever rows, events, filters, sorting and folding, both show the same.

use super::*;
use crosstalk::app::sessions::{Filters, State};
use crosstalk::app::update::update_in_burst;
use crosstalk::model::key::AgentId;
use crosstalk::model::session::Status;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A line: key, depth, last, rails, folded, context.
type Shown = (String, u16, bool, Vec<bool>, u32, bool);

#[derive(Debug, Clone)]
enum Step {
    Put(Row),
    Remove(u8),
    /// The whole list comes anew.
    List,
    Run(u8, bool),
    Fold(u8),
    Sort(u8),
    Tree,
    Filters(Filters),
}

fn key(n: u8) -> String {
    format!("agent:a{}:s{n}", n % 3)
}

fn a_row() -> impl Strategy<Value = Row> {
    let state = prop_oneof![
        Just(None),
        Just(Some(Status::Running)),
        Just(Some(Status::Done)),
        Just(Some(Status::Failed)),
    ];
    (
        0u8..10,
        prop::option::of(0u8..12),
        0i64..5,
        0usize..6,
        state,
        0u32..2,
        0u8..8,
        0u8..3,
    )
        .prop_map(
            |(n, parent, age, kind, status, queued, archived, name)| Row {
                key: key(n).into(),
                kind: Kind::ALL[kind],
                channel: format!("c{}", n % 2).as_str().into(),
                display_name: ["Über", "beta", "Alpha"]
                    .get(usize::from(name))
                    .map(|n| (*n).into()),
                updated_at: (age > 0).then_some(T0 - age * 120_000),
                spawned_by: parent.map(|parent| key(parent).into()),
                status,
                queued: Some(queued),
                archived_at: (archived == 0).then_some(T0),
                ..Row::default()
            },
        )
}

fn some_filters() -> impl Strategy<Value = Filters> {
    let text = prop_oneof![4 => Just(""), 1 => Just("s1"), 1 => Just("a0"), 1 => Just("alp"), 1 => Just("!s1")];
    (0usize..18, 0u8..9, 0u8..9, 0u8..6, any::<bool>(), text).prop_map(
        |(kind, agent, channel, live, archived_too, text)| Filters {
            kind: Kind::ALL.get(kind).copied(),
            active_minutes: (live == 1).then_some(5),
            agent: (agent < 4).then(|| AgentId::mend(&format!("a{agent}"))),
            channel: (channel < 3).then(|| Untrusted::new(format!("c{channel}")).clean()),
            live_only: live == 0,
            archived_too,
            text: text.into(),
        },
    )
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => a_row().prop_map(Step::Put),
        2 => (0u8..10).prop_map(Step::Remove),
        1 => Just(Step::List),
        2 => (0u8..11, any::<bool>()).prop_map(|(n, runs)| Step::Run(n, runs)),
        1 => (0u8..10).prop_map(Step::Fold),
        1 => (0u8..5).prop_map(Step::Sort),
        1 => Just(Step::Tree),
        3 => some_filters().prop_map(Step::Filters),
    ]
}

/// The simple list.
struct Simple<'a> {
    rows: &'a BTreeMap<String, Row>,
    screen: &'a Screen,
}

impl Simple<'_> {
    fn parent(&self, key: &str) -> Option<String> {
        let parent = self.rows[key].spawned_by.as_ref()?.raw().to_owned();
        (parent != key && self.rows.contains_key(&parent)).then_some(parent)
    }

    /// The session and all above it, each once.
    fn line_up(&self, key: &str) -> Vec<String> {
        let mut seen = vec![key.to_owned()];
        while let Some(parent) = self
            .parent(&seen[seen.len() - 1])
            .filter(|p| !seen.contains(p))
        {
            seen.push(parent);
        }
        seen
    }

    fn is_in_loop(&self, key: &str) -> bool {
        let line = self.line_up(key);
        self.parent(&line[line.len() - 1]).as_deref() == Some(key)
    }

    fn state(&self, key: &str) -> State {
        let pane = &self.screen.app.sessions;
        pane.state(pane.get(&SessionKey::foreign(key)).unwrap())
    }

    fn passes(&self, row: &Row) -> bool {
        let f = &self.screen.app.sessions.filters;
        let key = row.key.raw();
        let agent = SessionKey::foreign(key).agent();
        (f.archived_too || row.archived_at.is_none())
            && f.active_minutes.is_none_or(|minutes| {
                let since = self.screen.now - i64::try_from(minutes).unwrap() * 60_000;
                row.updated_at.is_some_and(|at| at >= since)
            })
            && (f.agent.is_none() || f.agent == agent)
            && f.channel.as_ref().is_none_or(|c| row.channel.clean() == *c)
            && (!f.live_only || matches!(self.state(key), State::Running | State::Queued))
    }

    /// Keys that match, by rank when there is a text; counts per kind.
    fn matching(&self) -> (Vec<String>, BTreeMap<Option<Kind>, usize>) {
        let f = &self.screen.app.sessions.filters;
        let mut rows: Vec<&Row> = self.rows.values().filter(|row| self.passes(row)).collect();
        if !f.text.is_empty() {
            let name = |row: &Row| {
                row.display_name
                    .clone()
                    .map_or(SessionKey::foreign(row.key.raw()).short(), |n| n.clean())
            };
            let words: Vec<String> = rows
                .iter()
                .map(|row| format!("{} {} {}", name(row), row.key.raw(), row.channel.raw()))
                .collect();
            let mut matcher =
                frizbee::Matcher::from_query(f.text.raw(), &frizbee::Config::default());
            rows = matcher
                .match_list(&words)
                .iter()
                .map(|hit| rows[hit.index as usize])
                .collect();
        }
        let mut counts: BTreeMap<_, _> = Kind::ALL.iter().map(|kind| (Some(*kind), 0)).collect();
        counts.insert(None, rows.len());
        for row in &rows {
            *counts.get_mut(&Some(row.kind)).unwrap() += 1;
        }
        rows.retain(|row| f.kind.is_none_or(|kind| kind == row.kind));
        (
            rows.iter().map(|row| row.key.raw().to_owned()).collect(),
            counts,
        )
    }

    fn compare(&self, a: &str, b: &str) -> std::cmp::Ordering {
        let pane = &self.screen.app.sessions;
        let get = |key: &str| pane.get(&SessionKey::foreign(key)).unwrap();
        let recent = |key: &str| Reverse(self.rows[key].updated_at);
        let by = |group: &dyn Fn(&str) -> String| (group(a), recent(a)).cmp(&(group(b), recent(b)));
        match pane.sort {
            Sort::Recent => recent(a).cmp(&recent(b)),
            Sort::Name => {
                let name = |key: &str| get(key).name().as_str().to_lowercase();
                name(a).cmp(&name(b))
            }
            Sort::Kind => (self.rows[a].kind, recent(a)).cmp(&(self.rows[b].kind, recent(b))),
            Sort::Agent => by(&|key| {
                get(key)
                    .agent
                    .as_ref()
                    .map_or(String::new(), |a| format!("{a}"))
            }),
            Sort::State => (self.state(a), recent(a)).cmp(&(self.state(b), recent(b))),
        }
        .then_with(|| a.cmp(b))
    }

    fn lines(&self) -> Vec<Shown> {
        let pane = &self.screen.app.sessions;
        let (matching, _) = self.matching();
        let is_ranked = !pane.filters.text.is_empty();
        if !pane.tree {
            let mut flat = matching;
            if !is_ranked {
                flat.sort_by(|a, b| self.compare(a, b));
            }
            return flat
                .into_iter()
                .map(|key| (key, 0, false, Vec::new(), 0, false))
                .collect();
        }
        let shown: BTreeSet<String> = matching.iter().flat_map(|key| self.line_up(key)).collect();
        let best = |key: &str| {
            let below = shown
                .iter()
                .filter(|other| self.line_up(other).iter().any(|k| k == key));
            let rank = |key: &String| matching.iter().position(|k| k == key).unwrap_or(usize::MAX);
            let all: Vec<_> = below
                .map(|k| (rank(k), Reverse(self.rows[k].updated_at)))
                .collect();
            (all.iter().map(|x| x.0).min(), all.iter().map(|x| x.1).min())
        };
        let order = |a: &String, b: &String| match (is_ranked, pane.sort) {
            (true, _) => best(a).0.cmp(&best(b).0).then_with(|| a.cmp(b)),
            (false, Sort::Recent) => best(a).1.cmp(&best(b).1).then_with(|| a.cmp(b)),
            (false, _) => self.compare(a, b),
        };
        let mut children: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
        for key in &shown {
            let parent = self.parent(key).filter(|_| !self.is_in_loop(key));
            children.entry(parent).or_default().push(key.clone());
        }
        for list in children.values_mut() {
            list.sort_by(order);
        }
        let mut lines = Vec::new();
        for root in children.get(&None).into_iter().flatten() {
            self.branch(root, 0, false, &[], &children, &matching, &mut lines);
        }
        lines
    }

    #[expect(clippy::too_many_arguments, reason = "one recursion of a test")]
    fn branch(
        &self,
        key: &String,
        depth: u16,
        is_last: bool,
        rails: &[bool],
        children: &BTreeMap<Option<String>, Vec<String>>,
        matching: &[String],
        lines: &mut Vec<Shown>,
    ) {
        let own = children
            .get(&Some(key.clone()))
            .map_or(&[][..], Vec::as_slice);
        let is_folded = self
            .screen
            .app
            .sessions
            .folded
            .contains(&SessionKey::foreign(key));
        let folded = if is_folded {
            u32::try_from(own.len()).unwrap()
        } else {
            0
        };
        lines.push((
            key.clone(),
            depth,
            is_last,
            rails.to_vec(),
            folded,
            !matching.contains(key),
        ));
        if is_folded {
            return;
        }
        let mut rails = rails.to_vec();
        if depth > 0 {
            rails.push(!is_last);
        }
        for (at, child) in own.iter().enumerate() {
            self.branch(
                child,
                depth + 1,
                at + 1 == own.len(),
                &rails,
                children,
                matching,
                lines,
            );
        }
    }

    fn runs(&self) -> (usize, usize) {
        let pane = &self.screen.app.sessions;
        self.rows.keys().fold((0, 0), |sum, key| {
            let session = pane.get(&SessionKey::foreign(key)).unwrap();
            let live = pane.live.get(&session.key);
            let running = live.map_or(0, |l| l.running.len());
            let queued = live.map_or(0, |l| l.queued.len());
            let says = usize::from(session.status == Some(Status::Running));
            (
                sum.0 + running.max(says),
                sum.1 + queued.max(session.queued as usize),
            )
        })
    }
}

fn check(screen: &Screen, rows: &BTreeMap<String, Row>) -> Result<(), TestCaseError> {
    let simple = Simple { rows, screen };
    let pane = &screen.app.sessions;
    let lines: Vec<Shown> = pane
        .lines
        .iter()
        .map(|line| {
            let key = pane.key_of(line).as_str().to_owned();
            (
                key,
                line.depth,
                line.is_last,
                line.rails().collect(),
                line.folded,
                line.is_context,
            )
        })
        .collect();
    prop_assert_eq!(&lines, &simple.lines());
    let (matching, counts) = simple.matching();
    prop_assert_eq!(pane.counts(), (matching.len(), rows.len()));
    prop_assert_eq!(&pane.kind_counts, &counts);
    prop_assert_eq!(pane.run_counts(), simple.runs());
    for (at, line) in lines.iter().enumerate() {
        prop_assert_eq!(pane.line_of(&SessionKey::foreign(&line.0)), Some(at));
    }
    let is_selected = pane.selected_line().is_some();
    prop_assert_eq!(is_selected, !lines.is_empty());
    Ok(())
}

fn event(key: &str, run: Option<&str>, what: backend::What) -> What {
    What::Backend(Box::new(backend::Event {
        seq: 1,
        at: T0,
        cursor: "1".into(),
        session_key: Some(key.into()),
        run_id: run.map(str::to_owned),
        caused_by_run: None,
        root_run: None,
        inferred: false,
        what,
    }))
}

proptest! {
    #[test]
    fn the_list_shows_what_a_simple_one_shows(
        first in prop::collection::vec(a_row(), 0..12),
        steps in prop::collection::vec((a_step(), any::<bool>()), 1..30),
    ) {
        let mut rows: BTreeMap<String, Row> = BTreeMap::new();
        for row in &first {
            rows.insert(row.key.raw().to_owned(), row.clone());
        }
        let mut screen = Screen::with(first);
        screen.keys("T");
        check(&screen, &rows)?;
        for (step, in_burst) in steps {
            let pane = &mut screen.app.sessions;
            let what = match step {
                Step::Put(row) => {
                    let key = row.key.raw().to_owned();
                    rows.insert(key.clone(), row.clone());
                    Some(event(&key, None, backend::What::SessionChanged { row: Box::new(row) }))
                }
                Step::Remove(n) => {
                    let row = rows.remove(&key(n)).unwrap_or(Row { key: key(n).into(), ..Row::default() });
                    Some(event(&key(n), None, backend::What::SessionDeleted { row: Box::new(row) }))
                }
                Step::Run(n, true) => {
                    let what = backend::What::RunStarted { origin: RunOrigin::Operator };
                    Some(event(&key(n), Some(&format!("r{n}")), what))
                }
                Step::Run(n, false) => {
                    if let Some(row) = rows.get_mut(&key(n)) {
                        row.status = Some(Status::Done);
                    }
                    let what = backend::What::RunEnded { origin: RunOrigin::Operator, outcome: Outcome::Ok, error: None, usage: None };
                    Some(event(&key(n), Some(&format!("r{n}")), what))
                }
                Step::List => {
                    pane.replace(&rows.values().rev().cloned().collect::<Vec<_>>(), screen.now);
                    None
                }
                Step::Fold(n) => {
                    let key = SessionKey::foreign(&key(n));
                    if !pane.folded.remove(&key) {
                        pane.folded.insert(key);
                    }
                    None
                }
                Step::Sort(n) => {
                    pane.sort = Sort::ALL[usize::from(n)];
                    None
                }
                Step::Tree => {
                    pane.tree = !pane.tree;
                    None
                }
                Step::Filters(filters) => {
                    pane.filters = filters;
                    None
                }
            };
            match what {
                Some(what) if in_burst => {
                    update_in_burst(&mut screen.app, Event { now_ms: screen.now, what });
                    continue;
                }
                Some(what) => {
                    screen.happen(what);
                }
                None => pane.rebuild(screen.now),
            }
            check(&screen, &rows)?;
        }
        screen.app.settle();
        check(&screen, &rows)?;
    }
}
