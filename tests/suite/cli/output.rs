//! What comes out: both forms, cleaned, complete.

use super::world::{DIRECTIVES, World};
use crosstalk::cli::log::LogFile;
use crosstalk::cli::output::Printer;
use crosstalk::text::clean_str;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::MakeWriter;

#[test]
fn help_names_what_works_and_nothing_else() {
    let world = World::empty();
    let help = world.run(&["--help"]).ends(0).out;
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let expect = "demo list history send spawn agents call patch abort reset archive restore delete incoming watch \
                  screen doctor host";
    assert_eq!(commands.join(" "), expect);
    for command in &commands {
        world.run(&[command, "--help"]).ends(0);
    }
    assert!(!help.contains("--gateway"));
    assert!(
        world
            .run(&["--version"])
            .ends(0)
            .out
            .starts_with("crosstalk 0.")
    );
}

#[test]
fn reading_makes_nothing() {
    let world = World::empty();
    let ran = world.run(&["list"]).ends(0);
    assert_eq!(ran.out, "");
    assert_eq!(world.run(&["list", "--json"]).ends(0).json()["count"], 0);
    world.run(&["agents"]).ends(0);
    world.run(&["doctor"]).ends(0);
    world.run(&["history", "main"]).ends(0);
    world.run(&["call", "sessions_list"]).ends(0);
    assert!(!world.path(".local").exists());
    assert_eq!(std::fs::read_dir(world.path("tmp")).unwrap().count(), 0);
}

#[test]
fn text_from_agents_is_cleaned_and_secrets_are_masked() {
    let world = World::with(DIRECTIVES);
    let secret = "sk-abcdefghijklmnopqrstuvwxyz0123456789";
    let message = format!(r#"[[raw:"a\u001b]0;title\u0007\u202eb {secret}"]]"#);
    let ran = world.run(&["send", "main", &message]).ends(0);
    let drawable = |text: &str| {
        text.chars().all(|c| c == '\n' || !c.is_control()) && !text.contains('\u{202e}')
    };
    assert!(drawable(&ran.out), "{ran:?}");
    let history = world.run(&["history", "main"]).ends(0).out;
    assert!(drawable(&history), "{history:?}");
    assert!(
        !history.contains(secret) && history.contains("sk-abc"),
        "{history}"
    );
    assert!(
        world
            .run(&["history", "main", "--raw"])
            .ends(0)
            .out
            .contains(secret)
    );
    let json = world.run(&["history", "main", "--json"]).ends(0);
    assert!(drawable(&json.out), "{json:?}");
    assert!(!json.out.contains(secret));
    assert_eq!(json.json()["contentRedacted"], true);
    let raw = world
        .run(&["history", "main", "--json", "--raw"])
        .ends(0)
        .json();
    let text = raw["messages"][1]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, format!("a\u{1b}]0;title\u{7}\u{202e}b {secret}"));
    world.settle();
}

#[test]
fn history_shows_calls_and_on_demand_results() {
    let world = World::with(DIRECTIVES);
    world
        .run(&[
            "send",
            "main",
            "[[think:hm]][[tool:sessions_list {\"limit\":1}]][[reply:done]]",
        ])
        .ends(0);
    let plain = world.run(&["history", "main"]).ends(0).out;
    assert!(plain.contains("▸ sessions_list {\"limit\":1}"), "{plain}");
    assert!(plain.contains("▸ reasoning"), "{plain}");
    assert!(!plain.contains("◂"), "{plain}");
    let tools = world.run(&["history", "main", "--tools"]).ends(0).out;
    assert!(tools.contains("◂ sessions_list ok"), "{tools}");
    let ascii = world
        .run(&["history", "main", "--tools", "--ascii"])
        .ends(0)
        .out;
    assert!(
        ascii.contains("> sessions_list {") && ascii.contains("< sessions_list ok"),
        "{ascii}"
    );
    assert!(ascii.is_ascii());
    let newest = world.run(&["history", "main", "--limit", "1"]).ends(0).out;
    assert!(
        newest.contains("done") && !newest.contains("[[think"),
        "{newest}"
    );
    world.settle();
}

