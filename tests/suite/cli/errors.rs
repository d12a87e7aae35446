//! Bad input: one clear line each, the right code, nothing lost, no panic.

use super::world::{DIRECTIVES, World, finish, listing};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

const ID: &str = "7d9f3f0e-53f4-4f0e-9d26-6c7a6c1d2f7b";

/// It ends with the code, prints nothing, and says one line that holds every part.
#[track_caller]
fn says(world: &World, args: &[&str], code: i32, parts: &[&str]) {
    let ran = world.run(args).ends(code);
    assert_eq!(ran.out, "", "{args:?}");
    assert_eq!(ran.err.lines().count(), 1, "{args:?}: {}", ran.err);
    assert!(ran.err.starts_with("crosstalk: "), "{args:?}: {}", ran.err);
    assert!(
        !ran.err.contains(['\u{1b}', '\u{7}']),
        "{args:?}: {:?}",
        ran.err
    );
    for part in parts {
        assert!(
            ran.err.contains(part),
            "{args:?} says {:?}, not {part:?}",
            ran.err
        );
    }
}

#[test]
fn usage_ends_with_2() {
    let world = World::empty();
    let check = |args: &[&str], parts: &[&str]| says(&world, args, 2, parts);
    check(&["--nope"], &["--nope"]);
    check(&["frobnicate"], &["frobnicate"]);
    check(&["search", "x"], &["search"]);
    check(&["history"], &["<KEY>"]);
    check(
        &["list", "--kinds", "main,odd"],
        &["odd", "main, group, cron, hook, node, other"],
    );
    check(&["list", "--limit", "-1"], &["-1"]);
    check(
        &["--state", "a", "--openclaw", "b", "list"],
        &["--state", "--openclaw"],
    );
    check(
        &["list", "--state", "a", "--openclaw", "b"],
        &["--state", "--openclaw"],
    );
    check(&["call", "sessions_list", "[]"], &["object"]);
    check(&["call", "sessions_list", "{"], &["JSON"]);
    check(&["patch", "main"], &["--label"]);
    check(&["host", "--openclaw", "x"], &["--openclaw"]);
    check(&["screen", "browse", "--size", "0x9"], &["120x36"]);
    check(&["list", "\u{1b}[31mred"], &["red"]);
    assert!(!world.path(".local").exists());
}

#[test]
fn a_key_or_an_id_that_cannot_be_found_ends_with_1() {
    let world = World::empty();
    let check = |args: &[&str], parts: &[&str]| says(&world, args, 1, parts);
    check(
        &["history", "agent:"],
        &["malformed session key", "agent:<agentId>:<rest>"],
    );
    check(&["history", "agent::x"], &["malformed session key"]);
    check(&["history", ID], &[ID]);
    check(
        &["--as", "agent:main:none", "list"],
        &["agent:main:none", "no such session"],
    );
}

#[test]
fn h_12_a_key_without_a_session_is_empty_with_a_remark() {
    let world = World::empty();
    says(
        &world,
        &["history", "agent:main:none"],
        0,
        &["agent:main:none"],
    );
    let ran = world.run(&["history", "agent:main:none", "--json"]).ends(0);
    assert_eq!(ran.json()["messages"], serde_json::json!([]));
    assert_eq!(ran.json()["bytes"], 2);
    assert!(!world.path(".local").exists());
}

#[test]
fn a_directory_that_is_not_ours_ends_with_5() {
    let world = World::empty();
    let file = world.write("foreign/notes.txt", "mine");
    let dir = file.parent().unwrap().to_str().unwrap();
    let before = listing(file.parent().unwrap());
    for command in [&["list"][..], &["send", "main", "x"], &["watch"], &["host"]] {
        let args = [&["--state", dir], command].concat();
        says(&world, &args, 5, &[dir, "--openclaw"]);
    }
    assert_eq!(listing(file.parent().unwrap()), before);
}

#[test]
fn a_directory_that_cannot_be_read_ends_with_6() {
    let world = World::empty();
    let dir = world.path("closed");
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o000)).unwrap();
    for dir in [dir.clone(), dir.join("state")] {
        let mut command = world.command(&["list", "--state", dir.to_str().unwrap()]);
        if rustix::process::geteuid().is_root() {
            // The superuser reads everything; somebody else must be able to get as far as here.
            std::fs::set_permissions(world.path(""), std::fs::Permissions::from_mode(0o755))
                .unwrap();
            command.uid(65_534).gid(65_534);
        }
        let ran = finish(command).ends(6);
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
        assert!(ran.err.contains("closed"), "{ran:?}");
        assert!(ran.err.contains("ermission denied"), "{ran:?}");
    }
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_configuration_that_cannot_be_used_names_file_line_and_path() {
    let world = World::empty();
    let check = |text: &str, parts: &[&str]| {
        let file = world.write("bad.json5", text);
        let file = file.to_str().unwrap();
        let parts = [&[file], parts].concat();
        says(&world, &["--config", file, "list"], 2, &parts);
        says(&world, &["--config", file, "send", "main", "x"], 2, &parts);
    };
    check("{\n  session: {\n", &["bad.json5:"]);
    check(
        "{\n  session: {\n    agentToAgent: { maxPingPongTurns: \"many\" },\n  },\n}",
        &["bad.json5:3", "session.agentToAgent.maxPingPongTurns"],
    );
    says(
        &world,
        &["--config", "none.json5", "list"],
        2,
        &["none.json5"],
    );
    assert!(!world.path(".local").exists());
}

