use super::*;
use crosstalk::engine::reference::{self, Refusal, Target, Why};
use crosstalk::model::tools::ToolStatus;
use crosstalk::model::visibility::Doing;
use proptest::prelude::*;

fn resolve(world: &World, input: &str) -> Result<Target, Refusal> {
    let World {
        store,
        settings,
        context,
    } = world;
    reference::resolve(store, settings, context, input, Doing::History)
}

fn found(world: &World, input: &str) -> String {
    let target = resolve(world, input).unwrap_or_else(|r| panic!("{input}: {r:?}"));
    target.key.as_str().to_owned()
}

fn refused(world: &World, input: &str) -> Refusal {
    match resolve(world, input) {
        Err(refusal) => refusal,
        Ok(target) => panic!("{input} led to {target:?}"),
    }
}

const ID: &str = "0b9c2e6a-1111-4222-8333-444455556666";

#[test]
fn ac_2_main_is_the_own_agents() {
    let mut world = World::new()
        .requester("agent:ops:main")
        .with("agent:ops:main", json!({}))
        .with("agent:main:main", json!({}));
    world.store.say("agent:ops:main", [user("of ops")]);
    world.store.say("agent:main:main", [user("of main")]);
    let answer = world.history(json!({ "sessionKey": "main" }));
    assert_eq!(texts(&answer), ["of ops"]);
    assert_eq!(answer["sessionKey"], "main");
}

#[test]
fn ac_3_main_key_of_the_configuration() {
    let mut world = World::new();
    world.settings.main_key = "work".into();
    world.store.main_key = Some("work".into());
    let world = world
        .requester("agent:main:work")
        .with("agent:main:work", json!({}));
    for input in [
        "main",
        "work",
        "WORK",
        " Main ",
        "agent:main:main",
        "AGENT:Main:WORK",
    ] {
        assert_eq!(found(&world, input), "agent:main:work", "{input}");
    }
    assert_eq!(world.keys(json!({})), ["main"]);
}

#[test]
fn k_16_an_entry_under_main_counts_for_the_main_key() {
    let mut world = World::new();
    world.settings.main_key = "work".into();
    world.store.main_key = Some("work".into());
    let world = world
        .requester("agent:main:work")
        .with("agent:main:main", json!({ "sessionId": "old" }));
    let target = resolve(&world, "main").unwrap();
    assert_eq!(target.key.as_str(), "agent:main:work");
    assert_eq!(target.entry.unwrap().session_id, "old");
    assert_eq!(world.keys(json!({})), ["main"]);
    // With both, the other spelling is never reached and never listed.
    let world = world.with("agent:main:work", json!({ "sessionId": "new" }));
    assert_eq!(
        resolve(&world, "main").unwrap().entry.unwrap().session_id,
        "new"
    );
    assert_eq!(world.row("main")["sessionId"], "new");
    assert_eq!(world.keys(json!({})).len(), 1);
}

#[test]
fn ac_4_scope_global() {
    let mut world = World::new();
    world.settings.scope_global = true;
    let mut world = world
        .requester("agent:main:main")
        .with(
            "global",
            json!({ "sessionId": "one", "lastChannel": "telegram" }),
        )
        .with("agent:main:main", json!({ "updatedAt": 5 }))
        .with(
            "agent:main:subagent:1",
            json!({ "spawnedBy": "global", "updatedAt": 1 }),
        );
    world.store.say("global", [user("hello")]);
    assert_eq!(world.keys(json!({})), ["main", "agent:main:subagent:1"]);
    assert_eq!(world.row("agent:main:subagent:1")["spawnedBy"], "main");
    assert_eq!(
        world.row("main")["childSessions"][0],
        "agent:main:subagent:1"
    );
    for input in ["main", "global", "agent:main:main", "agent:ops:main"] {
        let answer = world.history(json!({ "sessionKey": input }));
        assert_eq!(texts(&answer), ["hello"], "{input}");
        assert!(!answer.to_string().contains("global"), "{answer}");
    }
    assert!(!world.list(json!({})).to_string().contains("global"));
    // It belongs to every agent (K-11).
    let ops = world.requester("agent:ops:main");
    assert_eq!(ops.keys(json!({ "kinds": ["main"] })), ["main"]);
}

