//! What stands in a `sessions.json`, as it should and as it should not.

use super::{sessions_dir, with_index, write_index};
use crosstalk::model::key::{AgentId, SessionKey};
use crosstalk::model::session::{Entry, SendPolicy, Status};
use crosstalk::store::openclaw::directory::Directory;
use crosstalk::store::openclaw::files::FilesStore;
use crosstalk::store::{Query, Sessions, StoreError};
use crosstalk::text::Untrusted;
use serde_json::json;
use std::fs;

/// Keys and times, in milliseconds after 1,700,000,000,000; 0 for none.
fn listed(store: &FilesStore) -> Vec<(String, i64)> {
    let page = store.list(&Query::default(), None).unwrap();
    assert_eq!(page.total, page.entries.len());
    page.entries
        .iter()
        .map(|entry| {
            let after = entry.updated_at - 1_700_000_000_000;
            (entry.key.as_str().to_owned(), after.max(0))
        })
        .collect()
}

fn only(index: &str) -> Entry {
    let (_dir, store) = with_index(index);
    let page = store.list(&Query::default(), None).unwrap();
    let [entry] = <[Entry; 1]>::try_from(page.entries).unwrap();
    entry
}

#[test]
fn ac_142_odd_indexes_are_empty_or_lose_only_what_is_wrong() {
    let check = |index: &[u8], keys: &[&str], warning: Option<&str>| {
        let dir = tempfile::tempdir().unwrap();
        write_index(dir.path(), "main", index);
        let shown = String::from_utf8_lossy(index);
        let store = FilesStore::open(dir.path(), None).unwrap();
        let found: Vec<String> = listed(&store).into_iter().map(|(key, _)| key).collect();
        assert_eq!(found, keys, "{shown}");
        let warnings = store.warnings();
        match warning {
            None => assert_eq!(warnings, Vec::<String>::new(), "{shown}"),
            Some(part) => {
                assert_eq!(warnings.len(), 1, "{shown}: {warnings:?}");
                assert!(warnings[0].contains(part), "{shown}: {warnings:?}");
                assert!(warnings[0].contains("sessions.json"), "{warnings:?}");
            }
        }
        let after = fs::read(dir.path().join("agents/main/sessions/sessions.json")).unwrap();
        assert_eq!(after, index, "untouched");
    };
    check(b"", &[], None);
    check(b" \n ", &[], None);
    check(b"{}", &[], None);
    check(b"{", &[], Some("cannot be understood"));
    check(b"[]", &[], Some("cannot be understood"));
    check(b"null", &[], Some("cannot be understood"));
    check(b"\"text\"", &[], Some("cannot be understood"));
    check(b"{}{}", &[], Some("cannot be understood"));
    check(
        br#"{"agent:main:a":{"sessionId":"a"}"#,
        &[],
        Some("cannot be understood"),
    );
    check(br#"{"agent:main:a":{}}"#, &["agent:main:a"], None);
    check(
        b"\xef\xbb\xbf{\"agent:main:a\":{}}",
        &["agent:main:a"],
        None,
    );
    check(
        b"{\"agent:main:a\":{\"label\":\"\xff\"}}",
        &["agent:main:a"],
        None,
    );
    // Half a surrogate pair, as JavaScript leaves it when it cuts a text.
    check(
        br#"{"agent:main:a":{"label":"x\ud83d"}}"#,
        &["agent:main:a"],
        None,
    );
    check(
        br#"{"agent:main:a":{},"b":5,"c":[{}],"d":null,"e":"x","f":true,"g":1.5,"h":-1}"#,
        &["agent:main:a"],
        Some("7 entries"),
    );
    // Keys of old versions have no agent; reserved ones and runs of cron jobs are not listed (K-12, K-13).
    check(
        br#"{"main":{},"discord:group:5":{},"global":{},"unknown":{},"agent:main:global":{},
             "agent:main:cron:j":{},"agent:main:cron:j:run:1":{},"agent:broken":{}}"#,
        &[
            "agent:broken",
            "agent:main:cron:j",
            "agent:main:discord:group:5",
            "agent:main:main",
        ],
        None,
    );
}

