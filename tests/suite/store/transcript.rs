use crosstalk::model::message::Damage;
use crosstalk::store::transcript::{MAX_LINE_BYTES, append, read};
use crosstalk::store::{Span, TranscriptPage};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn message(text: &str) -> Value {
    json!({"type": "message", "id": text, "message": {"role": "user", "content": text}})
}

fn written(bytes: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("s.jsonl");
    fs::write(&path, bytes).unwrap();
    (dir, path)
}

/// A page in words: position and id, or damage, of each line.
fn shown(page: &TranscriptPage) -> Vec<String> {
    let line = |line: &crosstalk::model::message::RawLine| {
        let what = line.damage.map_or_else(
            || line.id().unwrap_or("-").to_owned(),
            |damage| format!("{damage:?}"),
        );
        format!("{}+{} {what}", line.position, line.bytes)
    };
    page.lines.iter().map(line).collect()
}

fn whole(path: &Path) -> TranscriptPage {
    read(path, Span::Whole, usize::MAX).unwrap()
}

#[test]
fn d_24_what_a_line_can_be() {
    let check = |text: &[u8], expect: &[&str], end: u64| {
        let (_dir, path) = written(text);
        for span in [Span::Whole, Span::Tail, Span::Before(u64::MAX)] {
            let page = read(&path, span, usize::MAX).unwrap();
            assert_eq!(shown(&page), expect, "{span:?} {}", text.escape_ascii());
            assert_eq!(
                (page.start, page.at_start, page.end),
                (0, true, end),
                "{span:?}"
            );
        }
    };
    check(b"", &[], 0);
    check(b"\n", &[], 1);
    check(b"\n\n  \n\r\n", &[], 7);
    check(b"{\"id\":\"a\"}\n", &["0+10 a"], 11);
    check(
        b"{\"id\":\"a\"}\r\n{\"id\":\"b\"}\r\n",
        &["0+10 a", "12+10 b"],
        24,
    );
    check(b"\xef\xbb\xbf{\"id\":\"a\"}\n", &["0+13 a"], 14);
    check(b"{\"id\":\"a\"}", &["0+10 a"], 10);
    check(b"{\"id\":\"a\"}\n{\"id\":", &["0+10 a", "11+6 Torn"], 11);
    check(
        b"{\"id\":\"a\"}\n{\"id\":\"\xc3",
        &["0+10 a", "11+8 Torn"],
        11,
    );
    check(
        b"{\"id\":\n{\"id\":\"b\"}\n",
        &["0+6 NotJson", "7+10 b"],
        18,
    );
    check(
        b"\xff\xfe\n{\"id\":\"b\"}\n",
        &["0+2 NotUtf8", "3+10 b"],
        14,
    );
    check(
        b"[1]\n7\nnull\n",
        &["0+3 NotAnObject", "4+1 NotAnObject", "6+4 NotAnObject"],
        11,
    );
    check(b"1 2\n", &["0+3 NotJson"], 4);
    check(b"\0\0\0\n", &["0+3 NotJson"], 4);
    check(
        b"{\"id\":\"a\"}{\"id\":\"b\"} {\"id\":\"c\"}\n",
        &["0+10 a", "10+10 b", "21+10 c"],
        32,
    );
    check(b"{\"id\":\"a\"}{\"id\n", &["0+10 a", "10+4 NotJson"], 15);
    check(b"{\"id\":\"a\"}{\"id", &["0+10 a", "10+4 Torn"], 10);
}

#[test]
fn no_transcript_is_an_empty_page_and_no_file_is_made() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("none/s.jsonl");
    for span in [Span::Tail, Span::Whole, Span::Before(9), Span::After(9)] {
        let page = read(&path, span, 5).unwrap();
        assert_eq!(
            (page.lines.len(), page.start, page.end, page.at_start),
            (0, 0, 0, true)
        );
    }
    assert!(!dir.path().join("none").exists());
}

#[test]
fn what_is_no_file_is_an_error_that_names_it() {
    let dir = TempDir::new().unwrap();
    let error = read(dir.path(), Span::Tail, 5).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
    assert!(error.contains(&dir.path().display().to_string()), "{error}");
}

#[cfg(unix)]
#[test]
fn a_pipe_does_not_block() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
    assert!(read(&path, Span::Tail, 5).is_err());
}

