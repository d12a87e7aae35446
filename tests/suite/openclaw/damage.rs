//! Damaged and odd data: every good record is shown, each damage has a mark at its place or a warning with a count,
//! and what is not known is unknown. One table per kind of file, and a generator that mutates good files.

use super::{sessions_dir, tree, with_index, write_index};
use crosstalk::backend::Backend;
use crosstalk::backend::files::FilesBackend;
use crosstalk::model::message::{Block, Content, Message, Role};
use crosstalk::protocol::methods::{ListRequest, Reply, Request};
use crosstalk::store::openclaw::directory::Directory;
use crosstalk::store::{Query, Sessions, Span, transcript};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

/// What a reader sees of a transcript, item by item.
fn shown(text: impl AsRef<[u8]>) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    write_index(
        dir.path(),
        "main",
        r#"{"agent:main:main":{"sessionId":"s"}}"#,
    );
    let file = sessions_dir(dir.path(), "main").join("s.jsonl");
    fs::write(&file, text).unwrap();
    let before = tree(dir.path());
    let store = Directory::open(dir.path(), None, "main").unwrap();
    let entry = store.by_session_id("s").unwrap().remove(0);
    let foreign = store.transcript(&entry, Span::Whole, usize::MAX).unwrap();
    assert_eq!(tree(dir.path()), before);
    // Our own transcripts are read in the same way, from both ends.
    let own = transcript::read(&file, Span::Tail, usize::MAX).unwrap();
    assert_eq!(own.lines, foreign.lines);
    own.lines
        .iter()
        .filter_map(Message::read)
        .map(|message| describe(&message))
        .collect()
}

fn describe(message: &Message) -> String {
    match &message.content {
        Content::Damage { reason, bytes } => {
            format!("! {reason}, {bytes} bytes at {}", message.position)
        }
        Content::Note { kind, text } => format!("note {}: {}", kind.raw(), text.raw()),
        Content::Said(said) => {
            let who = match &said.role {
                Role::User => "user",
                Role::Assistant => "assistant",
                Role::ToolResult => "result",
                Role::System => "system",
                Role::Other(other) => other.raw(),
            };
            let blocks = said.blocks.iter().map(|block| match block {
                Block::Text(text) => text.raw().to_owned(),
                Block::Thinking(text) => format!("<{}>", text.raw()),
                Block::ToolCall {
                    id,
                    name,
                    arguments,
                } => format!("{}={}({arguments})", id.raw(), name.raw()),
                Block::Image { mime, bytes } => format!("image {mime:?} {bytes:?}"),
                Block::Unknown { kind, json } => {
                    format!(
                        "? {:?} {json}",
                        kind.as_ref().map(crosstalk::text::Untrusted::raw)
                    )
                }
            });
            format!("{who}: {}", blocks.collect::<Vec<_>>().join(" | "))
        }
    }
}

const A: &str = r#"{"type":"message","id":"a","message":{"role":"user","content":"a"}}"#;
const B: &str = r#"{"type":"message","id":"b","message":{"role":"assistant","content":"b"}}"#;

