//! What stands in a transcript (15.2): lines, and the messages in them.
//!
//! The stored shape is kept as JSON (tool results give it out unchanged but for the cleaning of §4.3); [`Message`] is
//! the tolerant reading of it that screens use. Reading never fails: what is not understood becomes
//! [`Content::Damage`] or [`Block::Unknown`], visible, never dropped. Absent on purpose: files.

use crate::text::Untrusted;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `customType` of a post of the engine in a session's view (N-16).
pub const POST: &str = "crosstalk.post";

/// Who routed a message (S-21, D-23).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    pub kind: ProvenanceKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_session_key: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_channel: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_tool: Option<Untrusted>,
}

/// D-23; another value counts as no provenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProvenanceKind {
    ExternalUser,
    InterSession,
    InternalSystem,
}

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
    ToolResult,
    System,
    /// Kept and shown as it is.
    Other(Untrusted),
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Text(Untrusted),
    Thinking(Untrusted),
    ToolCall {
        id: Untrusted,
        name: Untrusted,
        arguments: Value,
    },
    /// `bytes` is the decoded size when data was there.
    Image {
        mime: Option<Untrusted>,
        bytes: Option<u64>,
    },
    /// Anything else, with its type when it has one.
    Unknown {
        kind: Option<Untrusted>,
        json: Value,
    },
}

/// Tokens and cost of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    pub input: i64,
    pub output: i64,
    pub cache_read: i64,
    pub cache_write: i64,
    pub total_tokens: i64,
    /// US dollars, when prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// One item of a transcript as a reader sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Id of the line; made from the position when the line has none.
    pub id: Untrusted,
    /// Byte offset of the line in its file, or its number in a database.
    pub position: u64,
    /// Milliseconds since 1970; `None` when the transcript does not say, or not in a way that can be read.
    pub at: Option<i64>,
    pub content: Content,
}

/// What the item is.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Said(Said),
    /// `compaction`, `model_change` and the other lines that are not messages: a word and one line of detail.
    Note {
        kind: Untrusted,
        text: Untrusted,
    },
    /// A line that could not be read.
    Damage {
        reason: &'static str,
        bytes: u64,
    },
}

/// A message proper.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    pub role: Role,
    pub blocks: Vec<Block>,
    pub provenance: Option<Provenance>,
    pub model: Option<Untrusted>,
    pub provider: Option<Untrusted>,
    pub usage: Option<Usage>,
    pub stop_reason: Option<Untrusted>,
    pub error: Option<Untrusted>,
    /// For tool results.
    pub tool_call_id: Option<Untrusted>,
    pub tool_name: Option<Untrusted>,
    pub is_error: bool,
    /// Member `runId` of lines we write, so that a message can be followed to its run.
    pub run_id: Option<Untrusted>,
    /// An envelope around a user's text that a gateway stored (stripped from `blocks`, shown in the raw view).
    pub envelope: Option<Untrusted>,
}

impl Said {
    /// Text blocks joined without separator (S-40).
    pub fn text(&self) -> String {
        self.blocks.iter().fold(String::new(), |mut all, block| {
            if let Block::Text(text) = block {
                all.push_str(text.raw());
            }
            all
        })
    }

    /// Came from another session.
    pub fn is_inter_session(&self) -> bool {
        self.provenance
            .as_ref()
            .is_some_and(|p| p.kind == ProvenanceKind::InterSession)
    }
}

/// A transcript line as JSON, with where it stands: what stores give and the wire carries. [`Message::read`] makes it
/// readable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RawLine {
    /// Byte offset in the file, or number in a database.
    pub position: u64,
    /// Length in bytes without the line break.
    pub bytes: u64,
    /// The parsed line; `null` when it is damaged, then `damage` says how.
    #[serde(default)]
    pub line: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<Damage>,
}

/// Why a line cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Damage {
    /// The last line, without its end: torn, or being written.
    Torn,
    NotJson,
    NotUtf8,
    /// JSON, but not an object.
    NotAnObject,
    /// Longer than what is read for a view; `bytes` tells.
    TooLong,
    /// It was stored packed, and what is there cannot be unpacked.
    NotUnpacked,
}

impl Damage {
    /// In words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Damage::Torn => "line is cut off",
            Damage::NotJson => "line is not JSON",
            Damage::NotUtf8 => "line is not UTF-8 text",
            Damage::NotAnObject => "line is not an object",
            Damage::TooLong => "line is too long to show",
            Damage::NotUnpacked => "line cannot be unpacked",
        }
    }
}

impl RawLine {
    /// The member `message` of a message line: `type: "message"`, or no type at all (D-24).
    pub fn message(&self) -> Option<&Value> {
        let object = self.line.as_object()?;
        match object.get("type").and_then(Value::as_str) {
            Some("message") | None => object.get("message").filter(|m| m.is_object()),
            Some(_) => None,
        }
    }

    /// The line's id.
    pub fn id(&self) -> Option<&str> {
        self.line.get("id").and_then(Value::as_str)
    }
}