#[test]
fn limits_count_messages_only() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("s.jsonl");
    let note = json!({"type": "custom", "id": "n"});
    let lines = [
        json!({"type": "session", "id": "h"}),
        message("a"),
        note.clone(),
        message("b"),
        note.clone(),
        json!({"id": "old", "message": {"role": "user"}}),
        note,
    ];
    let at = append(&path, &lines, false).unwrap();
    let len = fs::metadata(&path).unwrap().len();
    let check = |span, limit, expect: &[&str], start: u64, end: u64| {
        let page = read(&path, span, limit).unwrap();
        let ids: Vec<_> = page.lines.iter().map(|line| line.id().unwrap()).collect();
        assert_eq!(ids, expect, "{span:?} {limit}");
        assert_eq!((page.start, page.end), (start, end), "{span:?} {limit}");
        assert_eq!(page.at_start, start == 0);
    };
    check(Span::Tail, 0, &[], len, len);
    check(Span::Tail, 1, &["old", "n"], at[5], len);
    check(Span::Tail, 2, &["b", "n", "old", "n"], at[3], len);
    check(Span::Tail, 3, &["a", "n", "b", "n", "old", "n"], at[1], len);
    check(
        Span::Tail,
        4,
        &["h", "a", "n", "b", "n", "old", "n"],
        0,
        len,
    );
    check(Span::Before(at[3]), 1, &["a", "n"], at[1], at[3]);
    check(Span::Before(at[1]), 1, &["h"], 0, at[1]);
    check(Span::Before(0), 1, &[], 0, 0);
    check(Span::Whole, 1, &["h", "a"], 0, at[2]);
    check(Span::After(at[2]), 1, &["n", "b"], at[2], at[4]);
    check(Span::After(at[4]), 9, &["n", "old", "n"], at[4], len);
    check(Span::After(len), 9, &[], len, len);
}

#[test]
fn following_leaves_a_torn_line_for_later() {
    let (_dir, path) = written("{\"id\":\"a\"}\n");
    let after = |position| read(&path, Span::After(position), usize::MAX).unwrap();
    let add = |text: &str| {
        let mut all = fs::read_to_string(&path).unwrap();
        all.push_str(text);
        fs::write(&path, all).unwrap();
    };
    assert_eq!(after(11).end, 11);
    add("{\"id\":\"b");
    assert_eq!((shown(&after(11)), after(11).end), (vec![], 11));
    add("\"}");
    let whole_now = after(11);
    assert_eq!(
        (shown(&whole_now), whole_now.end),
        (vec!["11+10 b".into()], 21)
    );
    add("\n{\"id\":\"c\"}\n");
    let next = after(21);
    assert_eq!(
        (shown(&next), next.start, next.end),
        (vec!["22+10 c".into()], 21, 33)
    );
}

#[test]
fn following_a_file_that_was_cut_or_replaced_begins_anew() {
    let (_dir, path) = written("{\"id\":\"a\"}\n{\"id\":\"b\"}\n");
    // Cut; and of the same length with other lines, so that the position is inside one.
    for text in ["{\"id\":\"c\"}\n", "{\"id\":\"c-c-c-c-c-c-c\"}"] {
        fs::write(&path, text).unwrap();
        for position in [12, 14, 22] {
            let page = read(&path, Span::After(position), usize::MAX).unwrap();
            assert_eq!(
                page.start,
                if position == 22 && text.len() == 22 {
                    22
                } else {
                    0
                }
            );
        }
    }
}

#[test]
fn ac_137_a_cut_last_line_is_ended_before_the_next_append() {
    let (_dir, path) = written("{\"id\":\"a\"}\n{\"id\":\"b");
    let at = append(&path, &[message("c"), message("d")], true).unwrap();
    let page = whole(&path);
    assert_eq!(
        page.lines
            .iter()
            .map(|line| line.damage)
            .collect::<Vec<_>>(),
        [None, Some(Damage::NotJson), None, None]
    );
    assert_eq!([page.lines[2].position, page.lines[3].position], at[..]);
    assert!(fs::read_to_string(&path).unwrap().ends_with("}\n"));
}

#[test]
fn d_20_appending_makes_private_files_and_directories() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("agents/main/sessions/s.jsonl");
    assert_eq!(append(&path, &[message("a")], true).unwrap(), [0]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        for parent in path.ancestors().skip(1).take(3) {
            assert_eq!(mode(parent), 0o700, "{}", parent.display());
        }
    }
    let text = "two\nlines \u{2028} and \u{0}";
    append(&path, &[message(text)], false).unwrap();
    assert_eq!(whole(&path).lines[1].id(), Some(text));
    assert_eq!(append(&path, &[], false).unwrap(), [0; 0]);
}