#[test]
fn lines_that_are_damaged_cost_only_themselves() {
    let check = |text: &[u8], expected: &[&str]| {
        assert_eq!(shown(text), expected, "{}", String::from_utf8_lossy(text));
    };
    let text = |parts: &[&str]| parts.concat().into_bytes();
    let (a, b) = ("user: a", "assistant: b");
    check(b"", &[]);
    check(&text(&[A, "\n", B]), &[a, b]);
    check(&text(&[A, "\r\n", B, "\r\n"]), &[a, b]);
    check(&text(&["\u{feff}", A, "\n", B, "\n"]), &[a, b]);
    check(&text(&[A, "\n\n  \n\n", B, "\n"]), &[a, b]);
    // Torn, and being written.
    check(
        &text(&[A, "\n", &B[..30]]),
        &[a, "! line is cut off, 30 bytes at 68"],
    );
    check(
        &text(&[A, "\n", &B[..1]]),
        &[a, "! line is cut off, 1 bytes at 68"],
    );
    // Bad lines between good ones.
    check(
        &text(&[A, "\nnonsense\n", B, "\n"]),
        &[a, "! line is not JSON, 8 bytes at 68", b],
    );
    check(
        &text(&[A, "\n[1]\n", B, "\n"]),
        &[a, "! line is not an object, 3 bytes at 68", b],
    );
    check(
        &text(&[A, "\n", &B[..40], "\n", B]),
        &[a, "! line is not JSON, 40 bytes at 68", b],
    );
    // Glued, whole and cut.
    check(&text(&[A, B, " ", A, "\n"]), &[a, b, a]);
    check(
        &text(&[&A[..30], B, "\n"]),
        &["! line is not JSON, 30 bytes at 0", b],
    );
    check(
        &text(&[A, &B[..30], A, B, "\n"]),
        &[a, "! line is not JSON, 30 bytes at 67", a, b],
    );
    // A cut record whose inner objects are whole is no other record.
    let inner = r#"{"type":"message","id":"c","message":{"role":"assistant","content":[{"type":"text","text":"x"}"#;
    check(
        &text(&[A, "\n", inner, "\n", B]),
        &[a, "! line is not JSON, 94 bytes at 68", b],
    );
    // Never written, and binary.
    check(
        &text(&["\0\0\0\0", A, "\n", B]),
        &["! line is not JSON, 4 bytes at 0", a, b],
    );
    check(
        &text(&[A, "\n\0\0\0\0\n", B]),
        &[a, "! line is not JSON, 4 bytes at 68", b],
    );
    check(
        b"\xff\xfe\x00\x01\n",
        &["! line is not UTF-8 text, 4 bytes at 0"],
    );
    check(
        &[A.as_bytes(), b"\n\x89PNG\x1a\xff\n", B.as_bytes()].concat(),
        &[a, "! line is not UTF-8 text, 6 bytes at 68", b],
    );
    // Half a pair, as JavaScript leaves it when it cuts a text: the record is good.
    check(
        br#"{"message":{"role":"user","content":"x\ud83d y\\ud83d \ud83d\ude00 \udc00\"z"}}"#,
        &["user: x\u{fffd} y\\ud83d \u{1f600} \u{fffd}\"z"],
    );
    // The header.
    check(
        &text(&["{\"type\":\"sess\n", A]),
        &["! line is not JSON, 13 bytes at 0", a],
    );
    check(
        &text(&["{\"type\":\"session\",\"version\":\"odd\",\"id\":7}\n", A]),
        &[a],
    );
    check(&text(&[A, "\n{\"type\":\"session\"}\n", B]), &[a, b]);
}