#[test]
fn d_3_a_wrong_member_costs_only_itself_and_is_kept() {
    let entry = only(
        r#"{"agent:main:a":{"sessionId":"s","updatedAt":"soon","label":7,"model":"m","status":"odd",
            "totalTokens":"many","spawnDepth":-1,"systemSent":"yes","origin":5,"deliveryContext":"x",
            "sendPolicy":"maybe","channel":null,"future":{"a":[1]}}}"#,
    );
    assert_eq!(entry.session_id, "s");
    assert_eq!(entry.model.as_ref().map(Untrusted::raw), Some("m"));
    assert_eq!(entry.updated_at, 0);
    assert_eq!((entry.status, entry.send_policy), (None, None));
    assert_eq!(
        (entry.label, entry.total_tokens, entry.spawn_depth),
        (None, None, None)
    );
    assert_eq!(
        (entry.origin, entry.delivery_context, entry.channel),
        (None, None, None)
    );
    let kept = serde_json::Value::Object(entry.other);
    assert_eq!(
        kept,
        json!({"updatedAt":"soon","label":7,"status":"odd","totalTokens":"many","spawnDepth":-1,"systemSent":"yes",
               "origin":5,"deliveryContext":"x","sendPolicy":"maybe","channel":null,"future":{"a":[1]}})
    );
}

#[test]
fn entries_are_read_in_full() {
    let entry = only(
        r#"{"agent:main:a":{"sessionId":"s","updatedAt":1796073689825.9,"status":"timeout","sendPolicy":"deny",
            "spawnedBy":"agent:Main:Main","deliveryContext":{"channel":"c","to":5.5,"accountId":"x","threadId":7},
            "lastThreadId":" t ","lastTo":12,"origin":{"provider":"webchat","surface":"w"},"estimatedCostUsd":0.5}}"#,
    );
    assert_eq!(entry.updated_at, 1_796_073_689_825);
    assert_eq!(entry.status, Some(Status::Timeout));
    assert_eq!(entry.send_policy, Some(SendPolicy::Deny));
    assert_eq!(
        entry.spawned_by,
        Some(SessionKey::foreign("agent:main:main"))
    );
    let route = entry.delivery_context.unwrap();
    let part = |text: Option<Untrusted>| text.map_or_else(String::new, Untrusted::into_raw);
    assert_eq!(part(route.to), "5");
    assert_eq!(part(route.thread_id), "7");
    assert_eq!(part(entry.last_thread_id), "t");
    assert_eq!(part(entry.last_to), "12");
    let origin = entry.origin.unwrap();
    assert_eq!(part(origin.provider), "webchat");
    assert_eq!(
        serde_json::Value::Object(origin.other),
        json!({"surface":"w"})
    );
}

#[test]
fn d_7_old_member_names() {
    let entry = only(
        r#"{"agent:main:a":{"provider":"discord","lastProvider":"signal","room":"r","lastChannel":"new"}}"#,
    );
    assert_eq!(entry.channel, Some("discord".into()));
    assert_eq!(entry.last_channel, Some("new".into()), "the new name wins");
    assert_eq!(entry.group_channel, Some("r".into()));
    assert_eq!(
        serde_json::Value::Object(entry.other),
        json!({"lastProvider":"signal"}),
        "what did not count is kept"
    );
}

#[test]
fn ac_7_k_16_the_newest_spelling_of_a_key_wins() {
    let check = |index: &str, expect: &[(&str, i64)]| {
        let (_dir, store) = with_index(index);
        let expect: Vec<(String, i64)> = expect.iter().map(|(k, at)| ((*k).into(), *at)).collect();
        assert_eq!(listed(&store), expect, "{index}");
    };
    let one = "agent:main:discord:channel:5";
    check(
        r#"{"agent:main:Discord:Channel:5":{"updatedAt":1700000000010},"agent:main:discord:channel:5":{"updatedAt":1700000000020}}"#,
        &[(one, 20)],
    );
    check(
        r#"{"agent:main:Discord:Channel:5":{"updatedAt":1700000000030},"agent:main:discord:channel:5":{"updatedAt":1700000000020}}"#,
        &[(one, 30)],
    );
    check(
        r#"{"agent:main:a":{"updatedAt":1700000000001},"agent:main:b":{},"agent:main:c":{"updatedAt":1700000000001}}"#,
        &[
            ("agent:main:a", 1),
            ("agent:main:c", 1),
            ("agent:main:b", 0),
        ],
    );
}

