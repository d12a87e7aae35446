//! The lock, the endpoint, and how long an owner stays.

use super::fake::Fake;
use crosstalk::backend::Backend;
use crosstalk::client::Connection;
use crosstalk::error::Exit;
use crosstalk::host::{HostError, Lock, Open, Owner, Purpose, Record, open_with, record, status};
use crosstalk::protocol::methods::{Reply, Request};
use crosstalk::server::Attached;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub fn owner(dir: &Path, fake: &Fake) -> Owner {
    let lock = Lock::take(dir).unwrap().expect("the lock is free");
    Owner::serve(lock, fake.resident(), record(None, false)).unwrap()
}

pub async fn connect(dir: &Path) -> Connection {
    let endpoint = Record::read(dir).unwrap().endpoint.unwrap();
    Connection::connect(&endpoint).await.unwrap()
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what)
        .await
        .expect("it takes too long")
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path)
        .unwrap()
        .permissions()
        .mode()
        & 0o777
}

fn asking(dir: &Path, purpose: Purpose) -> Open {
    Open {
        dir: dir.into(),
        config: None,
        demo: false,
        purpose,
    }
}

#[test]
fn d_2_exactly_one_of_many_gets_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..20 {
        let start = std::sync::Barrier::new(16);
        let locks: Vec<_> = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..16)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        Lock::take(dir.path()).unwrap()
                    })
                })
                .collect();
            takers
                .into_iter()
                .map(|taker| taker.join().unwrap())
                .collect()
        });
        assert_eq!(locks.iter().flatten().count(), 1);
    }
}

#[test]
fn d_2_the_lock_ends_with_its_holder_and_no_record_outlives_it() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!Lock::is_held(dir.path()).unwrap());
    assert!(
        !dir.path().join("host.lock").exists(),
        "looking makes nothing"
    );
    let lock = Lock::take(dir.path()).unwrap().unwrap();
    lock.publish(&record(None, false)).unwrap();
    assert!(Lock::is_held(dir.path()).unwrap());
    assert!(Lock::is_held(dir.path()).unwrap(), "looking takes nothing");
    drop(lock);
    // As after a kill: the record is still there, the lock is free.
    assert!(Record::read(dir.path()).is_some());
    assert!(!Lock::is_held(dir.path()).unwrap());
    assert!(Lock::take(dir.path()).unwrap().is_some());
}

#[tokio::test]
async fn only_the_owner_s_user_may_read_what_is_made() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("a/b/state");
    let owner = owner(&dir, &Fake::new());
    for made in [&dir, dir.parent().unwrap()] {
        assert_eq!(mode(made), 0o700, "{}", made.display());
    }
    for made in ["host.lock", "host.json", "host.sock"] {
        assert_eq!(mode(&dir.join(made)), 0o600, "{made}");
    }
    owner.close().await;
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_is_no_obstacle() {
    let base = tempfile::tempdir().unwrap();
    let dir: PathBuf = base.path().join("long/".repeat(40));
    let fake = Fake::new();
    let owner = owner(&dir, &fake);
    let endpoint = Record::read(&dir).unwrap().endpoint.unwrap();
    assert!(!endpoint.starts_with(base.path()));
    assert_eq!(mode(endpoint.parent().unwrap()), 0o700);
    let reply = connect(&dir).await.call(&Request::Info {}.into()).await;
    assert!(matches!(reply, Ok(Reply::Info(_))));
    owner.close().await;
    assert!(
        !endpoint.parent().unwrap().exists(),
        "nothing is left behind"
    );
}

#[tokio::test]
async fn what_a_killed_owner_left_is_removed_by_the_next_one_only() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("host.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let stale = Record {
        endpoint: Some(socket.clone()),
        ..record(None, false)
    };
    std::fs::write(
        dir.path().join("host.json"),
        serde_json::to_string(&stale).unwrap(),
    )
    .unwrap();
    assert_eq!(status(dir.path()).await, None);
    assert!(socket.exists(), "looking removes nothing");
    let owner = owner(dir.path(), &Fake::new());
    assert!(std::fs::metadata(&socket).unwrap().file_type().is_socket());
    assert!(
        connect(dir.path())
            .await
            .call(&Request::Info {}.into())
            .await
            .is_ok()
    );
    owner.close().await;
}

#[tokio::test]
async fn a_file_in_the_place_of_the_socket_is_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("host.sock"), "mine").unwrap();
    let lock = Lock::take(dir.path()).unwrap().unwrap();
    let error = Owner::serve(lock, Fake::new().resident(), record(None, false));
    assert!(matches!(error, Err(HostError::Io { .. })));
    assert_eq!(
        std::fs::read(dir.path().join("host.sock")).unwrap(),
        b"mine"
    );
}

#[tokio::test]
async fn status_tells_who_holds_the_lock_and_whether_it_answers() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(status(dir.path()).await, None);
    assert_eq!(status(&dir.path().join("none")).await, None);
    let lock = Lock::take(dir.path()).unwrap().unwrap();
    lock.publish(&record(None, false)).unwrap();
    assert!(!status(dir.path()).await.unwrap().answers);
    drop(lock);
    let owner = owner(dir.path(), &Fake::new());
    let info = status(dir.path()).await.unwrap();
    assert!(info.answers);
    assert_eq!(info.record.unwrap().pid, std::process::id());
    owner.close().await;
    assert_eq!(status(dir.path()).await, None);
}

