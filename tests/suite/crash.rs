//! Processes that are killed: what was accepted is done or reported, and nothing twice (AM-4).
//!
//! Through the program itself, with the `directives` agents. `CROSSTALK_CRASHES` raises the number of rounds.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = r#"{
            agents: { list: [
                { id: "main", runtime: { type: "scripted", script: "directives" } },
                { id: "ops", runtime: { type: "scripted", script: "directives" } },
            ] },
            tools: { sessions: { visibility: "all" }, agentToAgent: { enabled: true } },
        }"#;
        std::fs::write(dir.path().join("config.json5"), config).unwrap();
        Self { dir }
    }
    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crosstalk"));
        command
            .env_clear()
            .env("HOME", self.dir.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .arg("--state")
            .arg(self.state())
            .arg("--config")
            .arg(self.dir.path().join("config.json5"))
            .args(arguments)
            .stdin(Stdio::null());
        command
    }
    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!(
                "{arguments:?}: {error}; {}",
                String::from_utf8_lossy(&output.stderr)
            )
        })
    }
    fn send(&self, key: &str, message: &str) -> String {
        let arguments =
            serde_json::json!({ "sessionKey": key, "message": message, "timeoutSeconds": 0 });
        let result = self.json(&["call", "sessions_send", &arguments.to_string()]);
        assert_eq!(result["status"], "accepted", "{result}");
        result["runId"].as_str().unwrap().to_owned()
    }
    fn pid(&self) -> Option<i32> {
        let text = std::fs::read_to_string(self.state().join("host.json")).ok()?;
        let host: Value = serde_json::from_str(&text).ok()?;
        i32::try_from(host["pid"].as_i64()?).ok()
    }
    /// As the kernel does it to a process out of luck.
    fn kill(&self) {
        if let Some(pid) = self.pid().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            wait_until("the killed host to be gone", || {
                rustix::process::test_kill_process(pid).is_err()
            });
        }
    }
    /// Starts the next owner and waits until it has ended itself: everything is settled then.
    fn settle(&self) {
        let mut host = self
            .command(&["host"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the host to end itself", || {
            host.try_wait().unwrap().is_some()
        });
    }
    /// Role, text and error of each message of a session.
    fn said(&self, key: &str) -> Vec<(String, String, String)> {
        let history = self.json(&["history", key, "--json", "--tools"]);
        history["messages"]
            .as_array()
            .unwrap_or_else(|| panic!("{history}"))
            .iter()
            .map(|message| {
                let text = match &message["content"] {
                    Value::String(text) => text.clone(),
                    Value::Array(blocks) => blocks
                        .iter()
                        .filter_map(|block| block["text"].as_str())
                        .collect(),
                    _ => String::new(),
                };
                let error = message["errorMessage"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                (
                    message["role"].as_str().unwrap_or_default().to_owned(),
                    text,
                    error,
                )
            })
            .collect()
    }
    fn transcripts(&self) -> Vec<PathBuf> {
        fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    walk(&path, found);
                } else if path
                    .extension()
                    .is_some_and(|extension| extension == "jsonl")
                {
                    found.push(path);
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.state(), &mut found);
        found
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.kill();
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "waited too long for {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn rounds(default: u64) -> u64 {
    std::env::var("CROSSTALK_CRASHES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

#[test]
fn am_4_accepted_and_not_begun_runs_once_after_a_kill_and_begun_is_reported() {
    for _ in 0..rounds(3) {
        let home = Home::new();
        home.send("agent:ops:main", "[[slow:600]] [[reply:never]]");
        home.send("agent:ops:main", "[[reply:kept]]");
        wait_until("the first run to begin", || {
            !home.said("agent:ops:main").is_empty()
        });
        home.kill();
        home.settle();
        let said = home.said("agent:ops:main");
        let count = |needle: &str| said.iter().filter(|(_, text, _)| text == needle).count();
        assert_eq!(count("[[slow:600]] [[reply:never]]"), 1, "{said:?}");
        assert_eq!(
            count("never"),
            0,
            "an interrupted run is not repeated: {said:?}"
        );
        assert_eq!(
            said.iter()
                .filter(|(_, _, error)| error.contains("restarted"))
                .count(),
            1,
            "{said:?}"
        );
        assert_eq!(count("[[reply:kept]]"), 1, "{said:?}");
        assert_eq!(count("kept"), 1, "{said:?}");
    }
}

#[test]
fn am_4_every_acknowledged_send_is_done_or_reported_whenever_the_owner_is_killed() {
    let home = Home::new();
    let mut sent = Vec::new();
    // A fixed walk over the delays: no two rounds are alike, and a failure can be had again.
    for round in 0..rounds(12) {
        for part in 0..3 {
            let name = format!("r{round}p{part}");
            home.send("agent:ops:main", &format!("[[slow:0.02]] [[reply:{name}]]"));
            sent.push(name);
        }
        std::thread::sleep(Duration::from_millis(round * 37 % 90));
        home.kill();
    }
    home.settle();
    let said = home.said("agent:ops:main");
    for name in &sent {
        let asked = said.iter().filter(|(role, text, _)| {
            role == "user" && text.ends_with(&format!("[[reply:{name}]]"))
        });
        assert_eq!(
            asked.count(),
            1,
            "{name} stands in the transcript once: {said:?}"
        );
    }
    let errors = said
        .iter()
        .filter(|(_, _, error)| error.contains("restarted"))
        .count();
    let answered = sent
        .iter()
        .filter(|name| {
            said.iter()
                .any(|(_, text, error)| text == *name && error.is_empty())
        })
        .count();
    assert_eq!(answered + errors, sent.len(), "{said:?}");
    for name in &sent {
        let answers = said
            .iter()
            .filter(|(role, text, _)| role == "assistant" && text == name)
            .count();
        assert!(answers <= 1, "{name} was answered {answers} times");
    }
    // No torn line in the middle of a transcript.
    for path in home.transcripts() {
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            assert!(
                serde_json::from_str::<Value>(line).is_ok(),
                "{}: {line}",
                path.display()
            );
        }
    }
}

#[test]
fn a_fire_and_forget_send_leaves_nothing_behind_but_its_result() {
    let home = Home::new();
    home.send("agent:ops:main", "[[slow:0.3]] [[reply:later]]");
    wait_until("the background host to end itself", || {
        home.pid()
            .and_then(rustix::process::Pid::from_raw)
            .is_none_or(|pid| rustix::process::test_kill_process(pid).is_err())
    });
    assert_eq!(home.said("agent:ops:main").last().unwrap().1, "later");
}
