//! The engine with scripted agents and a paused clock.

use crosstalk::agents::scripted::Directives;
use crosstalk::clock::Clock;
use crosstalk::config::{AgentSettings, Runtime, Settings};
use crosstalk::engine::channels::Channels;
use crosstalk::engine::context::Context;
use crosstalk::engine::runs::{Limit, NewRun, Waited};
use crosstalk::engine::{Engine, Options};
use crosstalk::model::event::{AnnounceKind, Event, Fate, SendState, What};
use crosstalk::model::key::{AgentId, SessionKey};
use crosstalk::model::message::{Content, Message, RawLine};
use crosstalk::model::run::{Lane, Outcome, RunOrigin};
use crosstalk::model::session::Status;
use crosstalk::model::visibility::Level;
use crosstalk::store::state::StateStore;
use crosstalk::store::{Sessions, Span};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

const START: i64 = 1_796_000_000_000;

fn agent(id: &str) -> AgentSettings {
    AgentSettings {
        id: AgentId::mend(id),
        default: id == "main",
        name: None,
        workspace: None,
        model: None,
        runtime: Runtime::Directives,
        sandbox_mode: None,
        sandbox_wrapper: None,
        allow_agents: None,
        subagent_model: None,
        subagent_thinking: None,
        require_agent_id: None,
    }
}

fn open_settings() -> Settings {
    let mut settings = Settings {
        agents: vec![agent("main"), agent("research"), agent("ops")],
        visibility: Level::All,
        ..Settings::default()
    };
    settings.cross_agent.enabled = true;
    settings
}

struct House {
    engine: Engine,
    channels: Channels,
    dir: tempfile::TempDir,
}

async fn open(dir: &Path, settings: Settings, channels: Channels) -> Engine {
    let store = StateStore::open(dir, &settings.main_key).unwrap();
    let options = Options {
        clock: Clock::of_tokio(START),
        channels,
        ..Options::default()
    };
    Engine::open(store, settings, options).await.unwrap()
}

async fn house(settings: Settings) -> House {
    let dir = tempfile::tempdir().unwrap();
    let channels = Channels::recording();
    let engine = open(dir.path(), settings, channels.clone()).await;
    House {
        engine,
        channels,
        dir,
    }
}

fn key(text: &str) -> SessionKey {
    SessionKey::parse(text).unwrap()
}

impl House {
    fn settings(&self) -> Arc<Settings> {
        self.engine.settings()
    }
    async fn call_as(&self, session: &str, tool: &str, arguments: Value) -> Value {
        let ctx = Context::session(&self.settings(), key(session));
        self.engine.call_tool(ctx, tool, arguments).await
    }
    async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.engine
            .call_tool(Context::person(&self.settings()), tool, arguments)
            .await
    }
    async fn settle(&self) {
        // Bounded: with a paused clock this passes in no time.
        for _ in 0..100_000 {
            if self.engine.settled() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the engine did not settle");
    }
    fn messages(&self, session: &str) -> Vec<Message> {
        self.lines(session)
            .iter()
            .filter_map(Message::read)
            .collect()
    }
    fn lines(&self, session: &str) -> Vec<RawLine> {
        let store = self.engine.store();
        let Some(entry) = Sessions::entry(store, &key(session)).unwrap() else {
            return Vec::new();
        };
        store
            .transcript(&entry, Span::Whole, usize::MAX)
            .unwrap()
            .lines
    }
    /// Role and text of each message.
    fn said(&self, session: &str) -> Vec<(String, String)> {
        self.messages(session)
            .into_iter()
            .filter_map(|message| match message.content {
                Content::Said(said) => {
                    Some((format!("{:?}", said.role).to_lowercase(), said.text()))
                }
                _ => None,
            })
            .collect()
    }
}

fn drain(events: &mut mpsc::Receiver<Event>) -> Vec<Event> {
    let mut all = Vec::new();
    while let Ok(event) = events.try_recv() {
        all.push(event);
    }
    all
}

fn send(to: &str, message: &str) -> Value {
    json!({ "sessionKey": to, "message": message })
}