#[test]
fn ac_5_reserved_keys_name_nothing() {
    for level in [Level::SelfOnly, Level::Tree, Level::Agent, Level::All] {
        let world = World::new()
            .level(level)
            .with("global", json!({ "sessionId": ID }))
            .with("unknown", json!({}))
            .with("agent:main:unknown", json!({}));
        assert!(world.keys(json!({})).is_empty());
        for input in [
            "unknown",
            "global",
            "agent:main:unknown",
            "agent:main:global",
            ID,
        ] {
            let refusal = refused(&world, input);
            assert_eq!(refusal.status, ToolStatus::Error, "{input}");
            assert_eq!(refusal.why, Why::NotFound, "{input}");
        }
    }
}

#[test]
fn ac_7_spellings_of_one_key() {
    let world = World::new()
        .with(
            "agent:main:Discord:Channel:5",
            json!({ "updatedAt": 10, "label": "old" }),
        )
        .with(
            "agent:main:discord:channel:5",
            json!({ "updatedAt": 20, "label": "new" }),
        );
    assert_eq!(world.keys(json!({})), ["agent:main:discord:channel:5"]);
    assert_eq!(world.row("agent:main:discord:channel:5")["label"], "new");
    assert_eq!(
        found(&world, "AGENT:MAIN:DISCORD:CHANNEL:5"),
        "agent:main:discord:channel:5"
    );
}

#[test]
fn ac_8_by_session_id() {
    let world = World::new().with("agent:main:main", json!({ "sessionId": ID }));
    for input in [ID.to_owned(), ID.to_uppercase(), format!(" {ID}\n")] {
        let answer = world.history(json!({ "sessionKey": input }));
        assert_eq!(answer["sessionKey"], "main");
    }
    let answer = world.history(json!({ "session_key": ID }));
    assert_eq!(answer["sessionKey"], "main");
}

#[test]
fn ac_9_unknown_session_id() {
    let answer = World::new().history(json!({ "sessionKey": ID }));
    assert_eq!(answer["status"], "error");
    let text = answer["error"].as_str().unwrap();
    assert!(
        text.contains(ID) && text.contains("sessions_list"),
        "{text}"
    );
    assert_eq!(answer.as_object().unwrap().len(), 2);
}

#[test]
fn ac_10_one_id_under_two_keys() {
    let two = |own_time: i64, foreign_time: i64| {
        World::new()
            .with(
                "agent:main:telegram:group:1",
                json!({ "sessionId": ID, "updatedAt": own_time }),
            )
            .with(
                "agent:ops:telegram:group:1",
                json!({ "sessionId": ID, "updatedAt": foreign_time }),
            )
    };
    let refusal = refused(&two(5, 5).level(Level::All).cross(true, &[]), ID);
    assert_eq!(refusal.why, Why::Ambiguous);
    assert!(refusal.error.contains("agent:main:telegram:group:1"));
    assert!(refusal.error.contains("agent:ops:telegram:group:1"));
    let refusal = refused(&two(5, 5), ID);
    assert!(refusal.error.contains("agent:main:telegram:group:1"));
    assert!(!refusal.error.contains("agent:ops"));
    assert_eq!(found(&two(6, 5), ID), "agent:main:telegram:group:1");
    // A key that ends in the id wins over a newer one.
    let world = two(5, 9).with(
        &format!("agent:main:subagent:{ID}"),
        json!({ "sessionId": ID, "updatedAt": 1 }),
    );
    assert_eq!(found(&world, ID), format!("agent:main:subagent:{ID}"));
}

