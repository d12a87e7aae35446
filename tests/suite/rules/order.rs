//! Order under random schedules: E-6, E-8, AM-4, N-24 hold whatever people and agents do at once.

use super::{House, house, key, open_settings};
use crosstalk::model::event::{AnnounceKind, Event, What};
use crosstalk::model::run::{RunOrigin, RunState};
use crosstalk::model::session::SendPolicy;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// Virtual time within which everything must have settled; loops, retries and reports included.
const SETTLE_WITHIN: Duration = Duration::from_secs(6 * 3600);

/// One thing somebody does. Sessions are numbers.
#[derive(Debug, Clone)]
enum Deed {
    Send {
        from: Option<usize>,
        to: usize,
        wait_s: u64,
        slow_s: u64,
        message: usize,
    },
    Spawn {
        from: usize,
        slow_s: u64,
        task: usize,
        delete: bool,
    },
    Abort {
        session: usize,
        tree: bool,
    },
    Stop {
        session: usize,
    },
    Policy {
        session: usize,
        deny: Option<bool>,
    },
    Archive {
        session: usize,
        archived: bool,
    },
    Delete {
        session: usize,
    },
    Reset {
        session: usize,
    },
    /// Deletes or aborts the child spawned last but so many.
    Child {
        back: usize,
        delete: bool,
    },
    Pause {
        ms: u64,
    },
}

const SESSIONS: usize = 20;

fn session(number: usize) -> String {
    match number {
        0 => "agent:main:main".into(),
        1 => "agent:research:main".into(),
        2 => "agent:ops:main".into(),
        n => {
            let agent = ["main", "research", "ops"][n % 3];
            format!("agent:{agent}:discord:channel:{n}")
        }
    }
}

/// Messages: plain, exchanges, failures, and sends and spawns from within a run.
fn message(kind: usize, slow_s: u64, about: usize) -> String {
    let slow = format!("[[slow:{slow_s}]]");
    let other = session(about);
    match kind % 9 {
        0 | 1 => format!("{slow} [[reply:a b c d]]"),
        2 => "[[ping:2]]".into(),
        3 => format!("{slow} [[fail:no quota]]"),
        4 => format!(
            "[[tool:sessions_send {{\"sessionKey\":\"{other}\",\"message\":\"{slow} [[reply:deep]]\",\"timeoutSeconds\":3}}]]"
        ),
        5 => format!(
            "[[tool:sessions_send {{\"sessionKey\":\"{other}\",\"message\":\"[[ping:1]]\",\"timeoutSeconds\":0}}]] {slow}"
        ),
        6 => format!("[[tool:sessions_spawn {{\"task\":\"{slow} [[reply:child]]\"}}]] [[slow:1]]"),
        7 => format!(
            "[[tool:sessions_spawn {{\"task\":\"[[tool:sessions_spawn {{\\\"task\\\":\\\"{slow} [[reply:deep]]\\\"}}]]\"}}]]"
        ),
        _ => "[[reply:NO_REPLY]]".into(),
    }
}

fn deed() -> impl Strategy<Value = Deed> {
    let one = 0..SESSIONS;
    prop_oneof![
        8 => (prop::option::of(one.clone()), one.clone(), prop::sample::select(vec![0_u64, 2, 30]), 0..8_u64, 0..9_usize)
            .prop_map(|(from, to, wait_s, slow_s, message)| Deed::Send { from, to, wait_s, slow_s, message }),
        4 => (one.clone(), 0..8_u64, 0..9_usize, any::<bool>())
            .prop_map(|(from, slow_s, task, delete)| Deed::Spawn { from, slow_s, task, delete }),
        2 => (one.clone(), any::<bool>()).prop_map(|(session, tree)| Deed::Abort { session, tree }),
        1 => one.clone().prop_map(|session| Deed::Stop { session }),
        1 => (one.clone(), prop::option::of(any::<bool>())).prop_map(|(session, deny)| Deed::Policy { session, deny }),
        1 => (one.clone(), any::<bool>()).prop_map(|(session, archived)| Deed::Archive { session, archived }),
        1 => one.clone().prop_map(|session| Deed::Delete { session }),
        1 => one.prop_map(|session| Deed::Reset { session }),
        1 => (0..3_usize, any::<bool>()).prop_map(|(back, delete)| Deed::Child { back, delete }),
        4 => (0..4000_u64).prop_map(|ms| Deed::Pause { ms }),
    ]
}

