//! The built-in cast, read and walked: a small engine plays the whole story on a paused clock.

use super::*;
use crosstalk::agents::SharedAgent;
use crosstalk::agents::scripted::{Cast, CueKind};
use crosstalk::model::key::{Kind, KindFacts};
use crosstalk::model::message::{Content, Message, RawLine};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const NOW: i64 = 1_790_000_000_000;

#[test]
fn a_script_that_cannot_be_read_names_the_member() {
    let cases = [
        ("{ answers: [{ stepz: [] }] }", "answers[0].stepz"),
        (
            "{ answers: [{ steps: [{ waitMs: -1 }] }] }",
            "answers[0].steps[0].waitMs",
        ),
        (
            "{ answers: [{ kind: 'shout', steps: [] }] }",
            "answers[0].kind",
        ),
        (
            "{ timeline: [{ at: 1, do: 'operator', key: 'x', text: '' }] }",
            "timeline[0].key",
        ),
        ("{ actors: [] }", "actors"),
        ("{", "script"),
    ];
    for (script, path) in cases {
        let error = Cast::parse(script).unwrap_err();
        assert_eq!(error.path, path, "{script}: {error}");
        assert!(!error.reason.is_empty());
    }
    assert!(Cast::parse("{}").unwrap().timeline().is_empty());
}

#[test]
fn a_script_file_is_named_when_it_cannot_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("parts.json5");
    let named = format!("script {}: ", file.display());
    assert!(Cast::read(&file).unwrap_err().starts_with(&named));
    std::fs::write(&file, "{ answers: 1 }").unwrap();
    assert!(
        Cast::read(&file)
            .unwrap_err()
            .starts_with(&format!("{named}answers: "))
    );
    std::fs::write(&file, "{ answers: [{ steps: [{ text: 'hi' }] }] }").unwrap();
    assert!(Cast::read(&file).is_ok());
}

#[test]
fn the_settings_let_the_cast_talk() {
    let settings = Cast::built_in().settings();
    let ids: Vec<&str> = settings.agents.iter().map(|a| a.id.as_str()).collect();
    assert_eq!(ids, ["main", "ops", "research", "scribe"]);
    assert_eq!(settings.default_agent(), AgentId::main());
    assert!(settings.cross_agent.enabled && settings.cross_agent.allow.is_empty());
    for agent in &settings.agents {
        let model = agent.model.as_deref().unwrap();
        assert!(
            settings
                .known_models
                .iter()
                .any(|(known, _)| known == model),
            "{model}"
        );
        for other in agent.allow_agents.iter().flatten() {
            assert!(settings.agent(&AgentId::mend(other)).is_some(), "{other}");
        }
    }
}

#[test]
fn the_seeds_fill_the_list_with_every_kind() {
    let seeds = Cast::built_in().seeds(NOW);
    assert!(seeds.len() >= 12, "{}", seeds.len());
    let kinds: BTreeSet<Kind> = seeds
        .iter()
        .map(|seed| {
            seed.entry.key.kind(&KindFacts {
                main_key: "main",
                chat_type: seed.entry.chat_type.as_deref(),
                set_origin: None,
            })
        })
        .collect();
    assert_eq!(kinds.len(), Kind::ALL.len(), "{kinds:?}");
    let keys: BTreeSet<&SessionKey> = seeds.iter().map(|seed| &seed.entry.key).collect();
    assert_eq!(keys.len(), seeds.len(), "keys are unique");
    for seed in &seeds {
        let entry = &seed.entry;
        assert!(
            SessionKey::parse(entry.key.as_str()).is_ok(),
            "{:?}",
            entry.key
        );
        assert!(
            entry.updated_at < NOW && entry.updated_at > NOW - 2 * 86_400_000,
            "{:?}",
            entry.key
        );
        assert!(
            entry.model.is_some() && entry.total_tokens > Some(0) && entry.context_tokens > Some(0)
        );
        assert!(entry.last_text.is_some(), "{:?}", entry.key);
        // Whatever the script states is understood: nothing fell into the members that are only kept.
        assert_eq!(
            entry.other.keys().collect::<Vec<_>>(),
            Vec::<&String>::new(),
            "{:?}",
            entry.key
        );
        if let Some(parent) = &entry.spawned_by {
            assert!(keys.contains(parent), "{parent:?}");
        }
    }
}

