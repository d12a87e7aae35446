//! The same questions to a store in memory and to real files: the same answers.

use super::*;
use crosstalk::store::state::StateStore;
use crosstalk::store::{Sessions, transcript};
use std::fs;

/// The world's sessions in a state directory.
fn on_disk(world: &World) -> (tempfile::TempDir, StateStore) {
    let place = tempfile::tempdir().unwrap();
    let settings = &world.settings;
    let store =
        StateStore::open_scoped(place.path(), &settings.main_key, settings.scope_global).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let entries: Vec<_> = world.store.entries().cloned().collect();
    let written = entries.clone();
    let write = store.write(move |tx| written.iter().try_for_each(|entry| tx.put_entry(entry)));
    runtime.block_on(write).unwrap();
    for entry in &entries {
        let lines = world.store.lines(&entry.session_id);
        if lines.is_empty() {
            continue;
        }
        let path = store.transcript_path(entry).unwrap();
        transcript::append(&path, lines, false).unwrap();
    }
    (place, store)
}

/// Without what a place on disk brings along.
fn placeless(mut payload: Value) -> Value {
    for row in payload["sessions"].as_array_mut().into_iter().flatten() {
        row.as_object_mut().unwrap().shift_remove("transcriptPath");
    }
    payload
}

fn crowd() -> World {
    let mut world = World::new();
    for (at, rest) in [
        "main",
        "cron:j1",
        "cron:j1:run:3",
        "hook:4f",
        "node-7",
        "telegram:group:-1",
        "discord:channel:5:thread:6",
        "direct:ann",
        "subagent:1",
        "subagent:2",
        "unknown",
    ]
    .into_iter()
    .enumerate()
    {
        for agent in ["main", "ops", "z-1"] {
            let key = format!("agent:{agent}:{rest}");
            let mut members = json!({ "updatedAt": 1000 + (at as i64 * 7) % 5, "subject": format!("about {at}") });
            if rest.starts_with("subagent") {
                members["spawnedBy"] = json!("agent:main:main");
                members["label"] = json!(format!("kid {at}"));
            }
            if rest == "hook:4f" {
                members["archivedAt"] = json!(5);
            }
            if rest == "direct:ann" {
                members["lastChannel"] = json!("Signal");
                members["updatedAt"] = json!(NOW - 90_000);
            }
            world.store.put(&key, members);
            if at % 2 == 0 {
                let talk = (0..60).flat_map(|n| {
                    [
                        user(&format!("{rest} {n}")),
                        tool_call(),
                        tool_result("r"),
                        assistant("ok"),
                    ]
                });
                world.store.say(&key, talk);
            }
        }
    }
    world
}

#[test]
fn lists_and_histories_are_the_same_from_disk() {
    let mut world = crowd().cross(true, &["main", "o*"]);
    let (_place, store) = on_disk(&world);
    let lists = [
        json!({}),
        json!({ "limit": 3, "messageLimit": 2 }),
        json!({ "limit": 4, "offset": 2, "kinds": ["other", "group"] }),
        json!({ "search": "ABOUT 8" }),
        json!({ "label": "kid 9", "archived": "all" }),
        json!({ "archived": true, "includeDerivedTitles": true }),
        json!({ "activeMinutes": 2, "includeLastMessage": true, "agentId": "OPS" }),
    ];
    let histories = [
        json!({ "sessionKey": "main" }),
        json!({ "sessionKey": "cron:j1", "limit": 3, "includeTools": true }),
        json!({ "sessionKey": "agent:ops:subagent:1", "offset": 110, "limit": 20 }),
        json!({ "sessionKey": "agent-z-1-direct-ann" }),
        json!({ "sessionKey": "agent-main-direct-ann" }),
        json!({ "sessionKey": "agent:main:telegram:group:none" }),
    ];
    for level in [Level::SelfOnly, Level::Tree, Level::Agent, Level::All] {
        world.settings.visibility = level;
        for person in [false, true] {
            world.context = if person {
                Context::person(&world.settings)
            } else {
                Context::session(&world.settings, key("agent:main:main"))
            };
            let World {
                settings, context, ..
            } = &world;
            for arguments in &lists {
                let expected = world.list(arguments.clone());
                let found =
                    list_tool::list(&store, settings, context, &object(arguments.clone()), NOW);
                assert_eq!(placeless(found), expected, "{level:?} {arguments}");
            }
            for arguments in &histories {
                let expected = world.history(arguments.clone());
                let found =
                    history_tool::history(&store, settings, context, &object(arguments.clone()));
                assert_eq!(found, expected, "{level:?} {arguments}");
            }
        }
    }
}

