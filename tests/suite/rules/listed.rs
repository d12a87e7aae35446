//! Every rule of the specification is carried by a test, in its name or a comment, or has a reason in `ids.txt`.
//!
//! A line is an id, or an id and the reason why no test carries it. A reason that is not needed any more has to go: the
//! list of reasons only shrinks.

use std::collections::BTreeSet;
use std::path::Path;

const LIST: &str = include_str!("ids.txt");

/// Ids in a source text: `AC-43`, and `ac_43` as a part of a name.
fn carried(text: &str, into: &mut BTreeSet<String>) {
    let is_word = |c: char| c.is_ascii_alphanumeric();
    let words: Vec<&str> = text.split_inclusive(|c: char| !is_word(c)).collect();
    for pair in words.windows(2) {
        let Some(letters) = pair[0].strip_suffix(['-', '_']) else {
            continue;
        };
        let number = pair[1].trim_end_matches(|c: char| !is_word(c));
        if !letters.is_empty()
            && letters.len() <= 2
            && letters.chars().all(|c| c.is_ascii_alphabetic())
            && !number.is_empty()
            && number.chars().all(|c| c.is_ascii_digit())
        {
            into.insert(format!("{}-{number}", letters.to_uppercase()));
        }
    }
}

fn walk(dir: &Path, into: &mut BTreeSet<String>) {
    for item in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = item.path();
        if path.is_dir() {
            walk(&path, into);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            carried(&std::fs::read_to_string(&path).unwrap(), into);
        }
    }
}

#[test]
fn every_rule_has_a_test_or_a_reason() {
    let mut found = BTreeSet::new();
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite");
    walk(&suite, &mut found);
    let mut untested = Vec::new();
    let mut needless = Vec::new();
    let mut count = 0;
    for line in LIST
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (id, reason) = line.split_once(' ').unwrap_or((line, ""));
        count += 1;
        match (found.contains(id), reason.trim().is_empty()) {
            (false, true) => untested.push(id),
            (true, false) => needless.push(id),
            _ => {}
        }
    }
    assert!(count > 500, "the list has lost rules: {count}");
    assert!(untested.is_empty(), "neither test nor reason: {untested:?}");
    assert!(
        needless.is_empty(),
        "tested, so the reason can go: {needless:?}"
    );
}
