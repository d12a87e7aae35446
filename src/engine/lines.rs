//! Lines as they are written into transcripts (15.2), and the one writer of each.
//!
//! All writing to one transcript goes through one lock, in order; a line that was begun is finished whoever goes away.

use super::{Engine, lock};
use crate::agents::{Answer, ToolOutcome};
use crate::model::event::What;
use crate::model::key::SessionKey;
use crate::model::message::{POST, RawLine};
use crate::model::run::Run;
use crate::model::session::Entry;
use crate::store::{Sessions, Span, transcript};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// What is known of a transcript while its session is in use.
#[derive(Default)]
pub struct Writer {
    /// Session id the rest belongs to; a reset gives another.
    session_id: String,
    path: Option<PathBuf>,
    /// Id of the last line.
    parent: Option<String>,
}

/// A new line id (AM-7).
pub fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// ISO time of a line.
pub fn iso(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(
        |_| ms.to_string(),
        |time| time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
    )
}

/// Time as it stands in names of files put aside (LC-1): `2026-03-13T10-22-33.123Z`.
pub fn file_time(ms: i64) -> String {
    iso(ms).replace(':', "-")
}

/// The user message of a run (S-21, S-22).
pub fn user(run: &Run, at: i64) -> Value {
    let mut message = json!({ "role": "user", "content": run.message.raw(), "timestamp": at });
    if let Some(provenance) = &run.provenance {
        message["provenance"] = json!(provenance);
    }
    json!({ "type": "message", "id": run.message_id, "runId": run.run_id, "message": message })
}

/// How an assistant message ends.
pub struct Stop<'a> {
    pub reason: &'a str,
    pub error: Option<&'a str>,
}

/// An assistant message.
pub fn assistant(run: &Run, answer: &Answer, stop: &Stop<'_>, at: i64) -> Value {
    let mut content = Vec::new();
    if let Some(thinking) = &answer.thinking {
        content.push(json!({ "type": "thinking", "thinking": thinking }));
    }
    if !answer.text.is_empty() {
        content.push(json!({ "type": "text", "text": answer.text }));
    }
    for call in &answer.calls {
        content.push(json!({ "type": "toolCall", "id": call.id, "name": call.name, "arguments": call.arguments }));
    }
    let usage = &answer.usage;
    let mut message = json!({
        "role": "assistant",
        "content": content,
        "api": "crosstalk",
        "provider": answer.provider,
        "model": answer.model,
        "usage": {
            "input": usage.input, "output": usage.output, "cacheRead": usage.cache_read,
            "cacheWrite": usage.cache_write, "totalTokens": usage.total_tokens,
            "cost": { "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": usage.cost_usd.unwrap_or(0.0) },
        },
        "stopReason": stop.reason,
        "timestamp": at,
    });
    if let Some(error) = stop.error {
        message["errorMessage"] = json!(error);
    }
    super::attachments::redact_message(&mut message);
    json!({ "type": "message", "id": new_id(), "runId": run.run_id, "message": message })
}

/// A tool result (D-27).
pub fn tool_result(run: &Run, outcome: &ToolOutcome, at: i64) -> Value {
    json!({
        "type": "message", "id": new_id(), "runId": run.run_id,
        "message": {
            "role": "toolResult", "toolCallId": outcome.call_id, "toolName": outcome.name,
            "content": [{ "type": "text", "text": outcome.text }],
            "isError": outcome.is_error, "timestamp": at,
        },
    })
}

/// A post of the engine in a session's view (N-16, A-33): a `custom` line of ours, not in the model's context.
pub fn post(text: &str, from: &SessionKey) -> Value {
    json!({ "type": "custom", "customType": POST, "id": new_id(), "data": { "text": text, "from": from } })
}

impl Engine {
    fn writer(&self, key: &SessionKey) -> Arc<tokio::sync::Mutex<Writer>> {
        lock(&self.inner.writers)
            .entry(key.clone())
            .or_default()
            .clone()
    }