impl Message {
    /// Reads a line; `None` for the header and for lines that carry nothing to show (`custom`, `label`,
    /// `session_info`).
    pub fn read(raw: &RawLine) -> Option<Message> {
        let id = || {
            Untrusted::new(
                raw.id()
                    .map_or_else(|| format!("@{}", raw.position), str::to_owned),
            )
        };
        if let Some(damage) = raw.damage {
            let content = Content::Damage {
                reason: damage.as_str(),
                bytes: raw.bytes,
            };
            return Some(Message {
                id: id(),
                position: raw.position,
                at: None,
                content,
            });
        }
        let line_at = || raw.line.get("timestamp").and_then(read_time);
        if let Some(message) = raw.message() {
            let at = message
                .get("timestamp")
                .and_then(read_time)
                .or_else(line_at);
            return Some(Message {
                id: id(),
                position: raw.position,
                at,
                content: Content::Said(read_said(message, &raw.line)),
            });
        }
        let text_of = |name: &str| raw.line.get(name).map_or_else(String::new, plain);
        let (kind, text) = match raw.line.get("type").and_then(Value::as_str) {
            Some("custom") if raw.line.get("customType") == Some(&POST.into()) => {
                let text = raw.line.get("data").and_then(|data| data.get("text"));
                ("report", text.map_or_else(String::new, plain))
            }
            Some("session" | "custom" | "label" | "session_info") => return None,
            Some("compaction") => ("compaction", text_of("summary")),
            Some("branch_summary") => ("branch_summary", text_of("summary")),
            Some("custom_message") => ("custom_message", text_of("content")),
            Some("model_change") => (
                "model_change",
                format!("{}/{}", text_of("provider"), text_of("modelId")),
            ),
            Some("thinking_level_change") => ("thinking_level_change", text_of("thinkingLevel")),
            Some(other) => (other, String::new()),
            None => ("unknown line", String::new()),
        };
        let content = Content::Note {
            kind: kind.into(),
            text: text.into(),
        };
        Some(Message {
            id: id(),
            position: raw.position,
            at: line_at(),
            content,
        })
    }

    /// The message proper, when it is one.
    pub fn said(&self) -> Option<&Said> {
        match &self.content {
            Content::Said(said) => Some(said),
            _ => None,
        }
    }
}

/// The text of a value: a string as it is, anything else as JSON.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Times in seconds, milliseconds, or ISO text; nonsense is `None`, never 1970.
pub fn read_time(value: &Value) -> Option<i64> {
    const YEAR_2000_S: i64 = 946_684_800;
    const YEAR_2200_S: i64 = 7_258_118_400;
    let number = match value {
        Value::Number(n) => n
            .as_i64()
            .or_else(|| n.as_f64().filter(|f| f.is_finite()).map(|f| f as i64))?,
        Value::String(text) => match text.trim().parse::<i64>() {
            Ok(number) => number,
            Err(_) => {
                return text
                    .trim()
                    .parse::<jiff::Timestamp>()
                    .ok()
                    .map(jiff::Timestamp::as_millisecond);
            }
        },
        _ => return None,
    };
    match number {
        YEAR_2000_S..=YEAR_2200_S => Some(number * 1000),
        n if (YEAR_2000_S * 1000..=YEAR_2200_S * 1000).contains(&n) => Some(n),
        _ => None,
    }
}

fn text_member(value: &Value, name: &str) -> Option<Untrusted> {
    value
        .get(name)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
        .map(Untrusted::from)
}

fn read_said(message: &Value, line: &Value) -> Said {
    let role = match message.get("role").and_then(Value::as_str) {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("toolResult" | "tool") => Role::ToolResult,
        Some("system") => Role::System,
        Some(other) => Role::Other(other.into()),
        None => Role::Other("unknown role".into()),
    };
    let mut blocks = match message.get("content") {
        Some(Value::String(text)) => vec![Block::Text(text.as_str().into())],
        Some(Value::Array(parts)) => parts.iter().map(read_block).collect(),
        Some(Value::Null) | None => Vec::new(),
        Some(part @ Value::Object(_)) => vec![read_block(part)],
        Some(other) => vec![Block::Unknown {
            kind: None,
            json: other.clone(),
        }],
    };
    if blocks.is_empty() {
        blocks.extend(text_member(message, "text").map(Block::Text));
    }
    let mut envelope = None;
    let first_text = blocks.iter_mut().find_map(|block| match block {
        Block::Text(text) => Some(text),
        _ => None,
    });
    if role == Role::User
        && let Some(text) = first_text
        && let Some(inner) = strip_envelope(text.raw())
    {
        envelope = Some(std::mem::replace(text, inner.into()));
    }
    Said {
        role,
        blocks,
        provenance: message
            .get("provenance")
            .and_then(|p| serde_json::from_value(p.clone()).ok()),
        model: text_member(message, "model"),
        provider: text_member(message, "provider"),
        usage: message.get("usage").and_then(read_usage),
        stop_reason: text_member(message, "stopReason"),
        error: text_member(message, "errorMessage"),
        tool_call_id: text_member(message, "toolCallId"),
        tool_name: text_member(message, "toolName"),
        is_error: message
            .get("isError")
            .and_then(Value::as_bool)
            .unwrap_or(false),
        run_id: text_member(message, "runId").or_else(|| text_member(line, "runId")),
        envelope,
    }
}