/// What a schedule left behind.
#[derive(Default)]
struct Seen {
    /// Run ids that were promised to somebody.
    promised: Vec<String>,
    children: Vec<String>,
}

async fn act(house: &House, deed: Deed, number: usize, seen: &std::sync::Mutex<Seen>) {
    let engine = house.engine.clone();
    match deed {
        Deed::Send {
            from,
            to,
            wait_s,
            slow_s,
            message: kind,
        } => {
            let text = message(kind, slow_s, (to + 1) % SESSIONS);
            let to = session(to);
            let arguments = json!({ "sessionKey": to, "message": text, "timeoutSeconds": wait_s });
            let result = match from {
                Some(from) => {
                    house
                        .call_as(&session(from), "sessions_send", arguments)
                        .await
                }
                None => {
                    let id = format!("operator-{number}");
                    let accepted = engine.operator_send(key(&to), &text, &id).await;
                    let status = if accepted.is_ok() {
                        "accepted"
                    } else {
                        "error"
                    };
                    json!({ "status": status, "runId": id })
                }
            };
            // An error may be that of the run or that of the acceptance: the store tells.
            seen.lock()
                .unwrap()
                .promised
                .push(result["runId"].as_str().unwrap().to_owned());
            if matches!(
                result["status"].as_str(),
                Some("accepted" | "ok" | "timeout")
            ) {
                let id = result["runId"].as_str().unwrap().to_owned();
                let known = engine.store().read(move |tx| tx.run(&id)).await.unwrap();
                assert!(known.is_some(), "{result} is not stored");
            }
        }
        Deed::Spawn {
            from,
            slow_s,
            task,
            delete,
        } => {
            let text = message(task, slow_s, from);
            let cleanup = if delete { "delete" } else { "keep" };
            let arguments = json!({ "task": text, "cleanup": cleanup, "runTimeoutSeconds": if task == 1 { 2 } else { 0 } });
            let result = house
                .call_as(&session(from), "sessions_spawn", arguments)
                .await;
            if result["status"] == "accepted" {
                let child = result["childSessionKey"].as_str().unwrap().to_owned();
                let mut seen = seen.lock().unwrap();
                seen.children.push(child);
                seen.promised
                    .push(result["runId"].as_str().unwrap().to_owned());
            }
        }
        Deed::Abort { session: at, tree } => {
            engine
                .abort(Some(&key(&session(at))), None, tree)
                .await
                .unwrap();
        }
        Deed::Stop { session: at } => {
            house
                .engine
                .incoming("discord", "7", true, key(&session(at)), "/stop")
                .await
                .unwrap();
        }
        Deed::Policy { session: at, deny } => {
            let word = deny.map(|deny| {
                if deny {
                    SendPolicy::Deny
                } else {
                    SendPolicy::Allow
                }
            });
            let value = word.map_or(Value::Null, |policy| json!(policy.as_str()));
            let fields = Map::from_iter([("sendPolicy".to_owned(), value)]);
            engine.patch(&key(&session(at)), fields).await.unwrap();
        }
        // These may be refused: main, a run that is going on, no such session.
        Deed::Archive {
            session: at,
            archived,
        } => {
            let _ = engine.archive(&key(&session(at)), archived).await;
        }
        Deed::Delete { session: at } => {
            let _ = engine.delete(&key(&session(at))).await;
        }
        Deed::Reset { session: at } => {
            let _ = engine.reset(&key(&session(at))).await;
        }
        Deed::Child { back, delete } => {
            let child = seen
                .lock()
                .unwrap()
                .children
                .iter()
                .rev()
                .nth(back)
                .cloned();
            if let Some(child) = child {
                if delete {
                    let _ = engine.delete(&key(&child)).await;
                } else {
                    engine.abort(Some(&key(&child)), None, true).await.unwrap();
                }
            }
        }
        Deed::Pause { .. } => {}
    }
}