#[test]
fn odd_contents_are_shown_as_what_they_are() {
    let check = |message: Value, expected: &str| {
        let line = json!({"type": "message", "id": "x", "message": message});
        assert_eq!(shown(line.to_string()), [expected], "{line}");
    };
    check(json!({"role": "user", "content": "x"}), "user: x");
    check(
        json!({"role": "user", "content": ["x", {"type": "text", "text": "y"}]}),
        "user: x | y",
    );
    check(
        json!({"role": "user", "content": {"type": "text", "text": "x"}}),
        "user: x",
    );
    check(json!({"role": "user", "content": null}), "user: ");
    check(json!({"role": "user"}), "user: ");
    check(json!({"role": "user", "text": "x"}), "user: x");
    check(json!({"role": "user", "content": 7}), "user: ? None 7");
    check(
        json!({"role": "user", "content": [null, 7]}),
        "user: ? None null | ? None 7",
    );
    check(
        json!({"role": "user", "content": [{"type": "video", "x": 1}]}),
        r#"user: ? Some("video") {"type":"video","x":1}"#,
    );
    check(
        json!({"role": "user", "content": [{"type": "text", "text": 5}]}),
        r#"user: ? Some("text") {"type":"text","text":5}"#,
    );
    check(
        json!({"role": "user", "content": [{"type": "image"}]}),
        "user: image None None",
    );
    check(
        json!({"role": "assistant", "content": [{"type": "toolCall"}]}),
        "assistant: =unnamed tool(null)",
    );
    check(json!({"role": "oracle", "content": "x"}), "oracle: x");
    check(json!({"role": 7, "content": "x"}), "unknown role: x");
    check(json!({"content": "x"}), "unknown role: x");
    check(json!({}), "unknown role: ");

    let check = |line: &str, expected: &str| assert_eq!(shown(line), [expected], "{line}");
    check(r#"{"type":"future","id":"x"}"#, "note future: ");
    check(r#"{"type":7}"#, "note unknown line: ");
    check("{}", "note unknown line: ");
    check(r#"{"type":"message","message":"x"}"#, "note message: ");
    check(r#"{"type":"compaction"}"#, "note compaction: ");
    check(
        r#"{"message":{"role":"user","content":"twice"},"message":{"role":"user","content":"x"}}"#,
        "user: x",
    );
}

#[test]
fn results_out_of_order_doubled_and_orphaned_are_all_there() {
    let result = |id: &str, text: &str| {
        json!({"message": {"role": "toolResult", "toolCallId": id, "content": text}}).to_string()
    };
    let call = json!({"message": {"role": "assistant", "content": [{"type": "toolCall", "id": "1", "name": "t", "arguments": {}}]}});
    let lines = [
        result("1", "early"),
        call.to_string(),
        result("1", "again"),
        result("9", "nobody's"),
        result("", ""),
    ];
    let expected = [
        "result: early",
        "assistant: 1=t({})",
        "result: again",
        "result: nobody's",
        "result: ",
    ];
    assert_eq!(shown(lines.join("\n")), expected);
}

#[test]
fn times_are_known_or_unknown_never_1970() {
    const KNOWN: i64 = 1_796_073_689_000;
    let check = |time: &str, expected: Option<i64>| {
        let line = format!(r#"{{"timestamp":{time},"message":{{"role":"user","content":"x"}}}}"#);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.jsonl");
        fs::write(&file, line).unwrap();
        let page = transcript::read(&file, Span::Whole, 9).unwrap();
        assert_eq!(
            Message::read(&page.lines[0]).unwrap().at,
            expected,
            "{time}"
        );
        let index = format!(
            r#"{{"agent:main:a":{{"updatedAt":{time},"startedAt":{time},"archivedAt":null}}}}"#
        );
        let (_dir, store) = with_index(&index);
        let entry = store
            .list(&Query::default(), None)
            .unwrap()
            .entries
            .remove(0);
        assert_eq!(
            (entry.updated_at, entry.started_at),
            (expected.unwrap_or(0), expected),
            "{time}"
        );
    };
    check("1796073689000", Some(KNOWN));
    check("1796073689", Some(KNOWN));
    check("1796073689000.7", Some(KNOWN));
    check("\"1796073689\"", Some(KNOWN));
    check("\"2026-11-30T21:21:29Z\"", Some(KNOWN));
    check("\"2026-11-30T22:21:29+01:00\"", Some(KNOWN));
    check("4102444800000", Some(4_102_444_800_000));
    for nonsense in [
        "0",
        "-1",
        "5",
        "1e300",
        "9223372036854775807",
        "null",
        "true",
        "\"soon\"",
        "\"\"",
        "{}",
        "[1796073689]",
    ] {
        check(nonsense, None);
    }
}

#[tokio::test]
async fn what_is_unknown_is_left_out_of_rows() {
    let dir = tempfile::tempdir().unwrap();
    write_index(
        dir.path(),
        "main",
        r#"{"agent:main:a":{"updatedAt":5,"inputTokens":-1,"outputTokens":1e300,"totalTokens":"many","contextTokens":null,
            "estimatedCostUsd":-3,"runtimeMs":-7,"label":null,"model":7,"status":"odd"}}"#,
    );
    let backend = FilesBackend::open(dir.path()).unwrap();
    let Ok(Reply::Rows(rows)) = backend
        .call(Request::List(ListRequest::default()).into())
        .await
    else {
        panic!("no rows");
    };
    let row = serde_json::to_value(&rows.rows[0]).unwrap();
    let names = [
        "updatedAt",
        "inputTokens",
        "outputTokens",
        "totalTokens",
        "estimatedCostUsd",
        "runtimeMs",
        "label",
        "status",
    ];
    for name in names {
        assert_eq!(row.get(name), None, "{row}");
    }
}

#[tokio::test]
async fn lineage_may_be_cyclic_and_dangle() {
    let dir = tempfile::tempdir().unwrap();
    write_index(
        dir.path(),
        "main",
        r#"{"agent:main:self":{"sessionId":"1","spawnedBy":"agent:main:self","parentSessionKey":"agent:main:self"},
            "agent:main:a":{"sessionId":"2","spawnedBy":"agent:main:b"},"agent:main:b":{"sessionId":"3","spawnedBy":"agent:main:a"},
            "agent:main:c":{"sessionId":"4","spawnedBy":"agent:gone:x"},"agent:main:d":{"sessionId":"5","spawnedBy":["x"]},
            "agent:main:e":{"sessionId":"6","spawnedBy":""}}"#,
    );
    let backend = FilesBackend::open(dir.path()).unwrap();
    for caller in [None, Some("agent:main:a"), Some("agent:main:self")] {
        let mut call: crosstalk::protocol::methods::Call =
            Request::List(ListRequest::default()).into();
        call.caller.session = caller.map(Into::into);
        let Ok(Reply::Rows(rows)) = backend.call(call).await else {
            panic!("no rows");
        };
        assert!(rows.total >= 1, "{caller:?}");
        if caller.is_none() {
            assert_eq!(rows.total, 6);
        }
    }
}

#[tokio::test]
async fn any_key_is_listed_and_found() {
    let rests = [
        "a/b",
        "../../etc/passwd",
        "a\\b",
        "c:d:e",
        "::",
        "nul\u{0}byte",
        "line\nbreak",
        "\u{202e}rtl",
        "日本語",
        "עברית",
        "🦞👩‍👩‍👧",
        "e\u{301}\u{301}",
        "sp ace",
        "\"quoted\"",
        "%2f",
        "~",
        &"x".repeat(4096),
    ];
    let index: serde_json::Map<String, Value> = rests
        .iter()
        .enumerate()
        .map(|(at, rest)| {
            (
                format!("agent:main:{rest}"),
                json!({"sessionId": format!("id-{at}"), "updatedAt": 1_796_073_689_000_i64}),
            )
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    write_index(dir.path(), "main", Value::Object(index).to_string());
    let before = tree(dir.path());
    let backend = FilesBackend::open(dir.path()).unwrap();
    let Ok(Reply::Rows(rows)) = backend
        .call(Request::List(ListRequest::default()).into())
        .await
    else {
        panic!("no rows");
    };
    assert_eq!(rows.rows.len(), rests.len());
    for row in &rows.rows {
        let detail = backend
            .call(
                Request::Detail {
                    key: row.key.clone(),
                }
                .into(),
            )
            .await;
        let Ok(Reply::Detail(detail)) = detail else {
            panic!("{:?}: {detail:?}", row.key);
        };
        assert_eq!(detail.row.session_id, row.session_id);
    }
    assert_eq!(tree(dir.path()), before);
}

#[test]
fn sessions_without_a_transcript_and_transcripts_without_a_session() {
    let check = |index: &str, files: &[&str], strays: usize| {
        let dir = tempfile::tempdir().unwrap();
        write_index(dir.path(), "main", index);
        for file in files {
            fs::write(sessions_dir(dir.path(), "main").join(file), A).unwrap();
        }
        let store = Directory::open(dir.path(), None, "main").unwrap();
        for entry in store.list(&Query::default(), None).unwrap().entries {
            // None is an empty one, no error.
            store.transcript(&entry, Span::Tail, 5).unwrap();
        }
        let remark = format!("{strays} transcripts belong to no session");
        let said = store
            .warnings()
            .iter()
            .filter(|warning| warning.contains("transcripts belong to no session"))
            .count();
        assert_eq!(said, usize::from(strays > 0), "{index} {files:?}");
        assert!(
            strays == 0
                || store
                    .warnings()
                    .iter()
                    .any(|warning| warning.contains(&remark))
        );
    };
    let index = r#"{"agent:main:a":{"sessionId":"a"},"agent:main:b":{"sessionId":"b","sessionFile":"/old/place/b0.jsonl"},"agent:main:n":{}}"#;
    check(index, &[], 0);
    check(index, &["a.jsonl", "b0.jsonl", "a-topic-5.jsonl"], 0);
    check(index, &["a.jsonl", "x.jsonl", "y.jsonl"], 2);
    check(
        index,
        &["x.jsonl.deleted.2026-01-01", "x.jsonl.lock", "x.json"],
        0,
    );
    // An index that cannot be read leaves all of them behind.
    check("{", &["a.jsonl", "b0.jsonl"], 2);
    check("", &["a.jsonl"], 1);
}

/// Random numbers that are the same with every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // SplitMix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }
}

/// Lines of a transcript, some of them damaged, and the ids of those that are not.
fn mutated(dice: &mut Dice, number: usize) -> (Vec<u8>, Vec<String>) {
    let mut text = Vec::new();
    let mut good = Vec::new();
    let lines = 3 + dice.roll(10);
    if dice.roll(8) == 0 {
        text.extend(b"\xef\xbb\xbf");
    }
    for at in 0..lines {
        let id = format!("{number}-{at}");
        let content = match dice.roll(5) {
            0 => json!("text \u{202e} \u{1b}[31m \u{0}"),
            1 => json!([{"type": "text", "text": "x".repeat(dice.roll(300))}]),
            2 => {
                json!([{"type": "toolCall", "id": "c", "name": "n", "arguments": {"a": [1, {"b": "{\"type\":\"x\"}"}]}}])
            }
            3 => json!({"type": "odd"}),
            _ => Value::Null,
        };
        let line = json!({"type": "message", "id": id, "timestamp": "2026-11-30T21:21:29Z", "message": {"role": "user", "content": content}});
        let mut line = line.to_string().into_bytes();
        let is_damaged = dice.roll(3) == 0;
        let mut ended = true;
        if is_damaged {
            let place = 1 + dice.roll(line.len() - 1);
            match dice.roll(7) {
                0 => line.truncate(place),
                1 => line[place] = 0xff,
                2 => line = vec![0; dice.roll(50)],
                3 => {
                    line = (0..dice.roll(80))
                        .map(|_| u8::try_from(dice.roll(256)).unwrap())
                        .filter(|b| *b != b'\n')
                        .collect();
                }
                4 => line.insert(place, b'\n'),
                5 => {
                    // Cut, and the next one glued to it.
                    line.truncate(place.min(25));
                    ended = false;
                }
                _ => line = b"[{\"type\":\"message\"}]".to_vec(),
            }
        } else {
            good.push(id);
            if dice.roll(6) == 0 {
                ended = false;
            }
        }
        text.append(&mut line);
        if ended {
            text.extend(if dice.roll(4) == 0 {
                &b"\r\n"[..]
            } else {
                b"\n"
            });
        }
    }
    (text, good)
}

#[test]
fn a_thousand_mutated_files_lose_nothing_that_is_good() {
    const FILES: usize = 1000;
    const AGENTS: usize = 20;
    let mut dice = Dice(20_261_130);
    let dir: TempDir = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for agent in 0..AGENTS {
        let name = format!("a{agent}");
        let mut index = serde_json::Map::new();
        for number in 0..FILES / AGENTS {
            let id = format!("{agent}-{number}");
            let key = format!("agent:{name}:k{number}");
            let (text, good) = mutated(&mut dice, number);
            fs::write(
                sessions_dir(dir.path(), &name).join(format!("{id}.jsonl")),
                text,
            )
            .unwrap();
            let mut entry = json!({"sessionId": id, "updatedAt": 1_796_073_689_000_i64});
            let odd = [
                json!(null),
                json!(-1),
                json!("x"),
                json!([]),
                json!({}),
                json!(1e300),
                json!(true),
            ];
            for member in [
                "label",
                "totalTokens",
                "startedAt",
                "spawnedBy",
                "origin",
                "deliveryContext",
                "status",
                "updatedAt",
                "model",
            ] {
                if dice.roll(4) == 0 {
                    entry[member] = odd[dice.roll(odd.len())].clone();
                }
            }
            index.insert(key.clone(), entry);
            if dice.roll(10) == 0 {
                index.insert(
                    format!("agent:{name}:odd{number}"),
                    odd[dice.roll(odd.len())].clone(),
                );
            }
            expected.push((id, good));
        }
        let mut index = Value::Object(index).to_string().into_bytes();
        if dice.roll(3) == 0 {
            index.splice(0..0, *b"\xef\xbb\xbf");
        }
        write_index(dir.path(), &name, index);
    }
    let before = tree(dir.path());
    let store = Directory::open(dir.path(), None, "main").unwrap();
    let page = store.list(&Query::default(), None).unwrap();
    assert!(page.total >= FILES);
    let mut damaged = 0;
    for (id, good) in expected {
        let entry = store.by_session_id(&id).unwrap().remove(0);
        let whole = store.transcript(&entry, Span::Whole, usize::MAX).unwrap();
        let tail = store.transcript(&entry, Span::Tail, usize::MAX).unwrap();
        assert_eq!(whole.lines, tail.lines, "{id}");
        let found: Vec<&str> = whole.lines.iter().filter_map(|line| line.id()).collect();
        let mut rest = found.iter();
        for wanted in &good {
            assert!(
                rest.any(|id| id == wanted),
                "{id}: {wanted} of {good:?} in {:?}",
                whole.lines
            );
        }
        for line in &whole.lines {
            let message = Message::read(line);
            damaged += usize::from(line.damage.is_some());
            assert!(
                line.damage.is_none() || message.is_some(),
                "each damage is shown"
            );
        }
    }
    assert!(damaged > 1000, "{damaged}");
    assert_eq!(tree(dir.path()), before);
}

#[test]
fn indexes_cut_anywhere_are_a_warning_and_never_a_panic() {
    let index = r#"{"agent:main:a":{"sessionId":"a","origin":{"label":"x\u00e9"},"updatedAt":1796073689000},"agent:main:b":{"label":"é"}}"#;
    for end in 1..index.len() {
        let (_dir, store) = {
            let dir = tempfile::tempdir().unwrap();
            write_index(dir.path(), "main", &index.as_bytes()[..end]);
            let store = Directory::open(dir.path(), None, "main").unwrap();
            (dir, store)
        };
        assert_eq!(store.list(&Query::default(), None).unwrap().total, 0);
        assert!(
            store.warnings()[0].contains("cannot be understood"),
            "{end}"
        );
    }
}