#[test]
fn ac_4_scope_global_from_disk() {
    let mut world = World::new();
    world.settings.scope_global = true;
    let mut world = world
        .requester("agent:main:main")
        .with("global", json!({ "sessionId": "one" }))
        .with("agent:main:main", json!({ "updatedAt": 5 }))
        .with("agent:ops:direct:1", json!({}));
    world.store.say("global", [user("hello")]);
    let (_place, store) = on_disk(&world);
    for person in [false, true] {
        if person {
            world.context = Context::person(&world.settings);
        }
        let World {
            settings, context, ..
        } = &world;
        for arguments in [
            json!({}),
            json!({ "limit": 1 }),
            json!({ "kinds": ["main"] }),
        ] {
            let found = list_tool::list(&store, settings, context, &object(arguments.clone()), NOW);
            assert_eq!(placeless(found), world.list(arguments));
        }
        let found = history_tool::history(
            &store,
            settings,
            context,
            &object(json!({ "sessionKey": "main" })),
        );
        assert_eq!(texts(&found), ["hello"]);
    }
}

#[test]
fn ac_29_binary_noise_and_ac_46_a_broken_line_from_disk() {
    let mut world = World::new()
        .with("agent:main:main", json!({}))
        .with("agent:main:direct:1", json!({}));
    world.store.say("agent:main:direct:1", [user("here")]);
    let (_place, store) = on_disk(&world);
    let main = store.entry(&key("agent:main:main")).unwrap().unwrap();
    let noise: Vec<u8> = (0..100_000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    fs::write(store.transcript_path(&main).unwrap(), noise).unwrap();
    let other = store.entry(&key("agent:main:direct:1")).unwrap().unwrap();
    let path = store.transcript_path(&other).unwrap();
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str("{ \"type\": \"message\", \"mess\n");
    text.push_str("{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"whole\"}}\n{\"type\":\"mes");
    fs::write(&path, text).unwrap();
    let World {
        settings, context, ..
    } = &world;
    let payload = list_tool::list(
        &store,
        settings,
        context,
        &object(json!({ "messageLimit": 5 })),
        NOW,
    );
    for row in rows(&payload) {
        let expected: &[&str] = if row["key"] == "main" {
            &[]
        } else {
            &["here", "whole"]
        };
        assert_eq!(texts(row), expected);
        assert!(row["transcriptPath"].as_str().unwrap().ends_with(".jsonl"));
    }
}

#[test]
fn ac_14_and_ac_34_paths_that_lead_out_of_the_sessions_directory() {
    let world = World::new()
        .with(
            "agent:main:main",
            json!({ "sessionId": "../../etc/passwd" }),
        )
        .with(
            "agent:main:direct:1",
            json!({ "sessionId": "s1", "sessionFile": "/etc/passwd" }),
        );
    let (place, store) = on_disk(&world);
    let World {
        settings, context, ..
    } = &world;
    let payload = list_tool::list(&store, settings, context, &object(json!({})), NOW);
    for row in rows(&payload) {
        let path = row.get("transcriptPath").map(|path| path.as_str().unwrap());
        let inside = place.path().join("agents/main/sessions/s1.jsonl");
        let expected = (row["key"] != "main").then_some(inside.to_str().unwrap());
        assert_eq!(path, expected);
    }
    for given in ["main", "agent:main:direct:1"] {
        let found = history_tool::history(
            &store,
            settings,
            context,
            &object(json!({ "sessionKey": given })),
        );
        assert_eq!(texts(&found), Vec::<String>::new());
    }
}

#[test]
fn ac_44_masking_does_not_follow_the_log_switch() {
    let text = "{ logging: { redactSensitive: 'off' } }";
    let settings = crosstalk::config::parse(text, std::path::Path::new("config.json5")).unwrap();
    let mut world = World::new().with("agent:main:main", json!({}));
    world.settings.masker = settings.masker;
    let secret = format!("sk-{}", "q7".repeat(20));
    world.store.say(
        "agent:main:main",
        [user(&format!("OPENAI_API_KEY={secret}"))],
    );
    let answer = world.history(json!({ "sessionKey": "main" }));
    assert_eq!(answer["contentRedacted"], true);
    assert!(!answer.to_string().contains(&secret[3..20]));
}