/// Runs of a session never overlap and begin in the order in which they were accepted.
fn check_runs(events: &[Event]) -> Result<(), String> {
    let mut active: HashMap<String, String> = HashMap::new();
    let mut waiting: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut ended: HashSet<String> = HashSet::new();
    for event in events {
        let of = || {
            let session = event.session_key.clone().unwrap_or_default().into_raw();
            (session, event.run_id.clone().unwrap_or_default())
        };
        match &event.what {
            What::RunAccepted { .. } => {
                let (session, run) = of();
                waiting.entry(session).or_default().push(run);
            }
            What::RunStarted { .. } => {
                let (session, run) = of();
                if let Some(other) = active.insert(session.clone(), run.clone()) {
                    return Err(format!(
                        "{run} began in {session} while {other} was going on"
                    ));
                }
                let queue = waiting.entry(session.clone()).or_default();
                if queue.first() != Some(&run) {
                    return Err(format!("{run} began in {session} before {queue:?}"));
                }
                queue.remove(0);
            }
            What::RunEnded { .. } => {
                let (session, run) = of();
                if !ended.insert(run.clone()) {
                    return Err(format!("{run} ended twice"));
                }
                if active.get(&session) == Some(&run) {
                    active.remove(&session);
                } else {
                    // It was withdrawn before its turn came.
                    waiting
                        .entry(session)
                        .or_default()
                        .retain(|other| *other != run);
                }
            }
            _ => {}
        }
    }
    let left: Vec<_> = active.into_iter().collect();
    let queued: Vec<_> = waiting.into_values().flatten().collect();
    if left.is_empty() && queued.is_empty() {
        Ok(())
    } else {
        Err(format!("never ended: {left:?} {queued:?}"))
    }
}