#[test]
fn the_browser_needs_a_terminal() {
    let world = World::empty();
    says(&world, &[], 6, &["terminal"]);
    says(&world, &["demo"], 6, &["terminal"]);
    assert!(!world.path(".local").exists());
}

#[test]
fn observing_forbids_every_change_before_anything_is_opened() {
    let world = World::empty();
    let check = |args: &[&str]| {
        says(&world, &[&["--observe"], args].concat(), 3, &["--observe"]);
    };
    check(&["send", "main", "x"]);
    check(&["spawn", "x"]);
    check(&[
        "call",
        "sessions_send",
        r#"{"sessionKey":"main","message":"x"}"#,
    ]);
    check(&["call", "sessions_spawn", r#"{"task":"x"}"#]);
    check(&["patch", "main", "--label", "x"]);
    check(&["abort", "main"]);
    check(&["reset", "main"]);
    check(&["archive", "main"]);
    check(&["restore", "main"]);
    check(&["delete", "main"]);
    check(&["incoming", "--channel", "c", "--from", "x", "main", "x"]);
    check(&["host"]);
    assert!(!world.path(".local").exists());
    world.run(&["--observe", "call", "sessions_list"]).ends(0);
    world.run(&["--observe", "list"]).ends(0);
}

#[test]
fn d_4_a_foreign_directory_is_never_changed() {
    let world = World::empty();
    let file = world.write("oc/agents/main/sessions/sessions.json", "{}");
    let dir = world.path("oc");
    let before = listing(&dir);
    let dir = dir.to_str().unwrap();
    says(
        &world,
        &["--openclaw", dir, "send", "main", "x"],
        3,
        &["read-only"],
    );
    says(
        &world,
        &["--openclaw", dir, "archive", "main"],
        3,
        &["read-only"],
    );
    world.run(&["--openclaw", dir, "list"]).ends(0);
    world.run(&["--openclaw", dir, "doctor"]).ends(0);
    assert_eq!(listing(&world.path("oc")), before);
    assert!(file.exists());
}

#[test]
fn a_closed_pipe_is_a_success() {
    let world = World::empty();
    for args in [
        &["list", "--json"][..],
        &["doctor"],
        &["--help"],
        &["--version"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = world.command(args);
        command.stdout(Stdio::from(writer));
        let ran = finish(command).ends(0);
        assert_eq!(ran.err, "", "{args:?}");
    }
}

#[test]
fn a_full_disk_is_said() {
    let world = World::empty();
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = world.command(&["list", "--json"]);
    command.stdout(Stdio::from(full));
    let ran = finish(command).ends(6);
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    assert!(ran.err.contains("standard output"), "{ran:?}");
}

#[test]
fn a_file_that_cannot_be_attached_stops_the_spawn() {
    let world = World::with(DIRECTIVES);
    says(
        &world,
        &["spawn", "x", "--attach", "none.log"],
        6,
        &["none.log"],
    );
    says(&world, &["spawn", "x", "--attach", ".."], 2, &[".."]);
    assert!(!world.state().exists());
}

#[test]
fn another_configuration_than_the_owners_is_refused() {
    let world = World::with(DIRECTIVES);
    let other = world.write("other.json5", "{}");
    let run = world
        .run(&["send", "main", "[[slow:60]]x", "--timeout", "0"])
        .ends(0);
    let own = world.path(".config/crosstalk/config.json5");
    let parts = [other.to_str().unwrap(), own.to_str().unwrap()];
    says(&world, &["--config", parts[0], "list"], 2, &parts);
    // One that is the owner's, and none, are as good.
    world.run(&["--config", parts[1], "list"]).ends(0);
    world.run(&["list"]).ends(0);
    world.run(&["abort", run.out.trim()]).ends(0);
    world.settle();
}

#[test]
fn what_only_the_operator_has_takes_no_as() {
    let world = World::with(super::world::DIRECTIVES);
    says(
        &world,
        &["--as", "agent:ops:main", "watch"],
        2,
        &["watch", "--as"],
    );
}

#[test]
fn an_unknown_tool_makes_nothing() {
    let world = World::empty();
    says(
        &world,
        &["call", "sessions_lost"],
        1,
        &["unknown tool", "sessions_list"],
    );
    assert!(!world.state().exists());
}

#[test]
fn a_directory_that_is_not_of_openclaw_ends_with_5() {
    let world = World::empty();
    world.write("odd/notes.txt", "nothing of the kind");
    let dir = world.path("odd");
    let dir = dir.to_str().unwrap();
    says(
        &world,
        &["--openclaw", dir, "list"],
        5,
        &[dir, "not an OpenClaw state directory"],
    );
}
