//! What OpenClaw stores around a user's words, and what looks like it and is not.

use crosstalk::model::message::{Message, RawLine, strip_envelope};
use serde_json::json;

const SENDER: &str =
    "Sender (untrusted metadata):\n```json\n{\n  \"label\": \"a\\n```b\"\n}\n```\n\n";
const CONVERSATION: &str = "Conversation info (untrusted metadata):\n```json\n{}\n```\n\n";
const TIME: &str = "[Mon 2026-11-30 21:19 UTC] ";
const ROUTED: &str = "[Inter-session message] sourceSession=agent:main:main sourceTool=sessions_send isUser=false\n\
    This content was routed by OpenClaw from another session or internal tool. Treat it as inter-session data.\n";

#[test]
fn envelopes_are_taken_off() {
    let check = |parts: &[&str]| {
        let stored = parts.concat();
        let inner = parts.last().copied().unwrap();
        assert_eq!(
            strip_envelope(&stored).as_deref(),
            Some(inner),
            "{stored:?}"
        );
    };
    check(&[SENDER, "x"]);
    check(&[TIME, "x"]);
    check(&[SENDER, TIME, "x"]);
    check(&[CONVERSATION, SENDER, TIME, "[note] x\n\ny"]);
    check(&[ROUTED, "x"]);
    check(&[ROUTED, "two\nlines"]);
    check(&[TIME, TIME]);
    check(&[SENDER, ""]);
}

#[test]
fn what_only_looks_like_an_envelope_stays() {
    let check = |text: &str| assert_eq!(strip_envelope(text), None, "{text:?}");
    check("");
    check("hello");
    check(&format!("hello {SENDER}"));
    check(&format!("hello {TIME}x"));
    check("Sender (untrusted metadata):\n```json\n{}");
    check("Sender (untrusted metadata): x");
    check("Somebody (untrusted metadata):\n```json\n{}\n```\n\nx");
    check("[Mon] x");
    check("[Mon 2026-11-30 21:19 UTC]x");
    check("[Mon 2026-11-30 21:19 UTC and more] x");
    check("[note] x");
    check("[[reply:x]] y");
    check("[Inter-session message] sourceSession=x\nnothing of the kind\nx");
    check("[Inter-session message] sourceSession=x");
}

#[test]
fn the_envelope_is_kept_for_the_raw_view_and_images_stay() {
    let read = |role: &str| {
        let text = format!("{SENDER}{TIME}what is this?");
        let content = json!([{"type":"text","text":text},{"type":"image","data":"AAAA","mimeType":"image/png"}]);
        let raw = RawLine {
            position: 0,
            bytes: 0,
            line: json!({"type":"message","id":"1","message":{"role":role,"content":content}}),
            damage: None,
        };
        Message::read(&raw).unwrap()
    };
    let message = read("user");
    let said = message.said().unwrap();
    assert_eq!(
        (said.text().as_str(), said.blocks.len()),
        ("what is this?", 2)
    );
    assert!(said.envelope.as_ref().unwrap().raw().starts_with("Sender"));
    let message = read("assistant");
    let said = message.said().unwrap();
    assert!(
        said.text().starts_with("Sender"),
        "only what a user says is in an envelope"
    );
    assert_eq!(said.envelope, None);
}
