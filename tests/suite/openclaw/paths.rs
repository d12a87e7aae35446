//! Where transcripts are, and that nothing outside the sessions directories is ever opened.

use super::{captured, with_index};
use crosstalk::model::key::SessionKey;
use crosstalk::store::openclaw::files::FilesStore;
use crosstalk::store::{Sessions, Span};
use serde_json::json;
use std::fs;
use std::path::Path;

const LINE: &str = r#"{"type":"message","id":"1","message":{"role":"user","content":"x"}}"#;

/// `entry` has session id `s`; `files` are made in the sessions directory; `expect` is relative to it.
fn check(entry: serde_json::Value, files: &[&str], expect: Option<&str>) {
    let mut whole = json!({"sessionId": "s"});
    for (name, value) in entry.as_object().unwrap() {
        whole[name] = value.clone();
    }
    let (dir, store) = with_index(&json!({"agent:main:a:topic:7": whole}).to_string());
    let sessions = dir.path().join("agents/main/sessions");
    for file in files {
        fs::write(sessions.join(file), LINE).unwrap();
    }
    let key = SessionKey::foreign("agent:main:a:topic:7");
    let entry = store.entry(&key).unwrap();
    let entry = entry.unwrap_or_else(|| panic!("{whole}: {:?}", store.warnings()));
    let expect = expect.map(|name| sessions.join(name));
    assert_eq!(store.transcript_path(&entry), expect, "{whole} {files:?}");
    let page = store.transcript(&entry, Span::Tail, 10).unwrap();
    let there = expect.is_some_and(|path| path.is_file());
    assert_eq!(page.lines.len(), usize::from(there), "{whole} {files:?}");
}

#[test]
fn l_70_l_71_paths() {
    let file = |name: &str| json!({ "sessionFile": name });
    check(json!({}), &[], Some("s.jsonl"));
    check(json!({}), &["s.jsonl"], Some("s.jsonl"));
    check(
        json!({}),
        &["s.jsonl", "s-topic-7.jsonl"],
        Some("s-topic-7.jsonl"),
    );
    check(file("other.jsonl"), &[], Some("other.jsonl"));
    // After a reset the name is still that of the old session; the directory may have been moved or copied.
    check(
        file("/srv/state/agents/main/sessions/old.jsonl"),
        &["old.jsonl"],
        Some("old.jsonl"),
    );
    check(
        file(r"C:\state\agents\main\sessions\old.jsonl"),
        &["old.jsonl"],
        Some("old.jsonl"),
    );
    // Put aside is not live (D-28); no other kind of file is a transcript.
    for aside in [
        "s.jsonl.reset.2026-01-01",
        "s.jsonl.deleted.x",
        "s.jsonl.bak.x",
        "index.json",
        "x.txt",
    ] {
        check(file(aside), &[aside], Some("s.jsonl"));
        check(
            file(&format!("/elsewhere/{aside}")),
            &[aside],
            Some("s.jsonl"),
        );
    }
    check(json!({"sessionFile": 5}), &[], Some("s.jsonl"));
    check(file(""), &[], Some("s.jsonl"));
}

#[test]
fn ac_34_a_session_file_outside_counts_for_its_name_or_not_at_all() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret.jsonl");
    fs::write(&secret, LINE).unwrap();
    let file = |name: &str| json!({ "sessionFile": name });
    check(file(secret.to_str().unwrap()), &[], Some("s.jsonl"));
    check(
        file(secret.to_str().unwrap()),
        &["secret.jsonl"],
        Some("secret.jsonl"),
    );
    check(file("../../../secret.jsonl"), &[], Some("s.jsonl"));
    check(file("/etc/passwd"), &[], Some("s.jsonl"));
    check(file("/etc/.."), &[], Some("s.jsonl"));
}

