//! Owners as processes of their own, with the real engine.

use crosstalk::backend::SharedBackend;
use crosstalk::error::Exit;
use crosstalk::host::{HostError, Lock, Open, Purpose, Record, open_with, status};
use crosstalk::model::event::{ConnectionState, What};
use crosstalk::model::run::Outcome;
use crosstalk::protocol::methods::{
    Code, HistoryRequest, HistorySpan, Info, Lines, ListRequest, Reply, Request, Rows, Waited,
};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

const PROGRAM: &str = env!("CARGO_BIN_EXE_crosstalk");

/// A place for a state and a configuration; whoever still owns the state at the end is ended.
struct Place(tempfile::TempDir);

impl Drop for Place {
    fn drop(&mut self) {
        if Lock::is_held(&self.state()).unwrap_or(false)
            && let Some(record) = Record::read(&self.state())
            && record.pid != std::process::id()
        {
            let pid = Pid::from_raw(record.pid.cast_signed()).unwrap();
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.config("config.json5");
        place
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    /// A configuration with one agent that plays the directives script.
    fn config(&self, name: &str) -> PathBuf {
        let file = self.0.path().join(name);
        let text = r#"{ agents: { list: [
            { id: "main", runtime: { type: "scripted", script: "directives" } },
        ] } }"#;
        std::fs::write(&file, text).unwrap();
        std::fs::canonicalize(file).unwrap()
    }

    fn asking(&self, purpose: Purpose) -> Open {
        Open {
            dir: self.state(),
            config: Some(self.config("config.json5")),
            demo: false,
            purpose,
        }
    }

    async fn open(&self, purpose: Purpose) -> Result<SharedBackend, HostError> {
        soon(open_with(self.asking(purpose), Path::new(PROGRAM))).await
    }

    fn host(&self) -> Child {
        Command::new(PROGRAM)
            .arg("host")
            .arg("--state")
            .arg(self.state())
            .arg("--config")
            .arg(self.config("config.json5"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn kill(&self, signal: Signal) -> u32 {
        let pid = Record::read(&self.state()).unwrap().pid;
        assert_ne!(pid, std::process::id());
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
        pid
    }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what)
        .await
        .expect("it takes too long")
}

/// Looks again until it is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn info(backend: &SharedBackend) -> Info {
    match soon(backend.call(Request::Info {}.into())).await {
        Ok(Reply::Info(info)) => *info,
        other => panic!("{other:?}"),
    }
}

async fn rows(backend: &SharedBackend) -> Rows {
    let all = Request::List(ListRequest::default());
    match soon(backend.call(all.into())).await {
        Ok(Reply::Rows(rows)) => rows,
        other => panic!("{other:?}"),
    }
}

async fn send(backend: &SharedBackend, key: &str, message: &str, run_id: &str) {
    let send = Request::Send {
        key: key.into(),
        message: message.into(),
        run_id: run_id.into(),
    };
    match soon(backend.call(send.into())).await {
        Ok(Reply::Accepted(_)) => {}
        other => panic!("{other:?}"),
    }
}

async fn wait(backend: &SharedBackend, run_id: &str) -> Waited {
    let wait = Request::Wait {
        run_id: run_id.into(),
        timeout_ms: 50_000,
    };
    match soon(backend.call(wait.into())).await {
        Ok(Reply::Waited(waited)) => waited,
        other => panic!("{other:?}"),
    }
}

