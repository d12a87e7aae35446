//! The reading half of the session tools: references, rows, lists, histories, agents; and attachments.

mod agents;
mod attachments;
mod files;
mod history;
mod list;
mod memory;
mod references;
mod visibility;

use crosstalk::config::Settings;
use crosstalk::engine::context::Context;
use crosstalk::engine::{history as history_tool, list as list_tool};
use crosstalk::model::key::SessionKey;
use crosstalk::model::visibility::{CrossAgent, Level};
use memory::Memory;
use serde_json::{Map, Value, json};

/// The clock of these tests.
pub const NOW: i64 = 1_800_000_000_000;

/// A requester, a configuration and a store.
pub struct World {
    pub store: Memory,
    pub settings: Settings,
    pub context: Context,
}

impl World {
    /// `agent:main:main`, not sandboxed, level `agent`.
    pub fn new() -> Self {
        let settings = Settings {
            visibility: Level::Agent,
            ..Settings::default()
        };
        let context = Context::session(&settings, key("agent:main:main"));
        Self {
            store: Memory::default(),
            settings,
            context,
        }
    }

    pub fn with(mut self, key: &str, members: Value) -> Self {
        self.store.put(key, members);
        self
    }

    pub fn level(mut self, level: Level) -> Self {
        self.settings.visibility = level;
        self
    }

    pub fn cross(mut self, enabled: bool, allow: &[&str]) -> Self {
        self.settings.cross_agent = CrossAgent {
            enabled,
            allow: allow.iter().map(|id| (*id).to_owned()).collect(),
        };
        self
    }

    pub fn requester(mut self, requester: &str) -> Self {
        self.context = Context::session(&self.settings, key(requester));
        self
    }

    pub fn sandboxed(mut self) -> Self {
        self.context.sandboxed = true;
        self
    }

    pub fn person(mut self) -> Self {
        self.context = Context::person(&self.settings);
        self
    }

    pub fn list(&self, arguments: Value) -> Value {
        let arguments = object(arguments);
        let payload = list_tool::list(&self.store, &self.settings, &self.context, &arguments, NOW);
        assert_no_null(&payload);
        payload
    }

    pub fn history(&self, arguments: Value) -> Value {
        let arguments = object(arguments);
        let payload = history_tool::history(&self.store, &self.settings, &self.context, &arguments);
        assert_no_null(&payload);
        payload
    }

    /// Keys of a list, in order.
    pub fn keys(&self, arguments: Value) -> Vec<String> {
        rows(&self.list(arguments))
            .iter()
            .map(|row| row["key"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The row with a display key.
    pub fn row(&self, key: &str) -> Value {
        self.row_of(json!({}), key)
    }

    pub fn row_of(&self, arguments: Value, key: &str) -> Value {
        let payload = self.list(arguments);
        rows(&payload)
            .iter()
            .find(|row| row["key"] == key)
            .unwrap_or_else(|| panic!("no row {key} in {payload:#}"))
            .clone()
    }
}

pub fn rows(payload: &Value) -> &Vec<Value> {
    payload["sessions"]
        .as_array()
        .unwrap_or_else(|| panic!("no rows: {payload}"))
}

pub fn key(text: &str) -> SessionKey {
    SessionKey::parse(text).unwrap()
}

pub fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// AC-35, in every test.
pub fn assert_no_null(payload: &Value) {
    match payload {
        Value::Null => panic!("null in a payload"),
        Value::Array(items) => items.iter().for_each(assert_no_null),
        Value::Object(members) => members.values().for_each(assert_no_null),
        _ => {}
    }
}

pub fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text, "timestamp": 1 })
}

pub fn assistant(text: &str) -> Value {
    json!({ "role": "assistant", "content": [{ "type": "text", "text": text }] })
}

pub fn tool_call() -> Value {
    json!({ "role": "assistant", "content": [
        { "type": "toolCall", "id": "c1", "name": "read", "arguments": { "path": "x" } }
    ] })
}

pub fn tool_result(text: &str) -> Value {
    json!({ "role": "toolResult", "toolCallId": "c1", "toolName": "read",
        "content": [{ "type": "text", "text": text }] })
}

/// Texts of a history's or row's messages.
pub fn texts(payload: &Value) -> Vec<String> {
    payload["messages"]
        .as_array()
        .unwrap_or_else(|| panic!("no messages: {payload}"))
        .iter()
        .map(|message| match &message["content"] {
            Value::String(text) => text.clone(),
            content => content[0]["text"].as_str().unwrap_or("-").to_owned(),
        })
        .collect()
}