async fn schedule(deeds: Vec<Deed>) -> Result<(), String> {
    let mut settings = open_settings();
    settings.max_ping_pong_turns = 2;
    settings.subagents.max_spawn_depth = 2;
    settings.subagents.archive_after_min = None;
    settings.max_concurrent = 2;
    settings.subagents.max_concurrent = 2;
    settings.max_chain_runs = 30;
    let house = house(settings).await;
    let mut events = house.engine.events(None);
    let kept = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let keeping = kept.clone();
    let keeper = tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            keeping.lock().unwrap().push(event);
        }
    });
    let seen = std::sync::Mutex::new(Seen::default());
    let mut at = Duration::ZERO;
    let doing = deeds.into_iter().enumerate().map(|(number, deed)| {
        if let Deed::Pause { ms } = deed {
            at += Duration::from_millis(ms);
        }
        let (house, seen, at) = (&house, &seen, at);
        async move {
            tokio::time::sleep(at).await;
            act(house, deed, number, seen).await;
        }
    });
    let all = futures_util::future::join_all(doing);
    if tokio::time::timeout(SETTLE_WITHIN, all).await.is_err() {
        return Err(format!(
            "calls never came back; live: {:?}",
            house.engine.live_runs()
        ));
    }
    let begun = tokio::time::Instant::now();
    while !house.engine.settled() {
        if begun.elapsed() > SETTLE_WITHIN {
            return Err(format!(
                "never settled; live: {:?}",
                house.engine.live_runs()
            ));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    keeper.abort();
    let events: Vec<Event> = std::mem::take(&mut *kept.lock().unwrap());
    assert!(
        !events
            .iter()
            .any(|event| matches!(event.what, What::Resync {})),
        "events were missed"
    );
    check_runs(&events)?;
    check_outcomes(&house, &events, &seen.into_inner().unwrap()).await?;
    check_reports(&house, &events).await
}

/// Every run that is stored has ended, once; every promise is stored or was refused.
async fn check_outcomes(house: &House, events: &[Event], seen: &Seen) -> Result<(), String> {
    let (open, known) = house
        .engine
        .store()
        .read({
            let promised = seen.promised.clone();
            move |tx| {
                let mut open = tx.runs(RunState::Accepted)?;
                open.extend(tx.runs(RunState::Started)?);
                let mut known = Vec::new();
                for id in promised {
                    known.extend(tx.run(&id)?);
                }
                Ok((open, known))
            }
        })
        .await
        .unwrap();
    if let Some(run) = open.first() {
        return Err(format!("{} was left {:?}", run.run_id, run.state));
    }
    for run in known {
        let ends = events
            .iter()
            .filter(|event| event.run_id.as_deref() == Some(run.run_id.as_str()))
            .filter(|event| matches!(event.what, What::RunEnded { .. }))
            .count();
        if ends != 1 || run.outcome.is_none() {
            return Err(format!(
                "{} ended {ends} times, {:?}",
                run.run_id, run.outcome
            ));
        }
    }
    Ok(())
}

/// Every child is heard of at most once, and once unless it was killed (LC-10), silent (N-5), late (N-21) or given up
/// (N-27).
async fn check_reports(house: &House, events: &[Event]) -> Result<(), String> {
    let records = house
        .engine
        .store()
        .read(|tx| tx.subagents(None))
        .await
        .unwrap();
    for record in records {
        let child = record.child_session_key.as_str();
        if !record.cleanup_handled {
            return Err(format!("{child} was never settled"));
        }
        let told: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.what {
                What::Announce {
                    kind: AnnounceKind::Subagent,
                    from,
                    text,
                    fate,
                    ..
                } if from.raw() == child => Some((text.is_some(), *fate)),
                _ => None,
            })
            .collect();
        if told.len() != 1 {
            return Err(format!(
                "{child} was announced {} times: {told:?}",
                told.len()
            ));
        }
        let reports = events
            .iter()
            .filter(|event| {
                matches!(
                    event.what,
                    What::RunAccepted {
                        origin: RunOrigin::Report,
                        ..
                    }
                )
            })
            .filter(|event| {
                let id = event.run_id.as_deref().unwrap_or_default();
                id == format!("report:{}", record.run_id)
            })
            .count();
        if reports > 1 {
            return Err(format!("{child} was reported {reports} times"));
        }
        let text = record
            .frozen_result_text
            .as_ref()
            .map(|text| text.raw().trim().to_owned());
        let ok = record
            .outcome
            .as_ref()
            .is_some_and(|outcome| outcome.status == "ok");
        let silent = ok && matches!(text.as_deref(), Some("NO_REPLY" | "ANNOUNCE_SKIP"));
        let killed = record.suppress_announce_reason.is_some();
        let posted = told[0].0;
        if (silent || killed) == posted && posted {
            return Err(format!("{child} should have been silent"));
        }
        if !posted && !silent && !killed {
            // Late or without a requester; then the requester has no session or has reported before.
            let requester = record.requester_session_key.clone();
            let entry = house
                .engine
                .store()
                .read(move |tx| tx.entry(&requester))
                .await
                .unwrap();
            let is_child = record.requester_session_key.is_subagent();
            if entry.is_some() && !is_child {
                return Err(format!("{child} was not reported: {told:?}"));
            }
        }
    }
    Ok(())
}

/// How many schedules are tried: `CROSSTALK_CASES`, or a few dozen.
fn cases() -> u32 {
    std::env::var("CROSSTALK_CASES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(40)
}

#[test]
fn e_6_e_8_am_4_n_24_order_holds_under_random_schedules() {
    let config = Config {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 60,
        ..Config::default()
    };
    let seed = std::env::var("CROSSTALK_SEED")
        .ok()
        .and_then(|text| text.parse::<u8>().ok());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed.unwrap_or(7); 32]);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&prop::collection::vec(deed(), 1..28), |deeds| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime
            .block_on(schedule(deeds))
            .map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