#[test]
fn d_20_to_d_22_seeds_are_transcripts() {
    let mut ids = BTreeSet::new();
    let mut stops = BTreeSet::new();
    for seed in Cast::built_in().seeds(NOW) {
        let key = &seed.entry.key;
        let (header, lines) = seed.lines.split_first().unwrap();
        assert_eq!(header["type"], "session");
        assert_eq!(header["version"], 3);
        assert_eq!(header["id"], json!(seed.entry.session_id));
        assert!(ids.insert(seed.entry.session_id.clone()), "{key:?}");
        assert_eq!(
            seed.entry.message_count,
            Some(lines.len() as i64),
            "{key:?}"
        );
        let mut parent = Value::Null;
        let mut last_at = 0;
        let mut open: Vec<String> = Vec::new();
        for line in lines {
            let id = line["id"].as_str().unwrap();
            let parsed = uuid::Uuid::parse_str(id).unwrap();
            assert_eq!(parsed.get_version_num(), 7, "am_7 {id}");
            assert!(ids.insert(id.to_owned()), "{key:?}: {id} twice");
            assert_eq!(line["parentId"], parent, "{key:?}");
            parent = line["id"].clone();
            let raw = RawLine {
                position: 0,
                bytes: 0,
                line: line.clone(),
                damage: None,
            };
            let message = Message::read(&raw).unwrap();
            let at = message.at.unwrap();
            assert!(at >= last_at && at <= NOW, "{key:?}: times rise");
            last_at = at;
            let Content::Said(said) = &message.content else {
                panic!("{key:?}: {line}");
            };
            if let Some(id) = &said.tool_call_id {
                assert_eq!(open.pop().as_deref(), Some(id.raw()), "d_27 {key:?}");
            }
            assert!(
                open.is_empty() || line["message"]["role"] == "toolResult",
                "d_27 {key:?}"
            );
            let calls = said.blocks.iter().rev().filter_map(|block| match block {
                crosstalk::model::message::Block::ToolCall { id, .. } => Some(id.raw().to_owned()),
                _ => None,
            });
            open.extend(calls);
            if line["message"]["role"] == "assistant" {
                let stop = said.stop_reason.as_ref().unwrap().raw();
                stops.insert(stop.to_owned());
                assert!(said.usage.unwrap().input > 0 && said.model.is_some());
                assert!(stop == "error" || !said.blocks.is_empty(), "{key:?}");
            } else {
                assert!(!said.text().is_empty(), "{key:?}");
            }
        }
        assert!(open.is_empty(), "{key:?}");
        assert_eq!(seed.entry.updated_at, last_at, "{key:?}");
    }
    assert_eq!(
        stops.into_iter().collect::<Vec<_>>(),
        ["error", "stop", "toolUse"]
    );
}

#[test]
fn the_same_time_gives_the_same_seeds() {
    let cast = Cast::built_in();
    let lines = |now| {
        cast.seeds(now)
            .into_iter()
            .map(|seed| seed.lines)
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(NOW), lines(NOW));
    assert_ne!(lines(NOW), lines(NOW + 1));
}

/// What happened in a walk, in milliseconds from the start.
#[derive(Debug, Clone, PartialEq)]
enum Did {
    Cue,
    Start { session: String, kind: StepKind },
    Text { session: String, text: String },
    Call { tool: String },
    Failed,
    Reply { session: String, text: String },
}

/// Just enough of an engine to walk the story: one run at a time a session, sends with their exchange, spawns with
/// their report.
struct Walk {
    agent: SharedAgent,
    keys: BTreeSet<String>,
    slots: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    log: Mutex<Vec<(u64, Did)>>,
    start: u64,
    running: tokio_util::task::TaskTracker,
}

struct Teller<'a>(&'a Walk, &'a str);
impl Progress for Teller<'_> {
    fn text(&self, so_far: &str) {
        self.0.note(Did::Text {
            session: self.1.into(),
            text: so_far.into(),
        });
    }
    fn thinking(&self, so_far: &str) {
        self.text(so_far);
    }
}

impl Walk {
    fn note(&self, did: Did) {
        self.log.lock().unwrap().push((now() - self.start, did));
    }

