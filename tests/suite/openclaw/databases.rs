//! Directories that keep sessions in databases: a real one of OpenClaw 2026.9.6 (cut down to the tables that are read;
//! the newest events of agent `ops` stand in its log alone), and what can be wrong with one.

use super::captured::{members, readable};
use super::{copy, sessions_dir, tree, write_index};
use crosstalk::backend::Backend;
use crosstalk::backend::files::FilesBackend;
use crosstalk::model::event::{Event, What};
use crosstalk::model::key::SessionKey;
use crosstalk::model::message::{Content, Message, Role};
use crosstalk::protocol::methods::{HistoryRequest, HistorySpan, ListRequest, Reply, Request};
use crosstalk::store::openclaw::directory::Directory;
use crosstalk::store::{Query, Sessions, Span, StoreError};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::sync::mpsc;

fn captured() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/openclaw-2026.9.6")
}

fn captured_copy() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy(&captured().join("state"), dir.path());
    dir
}

fn expected(name: &str) -> Value {
    let text = fs::read_to_string(captured().join("expected").join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn database(dir: &Path, agent: &str) -> PathBuf {
    dir.join("agents")
        .join(agent)
        .join("agent/openclaw-agent.sqlite")
}

fn open(dir: &Path) -> Directory {
    Directory::open(dir, None, "main").unwrap()
}

/// As OpenClaw has it open.
fn writer(dir: &Path, agent: &str) -> Connection {
    let file = database(dir, agent);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let connection = Connection::open(file).unwrap();
    connection
        .pragma_update(None, "journal_mode", "wal")
        .unwrap();
    connection
}

/// A database with what is needed and nothing else.
fn small(dir: &Path, agent: &str) -> Connection {
    let connection = writer(dir, agent);
    connection
        .execute_batch(
            "PRAGMA user_version = 23;
             CREATE TABLE session_nodes (session_key TEXT PRIMARY KEY, current_session_id TEXT, entry_json TEXT);
             CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, event_zstd BLOB,
                                             PRIMARY KEY (session_id, seq));",
        )
        .unwrap();
    connection
}

fn add_session(connection: &Connection, key: &str, id: &str, entry: &str) {
    let sql = "INSERT INTO session_nodes VALUES (?1, ?2, ?3)";
    connection.execute(sql, [key, id, entry]).unwrap();
}

fn add_event(connection: &Connection, id: &str, seq: i64, text: &str) {
    let line = json!({"type": "message", "id": format!("{id}-{seq}"), "message": {"role": "user", "content": text}});
    let sql = "INSERT INTO transcript_events (session_id, seq, event_json) VALUES (?1, ?2, ?3)";
    connection
        .execute(sql, rusqlite::params![id, seq, line.to_string()])
        .unwrap();
}

fn keys(store: &Directory) -> Vec<String> {
    let page = store.list(&Query::default(), None).unwrap();
    let keys = page
        .entries
        .iter()
        .map(|entry| entry.key.as_str().to_owned());
    keys.collect()
}

#[tokio::test]
async fn ac_141_the_list_is_that_of_the_gateway() {
    let dir = captured().join("state");
    let before = tree(&dir);
    let backend = FilesBackend::open(&dir).unwrap();
    let reply = backend
        .call(Request::List(ListRequest::default()).into())
        .await;
    let Ok(Reply::Rows(rows)) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!((rows.total, rows.warnings), (9, vec![]));
    // Not compared, as in the older version: `kind` and `displayName`; and `model`, `modelProvider` and
    // `contextTokens`, which the gateway fills in where the entry has none.
    let names = [
        "key",
        "sessionId",
        "updatedAt",
        "label",
        "status",
        "startedAt",
        "endedAt",
        "runtimeMs",
        "spawnedBy",
        "inputTokens",
        "outputTokens",
        "totalTokens",
        "abortedLastRun",
        "systemSent",
        "thinkingLevel",
        "reasoningLevel",
    ];
    let theirs = expected("sessions.list.json");
    let theirs = theirs["sessions"].as_array().unwrap();
    assert_eq!(rows.rows.len(), theirs.len());
    for (row, theirs) in rows.rows.iter().zip(theirs) {
        let ours = serde_json::to_value(row).unwrap();
        assert_eq!(members(&ours, &names), members(theirs, &names));
        assert_eq!(row.transcript_path, None, "L-71");
        let sorted = |value: &Value| {
            let keys = value["childSessions"].as_array().into_iter().flatten();
            let mut keys: Vec<String> = keys.map(|key| key.as_str().unwrap().to_owned()).collect();
            keys.sort();
            keys
        };
        assert_eq!(sorted(&ours), sorted(theirs), "{}", theirs["key"]);
    }
    assert_eq!(tree(&dir), before);
}

#[tokio::test]
async fn ac_141_histories_are_those_of_the_gateway() {
    let dir = captured().join("state");
    let before = tree(&dir);
    let backend = FilesBackend::open(&dir).unwrap();
    let (mut compared, mut skipped, mut noted) = (0, 0, 0);
    let (mut routed, mut failed, mut cut) = (0, 0, 0);
    for (key, theirs) in expected("chat.history.json").as_object().unwrap() {
        let request = Request::History(HistoryRequest {
            key: key.as_str().into(),
            span: HistorySpan::Whole,
            limit: None,
        });
        let reply = backend.call(request.into()).await;
        let Ok(Reply::Lines(lines)) = reply else {
            panic!("{key}: {reply:?}");
        };
        assert!(lines.exists && lines.at_start, "{key}");
        let raw = |id: &str| {
            lines
                .lines
                .iter()
                .find(|line| line.id() == Some(id))
                .unwrap()
        };
        let ours: Vec<Message> = lines.lines.iter().filter_map(Message::read).collect();
        assert!(
            ours.iter()
                .all(|m| !matches!(m.content, Content::Damage { .. })),
            "{key}"
        );
        let notes: Vec<(&str, &str)> = ours
            .iter()
            .filter_map(|message| match &message.content {
                Content::Note { text, .. } => Some((message.id.raw(), text.raw())),
                _ => None,
            })
            .collect();
        let mut ours = ours
            .iter()
            .filter_map(|message| Some((message.id.raw(), message.said()?)));
        // What the gateway leaves out, here a person sees it: silent answers, and what is marked not to be displayed.
        let mut is_left_out = |id: &str, text: &str| {
            let hidden = raw(id).line["message"]["display"] == json!(false);
            let left_out = hidden || matches!(text, "NO_REPLY" | "REPLY_SKIP");
            skipped += usize::from(left_out);
            left_out
        };
        for message in theirs.as_array().unwrap() {
            if message["role"] == "custom" {
                // No message of anybody: a note.
                let id = message["id"].as_str().unwrap();
                let text = message["content"].as_str().unwrap();
                assert!(notes.contains(&(id, text)), "{key} {id}");
                noted += 1;
                continue;
            }
            let (id, said) = loop {
                let (id, said) = ours.next().unwrap();
                if message["id"] == id || !is_left_out(id, &said.text()) {
                    break (id, said);
                }
            };
            assert_eq!(message["id"], id, "{key}");
            let line = json!({"type": "message", "id": id, "message": message});
            let line = json!({"position": 0, "bytes": 0, "line": line});
            let theirs = Message::read(&serde_json::from_value(line).unwrap()).unwrap();
            let theirs = theirs.said().unwrap();
            if said.role != theirs.role {
                // What another session sent is stored as what a user said, with its provenance; the gateway gives it
                // the role of an assistant, for its chat shows it on that side.
                let roles = (&said.role, &theirs.role);
                assert_eq!(roles, (&Role::User, &Role::Assistant), "{key} {id}");
                assert!(said.is_inter_session(), "{key} {id}");
                routed += 1;
            }
            if said.blocks.is_empty() && said.error.is_some() {
                // Of a turn that failed, the gateway makes words for the chat; here its error is shown.
                assert!(
                    theirs.text().starts_with("⚠\u{fe0f} LLM request failed"),
                    "{key} {id}"
                );
                failed += 1;
            } else {
                for (ours, theirs) in readable(said).iter().zip(readable(theirs)) {
                    // A text of some length is given out cut, without a mark.
                    let is_cut = theirs.len() > 8000 && ours.len() > theirs.len();
                    let same = *ours == theirs || (is_cut && ours.starts_with(&theirs));
                    let start = |text: &str| text.chars().take(200).collect::<String>();
                    assert!(same, "{key} {id}: {:?} {:?}", start(ours), start(&theirs));
                    cut += usize::from(is_cut);
                }
                assert_eq!(said.blocks.len(), theirs.blocks.len(), "{key} {id}");
                assert_eq!(said.error, theirs.error, "{key} {id}");
            }
            assert_eq!(said.stop_reason, theirs.stop_reason, "{key} {id}");
            compared += 1;
        }
        let left: Vec<_> = ours
            .filter(|(id, said)| !is_left_out(id, &said.text()))
            .collect();
        assert_eq!(left, vec![], "{key}: more than the gateway has");
    }
    assert_eq!((compared, skipped, noted), (128, 3, 1));
    assert_eq!((routed, failed, cut), (6, 2, 1));
    assert_eq!(tree(&dir), before);
}

#[tokio::test]
async fn details_hold_what_is_stored() {
    let backend = FilesBackend::open(&captured().join("state")).unwrap();
    let request = Request::Detail {
        key: "agent:ops:think".into(),
    };
    let reply = backend.call(request.into()).await;
    let Ok(Reply::Detail(detail)) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(detail.entry["delivery"], json!({"kind": "internal"}));
    assert_eq!(detail.row.model, Some("think".into()));
}

#[test]
fn pages_go_by_the_number_of_an_event() {
    let store = open(&captured().join("state"));
    let key = SessionKey::parse("agent:main:main").unwrap();
    let entry = store.entry(&key).unwrap().unwrap();
    assert_eq!(store.transcript_path(&entry), None);
    let whole = store.transcript(&entry, Span::Whole, usize::MAX).unwrap();
    assert_eq!((whole.start, whole.end, whole.at_start), (0, 142, true));
    let numbers: Vec<u64> = whole.lines.iter().map(|line| line.position).collect();
    assert_eq!(numbers, (0..142).collect::<Vec<u64>>());

    let mut backwards = Vec::new();
    let mut page = store.transcript(&entry, Span::Tail, 7).unwrap();
    assert_eq!(page.end, 142);
    loop {
        let messages = page.lines.iter().filter(|line| line.message().is_some());
        assert!(messages.count() <= 7);
        page.lines.append(&mut backwards);
        backwards = page.lines;
        if page.at_start {
            break;
        }
        page = store
            .transcript(&entry, Span::Before(page.start), 7)
            .unwrap();
    }
    assert_eq!(backwards, whole.lines);

    let after = store
        .transcript(&entry, Span::After(140), usize::MAX)
        .unwrap();
    assert_eq!(
        (after.lines.as_slice(), after.end),
        (&whole.lines[140..], 142)
    );
    let none = store
        .transcript(&entry, Span::After(142), usize::MAX)
        .unwrap();
    assert_eq!((none.lines.len(), none.start, none.end), (0, 142, 142));
    let cut = store
        .transcript(&entry, Span::After(900), usize::MAX)
        .unwrap();
    assert_eq!((cut.start, cut.lines.len()), (0, 142), "written anew");
}

#[test]
fn d_8_what_cannot_be_read_is_never_empty() {
    let check = |make: &dyn Fn(&Path), expected: Result<usize, ()>, remark: &str| {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path());
        let before = tree(dir.path());
        let opened = Directory::open(dir.path(), None, "main");
        assert_eq!(tree(dir.path()), before, "{remark}");
        match (opened, expected) {
            (Ok(store), Ok(count)) => {
                assert_eq!(keys(&store).len(), count, "{remark}");
                let warnings = store.warnings();
                let said = warnings.iter().any(|warning| warning.contains(remark));
                assert!(
                    said != remark.is_empty() || warnings.is_empty(),
                    "{remark}: {warnings:?}"
                );
            }
            (Err(StoreError::Format { .. }), Err(())) => {}
            (Ok(store), Err(())) => panic!("{:?} {:?}", keys(&store), store.warnings()),
            (Err(error), expected) => panic!("{error} for {expected:?}"),
        }
    };
    let garbage = |dir: &Path| {
        fs::create_dir_all(dir.join("agents/x/agent")).unwrap();
        fs::write(database(dir, "x"), "this is no database at all".repeat(100)).unwrap();
    };
    let good = |dir: &Path| {
        let connection = small(dir, "main");
        add_session(&connection, "agent:main:main", "s", "{}");
    };
    check(&garbage, Err(()), "");
    check(
        &|dir| {
            garbage(dir);
            good(dir);
        },
        Ok(1),
        "cannot be read",
    );
    check(
        &|dir| {
            garbage(dir);
            write_index(dir, "y", r#"{"agent:y:main":{}}"#);
        },
        Ok(1),
        "cannot be read",
    );
    check(&good, Ok(1), "");
    check(
        &|dir| {
            small(dir, "main");
        },
        Ok(0),
        "",
    );
    check(
        &|dir| {
            let connection = writer(dir, "main");
            connection.execute_batch("CREATE TABLE other (a)").unwrap();
        },
        Err(()),
        "",
    );
    check(
        &|dir| {
            good(dir);
            writer(dir, "main")
                .execute_batch("PRAGMA user_version = 24")
                .unwrap();
        },
        Ok(1),
        "schema 24",
    );
    check(
        &|dir| {
            fs::create_dir_all(dir.join("state")).unwrap();
            fs::write(dir.join("state/openclaw.sqlite"), "x").unwrap();
        },
        Err(()),
        "",
    );
    check(
        &|dir| {
            good(dir);
            let (from, to) = (database(dir, "main"), dir.join("elsewhere.sqlite"));
            fs::rename(&from, &to).unwrap();
            #[cfg(unix)]
            std::os::unix::fs::symlink(&to, &from).unwrap();
        },
        Err(()),
        "",
    );
}

#[test]
fn a_damaged_row_costs_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let connection = small(dir.path(), "main");
    add_session(&connection, "agent:main:a", "a", "{not json");
    add_session(
        &connection,
        "agent:main:b",
        "b",
        r#"{"label":"good","updatedAt":"soon","inputTokens":-5}"#,
    );
    add_event(&connection, "a", 3, "good");
    connection
        .execute_batch(
            "INSERT INTO transcript_events VALUES ('a', 4, '{not json', NULL), ('a', 5, '[]', NULL),
                 ('a', 6, NULL, x'28b52ffd0102'), ('a', 7, NULL, NULL), ('a', 8, CAST(x'ff7b7d' AS TEXT), NULL)",
        )
        .unwrap();
    let store = open(dir.path());
    let page = store.list(&Query::default(), None).unwrap();
    let labels: Vec<_> = page
        .entries
        .iter()
        .map(|entry| entry.label.clone())
        .collect();
    assert_eq!(labels, [None, Some("good".into())]);
    assert_eq!(page.entries[1].updated_at, 0);
    let warnings = store.warnings();
    assert!(
        warnings[0].contains("1 entries cannot be read"),
        "{warnings:?}"
    );
    let lines = store
        .transcript(&page.entries[0], Span::Tail, 50)
        .unwrap()
        .lines;
    let shown: Vec<String> = lines
        .iter()
        .map(|line| match Message::read(line).unwrap().content {
            Content::Damage { reason, .. } => reason.to_owned(),
            Content::Said(said) => said.text(),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        "good",
        "line is not JSON",
        "line is not an object",
        "line cannot be unpacked",
        "line is not an object",
        "line is not UTF-8 text",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn agents_may_differ_in_what_they_use() {
    let dir = captured_copy();
    let sessions = sessions_dir(dir.path(), "old");
    write_index(
        dir.path(),
        "old",
        r#"{"agent:old:main":{"sessionId":"o","updatedAt":1796073850000}}"#,
    );
    fs::write(
        sessions.join("o.jsonl"),
        "{\"message\":{\"role\":\"user\",\"content\":\"x\"}}\n",
    )
    .unwrap();
    let store = open(dir.path());
    let keys = keys(&store);
    assert_eq!((keys.len(), keys[2].as_str()), (10, "agent:old:main"));
    assert_eq!(store.agents().unwrap().len(), 4);
    let entry = store.by_session_id("o").unwrap().remove(0);
    assert!(store.transcript_path(&entry).unwrap().ends_with("o.jsonl"));
    let lines = store.transcript(&entry, Span::Tail, 5).unwrap().lines;
    assert_eq!(lines.len(), 1);
    assert_eq!(store.warnings(), Vec::<String>::new());
}

#[test]
fn what_openclaw_writes_meanwhile_is_seen_and_never_half() {
    let dir = tempfile::tempdir().unwrap();
    let connection = small(dir.path(), "main");
    add_session(&connection, "agent:main:main", "s", "{}");
    let store = open(dir.path());
    let names = |dir: &Path| tree(dir).into_keys().collect::<Vec<_>>();
    let before = names(dir.path());
    let entry = store.by_session_id("s").unwrap().remove(0);
    const EVENTS: i64 = 300;
    let writing = std::thread::spawn(move || {
        for seq in 0..EVENTS {
            add_event(&connection, "s", seq, &"x".repeat(500));
            if seq % 20 == 0 {
                let fold = "PRAGMA wal_checkpoint(TRUNCATE)";
                connection.query_row(fold, [], |_| Ok(())).unwrap();
            }
        }
        connection
    });
    let mut seen = 0;
    while seen < EVENTS as usize {
        let ended = writing.is_finished();
        let page = store.transcript(&entry, Span::Whole, usize::MAX).unwrap();
        assert!(page.lines.len() >= seen, "{seen}");
        seen = page.lines.len();
        assert!(
            page.lines
                .iter()
                .zip(0..)
                .all(|(line, at)| line.position == at && line.damage.is_none())
        );
        assert!(
            !ended || seen == EVENTS as usize,
            "all that was written is seen: {seen}"
        );
    }
    let connection = writing.join().unwrap();
    assert_eq!(names(dir.path()), before);
    drop(connection);
    // Gone: what was there is shown on, and said.
    fs::remove_file(database(dir.path(), "main")).unwrap();
    assert_eq!(keys(&store), ["agent:main:main"]);
    assert!(
        store.warnings()[0].contains("is gone"),
        "{:?}",
        store.warnings()
    );
}

#[cfg(unix)]
#[test]
fn am_2_the_copy_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = captured_copy();
    fs::set_permissions(
        database(dir.path(), "main"),
        fs::Permissions::from_mode(0o444),
    )
    .unwrap();
    let store = open(dir.path());
    let mut copies = 0;
    for item in fs::read_dir(std::env::temp_dir())
        .unwrap()
        .filter_map(Result::ok)
    {
        if item
            .file_name()
            .to_string_lossy()
            .starts_with("crosstalk-snapshot-")
            && let Ok(about) = item.metadata()
        {
            assert_eq!(about.permissions().mode() & 0o777, 0o700);
            copies += 1;
        }
    }
    assert!(copies >= 3);
    drop(store);
}

async fn next(events: &mut mpsc::Receiver<Event>) -> Event {
    let patience = std::time::Duration::from_secs(60);
    tokio::time::timeout(patience, events.recv())
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn growth_is_told_event_by_event() {
    let dir = captured_copy();
    let backend = FilesBackend::open(dir.path()).unwrap();
    let mut events = backend.events(None);
    assert!(matches!(
        next(&mut events).await.what,
        What::Connection { .. }
    ));
    let connection = writer(dir.path(), "research");
    let id = "7430d4da-32e5-4e00-8874-363cdffbbf3a";
    for seq in [7_u64, 8] {
        let sql = "INSERT INTO transcript_events (session_id, seq, event_json, created_at) VALUES (?1, ?2, ?3, 0)";
        let line = json!({"type": "message", "id": format!("n{seq}"), "message": {"role": "user", "content": "x"}});
        connection
            .execute(
                sql,
                rusqlite::params![id, i64::try_from(seq).unwrap(), line.to_string()],
            )
            .unwrap();
        let event = next(&mut events).await;
        assert_eq!(event.session_key, Some("agent:research:main".into()));
        let What::MessageAppended { message, position } = event.what else {
            panic!("{event:?}");
        };
        assert_eq!((position, message.id()), (seq, Some(&*format!("n{seq}"))));
    }
    let sql = "UPDATE session_nodes SET label = 'named' WHERE session_key = 'agent:research:main'";
    connection.execute(sql, []).unwrap();
    let event = next(&mut events).await;
    let What::SessionChanged { row } = event.what else {
        panic!("{event:?}");
    };
    assert_eq!(row.label, Some("named".into()));
}