#[test]
fn a_monstrous_line_is_measured_and_its_neighbours_are_read() {
    let long = MAX_LINE_BYTES + 70_000;
    let mut text = b"{\"id\":\"a\"}\n".to_vec();
    text.resize(text.len() + long, b'x');
    text.extend_from_slice(b"\n{\"id\":\"b\"}\n");
    let (_dir, path) = written(&text);
    let expect = [
        "0+10 a".to_owned(),
        format!("11+{long} TooLong"),
        format!("{}+10 b", 12 + long),
    ];
    for span in [Span::Whole, Span::Tail, Span::After(0)] {
        assert_eq!(
            shown(&read(&path, span, usize::MAX).unwrap()),
            expect,
            "{span:?}"
        );
    }
    // Alone in its file, without an end.
    let (_dir, path) = written(vec![b'x'; long]);
    let page = read(&path, Span::Tail, 3).unwrap();
    assert_eq!(shown(&page), [format!("0+{long} TooLong")]);
}

#[test]
fn what_is_no_message_does_not_fill_the_memory() {
    // Empty objects without end: a page stops, says where, and the next goes on.
    let count = 600_000;
    let (_dir, path) = written("{}\n".repeat(count));
    let first = read(&path, Span::Tail, 1).unwrap();
    assert!(
        !first.at_start && first.lines.len() < count,
        "{}",
        first.lines.len()
    );
    let second = read(&path, Span::Before(first.start), 1).unwrap();
    assert_eq!((second.at_start, second.end), (true, first.start));
    assert_eq!(first.lines.len() + second.lines.len(), count);
    let glued = "{}".repeat(5000);
    let (_dir, path) = written(format!("{glued}\n{{\"id\":\"b\"}}\n"));
    let page = whole(&path);
    assert_eq!(page.lines.len(), 1002);
    assert_eq!(page.lines[1000].damage, Some(Damage::NotJson));
    assert_eq!(page.lines[1001].id(), Some("b"));
}

/// A line of any sort; long ones reach over the edges of what is read at a time.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let padding =
        prop_oneof![8 => 0..40usize, 1 => 65_400..65_600usize, 1 => 131_000..131_200usize];
    prop_oneof![
        6 => padding.prop_map(|n| {
            message(&"m".repeat(n)).to_string().into_bytes()
        }),
        1 => Just(b"{\"type\":\"custom\",\"id\":\"c\"}".to_vec()),
        1 => Just(Vec::new()),
        1 => Just(b"\xff garbage".to_vec()),
        1 => Just(b"{\"message\":{}}{\"message\":{}}".to_vec()),
        1 => Just(b"{\"cut".to_vec()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Pages backwards, pages forwards and the whole tell the same.
    #[test]
    fn paging_either_way_gives_the_whole(
        lines in prop::collection::vec(any_line(), 0..14),
        ended in any::<bool>(),
        limit in 1..5usize,
    ) {
        let mut text = lines.join(&b'\n');
        if ended {
            text.push(b'\n');
        }
        let (_dir, path) = written(&text);
        let all = whole(&path);
        prop_assert!(all.at_start);

        let messages = |page: &TranscriptPage| page.lines.iter().filter(|l| l.message().is_some()).count();
        let mut page = read(&path, Span::Tail, limit).unwrap();
        prop_assert_eq!(page.end, all.end);
        let mut back = page.lines.clone();
        while !page.at_start {
            prop_assert_eq!(messages(&page), limit);
            page = read(&path, Span::Before(page.start), limit).unwrap();
            back.splice(0..0, page.lines.clone());
        }
        prop_assert_eq!(&back, &all.lines);

        let mut forth = Vec::new();
        let mut end = 0;
        loop {
            let page = read(&path, Span::After(end), limit).unwrap();
            prop_assert_eq!(page.start, end);
            prop_assert!(messages(&page) <= limit);
            if page.end == end {
                break;
            }
            end = page.end;
            forth.extend(page.lines);
        }
        prop_assert_eq!(end, all.end);
        let untorn: Vec<_> = all.lines.iter().filter(|l| l.damage != Some(Damage::Torn)).cloned().collect();
        prop_assert_eq!(forth, untorn);
    }

    /// Whatever bytes a file holds, reading does not fail, and appended lines are read back.
    #[test]
    fn any_bytes_can_be_read_and_appended_to(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let (_dir, path) = written(&text);
        read(&path, Span::Tail, 3).unwrap();
        let at = append(&path, &[message("new")], false).unwrap();
        let tail = read(&path, Span::Tail, 1).unwrap();
        prop_assert_eq!(tail.lines.last().and_then(|l| l.id()), Some("new"));
        prop_assert_eq!(tail.lines.last().map(|l| l.position), at.first().copied());
    }
}