#[test]
fn ac_11_malformed_keys() {
    for input in [
        "agent:main",
        "agent:",
        "agent::x",
        "agent:main:",
        "agent:main::x",
        "agent: : ",
    ] {
        let answer = World::new().history(json!({ "sessionKey": input }));
        assert_eq!(answer["status"], "error", "{input}");
        let text = answer["error"].as_str().unwrap();
        assert!(text.contains("malformed"), "{text}");
        assert!(text.contains(input.trim()), "{text}");
    }
    let answer = World::new().history(json!({}));
    assert_eq!(answer["tool"], "sessions_history");
    assert_eq!(answer["status"], "error");
}

#[test]
fn ac_12_short_forms_of_cron_hook_and_node() {
    for rest in ["cron:j1", "hook:4f", "node-7", "node:7"] {
        let full = format!("agent:main:{rest}");
        let world = World::new().with(&full, json!({}));
        assert_eq!(world.keys(json!({})), [rest]);
        assert_eq!(found(&world, rest), full);
        assert_eq!(found(&world, &full), full);
    }
    // Not those of other agents (K-14), and the default agent's only when they may be seen (K-15, V-41).
    let world = World::new()
        .requester("agent:ops:main")
        .with("agent:main:cron:j1", json!({}));
    assert_eq!(found(&world, "cron:j1"), "agent:ops:cron:j1");
    let world = world.level(Level::All).cross(true, &[]);
    assert_eq!(found(&world, "cron:j1"), "agent:main:cron:j1");
    assert_eq!(world.keys(json!({})), ["agent:main:cron:j1"]);
}

#[test]
fn r_3_a_bare_word_is_a_key_first_then_an_id() {
    let world = World::new()
        .with(
            "agent:main:telegram:direct:5",
            json!({ "sessionId": "abc" }),
        )
        .with("agent:main:plain", json!({}));
    assert_eq!(found(&world, "plain"), "agent:main:plain");
    assert_eq!(found(&world, "abc"), "agent:main:telegram:direct:5");
    assert_eq!(
        found(&world, "telegram:direct:5"),
        "agent:main:telegram:direct:5"
    );
    // One chat, two spellings (K-6).
    let target = resolve(&world, "agent:main:telegram:dm:5").unwrap();
    assert_eq!(target.entry.unwrap().session_id, "abc");
    assert_eq!(refused(&world, "nothing").why, Why::NotFound);
}

#[test]
fn ac_14_hostile_session_ids_lead_nowhere() {
    let mut world = World::new().with(
        "agent:main:main",
        json!({ "sessionId": "../../etc/passwd" }),
    );
    world.store.say("agent:main:main", [user("root:x:0:0")]);
    assert_eq!(world.row("main").get("transcriptPath"), None);
    let answer = world.history(json!({ "sessionKey": "main" }));
    assert_eq!(texts(&answer), Vec::<String>::new());
}

#[test]
fn ac_61_labels() {
    let label = |world: &World, label: &str, agent: Option<&str>| {
        reference::resolve_label(
            &world.store,
            &world.settings,
            &world.context,
            label,
            agent,
            Doing::Send,
        )
    };
    let world = World::new()
        .with("agent:main:subagent:1", json!({ "label": "scout" }))
        .with("agent:ops:subagent:2", json!({ "label": "scout" }))
        .with("agent:ops:subagent:3", json!({ "label": "alone" }));
    let target = label(&world, " scout ", None).unwrap();
    assert_eq!(target.key.as_str(), "agent:main:subagent:1");
    let refusal = label(&world, "nobody", None).unwrap_err();
    assert!(refusal.error.contains("nobody"));
    assert_eq!(refusal.status, ToolStatus::Error);
    // A label of a session that may not be seen is like no label (V-41).
    let hidden = label(&world, "alone", None).unwrap_err();
    assert_eq!(hidden.error, refusal.error.replace("nobody", "alone"));
    // A foreign agent, agent-to-agent off: the same whether the label exists or not.
    let there = label(&world, "scout", Some("ops")).unwrap_err();
    let nowhere = label(&world, "nobody", Some("ops")).unwrap_err();
    assert_eq!(there, nowhere);
    assert_eq!(there.status, ToolStatus::Forbidden);
    let world = world.level(Level::All).cross(true, &[]);
    let refusal = label(&world, "scout", None).unwrap_err();
    assert_eq!(refusal.why, Why::Ambiguous);
    assert!(refusal.error.contains("agent:main:subagent:1"));
    assert!(refusal.error.contains("agent:ops:subagent:2"));
    let target = label(&world, "scout", Some("OPS")).unwrap();
    assert_eq!(target.key.as_str(), "agent:ops:subagent:2");
}

