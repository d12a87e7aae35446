//! The house stands as `src/lib.rs` draws it: arrows run downwards, and each dependency is named only where it belongs.

mod source;

use source::{Token, paths, tokens};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file of `src` by its path below it.
struct File {
    name: String,
    text: String,
}

fn sources() -> Vec<File> {
    fn walk(dir: &Path, root: &Path, files: &mut Vec<File>) {
        let entries = std::fs::read_dir(dir).unwrap();
        let mut entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                walk(&path, root, files);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let name = path
                    .strip_prefix(root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                let text = std::fs::read_to_string(&path).unwrap();
                files.push(File { name, text });
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    walk(&root, &root, &mut files);
    files
}

/// The module of a file: `a/b.rs` and `a/b/mod.rs` are `["a", "b"]`.
fn module_of(name: &str) -> Vec<&str> {
    let name = name.strip_suffix(".rs").unwrap_or(name);
    let name = name.strip_suffix("/mod").unwrap_or(name);
    name.split('/')
        .filter(|part| !matches!(*part, "lib" | "main"))
        .collect()
}

/// Module → floor, from the drawing: a number, names apart by two blanks or more, and words about them.
fn floors(lib: &str) -> BTreeMap<String, u32> {
    let mut floors = BTreeMap::new();
    for line in lib.lines().filter_map(|line| line.strip_prefix("//!")) {
        let line = line.trim();
        let Some((number, rest)) = line.split_once(' ') else {
            continue;
        };
        let Ok(floor) = number.parse::<u32>() else {
            continue;
        };
        let mut parts: Vec<&str> = rest
            .split("  ")
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .collect();
        parts.pop();
        for name in parts {
            let name = name.trim_end_matches('/').trim_end_matches(".rs");
            floors.insert(name.to_owned(), floor);
        }
    }
    floors
}

/// Arrows that do not run downwards, in words.
fn wrong_arrows(files: &[File], floors: &BTreeMap<String, u32>) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files
        .iter()
        .filter(|file| file.name != "lib.rs" && file.name != "main.rs")
    {
        let module = module_of(&file.name);
        let own = module[0];
        let Some(floor) = floors.get(own) else {
            wrong.push(format!("{} stands on no floor", file.name));
            continue;
        };
        for path in paths(&tokens(&file.text), &module) {
            let Some(first) = path.first() else { continue };
            let target = if first == "clean_format" {
                "text"
            } else {
                first
            };
            if target == own {
                continue;
            }
            match floors.get(target) {
                Some(below) if below < floor => {}
                Some(there) => wrong.push(format!(
                    "{} (floor {floor}) uses crate::{} (floor {there})",
                    file.name,
                    path.join("::")
                )),
                None => wrong.push(format!("{} uses crate::{}", file.name, path.join("::"))),
            }
        }
    }
    wrong
}

fn file(name: &str, text: &str) -> File {
    File {
        name: name.into(),
        text: text.into(),
    }
}

const DRAWING: &str = "
//! 10  main.rs          parse
//!  9  tui/      cli/   the front doors
//!  7  ui/              ui draws app
//!  6  app/             state
//!  0  error  text/     plain helpers
";

#[test]
fn the_drawing_is_read() {
    let floors = floors(DRAWING);
    let floor = |name: &str| floors.get(name).copied();
    assert_eq!(floor("main"), Some(10));
    assert_eq!((floor("tui"), floor("cli")), (Some(9), Some(9)));
    assert_eq!((floor("error"), floor("text")), (Some(0), Some(0)));
    assert_eq!(floors.len(), 7);
}

#[test]
fn an_arrow_that_runs_up_or_sideways_is_found() {
    let check = |name: &str, text: &str, expect: &[&str]| {
        let wrong = wrong_arrows(&[file(name, text)], &floors(DRAWING));
        let wrong: Vec<&str> = wrong.iter().map(String::as_str).collect();
        assert_eq!(wrong, expect, "{name}: {text}");
    };
    let up = ["app/mod.rs (floor 6) uses crate::ui::draw (floor 7)"];
    let deep = ["app/list.rs (floor 6) uses crate::ui::draw (floor 7)"];
    check("ui/mod.rs", "use crate::app::App; use crate::text;", &[]);
    check("app/mod.rs", "use crate::ui::draw;", &up);
    check(
        "app/mod.rs",
        "pub use crate::{text::Clean, ui::{draw as paint}};",
        &up,
    );
    check("app/mod.rs", "fn f() { crate::ui::draw::<u8>(1) }", &up);
    check(
        "app/mod.rs",
        "fn f<'a>(x: &'a str) -> char { crate::ui::draw(x); '\\'' }",
        &up,
    );
    check(
        "app/mod.rs",
        "macro_rules! m { () => { $crate::ui::draw() } }",
        &up,
    );
    check("app/mod.rs", "use super::ui::draw;", &up);
    check("app/list.rs", "use super::super::ui::draw;", &deep);
    check(
        "app/list.rs",
        "mod inner { use super::super::super::ui::draw; }",
        &deep,
    );
    check(
        "app/list.rs",
        "mod inner {} use super::super::ui::draw;",
        &deep,
    );
    check(
        "app/list.rs",
        "use super::other::draw; use self::ui::draw;",
        &[],
    );
    check(
        "app/mod.rs",
        "// use crate::ui::draw;\n/* /* */ crate::ui::x */",
        &[],
    );
    check(
        "app/mod.rs",
        "const A: &str = \"crate::ui::x\"; const B: &str = r#\"\" crate::ui::x\"#;",
        &[],
    );
    check(
        "app/mod.rs",
        "#[cfg(test)] mod tests { fn f() { crate::ui::x() } } use crate::text;",
        &[],
    );
    check(
        "app/mod.rs",
        "#[cfg(test)] use crate::tui; use crate::ui::draw;",
        &up,
    );
    check("app/mod.rs", "use crate::clean_format;", &[]);
    check(
        "text/mod.rs",
        "use crate::error::Exit;",
        &["text/mod.rs (floor 0) uses crate::error::Exit (floor 0)"],
    );
    check(
        "cli/mod.rs",
        "use crate::tui::run;",
        &["cli/mod.rs (floor 9) uses crate::tui::run (floor 9)"],
    );
    check("app/mod.rs", "use crate::*;", &["app/mod.rs uses crate::*"]);
    check("cellar/mod.rs", "", &["cellar/mod.rs stands on no floor"]);
}

#[test]
fn arrows_run_downwards() {
    let files = sources();
    let lib = files.iter().find(|file| file.name == "lib.rs").unwrap();
    let floors = floors(&lib.text);
    for pair in tokens(&lib.text).windows(2) {
        let [Token::Word(word), Token::Word(name)] = pair else {
            continue;
        };
        assert!(
            word != "mod" || floors.contains_key(name),
            "{name} is not drawn"
        );
    }
    for name in floors.keys() {
        let is_there = files.iter().any(|file| {
            file.name == format!("{name}.rs") || file.name.starts_with(&format!("{name}/"))
        });
        assert!(is_there, "{name} is drawn and not there");
    }
    let wrong = wrong_arrows(&files, &floors);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Uses of a word outside the places that may name it.
fn trespassers(files: &[File], words: &[&str], places: &[&str]) -> Vec<String> {
    let may = |name: &str| {
        places
            .iter()
            .any(|place| name == *place || name.starts_with(place) && place.ends_with('/'))
    };
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !may(&file.name)) {
        for token in tokens(&file.text) {
            if let Token::Word(word) = token
                && words.contains(&word.as_str())
            {
                found.push(format!("{} names {word}", file.name));
            }
        }
    }
    found.dedup();
    found
}

#[test]
fn trespassers_are_found() {
    let files = [
        file("app/draft.rs", "use ratatui_textarea::TextArea;"),
        file(
            "app/mod.rs",
            "// ratatui_textarea\nuse ratatui_textarea::TextArea;",
        ),
        file("ui/mod.rs", "use ratatui_textarea::TextArea;"),
    ];
    let found = trespassers(&files, &["ratatui_textarea"], &["app/draft.rs", "ui/"]);
    assert_eq!(found, ["app/mod.rs names ratatui_textarea"]);
}

#[test]
fn dependencies_are_named_where_they_belong() {
    let files = sources();
    let check = |words: &[&str], places: &[&str]| {
        let found = trespassers(&files, words, places);
        assert!(found.is_empty(), "{}", found.join("\n"));
    };
    check(
        &["tungstenite", "tokio_tungstenite"],
        &["client/", "server/", "host/"],
    );
    check(&["ratatui", "crossterm"], &["ui/", "tui/"]);
    check(&["ratatui_textarea"], &["app/draft.rs"]);
    check(&["rusqlite"], &["store/"]);
    check(&["clap"], &["cli/"]);
}

#[test]
fn state_and_words_of_the_domain_know_no_world() {
    let pure: Vec<File> = sources()
        .into_iter()
        .filter(|file| file.name.starts_with("app/") || file.name.starts_with("model/"))
        .collect();
    let worldly = ["tokio", "SystemTime", "Instant"];
    let mut found = trespassers(&pure, &worldly, &[]);
    for file in &pure {
        for path in tokens(&file.text).windows(3) {
            let [Token::Word(first), Token::Path, Token::Word(second)] = path else {
                continue;
            };
            let worldly = matches!(
                second.as_str(),
                "fs" | "net" | "process" | "thread" | "env" | "io"
            );
            if first == "std" && worldly {
                found.push(format!("{} names std::{second}", file.name));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Where front doors take text as it came, and why it never reaches a sink that way.
const RAW: &[(&str, &str)] = &[
    (
        "cli/history.rs",
        "masking works on the text as it came; what is masked is cleaned after it. Keys are compared",
    ),
    (
        "cli/source.rs",
        "the name of the configuration file, to open it",
    ),
    ("cli/watch.rs", "keys are compared"),
    (
        "tui/effects.rs",
        "the person's own text, into the file that their editor opens",
    ),
    (
        "ui/message.rs",
        "masking and Markdown work on the text as it came, and clean what they give; kinds and reasons are compared",
    ),
    (
        "ui/transcript.rs",
        "masking and Markdown work on the text as it came, and clean what they give; words are counted",
    ),
];

/// How often a file takes text as it came.
fn raw_uses(text: &str) -> usize {
    tokens(text)
        .windows(3)
        .filter(|three| {
            let [Token::Mark('.') | Token::Path, Token::Word(word), _] = three else {
                return false;
            };
            word == "raw" || word == "into_raw"
        })
        .count()
}

#[test]
fn text_from_outside_is_cleaned_on_its_way_out() {
    assert_eq!(
        raw_uses("a.raw(); map(Untrusted::raw); b.into_raw(); c.raw_mode(); // a.raw()"),
        3
    );
    for file in sources() {
        let door = ["ui/", "tui/", "cli/"]
            .iter()
            .any(|door| file.name.starts_with(door));
        let allowed = RAW.iter().any(|(name, _)| *name == file.name);
        let uses = raw_uses(&file.text) > 0;
        assert!(
            !door || !uses || allowed,
            "{} takes text as it came, without a reason on record",
            file.name
        );
        assert!(
            !allowed || uses,
            "{} has a reason on record and no use of it",
            file.name
        );
    }
}