#[test]
fn ac_14_unsafe_session_ids_make_no_path() {
    let long = "a".repeat(129);
    for id in [
        "../../etc/passwd",
        "..",
        ".hidden",
        "",
        "a/b",
        "a\\b",
        "a\0b",
        "-x",
        "é",
        &long,
    ] {
        check(json!({ "sessionId": id }), &[], None);
        check(
            json!({ "sessionId": id, "sessionFile": "x.jsonl" }),
            &["x.jsonl"],
            None,
        );
    }
    let (_dir, store) = with_index(r#"{"agent:main:a:topic:../../x":{"sessionId":"s"}}"#);
    let entry = store.by_session_id("s").unwrap().pop().unwrap();
    assert!(
        store
            .transcript_path(&entry)
            .unwrap()
            .ends_with("sessions/s.jsonl")
    );
}

#[cfg(unix)]
#[test]
fn d_29_links_that_lead_outside_are_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret.jsonl");
    fs::write(&secret, LINE).unwrap();
    for (name, entry) in [
        ("s.jsonl", r#"{"agent:main:a":{"sessionId":"s"}}"#),
        (
            "f.jsonl",
            r#"{"agent:main:a":{"sessionId":"s","sessionFile":"f.jsonl"}}"#,
        ),
        (
            "f.jsonl",
            r#"{"agent:main:a":{"sessionId":"s","sessionFile":"/x/f.jsonl"}}"#,
        ),
    ] {
        let (dir, store) = with_index(entry);
        let sessions = dir.path().join("agents/main/sessions");
        std::os::unix::fs::symlink(&secret, sessions.join(name)).unwrap();
        let entry = store.by_session_id("s").unwrap().pop().unwrap();
        let read = store.transcript(&entry, Span::Whole, usize::MAX);
        if name == "s.jsonl" {
            let error = read.unwrap_err().to_string();
            assert!(error.contains("leads out"), "{error}");
        } else {
            assert!(
                read.unwrap().lines.is_empty(),
                "the default path counts, and is not there"
            );
        }
    }
    // A sessions directory that is itself a link is the user's own arrangement.
    let real = tempfile::tempdir().unwrap();
    fs::write(
        real.path().join("sessions.json"),
        r#"{"agent:main:a":{"sessionId":"s"}}"#,
    )
    .unwrap();
    fs::write(real.path().join("s.jsonl"), LINE).unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("agents/main")).unwrap();
    std::os::unix::fs::symlink(real.path(), dir.path().join("agents/main/sessions")).unwrap();
    let store = FilesStore::open(dir.path(), None).unwrap();
    let entry = store.by_session_id("s").unwrap().pop().unwrap();
    assert_eq!(
        store
            .transcript(&entry, Span::Tail, 10)
            .unwrap()
            .lines
            .len(),
        1
    );
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_not_waited_for() {
    let (dir, store) = with_index(r#"{"agent:main:a":{"sessionId":"s"}}"#);
    let sessions = dir.path().join("agents/main/sessions");
    let pipe = |path: &Path| {
        let made = std::process::Command::new("mkfifo")
            .arg(path)
            .status()
            .unwrap();
        assert!(made.success());
    };
    pipe(&sessions.join("s.jsonl"));
    let entry = store.by_session_id("s").unwrap().pop().unwrap();
    let error = store
        .transcript(&entry, Span::Tail, 10)
        .unwrap_err()
        .to_string();
    assert!(error.contains("not a regular file"), "{error}");
    fs::create_dir_all(dir.path().join("agents/ops/sessions")).unwrap();
    pipe(&dir.path().join("agents/ops/sessions/sessions.json"));
    let warnings = store.warnings();
    assert!(warnings[0].contains("not a regular file"), "{warnings:?}");
}

#[test]
fn a_line_is_found_by_any_position_in_it() {
    let (dir, store) = with_index(r#"{"agent:main:a":{"sessionId":"s"}}"#);
    let long = "x".repeat(20_000);
    let text = format!("ab\n{long}\n\ncd");
    fs::write(dir.path().join("agents/main/sessions/s.jsonl"), &text).unwrap();
    let entry = store.by_session_id("s").unwrap().pop().unwrap();
    for (position, expect) in [
        (0, 0),
        (2, 0),
        (3, 3),
        (9_000, 3),
        (20_003, 3),
        (20_004, 20_004),
        (20_005, 20_005),
        (20_007, 20_005),
    ] {
        assert_eq!(
            store.line_start(&entry, position).unwrap(),
            expect,
            "{position}"
        );
    }
}

#[test]
fn the_captured_directory_was_moved_and_its_transcripts_are_found() {
    let dir = captured().join("state");
    let store = FilesStore::open(&dir, None).unwrap();
    let page = store
        .list(&crosstalk::store::Query::default(), None)
        .unwrap();
    assert_eq!(page.total, 10);
    for entry in page.entries {
        assert!(entry.session_file.as_ref().unwrap().starts_with("/srv/"));
        let path = store.transcript_path(&entry).unwrap();
        assert!(
            path.starts_with(&dir) && path.is_file(),
            "{}",
            path.display()
        );
    }
}
