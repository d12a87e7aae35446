use crosstalk::model::event::SendState;
use crosstalk::store::client::{ClientStore, LedgerEntry};
use crosstalk::text::Untrusted;
use std::path::PathBuf;
use tempfile::TempDir;

fn open() -> (TempDir, PathBuf, ClientStore) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("a/b/client.db");
    let store = ClientStore::open(&file).unwrap();
    (dir, file, store)
}

fn send(id: &str, sent_at: i64) -> LedgerEntry {
    LedgerEntry {
        send_id: id.into(),
        target: "agent:main:main".into(),
        requester: None,
        text: "hello\u{1b}[2J".into(),
        wait_s: 30,
        state: SendState::Queued,
        reply: None,
        error: None,
        sent_at,
        changed_at: sent_at,
    }
}

#[test]
fn drafts_are_kept_by_source_and_session() {
    let (_dir, file, store) = open();
    let draft =
        |source: &str, key: &str| store.draft(source, key).unwrap().map(Untrusted::into_raw);
    let set = |source: &str, key: &str, text: &str, at| {
        store.set_draft(source, key, &text.into(), at).unwrap();
    };
    assert_eq!(draft("one", "a"), None);
    set("one", "a", "first\nline", 1);
    set("two", "a", "other", 2);
    set("one", "b", "  spaces  ", 3);
    assert_eq!(draft("one", "a").as_deref(), Some("first\nline"));
    assert_eq!(draft("two", "a").as_deref(), Some("other"));
    set("one", "a", "changed", 4);
    let all = |source: &str| {
        let drafts = store.drafts(source).unwrap();
        drafts
            .into_iter()
            .map(|(key, text)| (key.into_raw(), text.into_raw()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        all("one"),
        [
            ("a".into(), "changed".into()),
            ("b".into(), "  spaces  ".into())
        ]
    );
    set("one", "a", " \n ", 5);
    assert_eq!(draft("one", "a"), None);
    drop(ClientStore::open(&file).unwrap());
    assert_eq!(all("one").len(), 1);
}

#[test]
fn the_ledger_keeps_every_state_newest_first() {
    use SendState::{
        Discarded, Failed, NoReply, Outbox, Queued, Refused, Replied, Running, Unknown, WaitOver,
    };
    let (_dir, file, store) = open();
    let states = [
        Outbox, Queued, Running, Replied, NoReply, WaitOver, Failed, Refused, Unknown, Discarded,
    ];
    let mut sends: Vec<_> = (0..)
        .zip(states)
        .map(|(n, state)| LedgerEntry {
            state,
            reply: (state == Replied).then(|| "an answer".into()),
            requester: (n % 2 == 0).then(|| "agent:main:main".into()),
            ..send(&format!("s{n}"), 100 - n)
        })
        .collect();
    for entry in sends.iter().rev() {
        store.put_send("one", entry).unwrap();
    }
    assert_eq!(store.sends("one", usize::MAX).unwrap(), sends);
    assert_eq!(store.sends("one", 3).unwrap(), sends[..3]);
    assert_eq!(store.sends("two", 3).unwrap(), []);
    sends[9].state = Failed;
    sends[9].error = Some("why".into());
    store.put_send("one", &sends[9]).unwrap();
    store.put_send("two", &send("s0", 1)).unwrap();
    drop(store);
    let store = ClientStore::open(&file).unwrap();
    assert_eq!(store.sends("one", 99).unwrap(), sends);
    assert_eq!(store.sends("two", 99).unwrap(), [send("s0", 1)]);
}

#[test]
fn preferences_are_kept() {
    let (_dir, _file, store) = open();
    assert_eq!(store.preference("pane").unwrap(), None);
    store.set_preference("pane", "40").unwrap();
    store.set_preference("pane", "41").unwrap();
    assert_eq!(store.preference("pane").unwrap().as_deref(), Some("41"));
}

#[test]
fn several_screens_write_at_once() {
    let (_dir, file, _store) = open();
    let screens: Vec<_> = (0..4)
        .map(|screen| {
            let file = file.clone();
            std::thread::spawn(move || {
                let store = ClientStore::open(&file).unwrap();
                for n in 0..25 {
                    store
                        .put_send("one", &send(&format!("{screen}-{n}"), n))
                        .unwrap();
                }
            })
        })
        .collect();
    for screen in screens {
        screen.join().unwrap();
    }
    assert_eq!(
        ClientStore::open(&file)
            .unwrap()
            .sends("one", usize::MAX)
            .unwrap()
            .len(),
        100
    );
}

#[cfg(unix)]
#[test]
fn files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let (_dir, file, _store) = open();
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(file.parent().unwrap()), 0o700);
}

#[test]
fn a_ruined_file_is_an_error_and_stays() {
    let (_dir, file, store) = open();
    drop(store);
    std::fs::write(&file, "not a database, whatever its name may say").unwrap();
    let text = ClientStore::open(&file).err().unwrap().to_string();
    assert!(text.contains("client.db is damaged"), "{text}");
    assert_eq!(std::fs::read(&file).unwrap().len(), 41);
}