    /// Appends lines to the transcript of a session, ids and parents filled in, and tells about each. With `sync` they
    /// are on disk when it returns.
    pub(super) async fn append(
        &self,
        entry: &Entry,
        lines: Vec<Value>,
        sync: bool,
    ) -> Result<(), String> {
        let engine = self.clone();
        let entry = entry.clone();
        self.unbroken(async move { engine.append_now(&entry, lines, sync).await })
            .await
    }

    async fn append_now(
        &self,
        entry: &Entry,
        mut lines: Vec<Value>,
        sync: bool,
    ) -> Result<(), String> {
        let writer = self.writer(&entry.key);
        let mut writer = writer.lock().await;
        if writer.session_id != entry.session_id {
            let Some(path) = self.inner.store.transcript_path(entry) else {
                return Err(format!(
                    "session id {:?} cannot name a file",
                    entry.session_id
                ));
            };
            let looked = path.clone();
            let last = self
                .look(move |_| transcript::read(&looked, Span::Tail, 1))
                .await
                .map_err(|e| e.to_string())?;
            let parent = last
                .lines
                .iter()
                .rev()
                .find_map(RawLine::id)
                .map(str::to_owned);
            let is_new = last.lines.is_empty() && last.at_start;
            *writer = Writer {
                session_id: entry.session_id.clone(),
                path: Some(path),
                parent,
            };
            if is_new {
                let header = json!({
                    "type": "session", "version": 3, "id": entry.session_id, "timestamp": iso(self.now_ms()),
                    "cwd": entry.spawned_workspace_dir.clone().unwrap_or_else(|| self.workspace(entry).display().to_string()),
                });
                lines.insert(0, header);
            } else if writer.parent.as_deref() == Some(entry.session_id.as_str()) {
                // The last line is the header: the first real line has no parent.
                writer.parent = None;
            }
        }
        let Some(path) = writer.path.clone() else {
            return Err("no transcript".into());
        };
        let now = iso(self.now_ms());
        let mut parent = writer.parent.clone();
        for line in &mut lines {
            if line["type"] == "session" {
                continue;
            }
            line["parentId"] = parent.as_ref().map_or(Value::Null, |id| json!(id));
            line["timestamp"] = json!(now);
            parent = line["id"].as_str().map(str::to_owned);
        }
        let file = path.clone();
        let appended = self
            .look(move |_| {
                let positions = transcript::append(&file, &lines, sync);
                positions.map(|positions| (lines, positions))
            })
            .await;
        let (lines, positions) = match appended {
            Ok(appended) => appended,
            Err(error) => {
                // What the file holds now is looked at anew by the next append.
                writer.session_id.clear();
                return Err(error.to_string());
            }
        };
        writer.parent = parent;
        for (line, position) in lines.into_iter().zip(positions) {
            if line["type"] == "session" {
                continue;
            }
            let about = self.about_run(&entry.key, line["runId"].as_str());
            let bytes = line.to_string().len() as u64;
            let message = Box::new(RawLine {
                position,
                bytes,
                line,
                damage: None,
            });
            self.publish(about, What::MessageAppended { message, position });
        }
        Ok(())
    }

    /// Where an agent works: its configured workspace, else a folder of its own beside the sessions.
    pub(super) fn workspace(&self, entry: &Entry) -> PathBuf {
        let agent = entry.agent();
        let configured = self
            .settings()
            .agent(&agent)
            .and_then(|a| a.workspace.clone());
        configured.unwrap_or_else(|| {
            self.inner
                .store
                .dir()
                .join("agents")
                .join(agent.as_str())
                .join("workspace")
        })
    }

    /// Forgets what is known of a transcript (reset, delete).
    pub(super) fn forget_writer(&self, key: &SessionKey) {
        lock(&self.inner.writers).remove(key);
    }
}
