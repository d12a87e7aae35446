//! `sessions_send`: waits, results, targets (chapter 5).

use super::{
    Act, MAIN, OPS, Played, RESEARCH, begun, drain, error, house, house_of, key, open_settings,
    send,
};
use crosstalk::model::event::What;
use crosstalk::model::run::RunOrigin;
use crosstalk::model::visibility::Level;
use serde_json::json;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn ac_52_s_3_s_44_how_long_a_send_waits() {
    for (given, waited, status) in [
        (json!(null), 30_000, "timeout"),
        (json!(-5), 0, "accepted"),
        (json!(0), 0, "accepted"),
        (json!(0.5), 1000, "timeout"),
        (json!(1.9), 1000, "timeout"),
        (json!("2"), 2000, "timeout"),
        (json!("soon"), 30_000, "timeout"),
    ] {
        let house = house(open_settings()).await;
        let mut arguments = send(OPS, "[[slow:500]] [[reply:x]]");
        arguments["timeoutSeconds"] = given.clone();
        let before = tokio::time::Instant::now();
        let result = house.call_as(MAIN, "sessions_send", arguments).await;
        assert_eq!(result["status"], status, "{given}: {result}");
        assert_eq!(before.elapsed().as_millis(), waited, "{given}");
    }
}

#[tokio::test(start_paused = true)]
async fn ac_53_an_answer_in_time_is_the_reply() {
    let house = house(open_settings()).await;
    let result = house.send_as(MAIN, OPS, "[[reply:hi]]").await;
    assert_eq!(result["status"], "ok");
    assert_eq!(result["reply"], "hi");
    assert_eq!(result["sessionKey"], OPS);
    assert_eq!(
        result["delivery"],
        json!({ "status": "pending", "mode": "announce" })
    );
}

#[tokio::test(start_paused = true)]
async fn ac_54_s_32_s_40_an_older_answer_is_never_the_reply() {
    let ops = Played::new(|step| match step.message.raw() {
        "first" => Act::Say("old"),
        _ => Act::Say(""),
    });
    let house = house_of(open_settings(), &[("ops", &ops)]).await;
    house.send_as(MAIN, OPS, "first").await;
    house.settle().await;
    let mut events = house.engine.events(None);
    let result = house.send_as(MAIN, OPS, "second").await;
    assert_eq!(result["status"], "ok");
    assert!(result.get("reply").is_none(), "{result}");
    assert_eq!(result["delivery"]["status"], "skipped");
    house.settle().await;
    let origins = begun(&drain(&mut events));
    assert_eq!(
        origins,
        [(OPS.to_owned(), RunOrigin::Send)],
        "no flow follows"
    );
}