#[test]
fn history_is_whole_and_uncut() {
    let world = World::with(DIRECTIVES);
    for number in 0..3 {
        world
            .run(&["send", "main", &format!("[[reply:n{number}]]")])
            .ends(0);
    }
    world.run(&["send", "main", "[[big:20000]]"]).ends(0);
    let json = world.run(&["history", "main", "--json"]).ends(0).json();
    let messages = json["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 8);
    assert!(messages.iter().all(|message| message["id"].is_string()));
    assert_eq!(
        messages[7]["content"][0]["text"]
            .as_str()
            .unwrap()
            .chars()
            .count(),
        20_000
    );
    let capped = world
        .run(&["call", "sessions_history", r#"{"sessionKey":"main"}"#])
        .ends(0)
        .json();
    assert_eq!(capped["contentTruncated"], true);
    world.settle();
}

#[test]
fn an_envelope_is_stripped_unless_it_is_asked_for() {
    let world = World::empty();
    world.write(
        "oc/agents/main/sessions/sessions.json",
        r#"{ "agent:main:main": { "sessionId": "s1", "updatedAt": 1772444460000 } }"#,
    );
    let text = "[Mon 2026-03-02 09:41 UTC] look at this";
    let line = |id: &str, content: &str| {
        format!(
            r#"{{"type":"message","id":"{id}","message":{{"role":"user","content":{content}}}}}"#
        )
    };
    let lines = [
        line("a", &format!(r#""{text}""#)),
        line(
            "b",
            &format!(
                r#"[{{"type":"text","text":"{text}"}},{{"type":"image","mimeType":"image/png","data":"AAAA"}}]"#
            ),
        ),
    ];
    world.write(
        "oc/agents/main/sessions/s1.jsonl",
        &(lines.join("\n") + "\n"),
    );
    let history = |args: &[&str]| {
        world
            .run(&[&["--openclaw", "oc", "history", "main"], args].concat())
            .ends(0)
    };
    for (args, whole) in [
        (&[][..], false),
        (&["--raw"], true),
        (&["--json"], false),
        (&["--json", "--raw"], true),
    ] {
        let out = history(args).out;
        assert_eq!(out.matches("look at this").count(), 2, "{args:?}: {out}");
        assert_eq!(
            out.matches("09:41 UTC").count(),
            if whole { 2 } else { 0 },
            "{args:?}: {out}"
        );
        assert_eq!(out.matches("image/png").count(), 1, "{args:?}: {out}");
    }
}

#[test]
fn doctor_finds_what_is_wrong() {
    let world = World::with(DIRECTIVES);
    let ran = world.run(&["doctor", "--json"]).ends(0).json();
    assert_eq!(ran["ok"], true);
    let bad = world.write("bad.json5", "{");
    let ran = world
        .run(&["doctor", "--config", bad.to_str().unwrap()])
        .ends(1);
    assert!(
        ran.out.contains("✗") && ran.out.contains("bad.json5"),
        "{ran:?}"
    );
    world.write("foreign/notes.txt", "mine");
    let ran = world.run(&["doctor", "--state", "foreign"]).ends(1);
    assert!(ran.out.contains("--openclaw"), "{ran:?}");
    std::fs::create_dir(world.path(".openclaw")).unwrap();
    let ran = world.run(&["doctor"]).ends(0);
    assert!(ran.out.contains("crosstalk --openclaw"), "{ran:?}");
}

#[test]
fn a_picture_is_drawn_without_a_terminal() {
    let world = World::empty();
    for view in ["browse", "spawn", "details", "help"] {
        let args = [
            "screen",
            view,
            "--demo",
            "--at",
            "0.1",
            "--size",
            "90x24",
            "-o",
            "picture.svg",
        ];
        let ran = world.run(&args).ends(0);
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
        let picture = std::fs::read_to_string(world.path("picture.svg")).unwrap();
        assert!(
            picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"),
            "{view}"
        );
        assert!(picture.contains("crosstalk"), "{view}");
    }
    assert!(!world.state().exists());
}

/// What a printer writes, kept.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn tables_are_cut_only_for_a_terminal() {
    let check = |columns: Option<usize>, expect: &str| {
        let kept = Kept::default();
        let mut printer = Printer::into_writer(Box::new(kept.clone()), false, columns);
        let row = |key: &str, name: &str| vec![clean_str(key), clean_str(name)];
        let rows = [
            row("agent:main:main", "東京"),
            row("agent:ops:subagent:0123456789", "a long name"),
        ];
        printer.table(&["KEY", "NAME"], &rows).unwrap();
        let out = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(out, expect, "{columns:?}");
    };
    check(
        None,
        "KEY                            NAME\n\
         agent:main:main                東京\n\
         agent:ops:subagent:0123456789  a long name\n",
    );
    check(
        Some(24),
        "KEY         NAME\n\
         agent…main  東京\n\
         agent…6789  a long name\n",
    );
    check(
        Some(16),
        "KEY      NAME\n\
         age…ain  東京\n\
         age…789  a long…\n",
    );
}

#[test]
fn the_log_is_made_when_it_is_written_and_does_not_grow_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/crosstalk.log");
    let log = LogFile::new(&path, 100);
    assert!(!dir.path().join("deep").exists());
    for number in 0..100 {
        writeln!(log.make_writer(), "line {number}").unwrap();
    }
    let old = path.with_extension("log.1");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert!(read(&path).ends_with("line 99\n"));
    assert!(read(&path).len() <= 120 && read(&old).len() <= 120);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(
        std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
        2
    );
}