#[tokio::test]
async fn processes_are_counted_not_connections() {
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::new();
    let owner = owner(dir.path(), &fake);
    let (one, _two) = (connect(dir.path()).await, connect(dir.path()).await);
    let Ok(Reply::Info(info)) = one.call(&Request::Info {}.into()).await else {
        panic!("info is expected");
    };
    assert_eq!(info.attached, 1);
    let Ok(Reply::Info(info)) = owner.call(Request::Info {}.into()).await else {
        panic!("info is expected");
    };
    assert_eq!(info.attached, 2, "the owner's own process works here too");
    owner.close().await;
}

#[test]
fn a_door_that_is_closed_lets_nobody_in() {
    let attached = Arc::new(Attached::default());
    let entry = attached.enter(Some(1)).unwrap();
    assert!(!attached.close_if_empty());
    let other = attached.enter(None).unwrap();
    assert_eq!(attached.count(), 2);
    drop((entry, other));
    assert!(attached.close_if_empty());
    assert!(attached.enter(Some(1)).is_none());
}

#[tokio::test]
async fn an_owner_stays_until_everything_is_settled_and_everybody_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::new();
    fake.settled.store(false, Ordering::SeqCst);
    let owner = owner(dir.path(), &fake);
    let connection = connect(dir.path()).await;
    let mut idle = Box::pin(owner.until_idle());
    let call = Request::Info {}.into();
    tokio::select! {
        () = &mut idle => panic!("somebody is attached"),
        reply = connection.call(&call) => assert!(reply.is_ok()),
    }
    assert_eq!(fake.settled_asked.load(Ordering::SeqCst), 0);
    drop(connection);
    soon(idle).await;
    let looks = fake.settled_asked.load(Ordering::SeqCst);
    assert_eq!(looks, 2, "the first look found something to do");
    let late = Connection::connect(&Record::read(dir.path()).unwrap().endpoint.unwrap()).await;
    assert!(late.is_err(), "nobody is greeted and then thrown out");
    owner.close().await;
    assert_eq!(fake.shut_down.load(Ordering::SeqCst), 1);
    assert!(!Lock::is_held(dir.path()).unwrap());
    for gone in ["host.json", "host.sock"] {
        assert!(!dir.path().join(gone).exists(), "{gone}");
    }
}

#[tokio::test]
async fn a_foreign_directory_is_refused_and_nothing_is_made_in_it() {
    let spring = tempfile::tempdir().unwrap();
    std::fs::create_dir(spring.path().join("agents")).unwrap();
    let other = tempfile::tempdir().unwrap();
    rusqlite::Connection::open(other.path().join("state.db"))
        .and_then(|db| db.execute_batch("CREATE TABLE theirs (x)"))
        .unwrap();
    for dir in [spring.path(), other.path()] {
        for purpose in [Purpose::Read, Purpose::Work, Purpose::Own] {
            let error = open_with(asking(dir, purpose), Path::new("/bin/false"))
                .await
                .err()
                .unwrap();
            assert_eq!(error.exit(), Exit::NoOwner);
            assert!(error.to_string().contains("--openclaw"), "{error}");
        }
        let left: Vec<_> = std::fs::read_dir(dir).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

#[tokio::test]
async fn an_owner_that_cannot_be_started_is_an_error_and_not_a_wait() {
    let dir = tempfile::tempdir().unwrap();
    let missing = Path::new("/nonexistent/crosstalk");
    let open = || asking(&dir.path().join("state"), Purpose::Work);
    let error = open_with(open(), missing).await.err().unwrap();
    assert!(matches!(error, HostError::Io { .. }), "{error}");
    let error = soon(open_with(open(), Path::new("/bin/false")))
        .await
        .err()
        .unwrap();
    assert_eq!(error.exit(), Exit::Io, "{error}");
}

#[tokio::test]
async fn another_configuration_than_the_owner_s_is_refused_naming_both() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("own.json5");
    let other = dir.path().join("other.json5");
    for file in [&own, &other] {
        std::fs::write(file, "{}").unwrap();
    }
    let state = dir.path().join("state");
    let lock = Lock::take(&state).unwrap().unwrap();
    let record = record(Some(std::fs::canonicalize(&own).unwrap()), false);
    let owner = Owner::serve(lock, Fake::new().resident(), record).unwrap();
    let named = |config: Option<&PathBuf>, purpose| Open {
        config: config.cloned(),
        ..asking(&state, purpose)
    };
    for purpose in [Purpose::Read, Purpose::Work, Purpose::Own] {
        let error = open_with(named(Some(&other), purpose), Path::new("/bin/false"))
            .await
            .err()
            .unwrap();
        assert_eq!(error.exit(), Exit::Usage, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("own.json5") && text.contains("other.json5"),
            "{text}"
        );
        for good in [None, Some(&own)] {
            let backend = open_with(named(good, purpose), Path::new("/bin/false"))
                .await
                .unwrap();
            assert!(backend.call(Request::Info {}.into()).await.is_ok());
        }
    }
    owner.close().await;
}