#[tokio::test(start_paused = true)]
async fn ac_57_e_9_s_43_a_screen_that_goes_away_takes_no_wait_with_it() {
    let main = Played::new(|step| match step.results.len() {
        0 => Act::Call(
            "sessions_send",
            send(OPS, "[[slow:8]] [[reply:here it is]]"),
        ),
        _ => Act::Say("thanks"),
    });
    let house = house_of(open_settings(), &[("main", &main)]).await;
    // The one screen sends, waits, and is gone; another comes.
    let engine = house.engine.clone();
    let screen = tokio::spawn(async move {
        let mut events = engine.events(None);
        engine
            .operator_send(key(MAIN), "ask ops", "asked")
            .await
            .unwrap();
        while events.recv().await.is_some() {}
    });
    tokio::time::sleep(Duration::from_secs(3)).await;
    screen.abort();
    let mut other = house.engine.events(None);
    house.settle().await;
    let result = main.seen().last().unwrap().results[0].clone();
    assert!(result.text.raw().contains("here it is"), "{result:?}");
    assert!(
        drain(&mut other)
            .iter()
            .any(|event| event.run_id.as_deref() == Some("asked")
                && matches!(event.what, What::RunEnded { .. }))
    );
    // Any later waiter gets the same answer.
    for _ in 0..2 {
        let waited = house.engine.wait("asked", Duration::from_secs(1)).await;
        assert!(format!("{waited:?}").contains("thanks"), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn e_12_an_unknown_run_is_waited_for_in_vain() {
    let house = house(open_settings()).await;
    let before = tokio::time::Instant::now();
    let waited = house.engine.wait("nobody", Duration::from_secs(7)).await;
    assert!(matches!(waited, crosstalk::engine::runs::Waited::Over));
    assert_eq!(before.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn ac_61_s_7_s_8_labels_of_other_agents_cannot_be_probed() {
    let mut settings = open_settings();
    settings.visibility = Level::Agent;
    settings.cross_agent.enabled = false;
    let house = house(settings).await;
    for (session, label) in [(OPS, "there"), ("agent:main:discord:channel:1", "mine")] {
        let fields = serde_json::Map::from_iter([("label".to_owned(), json!(label))]);
        house.engine.patch(&key(session), fields).await.unwrap();
    }
    let ask = |label: &str, agent: Option<&str>| {
        let mut arguments = json!({ "label": label, "message": "x", "timeoutSeconds": 0 });
        if let Some(agent) = agent {
            arguments["agentId"] = json!(agent);
        }
        house.call_as(MAIN, "sessions_send", arguments)
    };
    let there = ask("there", Some("ops")).await;
    let nowhere = ask("nowhere", Some("ops")).await;
    assert_eq!(there["status"], "forbidden");
    assert_eq!(
        error(&there).replace("there", "?"),
        error(&nowhere).replace("nowhere", "?")
    );
    let unknown = ask("nowhere", None).await;
    assert_eq!(unknown["status"], "error");
    assert!(error(&unknown).contains("nowhere"), "{unknown}");
    assert_eq!(ask("mine", None).await["status"], "accepted");
}

#[tokio::test(start_paused = true)]
async fn ac_62_s_11_nobody_sends_to_itself() {
    let house = house(open_settings()).await;
    house.send_as(OPS, MAIN, "[[reply:NO_REPLY]]").await;
    house.settle().await;
    let id = house.entry(MAIN).unwrap().session_id;
    let fields = serde_json::Map::from_iter([("label".to_owned(), json!("me"))]);
    house.engine.patch(&key(MAIN), fields).await.unwrap();
    let mut events = house.engine.events(None);
    for arguments in [
        send("main", "x"),
        send(MAIN, "x"),
        send(&id, "x"),
        json!({ "label": "me", "message": "x" }),
    ] {
        let result = house.call_as(MAIN, "sessions_send", arguments).await;
        assert_eq!(result["status"], "error", "{result}");
        assert!(error(&result).contains("itself"), "{result}");
        assert!(result["runId"].is_string());
    }
    assert!(begun(&drain(&mut events)).is_empty());
}

#[tokio::test(start_paused = true)]
async fn ac_63_s_12_threads_are_ordinary_targets_unless_switched_off() {
    let thread = "agent:main:discord:channel:5:thread:7";
    let open = house(open_settings()).await;
    let result = open.send_as(OPS, thread, "[[reply:hi]]").await;
    assert_eq!(result["reply"], "hi", "{result}");

    let mut settings = open_settings();
    settings.allow_thread_targets = false;
    let closed = house(settings).await;
    let result = closed.send_as(OPS, thread, "[[reply:hi]]").await;
    assert_eq!(result["status"], "error");
    assert!(
        error(&result).contains("agent:main:discord:channel:5"),
        "{result}"
    );
    assert_eq!(closed.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn ac_64_s_13_which_sessions_a_send_makes() {
    let mut settings = open_settings();
    settings.visibility = Level::Agent;
    let house = house(settings).await;
    let group = "agent:main:telegram:group:-5";
    let made = house.send_as(MAIN, group, "[[reply:hi]]").await;
    assert_eq!(made["status"], "ok", "{made}");
    let entry = house.entry(group).unwrap();
    assert_eq!(entry.chat_type.as_deref(), Some("group"));
    assert_eq!(entry.channel.unwrap().raw(), "telegram");
    house.settle().await;

    let before = house.count();
    let child = "agent:main:subagent:00000000-0000-4000-8000-000000000000";
    for target in [child, "agent:nobody:main"] {
        let refused = house.call("sessions_send", send(target, "x")).await;
        assert_eq!(refused["status"], "error", "{refused}");
        assert!(refused["runId"].is_string());
    }
    assert_eq!(house.count(), before);
}

#[tokio::test(start_paused = true)]
async fn ac_66_s_22_s_23_the_context_is_for_the_model_only() {
    let ops = Played::new(|_| Act::Say("NO_REPLY"));
    let house = house_of(open_settings(), &[("ops", &ops)]).await;
    house.send_as(RESEARCH, OPS, "  look at this  ").await;
    house.settle().await;
    let step = &ops.seen()[0];
    let system = step.system_text.as_ref().unwrap().raw().to_owned();
    for part in [RESEARCH, OPS, "Agent 1", "Agent 2", "requester", "target"] {
        assert!(system.contains(part), "{part} in {system}");
    }
    assert_eq!(step.message.raw(), "look at this");
    let lines = house.lines(OPS);
    let stored: String = lines.iter().map(|line| line.line.to_string()).collect();
    assert!(stored.contains("look at this"));
    assert!(!stored.contains("Agent 1"), "{stored}");
}
