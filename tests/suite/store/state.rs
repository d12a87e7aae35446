use crosstalk::model::key::{AgentId, SessionKey};
use crosstalk::model::run::{Run, RunState, SubagentRecord};
use crosstalk::model::session::Entry;
use crosstalk::store::state::StateStore;
use crosstalk::store::{Sessions, Span, StoreError, transcript};
use crosstalk::text::Untrusted;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

pub fn key(text: &str) -> SessionKey {
    SessionKey::parse(text).unwrap()
}

/// An entry with members given as JSON.
pub fn entry(name: &str, updated_at: i64, members: Value) -> Entry {
    let mut value = json!({"sessionId": format!("id-{updated_at}"), "updatedAt": updated_at});
    for (name, member) in members.as_object().unwrap() {
        value[name] = member.clone();
    }
    let mut entry: Entry = serde_json::from_value(value).unwrap();
    entry.key = key(name);
    entry
}

pub fn store() -> (TempDir, StateStore) {
    let dir = TempDir::new().unwrap();
    let store = StateStore::open(&dir.path().join("state"), "main").unwrap();
    (dir, store)
}

pub async fn put(store: &StateStore, entries: Vec<Entry>) {
    store
        .write(move |tx| entries.iter().try_for_each(|entry| tx.put_entry(entry)))
        .await
        .unwrap();
}

fn run(id: &str, members: Value) -> Run {
    let mut value = json!({
        "runId": id, "sessionKey": "agent:main:main", "origin": "send", "lane": "nested", "state": "accepted",
        "message": "hello", "messageId": "m", "acceptedAt": 1,
    });
    for (name, member) in members.as_object().unwrap() {
        value[name] = member.clone();
    }
    serde_json::from_value(value).unwrap()
}

fn subagent(id: &str, controller: &str) -> SubagentRecord {
    serde_json::from_value(json!({
        "runId": id, "childSessionKey": format!("agent:main:subagent:{id}"), "requesterSessionKey": "agent:main:main",
        "controllerSessionKey": controller, "task": "look", "cleanup": "keep", "spawnMode": "run", "createdAt": 1,
        "wakeOnDescendantSettle": true,
    }))
    .unwrap()
}

