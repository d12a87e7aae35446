//! Live events: what is written to a directory is told, once, in order.

use super::{captured_copy, write_index};
use crosstalk::backend::Backend;
use crosstalk::backend::files::FilesBackend;
use crosstalk::model::event::{Event, What};
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;

/// Waits for the next event; how long it may take says nothing, that it comes does.
async fn next(events: &mut Receiver<Event>) -> Event {
    let event = tokio::time::timeout(Duration::from_secs(30), events.recv()).await;
    event
        .expect("no event came")
        .expect("the channel was closed")
}

/// Follows from now on.
async fn follow(backend: &FilesBackend) -> Receiver<Event> {
    let mut events = backend.events(None);
    assert!(matches!(
        next(&mut events).await.what,
        What::Connection { .. }
    ));
    events
}

fn append(file: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn line(id: &str) -> String {
    format!(
        "{{\"type\":\"message\",\"id\":\"{id}\",\"message\":{{\"role\":\"user\",\"content\":\"x\"}}}}\n"
    )
}

fn ops_index(dir: &Path, change: impl FnOnce(&mut Value)) {
    let file = dir.join("agents/ops/sessions/sessions.json");
    let mut index: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    change(&mut index);
    write_index(dir, "ops", index.to_string());
}

fn key(event: &Event) -> &str {
    event.session_key.as_ref().map_or("", |key| key.raw())
}

#[tokio::test(flavor = "multi_thread")]
async fn growth_is_told_line_by_line() {
    let dir = captured_copy();
    let file = dir
        .path()
        .join("agents/ops/sessions/75829860-5252-4f4e-a2e7-781f102b4218.jsonl");
    let start = fs::metadata(&file).unwrap().len();
    let backend = FilesBackend::open(dir.path()).unwrap();
    let mut events = follow(&backend).await;
    let (a, b, c) = (line("a"), line("b"), line("c"));
    append(&file, &format!("{a}{}", &b[..10]));
    let mut seen = Vec::new();
    let take = |event: &Event| match &event.what {
        What::MessageAppended { message, position } => {
            assert_eq!(key(event), "agent:ops:main");
            assert_eq!(*position, message.position);
            (message.id().unwrap().to_owned(), *position)
        }
        other => panic!("{other:?}"),
    };
    let first = next(&mut events).await;
    seen.push(take(&first));
    append(&file, &format!("{}{c}", &b[10..]));
    let mut last = first.seq;
    for _ in 0..2 {
        let event = next(&mut events).await;
        assert!(event.seq > last, "numbers rise");
        last = event.seq;
        seen.push(take(&event));
    }
    let at = |parts: &[&str]| start + parts.iter().map(|part| part.len() as u64).sum::<u64>();
    assert_eq!(
        seen,
        [
            ("a".to_owned(), start),
            ("b".to_owned(), at(&[&a])),
            ("c".to_owned(), at(&[&a, &b]))
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_was_half_written_when_following_began_is_told_whole() {
    let dir = captured_copy();
    let file = dir
        .path()
        .join("agents/ops/sessions/75829860-5252-4f4e-a2e7-781f102b4218.jsonl");
    let whole = line("half");
    append(&file, &whole[..20]);
    let backend = FilesBackend::open(dir.path()).unwrap();
    let mut events = follow(&backend).await;
    append(&file, &whole[20..]);
    let event = next(&mut events).await;
    let What::MessageAppended { message, .. } = event.what else {
        panic!("{event:?}");
    };
    assert_eq!((message.id(), message.damage), (Some("half"), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_come_change_and_go() {
    let dir = captured_copy();
    let backend = FilesBackend::open(dir.path()).unwrap();
    let mut events = follow(&backend).await;
    let sessions = dir.path().join("agents/ops/sessions");

    fs::write(sessions.join("new.jsonl"), line("n")).unwrap();
    ops_index(dir.path(), |index| {
        index["agent:ops:new"] = json!({"sessionId": "new", "updatedAt": 1_796_073_700_000_i64});
    });
    let event = next(&mut events).await;
    assert!(
        matches!(event.what, What::SessionCreated { .. }),
        "{event:?}"
    );
    assert_eq!((key(&event), event.inferred), ("agent:ops:new", false));
    let event = next(&mut events).await;
    assert!(
        matches!(event.what, What::MessageAppended { position: 0, .. }),
        "{event:?}"
    );

    ops_index(dir.path(), |index| {
        index["agent:ops:new"]["label"] = json!("named");
    });
    let event = next(&mut events).await;
    let What::SessionChanged { row } = event.what else {
        panic!("{event:?}");
    };
    assert_eq!(row.label, Some("named".into()));

    ops_index(dir.path(), |index| {
        index["agent:ops:new"]["sessionId"] = json!("newer");
    });
    let event = next(&mut events).await;
    assert!(matches!(event.what, What::SessionReset { .. }), "{event:?}");
    assert!(event.inferred, "files do not say that it was a reset");

    ops_index(dir.path(), |index| {
        index.as_object_mut().unwrap().shift_remove("agent:ops:new");
    });
    let event = next(&mut events).await;
    let What::SessionDeleted { row } = event.what else {
        panic!("{event:?}");
    };
    assert_eq!((row.label, event.inferred), (Some("named".into()), true));

    // A new agent's directory is followed too.
    write_index(
        dir.path(),
        "late",
        r#"{"agent:late:main":{"sessionId":"l"}}"#,
    );
    let event = next(&mut events).await;
    assert_eq!(key(&event), "agent:late:main");
    fs::write(dir.path().join("agents/late/sessions/l.jsonl"), line("l")).unwrap();
    let event = next(&mut events).await;
    assert!(
        matches!(event.what, What::MessageAppended { .. }),
        "{event:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_followed_is_a_resync() {
    let dir = captured_copy();
    let backend = FilesBackend::open(dir.path()).unwrap();
    let mut events = backend.events(Some("1".into()));
    assert!(matches!(
        next(&mut events).await.what,
        What::Connection { .. }
    ));
    assert!(
        matches!(next(&mut events).await.what, What::Resync {}),
        "a cursor"
    );
    let file = dir
        .path()
        .join("agents/ops/sessions/75829860-5252-4f4e-a2e7-781f102b4218.jsonl");
    fs::write(&file, line("z")).unwrap();
    let event = next(&mut events).await;
    assert!(
        matches!(event.what, What::Resync {}),
        "a rewritten transcript: {event:?}"
    );
    assert_eq!(key(&event), "agent:ops:main");
    append(&file, &line("y"));
    let event = next(&mut events).await;
    assert!(
        matches!(event.what, What::MessageAppended { .. }),
        "{event:?}"
    );
}
