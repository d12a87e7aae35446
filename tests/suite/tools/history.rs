use super::*;
use crosstalk::engine::history::{clean_message, lines};
use crosstalk::protocol::methods::{Code, HistoryRequest, HistorySpan};
use crosstalk::text::mask::Masker;
use proptest::prelude::*;
use std::sync::atomic::Ordering;

const MAIN: &str = "agent:main:main";

fn told(messages: impl IntoIterator<Item = Value>) -> World {
    let mut world = World::new().with(MAIN, json!({}));
    world.store.say(MAIN, messages);
    world
}

fn ask(world: &World, more: Value) -> Value {
    let mut arguments = json!({ "sessionKey": "main" });
    for (name, value) in object(more) {
        arguments[name] = value;
    }
    world.history(arguments)
}

fn flags(answer: &Value) -> String {
    [
        "truncated",
        "droppedMessages",
        "contentTruncated",
        "contentRedacted",
    ]
    .into_iter()
    .filter(|name| answer[*name].as_bool().unwrap())
    .collect::<Vec<_>>()
    .join(" ")
}

#[test]
fn ac_37_tool_results_on_demand() {
    let world = told([
        user("q"),
        tool_call(),
        tool_result("r"),
        json!({ "role": "tool", "content": "t" }),
    ]);
    let answer = ask(&world, json!({}));
    assert_eq!(answer["messages"].as_array().unwrap().len(), 2);
    assert_eq!(answer["messages"][1]["content"][0]["type"], "toolCall");
    assert_eq!(flags(&answer), "");
    assert_eq!(
        texts(&ask(&world, json!({ "includeTools": true }))),
        ["q", "-", "r", "t"]
    );
    for not_true in [json!("true"), json!(1)] {
        let answer = ask(&world, json!({ "includeTools": not_true }));
        assert_eq!(answer["messages"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn ac_38_limit() {
    let world = told((0..1500).map(|at| user(&at.to_string())));
    let count = |limit: Value| texts(&ask(&world, json!({ "limit": limit })));
    assert_eq!(texts(&ask(&world, json!({}))).len(), 200);
    assert_eq!(count(json!(5000)).len(), 1000);
    assert_eq!(count(json!(0)), ["1499"]);
    assert_eq!(count(json!(2)), ["1498", "1499"]);
    let mut world = told([user("q"), assistant("the answer")]);
    world.store.say(MAIN, (0..10).map(|_| tool_result("r")));
    assert_eq!(texts(&ask(&world, json!({ "limit": 1 }))), ["the answer"]);
}

#[test]
fn ac_38_a_long_transcript_is_not_read_whole() {
    let world = told((0..50_000).map(|at| user(&at.to_string())));
    ask(&world, json!({ "limit": 10 }));
    assert!(world.store.lines_read.load(Ordering::Relaxed) <= 64);
}

#[test]
fn ac_39_texts_are_cut_at_4000() {
    for (text, cut) in [
        ("x".repeat(4000), None),
        ("x".repeat(4001), Some("x".repeat(4000))),
        ("ä".repeat(4000), None),
        (format!("{}😀", "x".repeat(3999)), Some("x".repeat(3999))),
        (format!("{}😀", "x".repeat(3998)), None),
    ] {
        for message in [user(&text), assistant(&text)] {
            let answer = ask(&told([message]), json!({}));
            match &cut {
                None => {
                    assert_eq!(texts(&answer), std::slice::from_ref(&text));
                    assert_eq!(flags(&answer), "");
                }
                Some(cut) => {
                    assert_eq!(texts(&answer), [format!("{cut}\n…(truncated)…")]);
                    assert_eq!(flags(&answer), "truncated contentTruncated");
                }
            }
        }
    }
}

#[test]
fn ac_40_images_lose_their_data() {
    let image = json!({ "role": "user", "content": [
        { "type": "image", "data": "aGVsbG8=", "mimeType": "image/png" }] });
    let answer = ask(&told([image]), json!({}));
    assert_eq!(
        answer["messages"][0]["content"][0],
        json!({ "type": "image", "mimeType": "image/png", "omitted": true, "bytes": 5 })
    );
    assert_eq!(flags(&answer), "truncated contentTruncated");
}

#[test]
fn h_35_image_data_in_other_places() {
    let url = format!("data:image/png;base64,{}", "A".repeat(400));
    let data = "QUJD".repeat(20);
    let answer = ask(
        &told([json!({ "role": "user", "content": [
            { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": data } },
            { "type": "image_url", "image_url": { "url": url } },
            { "type": "toolCall", "id": "1", "name": "draw", "arguments": { "pictures": [url, "data:image/png;base64,AAAA"] } },
            { "type": "text", "text": format!("see {url} there") },
        ] })]),
        json!({}),
    );
    let content = &answer["messages"][0]["content"];
    assert_eq!(content[0]["source"]["bytes"], 60);
    assert_eq!(content[0]["omitted"], true);
    assert_eq!(
        content[1]["image_url"],
        json!({ "omitted": true, "bytes": 300 })
    );
    assert_eq!(
        content[2]["arguments"]["pictures"][1],
        "data:image/png;base64,AAAA"
    );
    assert_eq!(content[3]["text"], "see [image omitted: 300 bytes] there");
    let text = answer.to_string();
    assert!(
        !text.contains("AAAAAAAA") && !text.contains("QUJD"),
        "{text}"
    );
}

#[test]
fn ac_41_byte_cap() {
    let world = told((0..100).map(|at| user(&format!("{at} {}", "ü".repeat(1500)))));
    let answer = ask(&world, json!({}));
    let size = serde_json::to_string(&answer["messages"]).unwrap().len();
    assert!(size <= 81_920);
    assert_eq!(answer["bytes"], size);
    assert_eq!(flags(&answer), "truncated droppedMessages");
    let texts = texts(&answer);
    assert!(texts.last().unwrap().starts_with("99 "));
    // One more would not have fitted.
    assert!(size + 3000 + 60 > 81_920, "{size}");
}

#[test]
fn ac_42_one_message_that_is_too_large() {
    let blocks: Vec<Value> = (0..30)
        .map(|_| json!({ "type": "text", "text": "x".repeat(3900) }))
        .collect();
    let world = told([
        user("before"),
        json!({ "role": "assistant", "content": blocks }),
    ]);
    let answer = ask(&world, json!({}));
    assert_eq!(
        answer["messages"],
        json!([{ "role": "assistant", "content": "[sessions_history omitted: message too large]" }])
    );
    assert_eq!(answer["bytes"], answer["messages"].to_string().len());
    assert_eq!(flags(&answer), "truncated droppedMessages");
    // Followed by a small one, it is only dropped.
    let world = told([
        json!({ "role": "assistant", "content": answer["messages"][0]["content"], "x": "y".repeat(90_000) }),
        user("after"),
    ]);
    let answer = ask(&world, json!({}));
    assert_eq!(texts(&answer), ["after"]);
    assert_eq!(flags(&answer), "truncated droppedMessages");
}

#[test]
fn ac_43_secrets_are_masked_before_the_cut() {
    let secret: String = (0..40).map(|at| char::from(b'a' + (at % 26))).collect();
    let secret = format!("sk-{secret}");
    let text = format!("{} OPENAI_API_KEY={secret}", "x".repeat(3974));
    for message in [
        user(&text),
        assistant(&text),
        json!({ "role": "assistant", "text": text,
        "content": [{ "type": "thinking", "thinking": text }] }),
    ] {
        let answer = ask(&told([message]), json!({}));
        assert_eq!(answer["contentRedacted"], true);
        let shown = answer.to_string();
        for start in 0..=secret.len() - 12 {
            assert!(!shown.contains(&secret[start..start + 12]), "{shown}");
        }
    }
    let short = ask(&told([user(&format!("key {secret}"))]), json!({}));
    assert_eq!(flags(&short), "contentRedacted");
}

#[test]
fn ac_45_silent_answers() {
    let thought = json!({ "role": "assistant", "content": [
        { "type": "thinking", "thinking": "hm" }, { "type": "text", "text": "NO_REPLY" }] });
    let called = json!({ "role": "assistant", "content": [
        { "type": "text", "text": "NO_REPLY" }, { "type": "toolCall", "id": "1", "name": "x", "arguments": {} }] });
    let world = told([
        assistant(" NO_REPLY "),
        json!({ "role": "assistant", "content": "NO_REPLY" }),
        thought,
        called,
        assistant("NO_REPLY later"),
        user("NO_REPLY"),
    ]);
    assert_eq!(
        texts(&ask(&world, json!({}))),
        ["NO_REPLY", "NO_REPLY later", "NO_REPLY"]
    );
}

#[test]
fn ac_46_compactions_and_broken_lines() {
    let mut world = told([user("one")]);
    world.store.line(MAIN, json!("{ not json"));
    world.store.line(
        MAIN,
        json!({ "type": "compaction", "id": "cafe0001", "summary": "long",
        "timestamp": "2026-03-13T10:22:33.123Z" }),
    );
    world.store.line(
        MAIN,
        json!({ "type": "custom", "customType": "x", "data": {} }),
    );
    world.store.line(
        MAIN,
        json!({ "message": { "role": "hookMessage", "content": "old" } }),
    );
    world.store.say(MAIN, [user("two")]);
    let answer = ask(&world, json!({}));
    assert_eq!(texts(&answer), ["one", "Compaction", "old", "two"]);
    let compaction = &answer["messages"][1];
    assert_eq!(compaction["role"], "system");
    assert_eq!(compaction["id"], "cafe0001");
    assert_eq!(compaction["timestamp"], 1_773_397_353_123_i64);
    assert_eq!(answer["messages"][2]["role"], "custom");
}

#[test]
fn ac_47_usage_is_gone() {
    let mut message = assistant("a");
    message["usage"] = json!({ "input": 1 });
    let answer = ask(&told([message]), json!({}));
    assert_eq!(answer["messages"], json!([assistant("a")]));
    assert_eq!(flags(&answer), "truncated contentTruncated");
}

#[test]
fn ac_48_a_key_without_a_session() {
    let answer = World::new().history(json!({ "sessionKey": "agent:main:telegram:group:none" }));
    assert_eq!(
        answer,
        json!({ "sessionKey": "agent:main:telegram:group:none", "messages": [], "truncated": false,
            "droppedMessages": false, "contentTruncated": false, "contentRedacted": false, "bytes": 2 })
    );
    // A session without a transcript is the same.
    let answer = ask(&World::new().with(MAIN, json!({})), json!({}));
    assert_eq!(
        (&answer["messages"], &answer["bytes"]),
        (&json!([]), &json!(2))
    );
}

#[test]
fn ac_49_provenance_is_kept() {
    let provenance = json!({ "kind": "inter_session", "sourceSessionKey": "agent:ops:main",
        "sourceTool": "sessions_send" });
    let answer = ask(
        &told([json!({ "role": "user", "content": "hi", "provenance": provenance })]),
        json!({}),
    );
    assert_eq!(answer["messages"][0]["provenance"], provenance);
}

#[test]
fn h_4_paging_by_offset() {
    let mut world = told((0..25).flat_map(|at| [user(&at.to_string()), tool_result("r")]));
    let mut seen = Vec::new();
    let mut offset = json!(0);
    loop {
        let page = ask(&world, json!({ "limit": 10, "offset": offset }));
        assert_eq!(page["offset"], offset);
        let mut messages = texts(&page);
        messages.extend(seen);
        seen = messages;
        if page["hasMore"] == false {
            assert_eq!(page.get("nextOffset"), None);
            assert_eq!(page["totalMessages"], 25);
            break;
        }
        offset = page["nextOffset"].clone();
    }
    assert_eq!(seen, (0..25).map(|at| at.to_string()).collect::<Vec<_>>());
    assert_eq!(ask(&world, json!({})).get("offset"), None);
    // The store's own count is used where it has one.
    world
        .store
        .put(MAIN, json!({ "messageCount": 50, "updatedAt": 2000 }));
    assert_eq!(
        ask(&world, json!({ "limit": 10, "offset": 0 }))["totalMessages"],
        50
    );
    assert_eq!(texts(&ask(&world, json!({ "offset": 99 }))).len(), 0);
}

#[test]
fn h_33_and_h_36_blocks() {
    let answer = ask(
        &told([json!({ "role": "assistant", "content": [
            { "type": "thinking", "thinking": "hm", "thinkingSignature": "s".repeat(9000), "reasoningReplay": {} },
            { "type": "toolCall", "id": "1", "name": "sessions_spawn",
              "arguments": { "task": "t", "label": null, "attachments": [{ "name": "n", "content": "SECRET" }] } },
        ] })]),
        json!({}),
    );
    let content = &answer["messages"][0]["content"];
    assert_eq!(content[0], json!({ "type": "thinking", "thinking": "hm" }));
    assert_eq!(
        content[1]["arguments"],
        json!({ "task": "t", "attachments": [{ "name": "n", "content": "__OPENCLAW_REDACTED__" }] })
    );
}

#[test]
fn h_12_lines_for_front_doors() {
    let mut world = told([user(&"x".repeat(9000)), tool_result("r")]);
    world.store.line(MAIN, json!("{ broken"));
    let get = |world: &World, key: &str, span| {
        let request = HistoryRequest {
            key: key.into(),
            span,
            limit: None,
        };
        lines(&world.store, &world.settings, &world.context, &request)
    };
    let all = get(&world, "main", HistorySpan::Tail).unwrap();
    assert_eq!(
        (all.key.raw(), all.exists, all.lines.len(), all.at_start),
        (MAIN, true, 3, true)
    );
    assert_eq!(
        all.lines[0].message().unwrap()["content"]
            .as_str()
            .unwrap()
            .len(),
        9000
    );
    assert_eq!(
        get(&world, "main", HistorySpan::After(2))
            .unwrap()
            .lines
            .len(),
        1
    );
    let none = get(&world, "agent:main:telegram:group:none", HistorySpan::Whole).unwrap();
    assert!(!none.exists && none.lines.is_empty());
    let code = |key: &str| get(&world, key, HistorySpan::Tail).unwrap_err().code;
    assert_eq!(code("agent:main"), Code::InvalidRequest);
    assert_eq!(code(""), Code::InvalidRequest);
    assert_eq!(code("0b9c2e6a-1111-4222-8333-444455556666"), Code::NotFound);
    assert_eq!(code("agent:ops:main"), Code::Forbidden);
    world.store.broken.push("agent-main-main".into());
    assert_eq!(
        get(&world, "main", HistorySpan::Tail).unwrap_err().code,
        Code::Io
    );
    assert_eq!(ask(&world, json!({}))["status"], "error");
}

fn any_json() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "role",
        "content",
        "type",
        "text",
        "thinking",
        "data",
        "usage",
        "name",
        "arguments",
        "attachments",
        "image",
        "source",
        "url",
        "partialJson",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(vec![
            "image",
            "text",
            "thinking",
            "toolCall",
            "sessions_spawn",
            "image/png",
            "😀"
        ])
        .prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(name.clone(), inner, 0..6).prop_map(|map| Value::Object(
                map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn h_30_cleaning_survives_anything_and_is_done_once(message in any_json()) {
        let masker = Masker::builtin();
        let (once, ..) = clean_message(&message, &masker);
        let (twice, truncated, _) = clean_message(&once, &masker);
        prop_assert_eq!(&once, &twice);
        prop_assert!(!truncated);
    }
}
