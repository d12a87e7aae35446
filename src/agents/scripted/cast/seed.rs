//! The sessions a story begins with, as entries and transcript lines (15.2).
//!
//! Everything is a function of the start time: ids are UUIDs of version 7 (AM-7) whose random part is a count.

use super::{Script, Text, tokens};
use crate::model::key::{AgentId, SessionKey};
use crate::model::session::Entry;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// One session to begin with.
#[derive(Debug, Clone)]
pub struct Seed {
    pub entry: Entry,
    /// The header, then the messages.
    pub lines: Vec<Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeedLine {
    key: String,
    /// Members of the stored entry.
    #[serde(default)]
    entry: Map<String, Value>,
    messages: Vec<MessageLine>,
}

/// A message: exactly one of `user`, `agent`, `calls` (with thinking before it, if any), `failed`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageLine {
    /// Minutes before the start.
    ago: f64,
    user: Option<String>,
    /// The session the user message came from.
    from: Option<String>,
    /// The channel the user message came from.
    channel: Option<String>,
    agent: Option<Text>,
    thinking: Option<String>,
    #[serde(default)]
    calls: Vec<CallLine>,
    failed: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallLine {
    tool: String,
    args: Value,
    result: String,
    #[serde(default)]
    error: bool,
}

/// Milliseconds between a call and its result.
const CALL_MS: i64 = 400;

/// How much of a text an entry keeps as title and preview, in characters.
const KEPT_CHARS: usize = 200;

pub(super) fn seeds(script: &Script, now_ms: i64) -> Vec<Seed> {
    script
        .seed
        .iter()
        .enumerate()
        .map(|(at, line)| Writer::new(script, line, at, now_ms).write(line, now_ms))
        .collect()
}

/// A UUID of version 7 of a time; `session` and `count` make it unique.
fn id(at_ms: i64, session: usize, count: usize) -> String {
    let mut rest = [0_u8; 10];
    rest[2..6].copy_from_slice(&u32::try_from(session).unwrap_or(u32::MAX).to_be_bytes());
    rest[6..].copy_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
    let millis = u64::try_from(at_ms).unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(millis, &rest)
        .into_uuid()
        .to_string()
}

fn iso(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .unwrap_or_default()
        .to_string()
}

fn before(now_ms: i64, minutes: f64) -> i64 {
    now_ms - (minutes * 60_000.0) as i64
}

fn kept(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(KEPT_CHARS).collect()
}

/// Writes the lines of one session and counts what its entry tells about them.
struct Writer<'a> {
    script: &'a Script,
    key: SessionKey,
    model: String,
    session: usize,
    session_id: String,
    lines: Vec<Value>,
    count: i64,
    /// Tokens of everything so far, instructions included.
    context: i64,
    input: i64,
    output: i64,
    cost: f64,
    first_user: Option<String>,
    last_text: Option<String>,
    asked_at: i64,
    ended_at: i64,
}

impl<'a> Writer<'a> {
    fn new(script: &'a Script, line: &SeedLine, session: usize, now_ms: i64) -> Self {
        let key = SessionKey::foreign(&line.key);
        let agent = key.agent().unwrap_or_else(AgentId::main);
        let start = line
            .messages
            .first()
            .map_or(now_ms, |message| before(now_ms, message.ago));
        let session_id = id(start, session, 0);
        let agent_line = script.agent(&agent);
        let header = json!({
            "type": "session", "version": 3, "id": session_id, "timestamp": iso(start), "cwd": "/",
        });
        Self {
            script,
            key,
            model: agent_line.map_or_else(String::new, |agent| agent.model.clone()),
            context: agent_line.map_or(0, |agent| agent.prompt),
            session,
            session_id,
            lines: vec![header],
            count: 0,
            input: 0,
            output: 0,
            cost: 0.0,
            first_user: None,
            last_text: None,
            asked_at: start,
            ended_at: start,
        }
    }

    fn write(mut self, line: &SeedLine, now_ms: i64) -> Seed {
        for message in &line.messages {
            let at = before(now_ms, message.ago);
            if let Some(text) = &message.user {
                self.user(at, text, message);
            } else {
                self.assistant(at, message);
            }
        }
        let entry = self.entry(line);
        Seed {
            entry,
            lines: self.lines,
        }
    }

    fn push(&mut self, at: i64, message: Value) {
        let parent = match self.lines.len() {
            0 | 1 => Value::Null,
            _ => self
                .lines
                .last()
                .and_then(|line| line.get("id"))
                .cloned()
                .unwrap_or_default(),
        };
        self.count += 1;
        self.context += tokens(&message.to_string());
        self.ended_at = at;
        self.lines.push(json!({
            "type": "message",
            "id": id(at, self.session, self.lines.len()),
            "parentId": parent,
            "timestamp": iso(at),
            "message": message,
        }));
    }

