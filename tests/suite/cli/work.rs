//! What commands do, by way of the owner that they start.

use super::world::{DIRECTIVES, World};
use serde_json::{Value, json};

#[test]
fn s_30_a_call_prints_the_payload_and_nothing_else() {
    let world = World::with(DIRECTIVES);
    let arguments = r#"{"sessionKey":"agent:ops:main","message":"[[reply:hi]]"}"#;
    let ran = world.run(&["call", "sessions_send", arguments]).ends(0);
    assert_eq!(ran.err, "");
    let payload = ran.json();
    assert_eq!(payload["status"], "ok");
    assert_eq!(payload["reply"], "hi");
    assert_eq!(
        payload.get("delivery"),
        None,
        "a person's message has nothing follow it"
    );
    assert!(ran.out.starts_with("{\n  \""), "{}", ran.out);
    let ran = world
        .run_with_input(&["call", "sessions_send", "-"], arguments)
        .ends(0);
    assert_eq!(ran.json()["reply"], "hi");
    world.settle();
}

#[test]
fn a_10_a_send_of_a_session_has_the_loop_and_the_announce_follow() {
    let world = World::with(DIRECTIVES);
    let watching = world.watch(&[]);
    let arguments = r#"{"sessionKey":"agent:ops:main","message":"[[ping:2]]"}"#;
    let args = [
        "--as",
        "agent:research:main",
        "call",
        "sessions_send",
        arguments,
    ];
    let payload = world.run(&args).ends(0).json();
    assert_eq!(payload["status"], "ok");
    assert_eq!(payload["reply"], "pong 2 [[ping:1]]");
    assert_eq!(
        payload["delivery"],
        json!({ "status": "pending", "mode": "announce" })
    );
    let turns: Vec<Value> = (0..3).map(|_| watching.next("a2a.turn")).collect();
    let speakers: Vec<&str> = turns
        .iter()
        .map(|turn| turn["speaker"].as_str().unwrap())
        .collect();
    assert_eq!(
        speakers,
        ["agent:ops:main", "agent:research:main", "agent:ops:main"]
    );
    assert_eq!(turns[2]["skipped"], true);
    assert_eq!(watching.next("announce")["kind"], "a2a");
    drop(watching);
    world.settle();
    let told = world.run(&["history", "agent:ops:main"]).ends(0).out;
    assert!(
        told.contains("agent:research:main ⇄ agent:ops:main"),
        "{told}"
    );
}

#[test]
fn am_4_what_was_accepted_is_done_by_the_owner_in_the_background() {
    let world = World::with(DIRECTIVES);
    let arguments =
        r#"{"sessionKey":"main","message":"[[slow:1]][[reply:later]]","timeoutSeconds":0}"#;
    let payload = world
        .run(&["call", "sessions_send", arguments])
        .ends(0)
        .json();
    assert_eq!(payload["status"], "accepted");
    // The owner ends itself when everything is settled; only then is there nobody to hold the lock.
    world.settle();
    let history = world.run(&["history", "main", "--json"]).ends(0).json();
    let last = history["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert_eq!(last["role"], "assistant");
    assert_eq!(last["content"][0]["text"], "later");
    assert_eq!(last["runId"], payload["runId"]);
}

#[test]
fn send_ends_as_its_run_did() {
    let world = World::with(DIRECTIVES);
    let ran = world.run(&["send", "main", "[[reply:hello]]"]).ends(0);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("hello\n", ""));
    let ran = world
        .run_with_input(&["send", "main", "-"], "[[reply:piped]]")
        .ends(0);
    assert_eq!(ran.out, "piped\n");
    let ran = world.run(&["send", "main", "[[fail:boo]]"]).ends(1);
    assert_eq!(ran.out, "");
    assert!(ran.err.contains("boo"), "{ran:?}");
    let ran = world
        .run(&["send", "agent:ops:slow", "[[slow:60]]x", "--timeout", "1"])
        .ends(4);
    assert_eq!(ran.out, "");
    let run = ran
        .err
        .split_whitespace()
        .find(|word| word.len() == 36)
        .unwrap();
    let ran = world.run(&["abort", run]).ends(0);
    assert_eq!(ran.out.trim(), run);
    let ran = world.run(&["abort", "agent:ops:slow"]).ends(0);
    assert_eq!(ran.out, "");
    assert!(ran.err.contains("nothing"), "{ran:?}");
    let ran = world.run(&["send", "main", "x", "--timeout", "0"]).ends(0);
    assert_eq!(ran.out.trim().len(), 36, "{ran:?}");
    world.settle();
}

#[test]
fn v_20_a_session_is_held_to_its_level() {
    let world = World::with(
        r#"{ agents: { list: [
            { id: "ops", default: true, runtime: { type: "scripted", script: "directives" } },
            { id: "research", runtime: { type: "scripted", script: "directives" } },
        ] } }"#,
    );
    world.run(&["send", "agent:ops:main", "x"]).ends(0);
    let ran = world
        .run(&["--as", "agent:research:main", "send", "agent:ops:main", "x"])
        .ends(3);
    assert!(ran.err.contains("tools.sessions.visibility"), "{ran:?}");
    let ran = world
        .run(&["--as", "agent:research:main", "history", "agent:ops:main"])
        .ends(3);
    assert_eq!(ran.out, "");
    let rows = world
        .run(&["--as", "agent:research:main", "list", "--json"])
        .ends(0)
        .json();
    assert_eq!(rows["count"], 0);
    let rows = world.run(&["list", "--json"]).ends(0).json();
    assert_eq!(rows["sessions"][0]["key"], "agent:ops:main");
    world.settle();
}