#[tokio::test(start_paused = true)]
async fn s_31_a_send_that_is_answered_in_time_gives_the_reply() {
    let house = house(open_settings()).await;
    let result = house
        .call("sessions_send", send("agent:ops:main", "[[reply:hi]]"))
        .await;
    assert_eq!(result["status"], "ok");
    assert_eq!(result["reply"], "hi");
    assert!(
        result.get("delivery").is_none(),
        "a person's message has no announce: {result}"
    );
    house.settle().await;
    assert_eq!(
        house.said("agent:ops:main"),
        [
            ("user".into(), "[[reply:hi]]".into()),
            ("assistant".into(), "hi".into())
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn ac_49_a_send_as_a_session_has_provenance_loop_and_announce() {
    let house = house(open_settings()).await;
    let mut events = house.engine.events(None);
    let result = house
        .call_as(
            "agent:research:main",
            "sessions_send",
            send("agent:ops:main", "[[reply:hi]]"),
        )
        .await;
    assert_eq!(result["status"], "ok");
    assert_eq!(result["reply"], "hi");
    assert_eq!(
        result["delivery"],
        json!({ "status": "pending", "mode": "announce" })
    );
    house.settle().await;
    let messages = house.messages("agent:ops:main");
    let first = messages[0].said().unwrap();
    assert!(first.is_inter_session());
    let provenance = first.provenance.as_ref().unwrap();
    assert_eq!(
        provenance.source_session_key.as_ref().unwrap().raw(),
        "agent:research:main"
    );
    assert_eq!(
        provenance.source_tool.as_ref().unwrap().raw(),
        "sessions_send"
    );
    let events = drain(&mut events);
    let turns: Vec<(u32, bool)> = events
        .iter()
        .filter_map(|event| match &event.what {
            What::A2aTurn { turn, skipped, .. } => Some((*turn, *skipped)),
            _ => None,
        })
        .collect();
    assert_eq!(
        turns,
        [(0, false), (1, true)],
        "the requester skips in turn 1"
    );
    assert!(events.iter().any(|event| matches!(
        &event.what,
        What::Announce { kind: AnnounceKind::A2a, text: Some(text), .. } if text.raw() == "announce: the exchange is over"
    )));
    // Everything of the exchange knows its cause and its root.
    let root = result["runId"].as_str().unwrap();
    for event in &events {
        if matches!(event.what, What::RunEnded { .. }) && event.run_id.as_deref() != Some(root) {
            assert_eq!(event.root_run.as_deref(), Some(root), "{event:?}");
            assert!(event.caused_by_run.is_some());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ac_69_a_limit_of_three_gives_three_turns_and_one_announce() {
    let mut settings = open_settings();
    settings.max_ping_pong_turns = 3;
    let house = house(settings).await;
    let mut events = house.engine.events(None);
    house
        .call_as(
            "agent:research:main",
            "sessions_send",
            send("agent:ops:main", "[[ping:9]]"),
        )
        .await;
    house.settle().await;
    let origins: Vec<(String, RunOrigin)> = drain(&mut events)
        .into_iter()
        .filter_map(|event| match event.what {
            What::RunStarted { origin } => Some((event.session_key.unwrap().into_raw(), origin)),
            _ => None,
        })
        .collect();
    let expected = [
        ("agent:ops:main", RunOrigin::Send),
        ("agent:research:main", RunOrigin::Reply),
        ("agent:ops:main", RunOrigin::Reply),
        ("agent:research:main", RunOrigin::Reply),
        ("agent:ops:main", RunOrigin::Announce),
    ];
    assert_eq!(
        origins,
        expected.map(|(session, origin)| (session.to_owned(), origin))
    );
}

#[tokio::test(start_paused = true)]
async fn ac_76_control_tokens_as_first_reply() {
    for (message, turns, announced) in [
        ("[[reply:NO_REPLY]]", 0, false),
        ("[[reply:REPLY_SKIP]]", 1, true),
        ("[[reply:x]] [[quiet]]", 2, false),
    ] {
        let house = house(open_settings()).await;
        let mut events = house.engine.events(None);
        house
            .call_as(
                "agent:research:main",
                "sessions_send",
                send("agent:ops:discord:channel:9", message),
            )
            .await;
        house.settle().await;
        let events = drain(&mut events);
        let told = events
            .iter()
            .filter(|event| matches!(event.what, What::A2aTurn { .. }))
            .count();
        assert_eq!(told, turns, "{message}");
        assert_eq!(
            !house.channels.delivered().is_empty(),
            announced,
            "{message}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn ac_74_an_announce_goes_to_the_targets_channel() {
    let house = house(open_settings()).await;
    house
        .call_as(
            "agent:research:main",
            "sessions_send",
            send("agent:main:telegram:group:-1:topic:4", "[[reply:x]]"),
        )
        .await;
    house.settle().await;
    let delivered = house.channels.delivered();
    assert_eq!(delivered.len(), 1);
    let route = &delivered[0].route;
    assert_eq!(route.channel.as_ref().unwrap().raw(), "telegram");
    assert_eq!(route.to.as_ref().unwrap().raw(), "group:-1");
    assert_eq!(route.thread_id.as_ref().unwrap().raw(), "4");
    assert_eq!(delivered[0].text, "announce: the exchange is over");
}

#[tokio::test(start_paused = true)]
async fn ac_51_fire_and_forget_is_accepted_before_the_model_is_called() {
    let house = house(open_settings()).await;
    let mut events = house.engine.events(None);
    let arguments =
        json!({ "sessionKey": "agent:ops:main", "message": "[[reply:done]]", "timeoutSeconds": 0 });
    let result = house
        .call_as("agent:main:main", "sessions_send", arguments)
        .await;
    assert_eq!(result["status"], "accepted");
    assert!(
        !drain(&mut events)
            .iter()
            .any(|event| matches!(event.what, What::RunEnded { .. }))
    );
    house.settle().await;
    assert_eq!(
        house.said("agent:ops:main")[1],
        ("assistant".into(), "done".into())
    );
}

#[tokio::test(start_paused = true)]
async fn ac_55_a_wait_that_is_over_leaves_the_run_going_and_the_flow_follows() {
    let house = house(open_settings()).await;
    let mut events = house.engine.events(None);
    let arguments = json!({ "sessionKey": "agent:ops:main", "message": "[[slow:40]] [[reply:late]]", "timeoutSeconds": 5 });
    let before = tokio::time::Instant::now();
    let result = house
        .call_as("agent:research:main", "sessions_send", arguments)
        .await;
    assert_eq!(result["status"], "timeout");
    assert!(!result["error"].as_str().unwrap().is_empty());
    assert_eq!(before.elapsed().as_secs(), 5);
    house.settle().await;
    let states: Vec<SendState> = drain(&mut events)
        .iter()
        .filter_map(|event| match &event.what {
            What::SendState { state, .. } => Some(*state),
            _ => None,
        })
        .collect();
    assert_eq!(
        states,
        [
            SendState::Queued,
            SendState::Running,
            SendState::WaitOver,
            SendState::Replied
        ]
    );
    assert!(
        house
            .said("agent:ops:main")
            .iter()
            .any(|(_, text)| text == "late")
    );
    assert!(
        house
            .said("agent:ops:main")
            .iter()
            .any(|(_, text)| text == "announce: the exchange is over")
    );
}

#[tokio::test(start_paused = true)]
async fn ac_56_failures_say_what_happened() {
    let house = house(open_settings()).await;
    let failed = house
        .call("sessions_send", send("agent:ops:main", "[[fail:no quota]]"))
        .await;
    assert_eq!(failed["status"], "error");
    assert!(failed["error"].as_str().unwrap().contains("no quota"));
    assert_eq!(
        house
            .messages("agent:ops:main")
            .last()
            .unwrap()
            .said()
            .unwrap()
            .error
            .as_ref()
            .unwrap()
            .raw(),
        "no quota"
    );

    let engine = house.engine.clone();
    let aborting = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(3)).await;
        engine
            .abort(Some(&key("agent:ops:main")), None, false)
            .await
    });
    let aborted = house
        .call(
            "sessions_send",
            send("agent:ops:main", "[[slow:20]] [[reply:one two three four]]"),
        )
        .await;
    assert_eq!(aborted["status"], "error");
    assert!(
        aborted["error"].as_str().unwrap().contains("aborted"),
        "{aborted}"
    );
    assert_eq!(aborting.await.unwrap().unwrap().len(), 1);

    let mut new = NewRun::new(
        key("agent:ops:main"),
        RunOrigin::Operator,
        Lane::Main,
        "[[slow:9]] [[reply:x y z]]",
    );
    new.limit = Limit::Ms(2000);
    let run = house.engine.accept(new).await.unwrap().run;
    let Waited::Ended(run) = house
        .engine
        .wait(&run.run_id, Duration::from_secs(60))
        .await
    else {
        panic!()
    };
    assert_eq!(run.outcome, Some(Outcome::Timeout));
    assert!(run.error.unwrap().raw().contains("limit of 2 s"));
}

#[tokio::test(start_paused = true)]
async fn ac_58_runs_of_a_session_follow_one_another_in_order_of_acceptance() {
    let house = house(open_settings()).await;
    let mut ids = Vec::new();
    for text in [
        "[[slow:5]] [[reply:a]]",
        "[[reply:b]]",
        "[[reply:c]]",
        "[[reply:d]]",
    ] {
        let id = format!("run-{}", ids.len());
        let accepted = house
            .engine
            .operator_send(key("agent:ops:main"), text, &id)
            .await
            .unwrap();
        assert_eq!(accepted.queued_behind as usize, ids.len());
        ids.push(id);
    }
    house.settle().await;
    let texts: Vec<String> = house
        .said("agent:ops:main")
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    assert_eq!(
        texts,
        [
            "[[slow:5]] [[reply:a]]",
            "a",
            "[[reply:b]]",
            "b",
            "[[reply:c]]",
            "c",
            "[[reply:d]]",
            "d"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn ac_59_waiting_sends_hold_no_lane() {
    let mut settings = open_settings();
    settings.max_concurrent = 1;
    settings.subagents.max_concurrent = 1;
    let house = house(settings).await;
    let inner = r#"[[tool:sessions_send {\"sessionKey\":\"agent:main:main\",\"message\":\"[[reply:deep]]\"}]]"#;
    let outer =
        format!(r#"[[tool:sessions_send {{"sessionKey":"agent:ops:main","message":"{inner}"}}]]"#);
    let result = house
        .call(
            "sessions_send",
            json!({ "sessionKey": "agent:research:main", "message": outer }),
        )
        .await;
    assert_eq!(result["status"], "ok", "{result}");
    house.settle().await;
    assert!(
        house
            .said("agent:main:main")
            .iter()
            .any(|(_, text)| text == "deep")
    );
}

#[tokio::test(start_paused = true)]
async fn ac_60_ac_62_arguments_that_cannot_be_used() {
    let house = house(open_settings()).await;
    for (arguments, needle) in [
        (
            json!({ "sessionKey": "agent:ops:main", "label": "x", "message": "m" }),
            "only one",
        ),
        (json!({ "message": "m" }), "must be given"),
        (
            json!({ "sessionKey": "agent:ops:main", "message": "  " }),
            "message is required",
        ),
        (json!({ "sessionKey": "main", "message": "m" }), "itself"),
        (
            json!({ "sessionKey": "agent:main", "message": "m" }),
            "alformed",
        ),
        (
            json!({ "sessionKey": "agent:ops:subagent:gone", "message": "m" }),
            "no session",
        ),
        (
            json!({ "sessionKey": "agent:nobody:main", "message": "m" }),
            "does not exist",
        ),
    ] {
        let result = house
            .call_as("agent:main:main", "sessions_send", arguments.clone())
            .await;
        assert_eq!(result["status"], "error", "{arguments} → {result}");
        assert!(
            result["error"].as_str().unwrap().contains(needle),
            "{arguments} → {result}"
        );
    }
    assert!(house.engine.settled());
    assert!(
        house
            .engine
            .store()
            .list(&crosstalk::store::Query::default(), None)
            .unwrap()
            .entries
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn ac_67_the_same_idempotency_key_gives_one_run() {
    let house = house(open_settings()).await;
    let first = house
        .engine
        .operator_send(key("agent:ops:main"), "one", "same")
        .await
        .unwrap();
    let second = house
        .engine
        .operator_send(key("agent:ops:main"), "two", "same")
        .await
        .unwrap();
    assert_eq!(first.run.run_id, second.run.run_id);
    assert_eq!(second.run.message.raw(), "one");
    house.settle().await;
    assert_eq!(house.said("agent:ops:main").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn ac_65_a_denied_target_stores_nothing() {
    let mut settings = open_settings();
    settings.send_policy = Some(serde_json::from_value(json!({ "default": "deny" })).unwrap());
    let house = house(settings).await;
    let result = house
        .call_as(
            "agent:main:main",
            "sessions_send",
            send("agent:ops:main", "x"),
        )
        .await;
    assert_eq!(result["status"], "error");
    assert!(
        result["error"].as_str().unwrap().contains("send policy"),
        "{result}"
    );
    assert!(house.lines("agent:ops:main").is_empty());
}

#[tokio::test(start_paused = true)]
async fn ac_90_a_spawn_is_accepted_at_once_and_reports() {
    let house = house(open_settings()).await;
    let mut events = house.engine.events(None);
    let before = tokio::time::Instant::now();
    let arguments = json!({ "task": "[[slow:3]] [[reply:42 errors]]", "label": "scan logs" });
    let result = house
        .call_as("agent:main:main", "sessions_spawn", arguments)
        .await;
    assert_eq!(result["status"], "accepted", "{result}");
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(result["mode"], "run");
    let child = result["childSessionKey"].as_str().unwrap().to_owned();
    let entry = Sessions::entry(house.engine.store(), &key(&child))
        .unwrap()
        .unwrap();
    assert!(child.starts_with("agent:main:subagent:"));
    assert_eq!(entry.spawned_by, Some(key("agent:main:main")));
    assert_eq!(entry.spawn_depth, Some(1));
    assert_eq!(entry.subagent_role.as_deref(), Some("leaf"));
    assert_eq!(entry.label.unwrap().raw(), "scan logs");
    house.settle().await;
    let entry = Sessions::entry(house.engine.store(), &key(&child))
        .unwrap()
        .unwrap();
    assert_eq!(entry.status, Some(Status::Done));
    let post = drain(&mut events)
        .into_iter()
        .find_map(|event| match event.what {
            What::Announce {
                kind: AnnounceKind::Subagent,
                fate: Fate::Delivered,
                text,
                ..
            } => text,
            _ => None,
        })
        .unwrap();
    let lines: Vec<&str> = post.raw().lines().collect();
    assert_eq!(
        &lines[..2],
        ["Status: completed successfully", "Result: 42 errors"]
    );
    assert!(
        lines[2].starts_with("Stats: runtime 3s · tokens in "),
        "{post:?}"
    );
    for part in [child.as_str(), entry.session_id.as_str(), ".jsonl"] {
        assert!(lines[2].contains(part), "{part} in {post:?}");
    }
    let reported = house.messages("agent:main:main");
    let report = reported.iter().find_map(Message::said).unwrap();
    assert_eq!(
        report
            .provenance
            .as_ref()
            .unwrap()
            .source_tool
            .as_ref()
            .unwrap()
            .raw(),
        "subagent_announce"
    );
    assert_eq!(
        house.said("agent:main:main").last().unwrap().1,
        "announce: scan logs is done"
    );
}

#[tokio::test(start_paused = true)]
async fn ac_113_a_silent_child_posts_nothing_and_delete_removes_it() {
    let house = house(open_settings()).await;
    let mut events = house.engine.events(None);
    let arguments = json!({ "task": "[[reply:ANNOUNCE_SKIP]]", "cleanup": "delete" });
    let result = house
        .call_as("agent:main:main", "sessions_spawn", arguments)
        .await;
    let child = result["childSessionKey"].as_str().unwrap().to_owned();
    let path = {
        let entry = Sessions::entry(house.engine.store(), &key(&child))
            .unwrap()
            .unwrap();
        house.engine.store().transcript_path(&entry).unwrap()
    };
    house.settle().await;
    assert!(
        Sessions::entry(house.engine.store(), &key(&child))
            .unwrap()
            .is_none()
    );
    assert!(!path.exists());
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let kept = std::fs::read_dir(path.parent().unwrap())
        .unwrap()
        .filter_map(Result::ok);
    assert!(
        kept.map(|e| e.file_name().to_string_lossy().into_owned())
            .any(|n| n.starts_with(&format!("{name}.deleted.")))
    );
    let fates: Vec<Fate> = drain(&mut events)
        .iter()
        .filter_map(|event| match event.what {
            What::Announce { fate, .. } => Some(fate),
            _ => None,
        })
        .collect();
    assert_eq!(fates, [Fate::Skipped]);
}

#[tokio::test(start_paused = true)]
async fn ac_100_a_child_over_its_limit_reports_what_it_has() {
    let house = house(open_settings()).await;
    let arguments = json!({ "task": "[[slow:60]] [[reply:part one of many words here]]", "runTimeoutSeconds": 20 });
    let result = house
        .call_as("agent:main:main", "sessions_spawn", arguments)
        .await;
    assert_eq!(result["status"], "accepted");
    house.settle().await;
    let posts: Vec<String> = house
        .lines("agent:main:main")
        .iter()
        .filter_map(|line| line.line["data"]["text"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(posts.len(), 1);
    assert!(
        posts[0].starts_with("Status: timed out\nResult: part one"),
        "{posts:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn ac_91_ac_92_ac_96_ac_98_ac_99_refused_spawns_leave_nothing() {
    let house = house(open_settings()).await;
    for (arguments, status, needle) in [
        (json!({ "task": " " }), "error", "task is required"),
        (json!({ "task": "x", "channel": "" }), "error", "channel"),
        (json!({ "task": "x", "mode": "session" }), "error", "thread"),
        (
            json!({ "task": "x", "agentId": "../x" }),
            "error",
            "agents_list",
        ),
        (
            json!({ "task": "x", "agentId": "research" }),
            "forbidden",
            "research",
        ),
        (json!({ "task": "x", "model": "gpt-9" }), "error", "gpt-9"),
        (
            json!({ "task": "x", "thinking": "wild" }),
            "error",
            "adaptive",
        ),
        (
            json!({ "task": "x", "sandbox": "require" }),
            "forbidden",
            "sandbox",
        ),
        (json!({ "task": "x", "runtime": "acp" }), "error", "acp"),
        (
            json!({ "task": "x", "attachments": [{ "name": "a/b", "content": "" }] }),
            "error",
            "attachments_invalid_name",
        ),
    ] {
        let result = house
            .call_as("agent:main:main", "sessions_spawn", arguments.clone())
            .await;
        assert_eq!(result["status"], status, "{arguments} → {result}");
        assert!(
            result["error"].as_str().unwrap().contains(needle),
            "{arguments} → {result}"
        );
    }
    assert!(house.engine.settled());
    assert!(
        house
            .engine
            .store()
            .list(&crosstalk::store::Query::default(), None)
            .unwrap()
            .entries
            .is_empty()
    );
    assert!(!house.dir.path().join("agents").exists());
}

#[tokio::test(start_paused = true)]
async fn ac_94_parallel_spawns_cannot_exceed_the_limit() {
    let house = house(open_settings()).await;
    let spawns = (0..6).map(|_| {
        house.call_as(
            "agent:main:main",
            "sessions_spawn",
            json!({ "task": "[[slow:5]] [[reply:x]]" }),
        )
    });
    let results = futures_util::future::join_all(spawns).await;
    let accepted = results
        .iter()
        .filter(|result| result["status"] == "accepted")
        .count();
    let refused: Vec<&Value> = results
        .iter()
        .filter(|result| result["status"] == "forbidden")
        .collect();
    assert_eq!((accepted, refused.len()), (5, 1));
    assert!(refused[0]["error"].as_str().unwrap().contains("limit is 5"));
}

#[tokio::test(start_paused = true)]
async fn ac_122_stop_ends_children_and_grandchildren_silently() {
    let mut settings = open_settings();
    settings.subagents.max_spawn_depth = 2;
    let house = house(settings).await;
    let mut events = house.engine.events(None);
    let task = r#"[[tool:sessions_spawn {"task":"[[slow:500]] [[reply:deep]]"}]] [[slow:500]]"#;
    house
        .call_as("agent:main:main", "sessions_spawn", json!({ "task": task }))
        .await;
    for _ in 0..1000 {
        if house
            .engine
            .live_runs()
            .iter()
            .filter(|(_, _, started)| *started)
            .count()
            == 2
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(house.engine.live_runs().len(), 2);
    let answer = house
        .engine
        .incoming("webchat", "me", true, key("agent:main:main"), "/stop")
        .await
        .unwrap();
    assert!(
        format!("{answer:?}").contains("2 sub-agent run(s) stopped"),
        "{answer:?}"
    );
    house.settle().await;
    let fates: Vec<Fate> = drain(&mut events)
        .iter()
        .filter_map(|event| match event.what {
            What::Announce { fate, .. } => Some(fate),
            _ => None,
        })
        .collect();
    assert_eq!(fates, [Fate::Skipped, Fate::Skipped]);
}

#[tokio::test(start_paused = true)]
async fn ac_118_a_child_is_announced_after_its_descendants() {
    let mut settings = open_settings();
    settings.subagents.max_spawn_depth = 2;
    let house = house(settings).await;
    let task = r#"[[tool:sessions_spawn {"task":"[[slow:30]] [[reply:deep result]]","label":"grandchild"}]]"#;
    let result = house
        .call_as(
            "agent:main:main",
            "sessions_spawn",
            json!({ "task": task, "label": "child" }),
        )
        .await;
    assert_eq!(result["status"], "accepted", "{result}");
    house.settle().await;
    let posts: Vec<String> = house
        .lines("agent:main:main")
        .iter()
        .filter_map(|line| line.line["data"]["text"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(posts.len(), 1, "{posts:?}");
    assert!(posts[0].contains("grandchild is done"), "{posts:?}");
}

#[tokio::test(start_paused = true)]
async fn ac_121_an_ended_child_is_archived_after_an_hour() {
    let house = house(open_settings()).await;
    let result = house
        .call_as(
            "agent:main:main",
            "sessions_spawn",
            json!({ "task": "[[reply:x]]" }),
        )
        .await;
    let child = key(result["childSessionKey"].as_str().unwrap());
    house.settle().await;
    tokio::time::sleep(Duration::from_secs(59 * 60)).await;
    assert!(
        Sessions::entry(house.engine.store(), &child)
            .unwrap()
            .unwrap()
            .archived_at
            .is_none()
    );
    tokio::time::sleep(Duration::from_secs(2 * 60)).await;
    let entry = Sessions::entry(house.engine.store(), &child)
        .unwrap()
        .unwrap();
    assert!(entry.archived_at.is_some());
    house.engine.archive(&child, false).await.unwrap();
    assert!(
        Sessions::entry(house.engine.store(), &child)
            .unwrap()
            .unwrap()
            .archived_at
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn ac_84_ac_85_the_send_command() {
    let house = house(open_settings()).await;
    let session = || key("agent:ops:telegram:group:-5");
    let policy = || {
        let entry = Sessions::entry(house.engine.store(), &session()).unwrap();
        entry
            .and_then(|entry| entry.send_policy)
            .map(crosstalk::model::session::SendPolicy::as_str)
    };
    let say = |owner: bool, text: &'static str| {
        let engine = house.engine.clone();
        async move {
            format!(
                "{:?}",
                engine
                    .incoming("telegram", "u1", owner, session(), text)
                    .await
                    .unwrap()
            )
        }
    };
    assert!(say(false, "/send off").await.contains("Silence"));
    assert_eq!(policy(), None);
    assert!(say(true, " /SEND Off ").await.contains("off"));
    assert_eq!(policy(), Some("deny"));
    assert!(say(true, "hello").await.contains("Silence"));
    assert!(say(true, "/send maybe").await.contains("usage"));
    assert!(say(true, "/send inherit").await.contains("Answer"));
    assert_eq!(policy(), None);
    assert!(say(true, "/send off now").await.contains("Run"));
    house.settle().await;
    assert_eq!(
        house.channels.delivered().len(),
        1,
        "the reply goes back to the channel"
    );
}

#[tokio::test(start_paused = true)]
async fn ac_125_main_is_reset_not_deleted_and_reset_keeps_the_override() {
    let house = house(open_settings()).await;
    house
        .call("sessions_send", send("agent:ops:main", "one"))
        .await;
    let main = key("agent:ops:main");
    assert!(
        house
            .engine
            .delete(&main)
            .await
            .unwrap_err()
            .contains("main session")
    );
    house
        .engine
        .patch(
            &main,
            serde_json::Map::from_iter([("sendPolicy".into(), json!("deny"))]),
        )
        .await
        .unwrap();
    let before = Sessions::entry(house.engine.store(), &main)
        .unwrap()
        .unwrap();
    let after = house.engine.reset(&main).await.unwrap();
    assert_ne!(before.session_id, after.session_id);
    assert_eq!(after.send_policy, before.send_policy);
    assert!(house.said("agent:ops:main").is_empty());
}

#[tokio::test(start_paused = true)]
async fn am_5_a_chain_has_a_limit_and_a_loop_is_told() {
    let mut settings = open_settings();
    settings.max_chain_runs = 6;
    settings.max_ping_pong_turns = 0;
    let house = house(settings).await;
    let mut events = house.engine.events(None);
    let back = r#"[[tool:sessions_send {\"sessionKey\":\"agent:research:main\",\"message\":\"again\",\"timeoutSeconds\":0}]]"#;
    let there = format!(
        r#"[[tool:sessions_send {{"sessionKey":"agent:ops:main","message":"{back}","timeoutSeconds":0}}]]"#
    );
    house
        .call(
            "sessions_send",
            json!({ "sessionKey": "agent:research:main", "message": there }),
        )
        .await;
    house.settle().await;
    let path = drain(&mut events)
        .into_iter()
        .find_map(|event| match event.what {
            What::Loop { path, .. } => Some(
                path.into_iter()
                    .map(crosstalk::text::Untrusted::into_raw)
                    .collect::<Vec<_>>(),
            ),
            _ => None,
        })
        .unwrap();
    assert_eq!(
        path,
        [
            "agent:research:main",
            "agent:ops:main",
            "agent:research:main"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn am_4_a_restart_runs_what_was_accepted_and_closes_what_had_begun() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), open_settings(), Channels::recording()).await;
    first
        .operator_send(
            key("agent:ops:main"),
            "[[slow:50]] [[reply:never]]",
            "begun",
        )
        .await
        .unwrap();
    first
        .operator_send(key("agent:ops:main"), "[[reply:later]]", "waiting")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.shutdown().await;
    drop(first);

    let engine = open(dir.path(), open_settings(), Channels::recording()).await;
    let house = House {
        engine,
        channels: Channels::recording(),
        dir,
    };
    house.settle().await;
    let Waited::Ended(begun) = house.engine.wait("begun", Duration::from_secs(1)).await else {
        panic!()
    };
    assert_eq!(begun.outcome, Some(Outcome::Interrupted));
    let Waited::Ended(waiting) = house.engine.wait("waiting", Duration::from_secs(1)).await else {
        panic!()
    };
    assert_eq!(waiting.reply.unwrap().raw(), "later");
    let said = house.said("agent:ops:main");
    let texts: Vec<&str> = said.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "[[slow:50]] [[reply:never]]",
            "",
            "[[reply:later]]",
            "later"
        ]
    );
    let closing = house.messages("agent:ops:main");
    assert!(
        closing[1]
            .said()
            .unwrap()
            .error
            .as_ref()
            .unwrap()
            .raw()
            .contains("restarted")
    );
}

#[tokio::test(start_paused = true)]
async fn ac_136_unknown_members_survive_a_send() {
    let house = house(open_settings()).await;
    house
        .call("sessions_send", send("agent:ops:main", "one"))
        .await;
    let session = key("agent:ops:main");
    house
        .engine
        .store()
        .write(move |tx| {
            let mut entry = tx.entry(&session)?.unwrap();
            entry
                .other
                .insert("fromTheFuture".into(), json!({ "deep": [1, 2] }));
            tx.put_entry(&entry)
        })
        .await
        .unwrap();
    house
        .call("sessions_send", send("agent:ops:main", "two"))
        .await;
    let entry = Sessions::entry(house.engine.store(), &key("agent:ops:main"))
        .unwrap()
        .unwrap();
    assert_eq!(entry.other["fromTheFuture"], json!({ "deep": [1, 2] }));
    assert_eq!(entry.message_count, Some(4));
    assert_eq!(entry.first_user_text.unwrap().raw(), "one");
    assert_eq!(entry.last_text.unwrap().raw(), "echo: two");
}

#[test]
fn directives_are_the_agents_of_these_tests() {
    // The tests above mean nothing with an agent that answers otherwise.
    let _: Directives = Directives;
}

#[tokio::test(start_paused = true)]
async fn ac_115_deliveries_of_a_report_are_tried_again_when_that_may_help() {
    for (channel, failures, delivered, kept) in [
        ("discord", 2, 1, false),
        ("discord", 100, 0, true),
        ("nowhere", 0, 0, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let channels = Channels::recording_with(failures, &["discord"]);
        let engine = open(dir.path(), open_settings(), channels.clone()).await;
        let house = House {
            engine,
            channels,
            dir,
        };
        let requester = format!("agent:main:{channel}:group:7");
        house
            .call("sessions_send", send(&requester, "[[reply:NO_REPLY]]"))
            .await;
        let begun = tokio::time::Instant::now();
        let arguments =
            json!({ "task": "[[reply:found it]]", "cleanup": "delete", "label": "look" });
        let result = house.call_as(&requester, "sessions_spawn", arguments).await;
        assert_eq!(result["status"], "accepted", "{result}");
        house.settle().await;
        let posts = house.channels.delivered();
        let posts = posts.iter().filter(|post| {
            post.text
                .starts_with("Status: completed successfully\nResult: found it")
        });
        assert_eq!(posts.count(), delivered, "{channel} {failures}");
        let child = key(result["childSessionKey"].as_str().unwrap());
        let is_there = Sessions::entry(house.engine.store(), &child)
            .unwrap()
            .is_some();
        assert_eq!(is_there, kept, "N-27: {channel} {failures}");
        if channel == "nowhere" {
            assert!(
                begun.elapsed() < Duration::from_secs(5),
                "a permanent failure is not repeated"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn b_1_b_3_status_and_control_of_children() {
    let house = house(open_settings()).await;
    house
        .call(
            "sessions_send",
            send("agent:main:main", "[[usage:900]] [[reply:hi]]"),
        )
        .await;
    let card = house
        .call_as("agent:main:main", "session_status", json!({}))
        .await;
    assert_eq!(card["sessionKey"], "main");
    assert!(
        card["statusText"]
            .as_str()
            .unwrap()
            .contains("Tokens: 900 in"),
        "{card}"
    );

    for label in ["alpha", "beta"] {
        let arguments = json!({ "task": "[[slow:500]] [[reply:x]]", "label": label });
        house
            .call_as("agent:main:main", "sessions_spawn", arguments)
            .await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let list = house
        .call_as("agent:main:main", "subagents", json!({}))
        .await;
    assert_eq!(list["active"].as_array().unwrap().len(), 2, "{list}");
    let steer = json!({ "action": "steer", "target": "alp", "message": "[[reply:steered]]" });
    let steered = house
        .call_as("agent:main:main", "subagents", steer.clone())
        .await;
    assert_eq!(steered["status"], "accepted", "{steered}");
    let again = house.call_as("agent:main:main", "subagents", steer).await;
    assert_eq!(again["status"], "error", "{again}");
    let killed = house
        .call_as(
            "agent:main:main",
            "subagents",
            json!({ "action": "kill", "target": "beta" }),
        )
        .await;
    assert_eq!(killed["killed"], 1, "{killed}");
    house.settle().await;
    let posts: Vec<String> = house
        .lines("agent:main:main")
        .iter()
        .filter_map(|line| line.line["data"]["text"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(posts.len(), 1, "only the steered child reports: {posts:?}");
    assert!(posts[0].contains("Result: steered"));
    let foreign = house
        .call_as(
            "agent:research:main",
            "subagents",
            json!({ "action": "kill", "target": "all" }),
        )
        .await;
    assert_eq!(foreign["killed"], 0);
}

#[tokio::test(start_paused = true)]
async fn b_2_a_yield_ends_the_turn_when_there_is_something_to_wait_for() {
    let house = house(open_settings()).await;
    let nothing = house
        .call(
            "sessions_send",
            send("agent:main:main", "[[tool:sessions_yield {}]]"),
        )
        .await;
    assert!(
        nothing["reply"].as_str().unwrap().contains("not found"),
        "{nothing}"
    );
    let message = r#"[[tool:sessions_spawn {"task":"[[slow:5]] [[reply:x]]","label":"c"}]] [[tool:sessions_yield {}]]"#;
    let result = house
        .call("sessions_send", send("agent:main:main", message))
        .await;
    assert_eq!(result["status"], "ok");
    house.settle().await;
    assert_eq!(
        house.said("agent:main:main").last().unwrap().1,
        "announce: c is done"
    );
}

#[tokio::test(start_paused = true)]
async fn ac_68_an_aborted_requester_leaves_the_targets_run_alone() {
    let house = house(open_settings()).await;
    let message = r#"[[tool:sessions_send {"sessionKey":"agent:ops:main","message":"[[slow:20]] [[reply:kept]]"}]]"#;
    house
        .engine
        .operator_send(key("agent:main:main"), message, "outer")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    house
        .engine
        .abort(None, Some("outer"), false)
        .await
        .unwrap();
    house.settle().await;
    assert!(
        house
            .said("agent:ops:main")
            .iter()
            .any(|(_, text)| text == "kept")
    );
    // D-27: the open tool call of the aborted run has its result.
    let results = house.said("agent:main:main");
    assert!(
        results.iter().any(|(role, _)| role == "toolresult"),
        "{results:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn e_17_a_subscriber_that_was_too_slow_is_told_even_when_nothing_follows() {
    let house = house(open_settings()).await;
    let mut events = house.engine.events(None);
    let fields =
        |n: usize| serde_json::Map::from_iter([("label".to_owned(), json!(format!("l{n}")))]);
    let mut patched = 0;
    while events.len() < 1024 {
        house
            .engine
            .patch(&key("agent:ops:main"), fields(patched))
            .await
            .unwrap();
        patched += 1;
    }
    house
        .engine
        .patch(&key("agent:ops:main"), fields(patched))
        .await
        .unwrap();
    for _ in 0..1024 {
        events.recv().await.unwrap();
    }
    let told = tokio::time::timeout(Duration::from_secs(1), events.recv())
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(told.what, What::Resync {}), "{told:?}");
}

/// An agent that does not keep its word.
struct Panicking;

impl crosstalk::agents::Agent for Panicking {
    fn step<'a>(
        &'a self,
        _: &'a crosstalk::agents::Step,
        _: &'a dyn crosstalk::agents::Progress,
    ) -> futures_util::future::BoxFuture<
        'a,
        Result<crosstalk::agents::Answer, crosstalk::agents::AgentError>,
    > {
        Box::pin(async { panic!("no word was kept") })
    }
}

#[tokio::test(start_paused = true)]
async fn e_6_a_turn_that_panics_is_an_error_and_the_session_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let settings = open_settings();
    let store = StateStore::open(dir.path(), &settings.main_key).unwrap();
    let options = Options {
        clock: Clock::of_tokio(START),
        agents: std::collections::HashMap::from([(AgentId::mend("ops"), Arc::new(Panicking) as _)]),
        ..Options::default()
    };
    let engine = Engine::open(store, settings, options).await.unwrap();
    let house = House {
        engine,
        channels: Channels::recording(),
        dir,
    };
    for _ in 0..2 {
        let result = house
            .call("sessions_send", send("agent:ops:main", "hello"))
            .await;
        assert_eq!(result["status"], "error");
        assert!(
            result["error"].as_str().unwrap().contains("panicked"),
            "{result}"
        );
    }
    house.settle().await;
}

#[tokio::test(start_paused = true)]
async fn an_aborted_step_ends_the_exchange_unannounced() {
    let house = house(open_settings()).await;
    let mut events = house.engine.events(None);
    let message = "[[reply:go on [[slow:5]] [[ping:3]]]]";
    let result = house
        .call_as(
            "agent:research:main",
            "sessions_send",
            send("agent:ops:main", message),
        )
        .await;
    assert_eq!(result["status"], "ok", "{result}");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let root = result["runId"].as_str().unwrap();
    let stopped = house.engine.abort(None, Some(root), true).await.unwrap();
    assert_eq!(stopped.len(), 1, "the step of the ended send: {stopped:?}");
    house.settle().await;
    let announced = drain(&mut events)
        .iter()
        .any(|event| matches!(event.what, What::Announce { .. }));
    assert!(!announced);
}
