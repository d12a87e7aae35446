//! The agent-to-agent flow: loop, tokens, announce (chapter 6).

use super::{
    Act, House, MAIN, OPS, Played, RESEARCH, begun, drain, house, house_of, house_with, key,
    open_settings, send,
};
use crosstalk::agents::StepKind;
use crosstalk::engine::channels::Channels;
use crosstalk::model::event::{Event, What};
use crosstalk::model::run::RunOrigin;
use serde_json::json;
use std::time::Duration;

const GROUP: &str = "agent:ops:discord:channel:9";

fn origins(events: &[Event]) -> Vec<RunOrigin> {
    begun(events)
        .into_iter()
        .map(|(_, origin)| origin)
        .collect()
}

/// Agents that answer by kind of step: round 1, loop, announce.
fn speaker(first: &'static str, reply: &'static str, announce: &'static str) -> Played {
    Played::new(move |step| {
        Act::Say(match step.kind {
            StepKind::Message => first,
            StepKind::Reply => reply,
            StepKind::Announce => announce,
            StepKind::Report => "NO_REPLY",
        })
    })
}

#[tokio::test(start_paused = true)]
async fn ac_70_a_1_the_turn_limit() {
    for (limit, turns) in [(0_u32, 0), (2, 2), (5, 5)] {
        let mut settings = open_settings();
        settings.max_ping_pong_turns = limit;
        let all = speaker("one", "more", "ANNOUNCE_SKIP");
        let house = house_of(settings, &[("ops", &all), ("research", &all)]).await;
        let mut events = house.engine.events(None);
        house.send_as(RESEARCH, OPS, "x").await;
        house.settle().await;
        let origins = origins(&drain(&mut events));
        let replies = origins.iter().filter(|o| **o == RunOrigin::Reply).count();
        assert_eq!(replies, turns, "{limit}");
        assert_eq!(origins.last(), Some(&RunOrigin::Announce), "{limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn ac_71_a_11_a_token_is_the_whole_reply_or_none() {
    for (reply, ends) in [
        ("  REPLY_SKIP\n", true),
        ("", true),
        ("NO_REPLY", true),
        ("ANNOUNCE_SKIP", true),
        ("reply_skip", false),
        ("REPLY_SKIP!", false),
        ("ok REPLY_SKIP", false),
        ("\"REPLY_SKIP\"", false),
    ] {
        let requester = speaker("", reply, "");
        let target = speaker("one", "REPLY_SKIP", "ANNOUNCE_SKIP");
        let house = house_of(
            open_settings(),
            &[("research", &requester), ("ops", &target)],
        )
        .await;
        let mut events = house.engine.events(None);
        house.send_as(RESEARCH, OPS, "x").await;
        house.settle().await;
        let sessions = begun(&drain(&mut events));
        let replied: Vec<&str> = sessions
            .iter()
            .filter(|(_, origin)| *origin == RunOrigin::Reply)
            .map(|(session, _)| session.as_str())
            .collect();
        let expected: &[&str] = if ends { &[RESEARCH] } else { &[RESEARCH, OPS] };
        assert_eq!(replied, expected, "{reply:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ac_72_a_12_a_14_a_15_what_the_announce_step_is_told() {
    let requester = speaker("", "the reply of turn 1", "");
    let target = speaker("round one", "REPLY_SKIP", "ANNOUNCE_SKIP");
    let house = house_of(
        open_settings(),
        &[("research", &requester), ("ops", &target)],
    )
    .await;
    house.send_as(RESEARCH, OPS, "the request").await;
    house.settle().await;
    let seen = target.seen();
    let announce = seen.iter().find(|s| s.kind == StepKind::Announce).unwrap();
    let told = announce.system_text.as_ref().unwrap().raw();
    for part in [
        "Original request: the request",
        "Round 1 reply: round one",
        "Latest reply: the reply of turn 1",
        RESEARCH,
        OPS,
        "exactly ANNOUNCE_SKIP",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
    let first = requester.seen()[0].clone();
    let told = first.system_text.unwrap().into_raw();
    for part in [
        "agent 1",
        "Turn 1 of at most 5",
        RESEARCH,
        OPS,
        "exactly REPLY_SKIP",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
    assert_eq!(first.message.raw(), "round one");
}

#[tokio::test(start_paused = true)]
async fn ac_73_a_17_what_is_announced() {
    for (said, delivered) in [
        ("ANNOUNCE_SKIP", None),
        (" NO_REPLY ", None),
        ("", None),
        ("  all done\n", Some("all done")),
        ("ANNOUNCE_SKIP.", Some("ANNOUNCE_SKIP.")),
        ("REPLY_SKIP", Some("REPLY_SKIP")),
    ] {
        let target = Played::new(move |step| match step.kind {
            StepKind::Announce => Act::Say(said),
            _ => Act::Say("REPLY_SKIP"),
        });
        let house = house_of(open_settings(), &[("ops", &target)]).await;
        house.send_as(RESEARCH, GROUP, "x").await;
        house.settle().await;
        let texts: Vec<String> = house
            .channels
            .delivered()
            .into_iter()
            .map(|d| d.text)
            .collect();
        let expected: Vec<String> = delivered.into_iter().map(str::to_owned).collect();
        assert_eq!(texts, expected, "{said:?}");
    }
    // A delivery that fails is not tried again, and the send keeps its result.
    let house = house_with(open_settings(), &[], Channels::recording_with(1, &[])).await;
    let result = house.send_as(RESEARCH, GROUP, "[[reply:REPLY_SKIP]]").await;
    assert_eq!(result["status"], "ok");
    house.settle().await;
    assert!(house.channels.delivered().is_empty());
}

/// Where an announce of a send to a session went.
async fn announced(house: &House, target: &str) -> Vec<(Option<String>, Option<String>)> {
    house
        .send_as(RESEARCH, target, "[[reply:REPLY_SKIP]]")
        .await;
    house.settle().await;
    let text =
        |text: Option<crosstalk::text::Untrusted>| text.map(crosstalk::text::Untrusted::into_raw);
    house
        .channels
        .delivered()
        .into_iter()
        .map(|d| (text(d.route.channel), text(d.route.to)))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn ac_75_a_32_a_33_the_route_of_the_target() {
    let routed = house(open_settings()).await;
    routed.incoming(MAIN, "[[reply:NO_REPLY]]").await;
    routed.settle().await;
    assert_eq!(
        announced(&routed, MAIN).await,
        [(Some("telegram".into()), Some("7".into()))]
    );

    let inside = house(open_settings()).await;
    let routes = announced(&inside, MAIN).await;
    assert!(
        routes
            .iter()
            .all(|(channel, _)| channel.as_deref() == Some("webchat")),
        "{routes:?}"
    );
    assert!(
        inside
            .said(MAIN)
            .contains(&"announce: the exchange is over".to_owned()),
        "it stays in the transcript"
    );
}

#[tokio::test(start_paused = true)]
async fn ac_77_a_3_a_step_that_takes_too_long_ends_the_loop() {
    let requester = Played::new(|_| Act::SaySlowly(61.0, "late"));
    let target = speaker("one", "two", "done");
    let house = house_of(
        open_settings(),
        &[("research", &requester), ("ops", &target)],
    )
    .await;
    let mut events = house.engine.events(None);
    let mut arguments = send(OPS, "x");
    arguments["timeoutSeconds"] = json!(600);
    house.call_as(RESEARCH, "sessions_send", arguments).await;
    house.settle().await;
    assert_eq!(
        origins(&drain(&mut events)),
        [RunOrigin::Send, RunOrigin::Reply, RunOrigin::Announce]
    );
}

#[tokio::test(start_paused = true)]
async fn ac_78_dv_11_the_budget_of_a_step_counts_from_its_beginning() {
    let requester = Played::new(|step| match (step.kind, step.results.len()) {
        (StepKind::Message, 0) => Act::Call("sessions_send", send(OPS, "x")),
        (StepKind::Message, _) => Act::SaySlowly(45.0, "busy"),
        _ => Act::SaySlowly(20.0, "an answer"),
    });
    let target = speaker("one", "REPLY_SKIP", "ANNOUNCE_SKIP");
    let house = house_of(
        open_settings(),
        &[("research", &requester), ("ops", &target)],
    )
    .await;
    house
        .engine
        .operator_send(key(RESEARCH), "go", "go")
        .await
        .unwrap();
    house.settle().await;
    let seen = target.seen();
    let turn = seen
        .iter()
        .find(|step| step.kind == StepKind::Reply)
        .unwrap();
    assert_eq!(turn.message.raw(), "an answer");
}

#[tokio::test(start_paused = true)]
async fn a_3_a_step_that_does_not_begin_within_ten_minutes_is_given_up() {
    let requester = Played::new(|step| match (step.kind, step.results.len()) {
        (StepKind::Message, 0) => Act::Call("sessions_send", send(OPS, "x")),
        (StepKind::Message, _) => Act::SaySlowly(650.0, "busy"),
        _ => Act::Say("an answer"),
    });
    let target = speaker("one", "REPLY_SKIP", "ANNOUNCE_SKIP");
    let mut settings = open_settings();
    settings.run_limit_s = 10_000;
    let house = house_of(settings, &[("research", &requester), ("ops", &target)]).await;
    let mut events = house.engine.events(None);
    house
        .engine
        .operator_send(key(RESEARCH), "go", "go")
        .await
        .unwrap();
    house.settle().await;
    let origins = origins(&drain(&mut events));
    assert_eq!(
        origins,
        [RunOrigin::Operator, RunOrigin::Send, RunOrigin::Announce]
    );
}

#[tokio::test(start_paused = true)]
async fn ac_79_a_16_only_the_target_announces() {
    for limit in 0..=5 {
        let mut settings = open_settings();
        settings.max_ping_pong_turns = limit;
        let house = house(settings).await;
        let mut events = house.engine.events(None);
        house.send_as(RESEARCH, OPS, "[[ping:9]]").await;
        house.settle().await;
        let announced: Vec<String> = begun(&drain(&mut events))
            .into_iter()
            .filter(|(_, origin)| *origin == RunOrigin::Announce)
            .map(|(session, _)| session)
            .collect();
        assert_eq!(announced, [OPS], "{limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_18_a_send_inside_a_step_has_a_flow_of_its_own() {
    let requester = Played::new(|step| match (step.kind, step.results.len()) {
        (StepKind::Reply, 0) => Act::Call("sessions_send", send(MAIN, "[[reply:REPLY_SKIP]]")),
        _ => Act::Say("REPLY_SKIP"),
    });
    let house = house_of(open_settings(), &[("research", &requester)]).await;
    let mut events = house.engine.events(None);
    house.send_as(RESEARCH, OPS, "[[reply:one]]").await;
    house.settle().await;
    let announced: Vec<String> = begun(&drain(&mut events))
        .into_iter()
        .filter(|(_, origin)| *origin == RunOrigin::Announce)
        .map(|(session, _)| session)
        .collect();
    assert_eq!(announced.len(), 2, "{announced:?}");
    assert!(announced.contains(&MAIN.to_owned()) && announced.contains(&OPS.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_19_a_requester_deleted_meanwhile_ends_the_flow() {
    let requester = "agent:research:discord:channel:1";
    for reset in [false, true] {
        let house = house(open_settings()).await;
        house.incoming(requester, "[[reply:NO_REPLY]]").await;
        house.settle().await;
        let mut arguments = send(OPS, "[[slow:10]] [[ping:3]]");
        arguments["timeoutSeconds"] = json!(0);
        house.call_as(requester, "sessions_send", arguments).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        if reset {
            house.engine.reset(&key(requester)).await.unwrap();
        } else {
            house.engine.delete(&key(requester)).await.unwrap();
        }
        let mut events = house.engine.events(None);
        house.settle().await;
        let events = drain(&mut events);
        assert!(begun(&events).is_empty(), "{events:?}");
        assert!(
            !events
                .iter()
                .any(|e| matches!(e.what, What::A2aTurn { .. }))
        );
        assert_eq!(house.entry(requester).is_some(), reset);
    }
}

#[tokio::test(start_paused = true)]
async fn a_20_a_denied_step_counts_as_no_reply() {
    let house = house(open_settings()).await;
    let fields = serde_json::Map::from_iter([("sendPolicy".to_owned(), json!("deny"))]);
    house.engine.patch(&key(RESEARCH), fields).await.unwrap();
    let mut events = house.engine.events(None);
    house.send_as(RESEARCH, OPS, "[[ping:3]]").await;
    house.settle().await;
    assert_eq!(
        origins(&drain(&mut events)),
        [RunOrigin::Send, RunOrigin::Announce]
    );
}