    fn run(
        self: Arc<Self>,
        session: String,
        kind: StepKind,
        message: String,
        about: Option<String>,
    ) -> futures_util::future::BoxFuture<'static, Result<String, String>> {
        Box::pin(async move {
            let slot = self
                .slots
                .lock()
                .unwrap()
                .entry(session.clone())
                .or_default()
                .clone();
            let _slot = slot.lock().await;
            self.note(Did::Start {
                session: session.clone(),
                kind,
            });
            let key = SessionKey::parse(&session).unwrap();
            let mut step = step(kind, &message);
            step.agent = key.agent().unwrap();
            step.session = key;
            step.about = about.map(Untrusted::from);
            loop {
                let answer = match self.agent.step(&step, &Teller(&self, &session)).await {
                    Ok(answer) => answer,
                    Err(error) => {
                        self.note(Did::Failed);
                        return Err(error.0.raw().to_owned());
                    }
                };
                if answer.calls.is_empty() {
                    let text = answer.text.raw().trim().to_owned();
                    assert!(!text.is_empty(), "{session}: {message}");
                    assert!(
                        !text.contains("built-in cast and") && !text.contains("{"),
                        "{session} has no line for {kind:?} {message:?}, says {text:?}"
                    );
                    self.note(Did::Reply {
                        session: session.clone(),
                        text: text.clone(),
                    });
                    return Ok(text);
                }
                for call in answer.calls {
                    self.note(Did::Call {
                        tool: call.name.clone(),
                    });
                    let result = Arc::clone(&self)
                        .tool(&session, &call.name, &call.arguments)
                        .await;
                    step.results.push(outcome(&result));
                }
            }
        })
    }

    async fn tool(self: Arc<Self>, session: &str, tool: &str, args: &Value) -> String {
        let word = |name: &str| args[name].as_str().map(str::to_owned);
        match tool {
            "sessions_list" | "agents_list" => String::new(),
            "sessions_history" => {
                assert!(self.keys.contains(&word("sessionKey").unwrap()), "{args}");
                String::new()
            }
            "sessions_send" => {
                let (target, message) = (word("sessionKey").unwrap(), word("message").unwrap());
                assert!(self.keys.contains(&target), "{args}");
                let waits = args["timeoutSeconds"].as_u64().unwrap() > 0;
                let round =
                    Arc::clone(&self).run(target.clone(), StepKind::Message, message.clone(), None);
                let follow = |first: String| {
                    let (walk, session) = (Arc::clone(&self), session.to_owned());
                    self.running.spawn(walk.exchange(
                        session,
                        target.clone(),
                        message.clone(),
                        first,
                    ));
                };
                if waits {
                    let first = round.await.unwrap();
                    follow(first.clone());
                    first
                } else {
                    let walk = Arc::clone(&self);
                    let (session, target) = (session.to_owned(), target.clone());
                    self.running.spawn(async move {
                        let first = round.await.unwrap();
                        walk.exchange(session, target, message, first).await;
                    });
                    "accepted".into()
                }
            }
            "sessions_spawn" => {
                let own = SessionKey::parse(session).unwrap().agent().unwrap();
                let agent = word("agentId").unwrap_or_else(|| own.as_str().into());
                let (task, label) = (word("task").unwrap(), word("label").unwrap());
                let child = format!("agent:{agent}:subagent:{}", uuid::Uuid::now_v7());
                let (walk, parent) = (Arc::clone(&self), session.to_owned());
                self.running.spawn(async move {
                    let result = Arc::clone(&walk)
                        .run(child, StepKind::Message, task, None)
                        .await;
                    let report = format!("{result:?}");
                    walk.run(parent, StepKind::Report, report, Some(label))
                        .await
                        .unwrap();
                });
                "accepted".into()
            }
            other => panic!("no such tool: {other}"),
        }
    }

    async fn exchange(self: Arc<Self>, from: String, to: String, request: String, first: String) {
        let (mut speaker, mut listener, mut last) = (from, to.clone(), first);
        for _ in 0..5 {
            let text = Arc::clone(&self)
                .run(speaker.clone(), StepKind::Reply, last.clone(), None)
                .await
                .unwrap();
            if text == "REPLY_SKIP" {
                break;
            }
            last = text;
            std::mem::swap(&mut speaker, &mut listener);
        }
        self.run(
            to,
            StepKind::Announce,
            "Announce step.".into(),
            Some(request),
        )
        .await
        .unwrap();
    }
}

/// Plays the whole story.
async fn walk() -> Vec<(u64, Did)> {
    let cast = Cast::built_in();
    let walk = Arc::new(Walk {
        agent: cast.agent(),
        keys: cast
            .seeds(NOW)
            .iter()
            .map(|seed| seed.entry.key.as_str().to_owned())
            .collect(),
        slots: Mutex::default(),
        log: Mutex::default(),
        start: now(),
        running: tokio_util::task::TaskTracker::new(),
    });
    for cue in cast.timeline() {
        tokio::time::sleep(Duration::from_millis(walk.start + cue.at_ms - now())).await;
        walk.note(Did::Cue);
        let (CueKind::Incoming { key, text, .. } | CueKind::Operator { key, text }) = &cue.cue;
        assert!(walk.keys.contains(key.as_str()), "{key:?}");
        let run = Arc::clone(&walk).run(
            key.as_str().into(),
            StepKind::Message,
            text.raw().into(),
            None,
        );
        walk.running.spawn(run);
    }
    walk.running.close();
    walk.running.wait().await;
    walk.log.lock().unwrap().clone()
}

#[track_caller]
fn first(log: &[(u64, Did)], is: impl Fn(&Did) -> bool) -> u64 {
    log.iter().find(|(_, did)| is(did)).unwrap().0
}

