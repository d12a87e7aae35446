//! The program in a home of its own.

use crosstalk::host::{Lock, Record};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Nothing takes longer; only what is broken gets here.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Two agents that do as they are told.
pub const DIRECTIVES: &str = r#"{
  agents: { list: [
    { id: "ops", default: true, runtime: { type: "scripted", script: "directives" } },
    { id: "research", runtime: { type: "scripted", script: "directives" } },
  ] },
  tools: { sessions: { visibility: "all" }, agentToAgent: { enabled: true } },
}"#;

/// What a command left behind.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// It ended with this code.
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

/// A home directory; the owners of its state are gone when it goes.
pub struct World {
    home: TempDir,
}

impl World {
    /// An empty home.
    pub fn empty() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("tmp")).unwrap();
        Self { home }
    }

    /// A home with a configuration at its usual place.
    pub fn with(config: &str) -> Self {
        let world = Self::empty();
        world.write(".config/crosstalk/config.json5", config);
        world
    }

    /// A path in the home.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Writes a file in the home; gives its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The default state directory.
    pub fn state(&self) -> PathBuf {
        self.path(".local/state/crosstalk/state")
    }

    /// The program, with nothing but this home around it.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crosstalk"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.home.path())
            .env("TMPDIR", self.path("tmp"))
            .env("TZ", "UTC")
            .env("LANG", "C.UTF-8")
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        finish(self.command(args))
    }

    /// As [`World::run`], with something on standard input.
    pub fn run_with_input(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        wait(child)
    }

    /// Follows `watch`.
    pub fn watch(&self, args: &[&str]) -> Watching {
        let mut command = self.command(&[&["watch"], args].concat());
        command.stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (line, lines) = channel();
        std::thread::spawn(move || {
            for read in out.lines().map_while(Result::ok) {
                if line.send(read).is_err() {
                    break;
                }
            }
        });
        Watching { child, lines }
    }

    /// Waits until nobody owns the state any more.
    #[track_caller]
    pub fn settle(&self) {
        let begun = Instant::now();
        while Lock::is_held(&self.state()).unwrap_or(false) {
            assert!(begun.elapsed() < LIMIT, "the owner does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // An owner that a failed test left is in nobody's way.
        for dir in [self.state(), self.path("state")] {
            if Lock::is_held(&dir).unwrap_or(false)
                && let Some(record) = Record::read(&dir)
                && let Some(pid) = rustix::process::Pid::from_raw(record.pid.cast_signed())
            {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
    }
}

/// A `watch` that is read line by line.
pub struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    /// The next event of a type.
    #[track_caller]
    pub fn next(&self, kind: &str) -> Value {
        let begun = Instant::now();
        loop {
            let left = LIMIT.saturating_sub(begun.elapsed());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no event {kind} came");
            };
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["type"] == kind {
                return event;
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end.
pub fn finish(mut command: Command) -> Ran {
    wait(command.spawn().unwrap())
}

fn wait(mut child: Child) -> Ran {
    let out = child.stdout.take().map(collect);
    let err = child.stderr.take().map(collect);
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > LIMIT {
            let _ = child.kill();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |from: Option<std::thread::JoinHandle<String>>| {
        from.map(|thread| thread.join().unwrap())
            .unwrap_or_default()
    };
    Ran {
        code: status.code(),
        out: text(out),
        err: text(err),
    }
}

fn collect(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    })
}

/// Everything below a directory: path, length and modification time.
pub fn listing(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            found.push(format!(
                "{:?} {} {:?}",
                entry.path(),
                meta.len(),
                meta.modified().unwrap()
            ));
            if meta.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    found.sort();
    found
}
