use crosstalk::store::StoreError;
use crosstalk::store::database::{Database, Found, backups};
use crosstalk::store::state::StateStore;
use proptest::prelude::*;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const FIRST: &str = "CREATE TABLE things (name TEXT NOT NULL) STRICT";
const SECOND: &str = "ALTER TABLE things ADD COLUMN size INTEGER NOT NULL DEFAULT 7";

const fn schema(steps: &'static [&'static str]) -> Database {
    Database {
        application_id: 77,
        steps,
        patience: Duration::from_secs(5),
    }
}
const OLD: Database = schema(&[FIRST]);
const NEW: Database = schema(&[FIRST, SECOND]);
const BROKEN: Database = schema(&[
    FIRST,
    SECOND,
    "CREATE TABLE more (a); SELECT no_such_thing()",
]);

fn names(connection: &Connection) -> Vec<String> {
    let mut statement = connection.prepare("SELECT name FROM things").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

fn with_a_thing(database: Database) -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("x.db");
    let connection = database.open(&file).unwrap();
    connection
        .execute("INSERT INTO things (name) VALUES ('kept')", [])
        .unwrap();
    drop(connection);
    (dir, file)
}

/// Every file of a directory, for telling that nothing was changed.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let bytes = fs::read(entry.path()).unwrap_or_default();
            (entry.file_name().into_string().unwrap(), bytes)
        })
        // Made and removed by whoever looks at a database with a log.
        .filter(|(name, bytes)| {
            let passing = name.ends_with("-shm") || (name.ends_with("-wal") && bytes.is_empty());
            !passing
        })
        .collect()
}

#[test]
fn ac_124_an_older_schema_is_migrated_after_a_backup() {
    let (dir, file) = with_a_thing(OLD);
    // What is still in the log belongs to the backup too.
    let other = Connection::open(&file).unwrap();
    other
        .execute("INSERT INTO things VALUES ('in the log')", [])
        .unwrap();
    let connection = NEW.open(&file).unwrap();
    let size: i64 = connection
        .query_row("SELECT max(size) FROM things", [], |row| row.get(0))
        .unwrap();
    assert_eq!(size, 7);
    assert_eq!(NEW.look(&file).unwrap(), Found::Ours(2));
    drop((connection, other));

    let backup = dir.path().join("x.db.backup-v1");
    assert_eq!(backups(&file), std::slice::from_ref(&backup));
    assert_eq!(
        files(dir.path()).into_keys().collect::<Vec<_>>(),
        ["x.db", "x.db.backup-v1"]
    );
    assert_eq!(OLD.look(&backup).unwrap(), Found::Ours(1));
    assert_eq!(names(&OLD.open(&backup).unwrap()), ["kept", "in the log"]);
    #[cfg(unix)]
    assert_eq!(mode(&backup), 0o600);
    // Opened again, nothing is left to do.
    fs::remove_file(&backup).unwrap();
    drop(NEW.open(&file).unwrap());
    assert!(backups(&file).is_empty());
}

#[test]
fn a_migration_that_fails_changes_nothing_and_can_be_tried_again() {
    let (_dir, file) = with_a_thing(OLD);
    for _ in 0..2 {
        assert!(matches!(BROKEN.open(&file), Err(StoreError::Sql { .. })));
        assert_eq!(OLD.look(&file).unwrap(), Found::Ours(1));
        assert_eq!(backups(&file).len(), 1);
    }
    assert_eq!(names(&NEW.open(&file).unwrap()), ["kept"]);
}