async fn lines(backend: &SharedBackend, key: &str) -> Lines {
    let history = Request::History(HistoryRequest {
        key: key.into(),
        span: HistorySpan::Whole,
        limit: None,
    });
    match soon(backend.call(history.into())).await {
        Ok(Reply::Lines(lines)) => lines,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn d_2_of_many_hosts_one_owns_the_directory_and_the_others_end_quietly() {
    let place = Place::new();
    let hosts: Vec<_> = (0..8).map(|_| place.host()).collect();
    let backend = place.open(Purpose::Work).await.unwrap();
    let owner = info(&backend).await.pid.unwrap();
    let (winner, others): (Vec<_>, Vec<_>) =
        hosts.into_iter().partition(|host| host.id() == Some(owner));
    assert_eq!(winner.len(), 1, "nobody started another one");
    let ended_quietly = async |host: Child| {
        let output = soon(host.wait_with_output()).await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.is_empty(),
            "{}: {said}",
            output.status
        );
    };
    for host in others {
        ended_quietly(host).await;
    }
    // With nobody attached and nothing to do, it ends by itself.
    drop(backend);
    for host in winner {
        ended_quietly(host).await;
    }
    assert_eq!(status(&place.state()).await, None);
    assert!(!place.state().join("host.json").exists());
}

#[tokio::test]
async fn d_2_whoever_comes_at_once_works_through_one_owner() {
    let place = Place::new();
    let program = Path::new(PROGRAM);
    let openings = (0..12).map(|_| open_with(place.asking(Purpose::Work), program));
    let backends = soon(futures_util::future::join_all(openings)).await;
    let mut owners = Vec::new();
    for backend in backends {
        owners.push(info(&backend.unwrap()).await.pid);
    }
    owners.dedup();
    assert_eq!(owners.len(), 1, "{owners:?}");
}

#[tokio::test]
async fn ac_135_two_work_on_one_directory_and_nothing_is_lost() {
    let place = Place::new();
    let own = place.open(Purpose::Own).await.unwrap();
    let attached = place.open(Purpose::Work).await.unwrap();
    assert_eq!(info(&attached).await.pid, Some(std::process::id()));
    let adding = |backend: SharedBackend, name: &'static str| async move {
        for n in 0..100 {
            let key = format!("agent:main:{name}-{n}");
            send(&backend, &key, "hello", &format!("{name}-{n}")).await;
        }
    };
    tokio::join!(
        adding(own.clone(), "own"),
        adding(attached.clone(), "attached")
    );
    for backend in [&own, &attached] {
        assert_eq!(rows(backend).await.total, 200);
    }
}

#[tokio::test]
async fn am_4_work_goes_on_at_the_next_owner_when_one_is_killed() {
    let place = Place::new();
    let backend = place.open(Purpose::Work).await.unwrap();
    let mut events = backend.events(None);
    send(&backend, "agent:main:a", "one", "r1").await;
    assert_eq!(wait(&backend, "r1").await.outcome, Some(Outcome::Ok));
    send(&backend, "agent:main:a", "[[slow:600]] two", "r2").await;
    send(&backend, "agent:main:a", "three", "r3").await;
    loop {
        let event = soon(events.recv()).await.unwrap();
        if event.run_id.as_deref() == Some("r2") && matches!(event.what, What::RunStarted { .. }) {
            break;
        }
    }
    let killed = place.kill(Signal::KILL);
    // What had begun is closed as interrupted; what had not begins now; neither twice.
    assert_eq!(
        wait(&backend, "r2").await.outcome,
        Some(Outcome::Interrupted)
    );
    assert_eq!(wait(&backend, "r3").await.outcome, Some(Outcome::Ok));
    assert_ne!(info(&backend).await.pid, Some(killed));
    let mut said = Vec::new();
    while said.last() != Some(&"resync") {
        match soon(events.recv()).await.unwrap().what {
            What::Connection {
                state: ConnectionState::Connected,
                ..
            } => said.push("connected"),
            What::Resync {} => said.push("resync"),
            _ => {}
        }
    }
    assert_eq!(said, ["connected", "resync"]);
    // The same key again: the first answer, and nothing begins (E-5).
    send(&backend, "agent:main:a", "three", "r3").await;
    let lines = lines(&backend, "agent:main:a").await;
    let text = serde_json::to_string(&lines).unwrap();
    for once in ["echo: one", "echo: three"] {
        assert_eq!(text.matches(once).count(), 1, "{once} in {text}");
    }
}

#[tokio::test]
async fn a_run_that_has_begun_outlives_whoever_asked_for_it() {
    let place = Place::new();
    let backend = place.open(Purpose::Work).await.unwrap();
    let owner = info(&backend).await.pid;
    send(&backend, "agent:main:a", "[[slow:4]] later", "r1").await;
    drop(backend);
    // More than the time after which an owner with nothing to do is gone.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let backend = place.open(Purpose::Work).await.unwrap();
    assert_eq!(info(&backend).await.pid, owner);
    assert_eq!(wait(&backend, "r1").await.outcome, Some(Outcome::Ok));
}

#[tokio::test]
async fn the_next_owner_runs_on_the_configuration_of_the_last_one() {
    let place = Place::new();
    let _first = place.open(Purpose::Work).await.unwrap();
    let config = place.config("config.json5");
    let unnamed = || Open {
        config: None,
        ..place.asking(Purpose::Work)
    };
    let attached = open_with(unnamed(), Path::new(PROGRAM)).await.unwrap();
    place.kill(Signal::KILL);
    let named = info(&attached).await.config.unwrap();
    assert_eq!(Path::new(named.raw()), config);
    let other = Open {
        config: Some(place.config("other.json5")),
        ..unnamed()
    };
    let error = open_with(other, Path::new(PROGRAM)).await.err().unwrap();
    assert!(matches!(error, HostError::OtherConfig { .. }), "{error}");
}