#[tokio::test]
async fn d_1_what_was_written_is_there_after_a_reopening() {
    let (dir, store) = store();
    let mut before = entry(
        "agent:main:main",
        5,
        json!({"label": "here", "spawnDepth": 1}),
    );
    before
        .other
        .insert("later".into(), json!({"deep": [1, null]}));
    put(&store, vec![before.clone()]).await;
    store
        .write(|tx| {
            tx.put_run(&run("r1", json!({})))?;
            tx.put_subagent(&subagent("s1", "agent:main:main"))?;
            tx.set_meta("place", Some("7"))
        })
        .await
        .unwrap();
    drop(store);
    let store = StateStore::open(&dir.path().join("state"), "main").unwrap();
    assert_eq!(store.entry(&before.key).unwrap(), Some(before));
    store
        .read(|tx| {
            assert_eq!(tx.run("r1")?, Some(run("r1", json!({}))));
            assert_eq!(tx.subagent("s1")?, Some(subagent("s1", "agent:main:main")));
            assert_eq!(tx.meta("place")?.as_deref(), Some("7"));
            assert_eq!(tx.meta("nothing")?, None);
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn d_10_the_time_of_a_session_never_goes_backwards() {
    let (_dir, store) = store();
    for (written, expect) in [(5, 5), (9, 9), (7, 9), (10, 10)] {
        put(&store, vec![entry("agent:main:main", written, json!({}))]).await;
        let found = store.entry(&key("agent:main:main")).unwrap().unwrap();
        assert_eq!(found.updated_at, expect);
    }
}

#[tokio::test]
async fn ac_136_members_of_a_later_program_survive() {
    let (dir, store) = store();
    put(
        &store,
        vec![entry(
            "agent:main:main",
            1,
            json!({"novel": {"a": 1}, "channel": "irc"}),
        )],
    )
    .await;
    // A word that this program does not know, where it knows the name.
    let database = rusqlite::Connection::open(dir.path().join("state/state.db")).unwrap();
    database
        .execute("UPDATE sessions SET entry = json_set(entry, '$.status', 'dreaming', '$.spawnDepth', 'deep')", [])
        .unwrap();
    let mut found = store.entry(&key("agent:main:main")).unwrap().unwrap();
    assert_eq!(
        (found.status, found.other["novel"].clone()),
        (None, json!({"a": 1}))
    );
    assert_eq!(found.channel.as_ref().map(Untrusted::raw), Some("irc"));
    found.spawn_depth = Some(3);
    put(&store, vec![found]).await;
    let stored: String = database
        .query_row("SELECT entry FROM sessions", [], |row| row.get(0))
        .unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["status"], "dreaming");
    assert_eq!(stored["novel"], json!({"a": 1}));
    assert_eq!(stored["spawnDepth"], 3, "what was set now wins");
}

#[tokio::test]
async fn r_7_labels_are_unique_within_an_agent() {
    let (_dir, store) = store();
    let labelled = |name: &str, label: &str| entry(name, 1, json!({"label": label}));
    put(
        &store,
        vec![
            labelled("agent:main:a", "x"),
            labelled("agent:other:a", "x"),
            labelled("agent:main:b", " "),
        ],
    )
    .await;
    let refused = {
        let new = labelled("agent:main:c", "x");
        store.write(move |tx| tx.put_entry(&new)).await.unwrap_err()
    };
    assert!(matches!(refused, StoreError::Refused(_)));
    let text = refused.to_string();
    assert!(text.starts_with("label already in use: x"), "{text}");
    assert!(
        text.contains("agent:main:a") && text.contains("agent:main:c"),
        "{text}"
    );
    // Again on the same session, in another spelling, blank, and once it is free.
    put(
        &store,
        vec![labelled("agent:main:a", "x"), labelled("agent:main:c", "X")],
    )
    .await;
    put(&store, vec![labelled("agent:main:d", " ")]).await;
    put(
        &store,
        vec![labelled("agent:main:a", "y"), labelled("agent:main:c", "x")],
    )
    .await;
    let found = store
        .read(|tx| {
            Ok((
                tx.by_label("x", None)?,
                tx.by_label("x", Some(&AgentId::main()))?,
            ))
        })
        .await
        .unwrap();
    let keys = |entries: &[Entry]| {
        entries
            .iter()
            .map(|e| e.key.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&found.0), ["agent:main:c", "agent:other:a"]);
    assert_eq!(keys(&found.1), ["agent:main:c"]);
}

#[tokio::test]
async fn children_are_direct_and_oldest_first() {
    let (_dir, store) = store();
    let child = |name: &str, of: &str, at| entry(name, at, json!({"spawnedBy": of}));
    put(
        &store,
        vec![
            child("agent:main:subagent:b", "agent:main:main", 9),
            child("agent:main:subagent:a", "agent:main:main", 1),
            child("agent:main:subagent:c", "agent:main:subagent:a", 2),
        ],
    )
    .await;
    put(
        &store,
        vec![child("agent:main:subagent:b", "agent:main:main", 20)],
    )
    .await;
    let found = store
        .read(|tx| tx.children(&key("agent:main:main")))
        .await
        .unwrap();
    let keys: Vec<_> = found.iter().map(|e| e.key.as_str()).collect();
    assert_eq!(keys, ["agent:main:subagent:b", "agent:main:subagent:a"]);
}

#[tokio::test]
async fn am_4_runs_stay_in_the_order_of_acceptance() {
    let (_dir, store) = store();
    store
        .write(|tx| {
            for id in ["r3", "r1", "r2"] {
                tx.put_run(&run(id, json!({})))?;
            }
            tx.put_run(&run("r1", json!({"state": "started"})))?;
            tx.put_run(&run("r3", json!({"label": "changed"})))
        })
        .await
        .unwrap();
    for (state, expect) in [
        (RunState::Accepted, &["r3", "r2"][..]),
        (RunState::Started, &["r1"]),
        (RunState::Ended, &[]),
    ] {
        let runs = store.read(move |tx| tx.runs(state)).await.unwrap();
        let ids: Vec<_> = runs.into_iter().map(|run| run.run_id).collect();
        assert_eq!(ids, expect, "{state:?}");
    }
}

#[tokio::test]
async fn am_5_a_chain_is_counted_and_forgotten_as_a_whole() {
    let (_dir, store) = store();
    let forgotten = store
        .write(|tx| {
            let ended = |id: &str, root: &str, at: i64| {
                run(
                    id,
                    json!({"rootRun": root, "state": "ended", "endedAt": at}),
                )
            };
            tx.put_run(&run("a1", json!({"state": "ended", "endedAt": 10})))?;
            tx.put_run(&ended("a2", "a1", 20))?;
            tx.put_run(&run("b1", json!({"state": "ended", "endedAt": 10})))?;
            tx.put_run(&run("b2", json!({"rootRun": "b1", "state": "started"})))?;
            tx.put_run(&ended("c1", "c1", 10))?;
            tx.put_run(&ended("c2", "c1", 30))?;
            assert_eq!(
                (
                    tx.chain_len("a1")?,
                    tx.chain_len("b1")?,
                    tx.chain_len("zz")?
                ),
                (2, 2, 0)
            );
            tx.forget_runs_before(25)
        })
        .await
        .unwrap();
    assert_eq!(forgotten, 2);
    store
        .read(|tx| {
            assert_eq!(
                (
                    tx.chain_len("a1")?,
                    tx.chain_len("b1")?,
                    tx.chain_len("c1")?
                ),
                (0, 2, 2)
            );
            assert_eq!(tx.runs_of(&key("agent:main:main"))?.len(), 4);
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn lc_20_the_registry_keeps_records_with_unknown_members() {
    let (_dir, store) = store();
    store
        .write(|tx| {
            tx.put_subagent(&subagent("s2", "agent:main:main"))?;
            tx.put_subagent(&subagent("s1", "agent:main:subagent:s2"))?;
            tx.put_subagent(&subagent("s3", "agent:main:main"))?;
            tx.put_subagent(&subagent("s2", "agent:main:main"))?;
            tx.delete_subagent("s3")?;
            tx.delete_subagent("nothing")
        })
        .await
        .unwrap();
    store
        .read(|tx| {
            let ids = |records: Vec<SubagentRecord>| {
                records.into_iter().map(|r| r.run_id).collect::<Vec<_>>()
            };
            assert_eq!(ids(tx.subagents(None)?), ["s2", "s1"]);
            assert_eq!(ids(tx.subagents(Some(&key("agent:main:main")))?), ["s2"]);
            assert_eq!(
                tx.subagent("s1")?.unwrap().other["wakeOnDescendantSettle"],
                json!(true)
            );
            Ok(())
        })
        .await
        .unwrap();
}

// Group commit.

/// Holds the writer until it is let go, so that other changes must wait.
fn blocker(
    store: &StateStore,
) -> (
    tokio::task::JoinHandle<()>,
    std::sync::mpsc::Sender<()>,
    tokio::sync::oneshot::Receiver<()>,
) {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let store = store.clone();
    let task = tokio::spawn(async move {
        store
            .write(move |_| {
                begun.send(()).unwrap();
                wait.recv().unwrap();
                Ok(())
            })
            .await
            .unwrap();
    });
    (task, go, has_begun)
}

#[tokio::test]
async fn changes_that_wait_share_a_commit_and_fail_alone() {
    let (_dir, store) = store();
    let (task, go, begun) = blocker(&store);
    begun.await.unwrap();
    let before = store.commits();
    let changes: Vec<_> = (0..200)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                store
                    .write(move |tx| {
                        tx.put_entry(&entry(&format!("agent:main:{n}"), n, json!({})))?;
                        match n % 10 {
                            3 => Err(StoreError::Refused(format!("no {n}"))),
                            7 => panic!("a change that panics"),
                            _ => Ok(n),
                        }
                    })
                    .await
            })
        })
        .collect();
    // All of them have been polled once a task spawned after them has run.
    tokio::spawn(async {}).await.unwrap();
    go.send(()).unwrap();
    task.await.unwrap();
    for (n, change) in changes.into_iter().enumerate() {
        let n = n as i64;
        let outcome = change.await.unwrap();
        match n % 10 {
            3 => assert_eq!(outcome.unwrap_err().to_string(), format!("no {n}")),
            7 => assert!(outcome.unwrap_err().to_string().contains("panicked")),
            _ => assert_eq!(outcome.unwrap(), n),
        }
        let there = store
            .entry(&key(&format!("agent:main:{n}")))
            .unwrap()
            .is_some();
        assert_eq!(there, n % 10 != 3 && n % 10 != 7, "{n}");
    }
    assert_eq!(
        store.commits() - before,
        2,
        "the blocker's, and one for all others"
    );
}

#[tokio::test]
async fn a_change_whose_caller_went_away_is_made_all_the_same() {
    let (_dir, store) = store();
    let (task, go, begun) = blocker(&store);
    begun.await.unwrap();
    let mut change =
        Box::pin(store.write(|tx| tx.put_entry(&entry("agent:main:kept", 1, json!({})))));
    assert!(futures_util::poll!(&mut change).is_pending());
    drop(change);
    go.send(()).unwrap();
    task.await.unwrap();
    // Changes are made in their order: once this one is, the other one was.
    store.write(|_| Ok(())).await.unwrap();
    assert!(store.entry(&key("agent:main:kept")).unwrap().is_some());
}

#[test]
fn a_change_is_made_although_the_runtime_ends() {
    let (_dir, store) = store();
    let done = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    runtime.block_on(async {
        // The only thread for blocking work is taken, so the change cannot begin.
        tokio::task::spawn_blocking(move || wait.recv());
        let done = Arc::clone(&done);
        let mut change = Box::pin(store.write(move |tx| {
            done.store(true, Ordering::SeqCst);
            tx.put_entry(&entry("agent:main:kept", 1, json!({})))
        }));
        assert!(futures_util::poll!(&mut change).is_pending());
    });
    std::thread::spawn(move || {
        // The runtime waits for work that has begun.
        go.send(()).unwrap();
    });
    drop(runtime);
    assert!(done.load(Ordering::SeqCst));
    assert!(store.entry(&key("agent:main:kept")).unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn time_does_not_jump_while_a_change_is_made() {
    let (_dir, store) = store();
    let start = tokio::time::Instant::now();
    let writing = async {
        for n in 0..20 {
            put(&store, vec![entry("agent:main:main", n, json!({}))]).await;
            store
                .read(|tx| tx.entry(&key("agent:main:main")))
                .await
                .unwrap();
        }
    };
    tokio::select! {
        () = writing => {}
        () = tokio::time::sleep(std::time::Duration::from_secs(3600)) => panic!("time jumped"),
    }
    assert_eq!(start.elapsed().as_millis(), 0);
}

#[tokio::test]
async fn a_full_disk_leaves_nothing_half_applied() {
    let (dir, store) = store();
    put(&store, vec![entry("agent:main:old", 1, json!({}))]).await;
    store.limit_pages(Some(60));
    let (task, go, begun) = blocker(&store);
    begun.await.unwrap();
    let large = |name: String, bytes: usize| {
        let store = store.clone();
        tokio::spawn(async move {
            store
                .write(move |tx| {
                    tx.put_entry(&entry(&format!("{name}-1"), 2, json!({})))?;
                    tx.put_entry(&entry(
                        &format!("{name}-2"),
                        2,
                        json!({"note": "x".repeat(bytes)}),
                    ))
                })
                .await
        })
    };
    let sizes = [100, 400_000, 100, 100_000, 100_000];
    let changes: Vec<_> = (0..)
        .zip(sizes)
        .map(|(n, bytes)| large(format!("agent:main:{n}"), bytes))
        .collect();
    tokio::spawn(async {}).await.unwrap();
    go.send(()).unwrap();
    task.await.unwrap();
    let mut failed = 0;
    for (n, change) in changes.into_iter().enumerate() {
        let made = change.await.unwrap().is_ok();
        failed += usize::from(!made);
        for part in 1..=2 {
            let there = store
                .entry(&key(&format!("agent:main:{n}-{part}")))
                .unwrap()
                .is_some();
            assert_eq!(
                there, made,
                "{n}-{part}: what the caller was told is what is there"
            );
        }
    }
    assert!((1..5).contains(&failed), "{failed}");
    store.limit_pages(None);
    put(&store, vec![entry("agent:main:again", 3, json!({}))]).await;
    drop(store);
    let store = StateStore::open(&dir.path().join("state"), "main").unwrap();
    assert!(store.entry(&key("agent:main:old")).unwrap().is_some());
}

// The transcript beside it.

#[tokio::test]
async fn l_70_the_path_of_a_transcript_stays_in_its_directory() {
    let (dir, store) = store();
    let sessions = store.sessions_dir(&AgentId::main());
    fs::create_dir_all(&sessions).unwrap();
    let outside = dir.path().join("outside.jsonl");
    fs::write(&outside, "{}\n").unwrap();
    let default = sessions.join("id-1.jsonl");
    let check = |members: Value, expect: Option<&Path>| {
        let entry = entry("agent:main:main", 1, members.clone());
        assert_eq!(
            store.transcript_path(&entry).as_deref(),
            expect,
            "{members}"
        );
    };
    check(json!({}), Some(&default));
    check(
        json!({"sessionFile": "other.jsonl"}),
        Some(&sessions.join("other.jsonl")),
    );
    check(
        json!({"sessionFile": sessions.join("new.jsonl")}),
        Some(&sessions.join("new.jsonl")),
    );
    check(json!({"sessionFile": outside}), Some(&default));
    check(
        json!({"sessionFile": "../../../../outside.jsonl"}),
        Some(&default),
    );
    check(json!({"sessionFile": " "}), Some(&default));
    check(json!({"sessionFile": ""}), Some(&default));
    check(json!({"sessionFile": "."}), Some(&default));
    check(json!({"sessionFile": ".."}), Some(&default));
    check(json!({"sessionId": "../../etc/passwd"}), None);
    check(json!({"sessionId": ""}), None);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&outside, sessions.join("link.jsonl")).unwrap();
        std::os::unix::fs::symlink("nowhere", sessions.join("dead.jsonl")).unwrap();
        check(json!({"sessionFile": "link.jsonl"}), Some(&default));
        check(json!({"sessionFile": "dead.jsonl"}), Some(&default));
    }
    transcript::append(&default, &[json!({"type": "session"})], true).unwrap();
    let found = store
        .transcript(&entry("agent:main:main", 1, json!({})), Span::Tail, 9)
        .unwrap();
    assert_eq!(found.lines.len(), 1);
    let none = store
        .transcript(
            &entry("agent:main:main", 1, json!({"sessionId": "../x"})),
            Span::Tail,
            9,
        )
        .unwrap();
    assert_eq!((none.lines.len(), none.at_start), (0, true));
}