#[test]
fn ac_124_a_newer_schema_is_left_as_it_is() {
    let (dir, file) = with_a_thing(NEW);
    // Once with a log that its owner had no time to fold into the file.
    for logged in [false, true] {
        if logged {
            let owner = Connection::open(&file).unwrap();
            owner
                .execute("INSERT INTO things (name) VALUES ('new')", [])
                .unwrap();
            let log = fs::read(dir.path().join("x.db-wal")).unwrap();
            let main = fs::read(&file).unwrap();
            drop(owner);
            fs::write(&file, main).unwrap();
            fs::write(dir.path().join("x.db-wal"), log).unwrap();
        }
        let before = files(dir.path());
        let error = OLD.open(&file).unwrap_err();
        assert!(
            matches!(
                error,
                StoreError::Newer {
                    found: 2,
                    known: 1,
                    ..
                }
            ),
            "{error}"
        );
        assert!(error.to_string().contains("x.db") && error.to_string().contains("newer"));
        assert_eq!(files(dir.path()), before, "logged: {logged}");
    }
    assert_eq!(names(&NEW.open(&file).unwrap()), ["kept", "new"]);
}

#[test]
fn a_version_in_the_log_counts() {
    let (dir, file) = with_a_thing(OLD);
    let old_main = fs::read(&file).unwrap();
    let connection = NEW.open(&file).unwrap();
    let log = fs::read(dir.path().join("x.db-wal")).unwrap();
    drop(connection);
    // As a crash right after the migration leaves it.
    fs::write(&file, old_main).unwrap();
    fs::write(dir.path().join("x.db-wal"), log).unwrap();
    assert_eq!(NEW.look(&file).unwrap(), Found::Ours(2));
    assert!(matches!(OLD.open(&file), Err(StoreError::Newer { .. })));
}

#[test]
fn ac_142_damage_is_named_with_the_backup_and_nothing_is_overwritten() {
    let ruin = |how: &dyn Fn(&mut Vec<u8>)| {
        let (dir, file) = with_a_thing(OLD);
        let connection = NEW.open(&file).unwrap();
        connection
            .execute_batch(
                "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
                 INSERT INTO things (name) SELECT 'thing ' || n FROM n",
            )
            .unwrap();
        drop(connection);
        let mut bytes = fs::read(&file).unwrap();
        how(&mut bytes);
        fs::write(&file, bytes).unwrap();
        let before = files(dir.path());
        let error = NEW.open(&file).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("x.db is damaged"), "{text}");
        assert!(text.contains("x.db.backup-v1"), "{text}");
        assert_eq!(files(dir.path()), before);
    };
    ruin(&|bytes| bytes[..16].fill(b'?'));
    ruin(&|bytes| bytes[4096..12288].fill(0xa5));
    ruin(&|bytes| bytes.truncate(9000));
    ruin(&|bytes| bytes.truncate(50));
    ruin(&|bytes| {
        *bytes =
            b"this is a text, and not a short one, as if somebody had written a note here".to_vec();
    });
}

#[test]
fn damage_without_a_backup_says_so() {
    let (_dir, file) = with_a_thing(OLD);
    fs::write(&file, "no database at all, but long enough to look at").unwrap();
    let text = OLD.open(&file).unwrap_err().to_string();
    assert!(text.contains("There is no backup"), "{text}");
}

#[test]
fn databases_of_others_are_refused() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("x.db");
    Connection::open(&file)
        .unwrap()
        .execute_batch("CREATE TABLE theirs (a)")
        .unwrap();
    let before = files(dir.path());
    assert_eq!(OLD.look(&file).unwrap(), Found::Other);
    let text = OLD.open(&file).unwrap_err().to_string();
    assert!(text.contains("another program"), "{text}");
    assert_eq!(files(dir.path()), before);
}

#[test]
fn settings_of_a_connection() {
    let (_dir, file) = with_a_thing(OLD);
    let text = |connection: &Connection, name: &str| -> String {
        connection
            .pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))
            .map(|v| format!("{v:?}"))
            .unwrap()
    };
    let writer = OLD.open(&file).unwrap();
    assert_eq!(text(&writer, "journal_mode"), "Text(\"wal\")");
    assert_eq!(text(&writer, "synchronous"), "Integer(2)");
    assert_eq!(text(&writer, "busy_timeout"), "Integer(5000)");
    let reader = OLD.reader(&file).unwrap();
    assert!(reader.execute("DELETE FROM things", []).is_err());
}

