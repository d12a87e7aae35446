//! Send policy where it is enforced (chapter 7).

use super::{MAIN, OPS, RESEARCH, error, house, key, open_settings};
use crosstalk::engine::incoming::Incoming;
use crosstalk::model::session::SendPolicy;
use serde_json::{Map, json};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn ac_87_sp_26_a_new_session_keeps_the_override() {
    for command in ["/new", " /RESET "] {
        let house = house(open_settings()).await;
        house.incoming(MAIN, "[[reply:hi]]").await;
        house.settle().await;
        house.incoming(MAIN, "/send off").await;
        let before = house.entry(MAIN).unwrap();
        let answer = house.incoming(MAIN, command).await;
        assert!(matches!(answer, Incoming::Answer(_)), "{answer:?}");
        let after = house.entry(MAIN).unwrap();
        assert_ne!(after.session_id, before.session_id);
        assert_eq!(after.send_policy, Some(SendPolicy::Deny));
        assert!(house.said(MAIN).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn ac_88_sp_33_sp_35_a_run_that_was_accepted_ends_and_nothing_is_delivered() {
    let house = house(open_settings()).await;
    house
        .incoming(MAIN, "[[slow:10]] [[reply:one two three four]]")
        .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    house.incoming(MAIN, "/send off").await;
    house.settle().await;
    assert_eq!(house.said(MAIN).last().unwrap(), "one two three four");
    assert!(house.channels.delivered().is_empty());

    house.incoming(MAIN, "/send inherit").await;
    house.incoming(MAIN, "[[reply:again]]").await;
    house.settle().await;
    let texts: Vec<String> = house
        .channels
        .delivered()
        .into_iter()
        .map(|d| d.text)
        .collect();
    assert_eq!(texts, ["again"]);
}

#[tokio::test(start_paused = true)]
async fn sp_21_the_override_takes_two_words_and_null() {
    let house = house(open_settings()).await;
    let set = |value| {
        let fields = Map::from_iter([("sendPolicy".to_owned(), value)]);
        let engine = house.engine.clone();
        async move { engine.patch(&key(OPS), fields).await }
    };
    assert_eq!(
        set(json!("deny")).await.unwrap().send_policy,
        Some(SendPolicy::Deny)
    );
    let refused = set(json!("maybe")).await.unwrap_err();
    assert!(
        refused.contains("allow") && refused.contains("deny"),
        "{refused}"
    );
    assert_eq!(
        house.entry(OPS).unwrap().send_policy,
        Some(SendPolicy::Deny)
    );
    assert_eq!(set(json!(null)).await.unwrap().send_policy, None);
}

#[tokio::test(start_paused = true)]
async fn sp_30_sp_31_sp_34_a_denied_session_takes_nothing_and_is_still_read() {
    let house = house(open_settings()).await;
    house.send_as(RESEARCH, OPS, "[[reply:NO_REPLY]]").await;
    house.settle().await;
    house
        .engine
        .incoming("webchat", "me", true, key(OPS), "/send off")
        .await
        .unwrap();
    let before = house.lines(OPS).len();
    let refused = house
        .engine
        .operator_send(key(OPS), "x", "x1")
        .await
        .unwrap_err();
    assert!(refused.contains("policy"), "{refused}");
    let refused = house.send_as(RESEARCH, OPS, "x").await;
    assert_eq!(refused["status"], "error");
    assert!(error(&refused).contains("policy"), "{refused}");
    assert_eq!(house.lines(OPS).len(), before);
    let history = house
        .call_as(RESEARCH, "sessions_history", json!({ "sessionKey": OPS }))
        .await;
    assert!(!history["messages"].as_array().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn x_1_archived_hides_and_restores_and_makes_nothing() {
    let house = house(open_settings()).await;
    let group = "agent:ops:discord:channel:1";
    let set = |target: &'static str, value| {
        let fields = Map::from_iter([("archived".to_owned(), value)]);
        let engine = house.engine.clone();
        async move { engine.patch(&key(target), fields).await }
    };
    assert!(set(group, json!(true)).await.is_err());
    assert!(house.entry(group).is_none());
    house.incoming(group, "[[reply:NO_REPLY]]").await;
    house.settle().await;
    assert!(set(group, json!(true)).await.unwrap().archived_at.is_some());
    assert!(set(group, json!("yes")).await.is_err());
    assert!(
        set(group, json!(false))
            .await
            .unwrap()
            .archived_at
            .is_none()
    );
    house.incoming(MAIN, "[[reply:NO_REPLY]]").await;
    house.settle().await;
    assert!(set(MAIN, json!(true)).await.is_err(), "LC-4");
}