#[test]
fn ac_60_key_or_label_not_both() {
    let world = World::new().with("agent:ops:main", json!({}));
    let target = |world: &World, key, label, agent| {
        let World {
            store,
            settings,
            context,
        } = world;
        reference::resolve_target(store, settings, context, (key, label, agent), Doing::Send)
    };
    assert_eq!(
        target(&world, Some("main"), Some("x"), None)
            .unwrap_err()
            .why,
        Why::Usage
    );
    assert_eq!(
        target(&world, None, None, None).unwrap_err().why,
        Why::Usage
    );
    // S-5: the agent alone is its main session, when it is configured.
    assert_eq!(
        target(&world, None, None, Some("main"))
            .unwrap()
            .key
            .as_str(),
        "agent:main:main"
    );
    assert_eq!(
        target(&world, None, None, Some("ops")).unwrap_err().why,
        Why::NotFound
    );
}

#[test]
fn v_45_a_person_sees_all_and_full_keys() {
    let world = World::new()
        .level(Level::SelfOnly)
        .person()
        .with("agent:main:main", json!({}))
        .with("agent:ops:cron:1", json!({ "sessionId": ID }));
    assert_eq!(
        world.keys(json!({})),
        ["agent:main:main", "agent:ops:cron:1"]
    );
    assert_eq!(found(&world, ID), "agent:ops:cron:1");
    assert_eq!(found(&world, "main"), "agent:main:main");
}

proptest! {
    #[test]
    fn k_15_canonical_keys_are_fixed_points(input in "\\PC{0,40}", as_key in any::<bool>()) {
        let input = if as_key { format!("agent:{input}") } else { input };
        let world = World::new();
        if let Ok(target) = resolve(&world, &input) {
            prop_assert_eq!(found(&world, target.key.as_str()), target.key.as_str());
        }
    }
}

#[test]
fn ac_13_depth_by_parents() {
    let world = World::new()
        .with("agent:main:main", json!({}))
        .with(
            "agent:main:direct:a",
            json!({ "spawnedBy": "agent:main:direct:b" }),
        )
        .with(
            "agent:main:direct:b",
            json!({ "spawnedBy": "agent:main:direct:a" }),
        )
        .with(
            "agent:main:subagent:1",
            json!({ "spawnedBy": "agent:main:main" }),
        )
        .with(
            "agent:main:subagent:2",
            json!({ "spawnedBy": "agent:main:subagent:1" }),
        )
        .with("agent:main:subagent:3", json!({ "spawnDepth": 4 }))
        .with(
            "agent:main:subagent:4",
            json!({ "spawnedBy": "agent:main:subagent:3" }),
        )
        .with("agent:main:subagent:5", json!({ "spawnDepth": -1 }));
    for (rest, depth) in [
        ("main", 0),
        ("direct:a", 1),
        ("subagent:1", 1),
        ("subagent:2", 2),
        ("subagent:3", 4),
        ("subagent:4", 5),
        ("subagent:5", 1),
        ("subagent:x:subagent:y", 2),
        ("none", 0),
    ] {
        let key = key(&format!("agent:main:{rest}"));
        let found = reference::spawn_depth(&world.store, &world.settings, &key).unwrap();
        assert_eq!(found, depth, "{rest}");
    }
}