#[test]
fn n_20_spawn_waits_for_the_report() {
    let world = World::with(DIRECTIVES);
    let file = world.write("deploy.log", "line\n");
    let args = [
        "spawn",
        "look",
        "--label",
        "scan",
        "--attach",
        file.to_str().unwrap(),
        "--wait",
        "60",
    ];
    let ran = world.run(&args).ends(0);
    assert!(
        ran.out
            .starts_with("Status: completed successfully\nResult: echo: "),
        "{ran:?}"
    );
    let ran = world
        .run(&["spawn", "[[fail:no luck]]", "--wait", "60"])
        .ends(1);
    assert!(ran.out.contains("no luck"), "{ran:?}");
    let ran = world.run(&["spawn", "[[slow:60]]x", "--wait", "1"]).ends(4);
    let child = ran
        .err
        .split_whitespace()
        .find(|word| word.starts_with("agent:ops:subagent:"));
    world.run(&["abort", child.unwrap(), "--tree"]).ends(0);
    let ran = world.run(&["spawn", "x", "--agent", "nobody"]).ends(3);
    assert!(ran.err.contains("nobody"), "{ran:?}");
    let rows = world.run(&["list", "--json"]).ends(0).json();
    let rows = rows["sessions"].as_array().unwrap().clone();
    let scan = rows.iter().find(|row| row["label"] == "scan").unwrap();
    assert_eq!(scan["spawnedBy"], "agent:ops:main");
    world.settle();
}

#[test]
fn x_1_settings_are_set_and_cleared() {
    let world = World::with(DIRECTIVES);
    let row = || world.run(&["list", "--json"]).ends(0).json()["sessions"][0].clone();
    world.run(&["send", "main", "x"]).ends(0);
    world
        .run(&[
            "patch",
            "main",
            "--label",
            "desk",
            "--thinking",
            "high",
            "--send-policy",
            "deny",
        ])
        .ends(0);
    let set = row();
    assert_eq!(
        (&set["label"], &set["thinkingLevel"], &set["sendPolicy"]),
        (&json!("desk"), &json!("high"), &json!("deny"))
    );
    world
        .run(&[
            "patch",
            "main",
            "--label",
            "",
            "--thinking",
            "",
            "--send-policy",
            "inherit",
        ])
        .ends(0);
    let cleared = row();
    assert_eq!(
        (
            cleared.get("label"),
            cleared.get("thinkingLevel"),
            cleared.get("sendPolicy")
        ),
        (None, None, None)
    );
    let ran = world
        .run(&["patch", "main", "--thinking", "enormous"])
        .ends(1);
    assert!(ran.err.contains("enormous"), "{ran:?}");
    world.settle();
}

#[test]
fn am_6_archived_is_hidden_and_kept() {
    let world = World::with(DIRECTIVES);
    let keys = |args: &[&str]| {
        let rows = world
            .run(&[&["list", "--json"], args].concat())
            .ends(0)
            .json();
        let rows = rows["sessions"].as_array().unwrap().clone();
        let mut keys: Vec<String> = rows
            .iter()
            .map(|row| row["key"].as_str().unwrap().to_owned())
            .collect();
        keys.sort();
        keys
    };
    let (kept, side) = ("agent:ops:main", "agent:ops:side");
    world.run(&["send", kept, "x"]).ends(0);
    world.run(&["send", side, "x"]).ends(0);
    world.run(&["archive", side]).ends(0);
    assert_eq!(keys(&[]), [kept]);
    assert_eq!(keys(&["--archived"]), [side]);
    assert_eq!(keys(&["--archived=all"]), [kept, side]);
    assert!(
        world
            .run(&["history", side])
            .ends(0)
            .out
            .contains("echo: x")
    );
    world.run(&["restore", side]).ends(0);
    assert_eq!(keys(&[]), [kept, side]);
    world.run(&["reset", side]).ends(0);
    assert_eq!(world.run(&["history", side]).ends(0).out, "");
    world.run(&["delete", side]).ends(0);
    assert_eq!(keys(&["--archived=all"]), [kept]);
    world.run(&["delete", side]).ends(1);
    world.settle();
}

#[test]
fn am_13_a_channel_message_begins_a_run() {
    let world = World::with(DIRECTIVES);
    let key = "agent:ops:discord:channel:deploys";
    let watching = world.watch(&[key]);
    let args = [
        "incoming",
        "--channel",
        "discord",
        "--from",
        "ci",
        key,
        "[[reply:seen]]",
        "--json",
    ];
    let ran = world.run(&args).ends(0).json();
    assert_eq!(ran["status"], "accepted");
    let ended = watching.next("run.ended");
    assert_eq!(
        (&ended["runId"], &ended["origin"], &ended["sessionKey"]),
        (&ran["runId"], &json!("channel"), &json!(key))
    );
    drop(watching);
    world.settle();
}

#[test]
fn watch_goes_on_behind_a_cursor() {
    let world = World::with(DIRECTIVES);
    let watching = world.watch(&[]);
    world.run(&["send", "main", "[[reply:one]]"]).ends(0);
    let first = watching.next("run.accepted");
    let ended = watching.next("run.ended");
    assert!(first["seq"].as_u64() < ended["seq"].as_u64());
    // The first one keeps the owner alive.
    let again = world.watch(&["--since", first["cursor"].as_str().unwrap()]);
    assert_eq!(again.next("run.ended"), ended);
    drop((watching, again));
    world.settle();
}