#[test]
fn k_16_main_counts_for_the_main_key() {
    let check = |index: &str, expect: i64| {
        let (_dir, store) = with_index(index);
        let store = store.with_main_key("work");
        assert_eq!(
            listed(&store),
            [("agent:main:work".to_owned(), expect)],
            "{index}"
        );
        for name in ["agent:main:work", "agent:main:main"] {
            let entry = store.entry(&SessionKey::foreign(name)).unwrap().unwrap();
            assert_eq!(entry.updated_at - 1_700_000_000_000, expect, "{name}");
        }
        let stored = store
            .stored(&SessionKey::foreign("agent:main:work"))
            .unwrap();
        assert_eq!(
            stored,
            Some(json!({"updatedAt": 1_700_000_000_000 + expect}))
        );
    };
    check(r#"{"agent:main:main":{"updatedAt":1700000000005}}"#, 5);
    check(
        r#"{"agent:main:main":{"updatedAt":1700000000005},"agent:main:work":{"updatedAt":1700000000003}}"#,
        3,
    );
}

#[test]
fn children_are_found_by_their_parent() {
    let index = r#"{"agent:main:main":{},"agent:main:a":{"spawnedBy":"agent:Main:main"},
        "agent:main:b":{"spawnedBy":"agent:main:a"},"agent:main:c":{"spawnedBy":"agent:main:main"}}"#;
    for main_key in ["main", "work"] {
        let (_dir, store) = with_index(index);
        let store = store.with_main_key(main_key);
        let query = Query {
            spawned_by: Some(SessionKey::of(&AgentId::main(), main_key)),
            ..Query::default()
        };
        let page = store.list(&query, None).unwrap();
        let keys: Vec<&str> = page
            .entries
            .iter()
            .map(|entry| entry.key.as_str())
            .collect();
        assert_eq!(keys, ["agent:main:a", "agent:main:c"], "{main_key}");
        assert_eq!(page.total, 2);
    }
}

#[test]
fn d_8_a_newer_format_is_never_empty() {
    let dir = tempfile::tempdir().unwrap();
    let agent = dir.path().join("agents/main/agent");
    fs::create_dir_all(&agent).unwrap();
    fs::write(agent.join("openclaw-agent.sqlite"), b"SQLite format 3\0").unwrap();
    let Err(error) = Directory::open(dir.path(), None, "main") else {
        panic!("opened as empty");
    };
    assert!(matches!(error, StoreError::Format { .. }));
    let text = error.to_string();
    assert!(text.contains("newer format"), "{text}");
    assert!(text.contains(dir.path().to_str().unwrap()), "{text}");
    // Beside an agent with files it is one remark.
    write_index(dir.path(), "ops", r#"{"agent:ops:main":{}}"#);
    let store = Directory::open(dir.path(), None, "main").unwrap();
    let page = store.list(&Query::default(), None).unwrap();
    assert_eq!(page.entries[0].key.as_str(), "agent:ops:main");
    let warnings = store.warnings();
    assert!(
        warnings[0].contains("main") && warnings[0].contains("newer format"),
        "{warnings:?}"
    );
}

#[test]
fn a_directory_that_is_not_there_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    for path in [dir.path().join("missing"), file] {
        let Err(error) = FilesStore::open(&path, None) else {
            panic!("opened {}", path.display());
        };
        assert!(matches!(error, StoreError::Io { .. }));
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
    }
    let store = FilesStore::open(dir.path(), None).unwrap();
    assert_eq!(listed(&store), []);
    assert!(
        store.warnings()[0].contains("no agents"),
        "{:?}",
        store.warnings()
    );
    let path = dir.path().to_owned();
    dir.close().unwrap();
    let error = store.agents().unwrap_err();
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
}

#[test]
fn d_6_agents_are_the_directories() {
    let (dir, store) = with_index("{}");
    sessions_dir(dir.path(), "ops");
    fs::write(dir.path().join("agents/file"), b"").unwrap();
    let agents = store.agents().unwrap();
    assert_eq!(agents, [AgentId::main(), AgentId::parse("ops").unwrap()]);
}

