//! `sessions_spawn`: who, where, with what (chapters 8 and 9).

use super::{
    Act, House, MAIN, OPS, Played, agent, begun, drain, error, house, house_of, key, open_settings,
};
use crosstalk::config::{SandboxMode, Settings};
use crosstalk::model::run::RunOrigin;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

fn task(text: &str) -> Value {
    json!({ "task": text })
}

#[tokio::test(start_paused = true)]
async fn ac_89_p_60_p_62_e_7_a_full_lane_delays_only_the_beginning() {
    let house = house(open_settings()).await;
    let mut events = house.engine.events(None);
    for requester in [MAIN, OPS] {
        for _ in 0..4 {
            house
                .spawn_as(requester, task("[[slow:20]] [[reply:x]]"))
                .await;
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(begun(&drain(&mut events)).len(), 8);
    let before = tokio::time::Instant::now();
    house
        .spawn_as("agent:research:main", task("[[reply:ninth]]"))
        .await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let spawned = |events: &[_]| {
        begun(events)
            .iter()
            .filter(|(_, origin)| *origin == RunOrigin::Spawn)
            .count()
    };
    assert_eq!(spawned(&drain(&mut events)), 0);
    house.settle().await;
    assert_eq!(spawned(&drain(&mut events)), 1);
}

#[tokio::test(start_paused = true)]
async fn ac_92_am_3_p_40_p_44_threads_where_there_is_an_adapter() {
    let web = house(open_settings()).await;
    let arguments = json!({ "task": "[[reply:x]]", "thread": true });
    let result = web.call_as(MAIN, "sessions_spawn", arguments.clone()).await;
    assert_eq!(result["status"], "accepted", "{result}");
    assert_eq!(result["mode"], "session");
    let child = result["childSessionKey"].as_str().unwrap().to_owned();
    web.settle().await;
    assert!(
        web.entry(&child)
            .unwrap()
            .other
            .contains_key("threadBinding"),
        "mode session stays bound (P-43)"
    );
    let arguments_run = json!({ "task": "[[reply:x]]", "thread": true, "mode": "run" });
    let child = web.spawn_as(MAIN, arguments_run).await;
    assert!(
        web.entry(&child)
            .unwrap()
            .other
            .contains_key("threadBinding")
    );
    web.settle().await;
    assert!(
        !web.entry(&child)
            .unwrap()
            .other
            .contains_key("threadBinding")
    );

    let other = house(open_settings()).await;
    other.incoming(MAIN, "[[reply:NO_REPLY]]").await;
    other.settle().await;
    let before = other.count();
    let result = other.call_as(MAIN, "sessions_spawn", arguments).await;
    assert_eq!(result["status"], "error");
    assert!(error(&result).contains("binding"), "{result}");
    assert!(result["childSessionKey"].is_string());
    assert_eq!(other.count(), before);
}

#[tokio::test(start_paused = true)]
async fn ac_93_p_8_p_28_a_sub_agent_that_has_the_tool_still_may_not() {
    let mut settings = open_settings();
    settings.subagent_tools.also_allow = vec!["sessions_spawn".into()];
    let played = Played::new(|step| match step.results.len() {
        0 => Act::Call("sessions_spawn", json!({ "task": "deeper" })),
        _ => Act::Say("tried"),
    });
    let house = house_of(settings, &[("main", &played)]).await;
    house.spawn_as(MAIN, task("try")).await;
    house.settle().await;
    let seen = played.seen();
    let tried = seen
        .iter()
        .find(|step| step.session.is_subagent() && !step.results.is_empty());
    let result: Value = serde_json::from_str(tried.unwrap().results[0].text.raw()).unwrap();
    assert_eq!(result["status"], "forbidden");
    assert!(
        error(&result).contains("depth 1") && error(&result).contains("limit is 1"),
        "{result}"
    );
}

#[tokio::test(start_paused = true)]
async fn ac_95_p_20_p_21_the_list_of_the_requesters_agent_counts() {
    for (own, others, asked, status) in [
        (None, None, "ops", "forbidden"),
        (Some(vec!["OPS"]), None, "ops", "accepted"),
        (Some(vec!["*"]), None, "ops", "accepted"),
        (Some(vec!["*"]), None, "ghost", "error"),
        (None, Some(vec!["main", "ops"]), "ops", "forbidden"),
        (None, None, "main", "accepted"),
    ] {
        let list = |ids: Option<Vec<&str>>| {
            ids.map(|ids| ids.into_iter().map(str::to_owned).collect::<Vec<_>>())
        };
        let mut settings = open_settings();
        settings.agents[0].allow_agents = list(own.clone());
        settings.agents[2].allow_agents = list(others);
        let house = house(settings).await;
        let arguments = json!({ "task": "[[reply:x]]", "agentId": asked });
        let result = house.call_as(MAIN, "sessions_spawn", arguments).await;
        assert_eq!(result["status"], status, "{own:?} {asked}: {result}");
    }
}

fn sandboxes(defaults: SandboxMode, ops: Option<SandboxMode>) -> Settings {
    let mut settings = open_settings();
    settings.sandbox_mode = defaults;
    settings.agents[2].sandbox_mode = ops;
    settings.agents[0].allow_agents = Some(vec!["*".into()]);
    settings
}

#[tokio::test(start_paused = true)]
async fn ac_97_p_22_p_23_p_24_sandbox_guards() {
    let group = "agent:main:discord:channel:1";
    for (mode, ops, requester, target, sandbox, status) in [
        (
            SandboxMode::NonMain,
            None,
            MAIN,
            "main",
            "inherit",
            "accepted",
        ),
        (
            SandboxMode::NonMain,
            None,
            MAIN,
            "main",
            "require",
            "accepted",
        ),
        (SandboxMode::Off, None, MAIN, "main", "inherit", "accepted"),
        (SandboxMode::Off, None, MAIN, "main", "require", "forbidden"),
        (
            SandboxMode::All,
            Some(SandboxMode::Off),
            MAIN,
            "ops",
            "inherit",
            "forbidden",
        ),
        (
            SandboxMode::All,
            Some(SandboxMode::Off),
            MAIN,
            "ops",
            "require",
            "forbidden",
        ),
        (
            SandboxMode::NonMain,
            Some(SandboxMode::Off),
            group,
            "ops",
            "inherit",
            "forbidden",
        ),
        (
            SandboxMode::NonMain,
            Some(SandboxMode::Off),
            MAIN,
            "ops",
            "inherit",
            "accepted",
        ),
    ] {
        let house = house(sandboxes(mode, ops)).await;
        let arguments = json!({ "task": "[[reply:x]]", "agentId": target, "sandbox": sandbox });
        let result = house.call_as(requester, "sessions_spawn", arguments).await;
        assert_eq!(
            result["status"], status,
            "{mode:?} {ops:?} {requester} {target} {sandbox}: {result}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn ac_101_p_34_a_limit_of_zero_is_no_limit() {
    for (given, status) in [
        (json!({ "runTimeoutSeconds": 0 }), "done"),
        (json!({}), "timeout"),
        (json!({ "timeoutSeconds": 0 }), "done"),
        (
            json!({ "timeoutSeconds": 0, "runTimeoutSeconds": 5 }),
            "timeout",
        ),
    ] {
        let mut settings = open_settings();
        settings.subagents.run_timeout_s = 900;
        let played = Played::new(|_| Act::SaySlowly(5000.0, "done"));
        let house = house_of(settings, &[("ops", &played)]).await;
        let mut arguments = given.clone();
        arguments["task"] = json!("long");
        let child = house.spawn_as(OPS, arguments).await;
        house.settle().await;
        let entry = house.entry(&child).unwrap();
        let word = serde_json::to_value(entry.status.unwrap()).unwrap();
        assert_eq!(word, status, "{given}");
    }
}

/// The session tools a child has, and whether its agent's own tool works.
async fn tools_of_child(settings: Settings) -> (Vec<String>, bool) {
    let played = Played::new(|step| match step.results.len() {
        0 if step.session.is_subagent() => Act::Call("own_tool", json!({})),
        _ => Act::Say("NO_REPLY"),
    });
    let house = house_of(settings, &[("main", &played)]).await;
    house.spawn_as(MAIN, task("x")).await;
    house.settle().await;
    let seen = played.seen();
    let last = seen
        .iter()
        .rfind(|step| step.session.is_subagent())
        .unwrap();
    (last.tools.clone(), last.results[0].text.raw() == "42")
}

#[tokio::test(start_paused = true)]
async fn ac_102_p_25_p_26_tools_of_a_leaf() {
    assert_eq!(tools_of_child(open_settings()).await, (vec![], true));
    let with = |rule: fn(&mut Settings)| {
        let mut settings = open_settings();
        rule(&mut settings);
        tools_of_child(settings)
    };
    let list = vec!["sessions_list".to_owned()];
    let also = with(|s| s.subagent_tools.also_allow = vec!["sessions_list".into()]).await;
    assert_eq!(also, (list.clone(), true));
    let denied = with(|s| {
        s.subagent_tools.also_allow = vec!["sessions_list".into()];
        s.subagent_tools.deny = vec!["sessions_*".into()];
    })
    .await;
    assert_eq!(denied, (vec![], true));
    let only = with(|s| s.subagent_tools.allow = vec!["sessions_list".into()]).await;
    assert_eq!(
        only,
        (list, false),
        "a list of what is allowed allows nothing else"
    );
    let own = with(|s| s.subagent_tools.deny = vec!["own_tool".into()]).await;
    assert_eq!(own, (vec![], false));
}

/// Files below a directory whose bytes hold a text.
fn holding(dir: &Path, text: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for item in std::fs::read_dir(dir).unwrap().filter_map(Result::ok) {
        let path = item.path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if std::fs::read(&path)
            .unwrap()
            .windows(text.len())
            .any(|window| window == text.as_bytes())
        {
            found.push(path);
        }
    }
    found
}

fn attached(house: &House) -> Vec<std::path::PathBuf> {
    holding(house.dir.path(), "the content nobody repeats")
}

fn attaching() -> Value {
    json!({ "task": "[[slow:5]] [[reply:x]]", "attachments": [
        { "name": "a.txt", "content": "the content nobody repeats" }
    ] })
}

#[tokio::test(start_paused = true)]
async fn ac_108_t_30_the_content_lies_in_one_file_only() {
    let played = Played::new(|step| match step.results.len() {
        0 if !step.session.is_subagent() => Act::Call("sessions_spawn", attaching()),
        _ => Act::SaySlowly(5.0, "NO_REPLY"),
    });
    let house = house_of(open_settings(), &[("main", &played)]).await;
    house
        .engine
        .operator_send(key(MAIN), "go", "go")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let found = attached(&house);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("a.txt"));
    let stored: String = house
        .lines(MAIN)
        .iter()
        .map(|line| line.line.to_string())
        .collect();
    assert!(stored.contains("__OPENCLAW_REDACTED__"), "{stored}");
}

#[tokio::test(start_paused = true)]
async fn ac_109_t_31_when_attachments_go() {
    for (retain, cleanup, after_announce) in
        [(false, "keep", 0), (true, "keep", 1), (true, "delete", 0)]
    {
        let mut settings = open_settings();
        settings.attachments.retain_on_session_keep = retain;
        let house = house(settings).await;
        let mut arguments = attaching();
        arguments["cleanup"] = json!(cleanup);
        house.spawn_as(MAIN, arguments).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(attached(&house).len(), 1, "not before the run has ended");
        house.settle().await;
        assert_eq!(attached(&house).len(), after_announce, "{retain} {cleanup}");
        tokio::time::sleep(Duration::from_secs(3700)).await;
        house.settle().await;
        assert!(attached(&house).is_empty(), "gone after the archive");
    }
}

#[tokio::test(start_paused = true)]
async fn ac_134_v_44_a_child_is_visible_at_once() {
    let mut settings = open_settings();
    settings.visibility = crosstalk::model::visibility::Level::Tree;
    let house = house(settings).await;
    let child = house.spawn_as(MAIN, task("[[slow:9]] [[reply:x]]")).await;
    let history = house
        .call_as(MAIN, "sessions_history", json!({ "sessionKey": child }))
        .await;
    assert!(history["messages"].is_array(), "{history}");
}

#[tokio::test(start_paused = true)]
async fn p_2_a_label_in_use_does_not_stop_a_spawn() {
    let house = house(open_settings()).await;
    let arguments = json!({ "task": "[[reply:x]]", "label": "twice" });
    house.spawn_as(MAIN, arguments.clone()).await;
    let second = house.call_as(MAIN, "sessions_spawn", arguments).await;
    assert_eq!(second["status"], "accepted");
    assert!(
        second["warning"].as_str().unwrap().contains("twice"),
        "{second}"
    );
    let child = second["childSessionKey"].as_str().unwrap();
    assert!(house.entry(child).unwrap().label.is_none());
}

#[tokio::test(start_paused = true)]
async fn p_61_a_cron_session_gets_no_note() {
    let mut settings = open_settings();
    settings.agents = vec![agent("main")];
    let house = house(settings).await;
    for (requester, noted) in [(MAIN, true), ("agent:main:cron:j1", false)] {
        let result = house
            .call_as(requester, "sessions_spawn", task("[[reply:x]]"))
            .await;
        assert_eq!(result.get("note").is_some(), noted, "{result}");
    }
}