#[test]
fn many_may_open_it_at_once() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("x.db");
    let threads: Vec<_> = (0..8)
        .map(|n| {
            let file = file.clone();
            std::thread::spawn(move || {
                let connection = NEW.open(&file).unwrap();
                connection
                    .execute("INSERT INTO things (name) VALUES (?1)", [n])
                    .unwrap();
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(names(&NEW.open(&file).unwrap()).len(), 8);
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[cfg(unix)]
#[test]
fn d_1_files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().unwrap();
    let state = dir.path().join("a/state");
    let store = StateStore::open(&state, "main").unwrap();
    assert_eq!([mode(&state), mode(&dir.path().join("a"))], [0o700; 2]);
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        assert_eq!(mode(&state.join(name)), 0o600, "{name}");
    }
    drop(store);
    // A copy that somebody put there with open rights; an empty directory that becomes ours.
    fs::set_permissions(state.join("state.db"), fs::Permissions::from_mode(0o644)).unwrap();
    drop(StateStore::open(&state, "main").unwrap());
    assert_eq!(mode(&state.join("state.db")), 0o600);
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o755)).unwrap();
    drop(StateStore::open(&empty, "main").unwrap());
    assert_eq!(mode(&empty), 0o700);
}

#[test]
fn d_4_what_is_not_ours_is_refused_and_left_alone() {
    let check = |made: &[&str], expect: Result<(), &str>| {
        let dir = TempDir::new().unwrap();
        for name in made {
            match name.strip_suffix('/') {
                Some(name) => fs::create_dir(dir.path().join(name)).unwrap(),
                None => fs::write(dir.path().join(name), "something").unwrap(),
            }
        }
        let before = files(dir.path());
        match (StateStore::open(dir.path(), "main"), expect) {
            (Ok(_), Ok(())) => assert!(StateStore::exists(dir.path())),
            (Err(error @ StoreError::Foreign { .. }), Err(found)) => {
                let text = error.to_string();
                assert!(text.contains(found), "{text}");
                assert_eq!(files(dir.path()), before);
            }
            (outcome, _) => panic!("{made:?}: {:?}", outcome.err()),
        }
    };
    check(&[], Ok(()));
    check(
        &[
            "host.lock",
            "host.sock",
            "host.log",
            "host.log.1",
            "serve.token",
        ],
        Ok(()),
    );
    check(&["openclaw.json"], Err("(openclaw.json)"));
    check(
        &["agents/", "openclaw.json", "host.lock"],
        Err("(agents and 1 more)"),
    );
    check(&["hostile"], Err("(hostile)"));
    check(&["state.db.backup-v1"], Err("(state.db.backup-v1)"));
}

#[test]
fn d_5_a_state_that_lost_its_content_is_damaged_not_new() {
    let dir = TempDir::new().unwrap();
    drop(StateStore::open(dir.path(), "main").unwrap());
    fs::create_dir(dir.path().join("agents")).unwrap();
    fs::write(dir.path().join("state.db"), "").unwrap();
    let error = StateStore::open(dir.path(), "main").err().unwrap();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert_eq!(fs::read(dir.path().join("state.db")).unwrap(), b"");
    // Cut short while it was made for the first time: nothing can be lost.
    fs::remove_dir(dir.path().join("agents")).unwrap();
    StateStore::open(dir.path(), "main").unwrap();
}

#[test]
fn a_state_of_another_program_is_foreign() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("state.db");
    Connection::open(&file)
        .unwrap()
        .execute_batch("CREATE TABLE theirs (a)")
        .unwrap();
    let error = StateStore::open(dir.path(), "main").err().unwrap();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Whatever bytes stand there, opening does not panic, and a refusal leaves them.
    #[test]
    fn any_bytes_are_refused_or_opened(bytes in prop::collection::vec(any::<u8>(), 1..2000), header in any::<bool>()) {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("x.db");
        let mut bytes = bytes;
        if header {
            bytes.splice(0..0, *b"SQLite format 3\0");
        }
        fs::write(&file, &bytes).unwrap();
        if OLD.open(&file).is_err() {
            prop_assert_eq!(fs::read(&file).unwrap(), bytes);
        }
    }
}