#[test]
fn l_27_changes_are_seen_and_half_written_files_are_not() {
    let (dir, store) = with_index(r#"{"agent:main:a":{"updatedAt":1700000000001}}"#);
    let index = dir.path().join("agents/main/sessions/sessions.json");
    let a = |at: i64| vec![("agent:main:a".to_owned(), at)];
    assert_eq!(listed(&store), a(1));
    write_index(
        dir.path(),
        "main",
        r#"{"agent:main:a":{"updatedAt":1700000000002}}"#,
    );
    assert_eq!(listed(&store), a(2), "same length, new file");
    fs::write(&index, r#"{"agent:main:a":{"updatedAt":1700000000003}}"#).unwrap();
    assert_eq!(listed(&store), a(3), "same length, same file");
    for (torn, said) in [
        (&br#"{"agent:main:a":{"updatedA"#[..], "last good version"),
        (b"", "last good version"),
        (b"\0\0\0\0", "last good version"),
    ] {
        fs::write(&index, torn).unwrap();
        assert_eq!(listed(&store), a(3), "half-written");
        assert!(store.warnings()[0].contains(said), "{:?}", store.warnings());
    }
    fs::remove_file(&index).unwrap();
    assert_eq!(listed(&store), a(3), "between removal and replacement");
    assert!(
        store.warnings()[0].contains("is gone"),
        "{:?}",
        store.warnings()
    );
    write_index(
        dir.path(),
        "main",
        r#"{"agent:main:b":{"updatedAt":1700000000004}}"#,
    );
    assert_eq!(listed(&store), [("agent:main:b".to_owned(), 4)]);
    assert_eq!(store.warnings(), Vec::<String>::new());
    write_index(dir.path(), "main", "{}");
    assert_eq!(
        listed(&store),
        [],
        "an empty object is no half-written file"
    );
}

#[test]
fn big_members_stay_on_disk_and_are_given_in_detail() {
    let big = "x".repeat(5000);
    let whole = json!({
        "sessionId": "s", "updatedAt":1_700_000_000_005_i64, "skillsSnapshot": {"prompt": big}, "systemPromptReport": [1], "large": big,
        "small": 1,
    });
    let (_dir, store) =
        with_index(&json!({ "agent:main:a": whole, "agent:main:A": {} }).to_string());
    let key = SessionKey::foreign("agent:main:a");
    let entry = store.entry(&key).unwrap().unwrap();
    assert_eq!(serde_json::Value::Object(entry.other), json!({"small": 1}));
    assert_eq!(store.stored(&key).unwrap(), Some(whole));
    assert_eq!(
        store
            .stored(&SessionKey::foreign("agent:main:none"))
            .unwrap(),
        None
    );
}

#[test]
fn c_5_indexes_elsewhere_in_the_directory() {
    let check = |pattern: &str, file: &str, agent: &str, warned: bool| {
        let dir = tempfile::tempdir().unwrap();
        sessions_dir(dir.path(), agent);
        let index = dir.path().join(file);
        fs::create_dir_all(index.parent().unwrap()).unwrap();
        fs::write(
            &index,
            format!(r#"{{"agent:{agent}:a":{{"sessionId":"s"}}}}"#),
        )
        .unwrap();
        let pattern = pattern.replace("DIR", dir.path().to_str().unwrap());
        let store = FilesStore::open(dir.path(), Some(&pattern)).unwrap();
        assert_eq!(
            listed(&store),
            [(format!("agent:{agent}:a"), 0)],
            "{pattern}"
        );
        assert_eq!(
            !store.warnings().is_empty(),
            warned,
            "{:?}",
            store.warnings()
        );
        let entry = store.by_session_id("s").unwrap().pop().unwrap();
        let expect = index.parent().unwrap().join("s.jsonl");
        assert_eq!(store.transcript_path(&entry), Some(expect), "{pattern}");
    };
    check("", "agents/ops/sessions/sessions.json", "ops", false);
    check(
        "stores/{agentId}/index.json",
        "stores/ops/index.json",
        "ops",
        false,
    );
    check("DIR/stores/{agentId}.json", "stores/ops.json", "ops", false);
    check("DIR/all.json", "all.json", "ops", false);
    check(
        "/elsewhere/{agentId}.json",
        "agents/ops/sessions/sessions.json",
        "ops",
        true,
    );
    check(
        "../{agentId}.json",
        "agents/ops/sessions/sessions.json",
        "ops",
        true,
    );
}