#[tokio::test(start_paused = true)]
async fn the_story_starts_at_once_and_never_rests() {
    let log = walk().await;
    assert!(first(&log, |_| true) <= 300);
    let calls =
        |name: &'static str| move |did: &Did| matches!(did, Did::Call { tool } if tool == name);
    assert!(first(&log, calls("sessions_send")) <= 3000);
    assert!(first(&log, calls("sessions_spawn")) <= 8000);
    let quiet: Vec<_> = log
        .windows(2)
        .filter(|pair| pair[1].0 - pair[0].0 > 2500)
        .map(|pair| (pair[0].0, pair[1].0))
        .collect();
    assert_eq!(quiet, [], "nothing happens");
    let end = log.last().unwrap().0;
    assert!((90_000..=120_000).contains(&end), "{end}");
}

#[tokio::test(start_paused = true)]
async fn the_story_shows_everything() {
    let log = walk().await;
    for tool in [
        "sessions_list",
        "sessions_history",
        "sessions_send",
        "sessions_spawn",
        "agents_list",
    ] {
        first(
            &log,
            |did| matches!(did, Did::Call { tool: name } if name == tool),
        );
    }
    let count = |is: &dyn Fn(&Did) -> bool| log.iter().filter(|(_, did)| is(did)).count();
    let said = |part: &'static str| move |did: &Did| matches!(did, Did::Reply { text, .. } if text.contains(part));
    assert_eq!(
        count(&|did| *did == Did::Failed),
        2,
        "a run of a person's and a child's fail"
    );
    assert!(count(&said("REPLY_SKIP")) >= 5);
    assert!(count(&said("ANNOUNCE_SKIP")) >= 2);
    assert!(
        count(&|did| matches!(
            did,
            Did::Start {
                kind: StepKind::Report,
                ..
            }
        )) >= 5
    );
    // An exchange that goes over four turns before it ends.
    let turns = [
        "Canary is at 5 %",
        "Please go to 25 %",
        "25 %: p99",
        "Please go to 100 %",
        "100 %: p99",
    ];
    let at: Vec<u64> = turns.iter().map(|turn| first(&log, said(turn))).collect();
    assert!(at.is_sorted(), "{at:?}");
    for part in [
        "```yaml",
        "| checkout | **2.14.0** |",
        "お疲れさまです",
        "🎉",
    ] {
        first(
            &log,
            |did| matches!(did, Did::Text { text, .. } if text.contains(part)),
        );
    }
    // The long text streams in many parts, over ten seconds and more.
    let digest = log.iter().filter(|(_, did)| {
        matches!(did, Did::Text { session, .. } if session == "agent:scribe:cron:nightly-digest")
    });
    let times: Vec<u64> = digest.map(|(at, _)| *at).collect();
    assert!(times.len() > 100 && times.last().unwrap() - times[0] > 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_stranger_gets_an_answer_too() {
    let agent = Cast::built_in().agent();
    let cases = [
        (
            "agent:main:main",
            StepKind::Message,
            "What is the weather?",
            "“What is the weather?”",
        ),
        (
            "agent:ops:main",
            StepKind::Message,
            "hi {about}",
            "“hi {about}”",
        ),
        (
            "agent:ghost:main",
            StepKind::Message,
            "hi",
            "no line for that",
        ),
        (
            "agent:ops:subagent:x",
            StepKind::Message,
            "count the stars",
            "scripted sub-agent",
        ),
        ("agent:ops:main", StepKind::Reply, "what?", "REPLY_SKIP"),
        (
            "agent:ops:main",
            StepKind::Announce,
            "what?",
            "ANNOUNCE_SKIP",
        ),
        (
            "agent:ops:main",
            StepKind::Report,
            "[[fail]]",
            "star count has reported",
        ),
        (
            "agent:ops:main",
            StepKind::Message,
            "[[reply:by hand]]",
            "by hand",
        ),
        (
            "agent:ops:main",
            StepKind::Reply,
            "[[ping:3]]",
            "pong 3 [[ping:2]]",
        ),
    ];
    for (key, kind, message, expect) in cases {
        let mut step = step(kind, message);
        step.session = SessionKey::parse(key).unwrap();
        step.agent = step.session.agent().unwrap();
        step.about = Some("star count".into());
        let answer = ask(&*agent, &step).await.unwrap();
        assert!(
            text(&answer).contains(expect),
            "{key} {message}: {:?}",
            text(&answer)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_script_without_a_fitting_line_fails_the_run() {
    let agent = Cast::parse("{ answers: [{ when: 'hi', steps: [{ text: ['a', 'b'] }] }] }")
        .unwrap()
        .agent();
    let answer = ask(&*agent, &step(StepKind::Message, "oh hi"))
        .await
        .unwrap();
    assert_eq!(text(&answer), "a\nb");
    let error = ask(&*agent, &step(StepKind::Message, "bye"))
        .await
        .unwrap_err();
    assert_eq!(error.0.raw(), "the script has no answer to this message");
}