    fn user(&mut self, at: i64, text: &str, line: &MessageLine) {
        let provenance = match (&line.from, &line.channel) {
            (Some(from), _) => json!({
                "kind": "inter_session", "sourceSessionKey": from, "sourceTool": "sessions_send",
            }),
            (None, Some(channel)) => json!({ "kind": "external_user", "sourceChannel": channel }),
            (None, None) => json!({ "kind": "external_user", "sourceChannel": "webchat" }),
        };
        if line.from.is_none() && self.first_user.is_none() {
            self.first_user = Some(kept(text));
        }
        self.last_text = Some(kept(text));
        self.asked_at = at;
        self.push(
            at,
            json!({
                "role": "user",
                "content": [{ "type": "text", "text": text }],
                "timestamp": at,
                "provenance": provenance,
            }),
        );
    }

    fn assistant(&mut self, at: i64, line: &MessageLine) {
        let mut blocks = Vec::new();
        if let Some(thinking) = &line.thinking {
            blocks.push(json!({ "type": "thinking", "thinking": thinking }));
        }
        if let Some(text) = line.agent.as_ref().map(Text::get) {
            self.last_text = Some(kept(&text));
            blocks.push(json!({ "type": "text", "text": text }));
        }
        let call_id = |count: usize, call: usize, at: i64| {
            format!(
                "call_{}",
                id(at, self.session, count * 16 + call).replace('-', "")
            )
        };
        let ids: Vec<String> = (0..line.calls.len())
            .map(|call| call_id(self.lines.len(), call, at))
            .collect();
        for (call, id) in line.calls.iter().zip(&ids) {
            blocks.push(
                json!({ "type": "toolCall", "id": id, "name": call.tool, "arguments": call.args }),
            );
        }
        let stop = match (&line.failed, line.calls.is_empty()) {
            (Some(_), _) => "error",
            (None, false) => "toolUse",
            (None, true) => "stop",
        };
        let mut message = json!({
            "role": "assistant",
            "content": blocks,
            "api": "scripted",
            "stopReason": stop,
            "timestamp": at,
        });
        let output = tokens(&message["content"].to_string());
        let (provider, name) = self.model.split_once('/').unwrap_or(("scripted", ""));
        message["provider"] = provider.into();
        message["model"] = name.into();
        message["usage"] = self.usage(output);
        if let Some(error) = &line.failed {
            message["errorMessage"] = error.as_str().into();
        }
        self.push(at, message);
        for (call, id) in line.calls.iter().zip(&ids) {
            self.push(
                self.ended_at + CALL_MS,
                json!({
                    "role": "toolResult",
                    "toolCallId": id,
                    "toolName": call.tool,
                    "content": [{ "type": "text", "text": call.result }],
                    "isError": call.error,
                    "timestamp": self.ended_at + CALL_MS,
                }),
            );
        }
    }

    fn usage(&mut self, output: i64) -> Value {
        let input = self.context;
        let price = self
            .script
            .model(&self.model)
            .map_or_else(Default::default, |m| m.price);
        let (read, written) = price.of(input, output);
        self.input = input;
        self.output = output;
        self.cost += read + written;
        json!({
            "input": input, "output": output, "cacheRead": 0, "cacheWrite": 0, "totalTokens": input + output,
            "cost": { "input": read, "output": written, "cacheRead": 0.0, "cacheWrite": 0.0, "total": read + written },
        })
    }

    fn entry(&self, line: &SeedLine) -> Entry {
        let (provider, name) = self.model.split_once('/').unwrap_or(("scripted", ""));
        let window = self
            .script
            .model(&self.model)
            .map(|model| model.context_window);
        let mut members = json!({
            "sessionId": self.session_id,
            "updatedAt": self.ended_at,
            "systemSent": true,
            "modelProvider": provider,
            "model": name,
            "status": "done",
            "startedAt": self.asked_at,
            "endedAt": self.ended_at,
            "runtimeMs": self.ended_at - self.asked_at,
            "inputTokens": self.input,
            "outputTokens": self.output,
            "totalTokens": self.input + self.output,
            "totalTokensFresh": true,
            "contextTokens": window,
            "estimatedCostUsd": self.cost,
            "messageCount": self.count,
            "firstUserText": self.first_user,
            "lastText": self.last_text,
        });
        if let Value::Object(members) = &mut members {
            members.retain(|_, value| !value.is_null());
            members.extend(line.entry.clone());
        }
        // Members that do not fit leave a session without them rather than no session; a test reads them all.
        let mut entry: Entry = serde_json::from_value(members).unwrap_or_else(|_| {
            Entry::new(self.key.clone(), self.session_id.clone(), self.ended_at)
        });
        entry.key = self.key.clone();
        entry
    }
}