#[tokio::test]
async fn an_owner_that_does_not_answer_is_named() {
    let place = Place::new();
    let backend = place.open(Purpose::Work).await.unwrap();
    let pid = place.kill(Signal::STOP);
    for purpose in [Purpose::Work, Purpose::Read, Purpose::Own] {
        let error = place.open(purpose).await.err().unwrap();
        assert_eq!(error.exit(), Exit::NoOwner);
        assert!(error.to_string().contains(&pid.to_string()), "{error}");
    }
    let found = status(&place.state()).await.unwrap();
    assert!(!found.answers);
    assert_eq!(found.record.unwrap().pid, pid);
    place.kill(Signal::CONT);
    assert_eq!(info(&backend).await.pid, Some(pid));
}

#[tokio::test]
async fn an_owner_that_is_told_to_end_ends_in_order() {
    let place = Place::new();
    let mut host = place.host();
    until("the host answers", || {
        Record::read(&place.state()).is_some_and(|record| record.endpoint.is_some())
    })
    .await;
    place.kill(Signal::TERM);
    assert!(soon(host.wait()).await.unwrap().success());
    assert!(!place.state().join("host.json").exists());
    assert!(!place.state().join("host.sock").exists());
    assert!(!Lock::is_held(&place.state()).unwrap());
}

#[tokio::test]
async fn reading_makes_no_directory_and_starts_nobody() {
    let place = Place::new();
    let backend = place.open(Purpose::Read).await.unwrap();
    assert_eq!(rows(&backend).await.total, 0);
    assert_eq!(
        info(&backend).await.place.raw(),
        place.state().to_string_lossy()
    );
    let agents = Request::Tool {
        name: "agents_list".into(),
        arguments: serde_json::json!({}),
        call_id: None,
    };
    assert!(matches!(
        soon(backend.call(agents.into())).await,
        Ok(Reply::Tool { .. })
    ));
    let patch = Request::Patch {
        key: "main".into(),
        fields: serde_json::Map::new(),
    };
    let failure = soon(backend.call(patch.into())).await.unwrap_err();
    assert_eq!(failure.code, Code::Refused);
    assert!(!place.state().exists());
}

#[tokio::test]
async fn reading_without_an_owner_shows_what_is_there_and_gives_way() {
    let place = Place::new();
    let own = place.open(Purpose::Own).await.unwrap();
    send(&own, "agent:main:a", "hello", "r1").await;
    assert_eq!(wait(&own, "r1").await.outcome, Some(Outcome::Ok));
    drop(own);
    until("the lock is free", || {
        !Lock::is_held(&place.state()).unwrap()
    })
    .await;
    let reading = place.open(Purpose::Read).await.unwrap();
    assert_eq!(info(&reading).await.pid, Some(std::process::id()));
    assert_eq!(rows(&reading).await.total, 1);
    assert!(!lines(&reading, "agent:main:a").await.lines.is_empty());
    // A second reader and a worker wait for the first reader, and get their turn.
    let second = place.open(Purpose::Read);
    let worker = place.open(Purpose::Work);
    let first = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(reading);
    };
    let (second, worker, ()) = tokio::join!(
        async { rows(&second.await.unwrap()).await.total },
        async { rows(&worker.await.unwrap()).await.total },
        first
    );
    assert_eq!((second, worker), (1, 1));
}

#[tokio::test]
async fn ac_124_a_newer_state_is_left_as_it_is_with_a_clear_error() {
    let place = Place::new();
    drop(place.open(Purpose::Own).await.unwrap());
    until("the lock is free", || {
        !Lock::is_held(&place.state()).unwrap()
    })
    .await;
    let file = place.state().join("state.db");
    let database = rusqlite::Connection::open(&file).unwrap();
    database.pragma_update(None, "user_version", 999).unwrap();
    drop(database);
    for purpose in [Purpose::Work, Purpose::Own, Purpose::Read] {
        let error = place.open(purpose).await.err().unwrap();
        assert_eq!(error.exit(), Exit::NoOwner, "{error}");
        assert!(error.to_string().contains("newer"), "{error}");
    }
}