fn read_block(part: &Value) -> Block {
    let unknown = || Block::Unknown {
        kind: text_member(part, "type"),
        json: part.clone(),
    };
    match part.get("type").and_then(Value::as_str) {
        Some("text") => part
            .get("text")
            .and_then(Value::as_str)
            .map_or_else(unknown, |t| Block::Text(t.into())),
        Some("thinking") => part
            .get("thinking")
            .and_then(Value::as_str)
            .map_or_else(unknown, |t| Block::Thinking(t.into())),
        Some("toolCall" | "tool_use" | "toolUse") => Block::ToolCall {
            id: text_member(part, "id").unwrap_or_default(),
            name: text_member(part, "name").unwrap_or_else(|| "unnamed tool".into()),
            arguments: part
                .get("arguments")
                .or_else(|| part.get("input"))
                .cloned()
                .unwrap_or(Value::Null),
        },
        Some("image") => Block::Image {
            mime: text_member(part, "mimeType"),
            bytes: part
                .get("bytes")
                .and_then(Value::as_u64)
                .or_else(|| part.get("data").and_then(Value::as_str).map(decoded_len)),
        },
        _ => part
            .as_str()
            .map_or_else(unknown, |text| Block::Text(text.into())),
    }
}

/// Decoded size of a base64 text, from its length (H-34).
pub fn decoded_len(base64: &str) -> u64 {
    let padding = base64.bytes().rev().take(2).filter(|b| *b == b'=').count() as u64;
    (base64.len() as u64 / 4 * 3 + (base64.len() as u64 % 4) * 3 / 4).saturating_sub(padding)
}

fn read_usage(value: &Value) -> Option<Usage> {
    /// More is no count of tokens.
    const MOST: i64 = 1_000_000_000_000;
    let number = |name: &str| {
        value
            .get(name)
            .and_then(Value::as_i64)
            .filter(|n| (0..=MOST).contains(n))
            .unwrap_or(0)
    };
    value.as_object()?;
    Some(Usage {
        input: number("input"),
        output: number("output"),
        cache_read: number("cacheRead"),
        cache_write: number("cacheWrite"),
        total_tokens: number("totalTokens"),
        cost_usd: value
            .get("cost")
            .and_then(|c| c.get("total"))
            .and_then(Value::as_f64)
            .filter(|c| *c > 0.0),
    })
}

/// The words inside the envelope that OpenClaw stores around them; `None` when there is no envelope. In order, each part
/// may be missing: fenced metadata (`Sender (untrusted metadata):` …), the header of a message from another session
/// (of later versions), and the time (`[Day date time UTC] text`).
pub fn strip_envelope(text: &str) -> Option<String> {
    let mut rest = text;
    while let Some(tail) = strip_metadata(rest) {
        rest = tail;
    }
    rest = strip_routed(rest).unwrap_or(rest);
    if let Some((stamp, tail)) = rest
        .strip_prefix('[')
        .and_then(|tail| tail.split_once("] "))
        && is_stamp(stamp)
    {
        rest = tail;
    }
    (rest.len() < text.len()).then(|| rest.to_owned())
}

/// After a block of metadata. Its JSON holds no line that begins with a fence: breaks in strings are escaped.
fn strip_metadata(text: &str) -> Option<&str> {
    let (title, tail) = text.split_once(":\n```json\n")?;
    let known = matches!(
        title,
        "Sender (untrusted metadata)" | "Conversation info (untrusted metadata)"
    );
    let (_, after) = tail.split_once("\n```").filter(|_| known)?;
    Some(after.trim_start_matches('\n'))
}

/// After the two lines above a message that another session sent.
fn strip_routed(text: &str) -> Option<&str> {
    let (header, tail) = text.split_once('\n')?;
    let (remark, after) = tail.split_once('\n')?;
    let known = header.starts_with("[Inter-session message] sourceSession=")
        && remark.starts_with("This content was routed by OpenClaw from another session");
    known.then_some(after)
}

/// `Mon 2026-11-30 21:19 UTC`
fn is_stamp(text: &str) -> bool {
    let mut words = text.split(' ');
    let day = words
        .next()
        .is_some_and(|w| w.len() == 3 && w.bytes().all(|b| b.is_ascii_alphabetic()));
    let date = words
        .next()
        .is_some_and(|w| w.len() == 10 && w.bytes().all(|b| b.is_ascii_digit() || b == b'-'));
    let time = words
        .next()
        .is_some_and(|w| w.len() >= 5 && w.bytes().all(|b| b.is_ascii_digit() || b == b':'));
    day && date && time && words.count() <= 1
}
