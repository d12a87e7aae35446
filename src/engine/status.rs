//! `session_status`, `subagents` and `sessions_yield` (specification, chapter 18).

use super::context::Context;
use super::reference::{self, usage_error};
use super::runs::{NewRun, Waited};
use super::subagents::is_active;
use super::{Engine, lines, shown, tools};
use crate::model::key::SessionKey;
use crate::model::run::{Lane, RunOrigin, SubagentRecord};
use crate::model::tools::Arguments;
use crate::model::visibility::Doing;
use crate::store::StoreError;
use crate::text::Untrusted;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Longest message of a steer (B-3).
const STEER_CHARS: usize = 4000;
/// At most one steer per child in this time (B-3).
const STEER_PAUSE_MS: i64 = 2000;

fn refusal(status: &str, error: impl Into<String>) -> Value {
    json!({ "status": status, "error": error.into() })
}

impl Engine {
    /// B-1: a text card of the own or another visible session; with `model` a session override.
    pub(super) async fn session_status(
        &self,
        ctx: Context,
        arguments: Map<String, Value>,
    ) -> Value {
        let read = Arguments(&arguments);
        let settings = self.settings();
        let given = read
            .text("sessionKey")
            .unwrap_or_else(|| ctx.requester.as_str().to_owned());
        let (looked, asker) = (settings.clone(), ctx.clone());
        let target = self
            .look(move |store| reference::resolve(store, &looked, &asker, &given, Doing::Status))
            .await;
        let target = match target {
            Ok(target) => target,
            Err(refusal) => return refusal.payload(),
        };
        let Some(mut entry) = target.entry else {
            return refusal(
                "error",
                format!(
                    "no session {}; sessions_list shows the sessions",
                    target.key.clean()
                ),
            );
        };
        let mut changed = false;
        if let Some(model) = read.text("model") {
            let value = if model == "default" {
                Value::Null
            } else {
                json!(model)
            };
            match self
                .patch(&entry.key, Map::from_iter([("model".to_owned(), value)]))
                .await
            {
                Ok(patched) => entry = patched,
                Err(error) => return refusal("error", error),
            }
            changed = true;
        }
        let number = |count: Option<i64>| {
            count.map_or_else(|| "unknown".to_owned(), |count| count.to_string())
        };
        let running = self
            .live_runs()
            .into_iter()
            .filter(|(_, session, started)| *session == entry.key && *started);
        let card = [
            format!(
                "Session: {}",
                reference::display(&settings, &ctx, &entry.key).raw()
            ),
            format!("Time: {}", lines::iso(self.now_ms())),
            format!(
                "Model: {}",
                self.model_of(&settings, &entry)
                    .unwrap_or_else(|| "none".into())
            ),
            format!(
                "Tokens: {} in, {} out, context {} of {}",
                number(entry.input_tokens),
                number(entry.output_tokens),
                number(entry.total_tokens),
                number(entry.context_tokens),
            ),
            format!(
                "Cost: {}",
                entry
                    .estimated_cost_usd
                    .map_or_else(|| "unknown".to_owned(), |cost| format!("${cost:.2}"))
            ),
            format!(
                "Queue: {} running, {} waiting",
                running.count(),
                self.inner.lanes.queued(&entry.key)
            ),
        ]
        .join("\n");
        json!({
            "ok": true,
            "sessionKey": reference::display(&settings, &ctx, &entry.key),
            "changedModel": changed,
            "statusText": card,
        })
    }

    /// B-2: ends the caller's turn on purpose; the run that calls it stops asking its agent.
    pub(super) fn sessions_yield(&self, ctx: &Context, arguments: &Map<String, Value>) -> Value {
        if ctx.run.is_none() {
            return refusal("error", "sessions_yield ends a turn; there is none here");
        }
        let message = Arguments(arguments)
            .text("message")
            .unwrap_or_else(|| "Turn yielded.".into());
        json!({ "status": "yielded", "message": message })
    }

    /// B-3: list, kill or steer one's own children.
    pub(super) async fn subagents(&self, ctx: Context, arguments: Map<String, Value>) -> Value {
        let read = Arguments(&arguments);
        let action = read.text("action").unwrap_or_else(|| "list".into());
        let all = match self.inner.store.read(|tx| tx.subagents(None)).await {
            Ok(all) => all,
            Err(error) => return refusal("error", error.to_string()),
        };
        let minutes = read.whole("recentMinutes", 1, 1440).unwrap_or(30);
        let since = self.now_ms() - minutes * 60_000;
        let own: Vec<&SubagentRecord> = all
            .iter()
            .filter(|record| record.controller_session_key == ctx.requester)
            .collect();
        let (active, recent): (Vec<_>, Vec<_>) = own
            .iter()
            .copied()
            .partition(|record| is_active(record, &all));
        let recent: Vec<_> = recent
            .into_iter()
            .filter(|record| record.ended_at.is_some_and(|at| at >= since))
            .collect();
        if action == "list" {
            return self.list_children(&ctx, &active, &recent);
        }
        if !matches!(action.as_str(), "kill" | "steer") {
            return usage_error("subagents", "action: list, kill or steer");
        }
        if self.is_leaf(&ctx.requester).await {
            return refusal("forbidden", "a leaf sub-agent may not control any children");
        }
        let numbered: Vec<&SubagentRecord> = active.iter().chain(&recent).copied().collect();
        let Some(target) = read.text("target") else {
            return usage_error(
                "subagents",
                "target is required: a number of the list, last, all, a label, a run id or a key",
            );
        };
        if action == "kill" {
            let chosen = if target == "all" {
                active
            } else {
                match choose(&numbered, &target) {
                    Ok(record) => vec![record],
                    Err(error) => return refusal("error", error),
                }
            };
            let mut stopped = Vec::new();
            for record in &chosen {
                stopped.extend(self.kill(record).await);
                stopped.extend(self.stop_children(&record.child_session_key).await);
            }
            return json!({ "status": "ok", "action": "kill", "killed": stopped.len(), "runIds": stopped });
        }
        match choose(&numbered, &target) {
            Ok(record) => self.steer(&ctx, record.clone(), read.text("message")).await,
            Err(error) => refusal("error", error),
        }
    }

    async fn is_leaf(&self, key: &SessionKey) -> bool {
        let wanted = key.clone();
        let entry = self
            .inner
            .store
            .read(move |tx| tx.entry(&wanted))
            .await
            .ok()
            .flatten();
        let depth = entry
            .as_ref()
            .map_or_else(|| key.depth_by_shape(), tools::depth_of);
        depth > 0 && depth >= self.settings().subagents.max_spawn_depth
    }

    fn list_children(
        &self,
        ctx: &Context,
        active: &[&SubagentRecord],
        recent: &[&SubagentRecord],
    ) -> Value {
        let now = self.now_ms();
        let line = |(at, record): (usize, &&SubagentRecord)| {
            let mut row = json!({
                "index": at + 1,
                "runId": record.run_id,
                "sessionKey": shown(&record.child_session_key),
                "label": record.label.as_ref().unwrap_or(&record.task),
                "task": record.task,
                "status": record.outcome.as_ref().map_or("running", |outcome| match outcome.status.as_str() {
                    "ok" => "done",
                    "timeout" => "timeout",
                    _ if record.ended_reason.as_deref() == Some("subagent-killed") => "killed",
                    _ => "failed",
                }),
            });
            if let Some(started) = record.started_at {
                row["runtimeMs"] = json!(record.ended_at.unwrap_or(now) - started);
            }
            if let Some(model) = &record.model {
                row["model"] = json!(model);
            }
            row
        };
        let rows: Vec<Value> = active.iter().chain(recent).enumerate().map(line).collect();
        let (live, past) = rows.split_at(active.len());
        json!({
            "status": "ok",
            "action": "list",
            "requesterSessionKey": reference::display(&self.settings(), ctx, &ctx.requester),
            "total": rows.len(),
            "active": live,
            "recent": past,
        })
    }

    /// Stops the child's turn and starts a new one with a message, under the same record; the stopped turn is not
    /// announced.
    async fn steer(
        &self,
        ctx: &Context,
        mut record: SubagentRecord,
        message: Option<String>,
    ) -> Value {
        let Some(message) = message else {
            return usage_error("subagents", "message is required to steer");
        };
        if message.chars().count() > STEER_CHARS {
            return refusal(
                "error",
                format!("message: at most {STEER_CHARS} characters"),
            );
        }
        if record.ended_at.is_some() {
            return refusal(
                "error",
                "this child has ended; spawn another, or send to its session",
            );
        }
        let now = self.now_ms();
        let last = record.other.get("steeredAt").and_then(Value::as_i64);
        if last.is_some_and(|at| now - at < STEER_PAUSE_MS) {
            return refusal(
                "error",
                "this child was steered less than 2 s ago; wait a moment",
            );
        }
        let child = record.child_session_key.clone();
        let old = record.run_id.clone();
        let new_id = lines::new_id();
        // The record follows the new run before the old one ends, so that nothing announces the stopped turn.
        record.run_id.clone_from(&new_id);
        record.other.insert("steeredAt".into(), json!(now));
        let mut new = NewRun::new(child.clone(), RunOrigin::Spawn, Lane::Subagent, message);
        new.run_id.clone_from(&new_id);
        new.caused_by.clone_from(&ctx.run);
        new.provenance = Some(super::send::inter_session(
            &ctx.requester,
            ctx.channel.clone(),
            "sessions_spawn",
        ));
        new.limit = match record.run_timeout_seconds {
            Some(0) | None => super::runs::Limit::None,
            Some(seconds) => super::runs::Limit::Ms(seconds.saturating_mul(1000)),
        };
        let replaced = old.clone();
        new.also = Some(Box::new(move |tx, _| {
            // It may have ended since: then it is being reported.
            if tx.subagent(&replaced)?.is_none_or(|r| r.ended_at.is_some()) {
                return Err(StoreError::Refused("this child has just ended".into()));
            }
            tx.delete_subagent(&replaced)?;
            tx.put_subagent(&record)
        }));
        if let Err(error) = self.accept(new).await {
            return refusal("error", error);
        }
        self.abort_run(&old);
        let _: Waited = self.wait(&old, Duration::from_secs(15)).await;
        json!({ "status": "accepted", "action": "steer", "runId": new_id, "sessionKey": shown(&child) })
    }
}

/// A number of the list, `last`, exact label, unambiguous beginning of a label or run id, or a child's key.
fn choose<'a>(list: &[&'a SubagentRecord], target: &str) -> Result<&'a SubagentRecord, String> {
    let name = |record: &SubagentRecord| {
        record
            .label
            .as_ref()
            .unwrap_or(&record.task)
            .raw()
            .to_lowercase()
    };
    let wanted = target.to_lowercase();
    if let Ok(number) = wanted.parse::<usize>()
        && let Some(record) = number.checked_sub(1).and_then(|at| list.get(at))
    {
        return Ok(record);
    }
    if wanted == "last" {
        return list
            .iter()
            .max_by_key(|record| record.created_at)
            .copied()
            .ok_or_else(|| "there are no children".into());
    }
    let by_key = list
        .iter()
        .find(|record| record.child_session_key.as_str() == wanted);
    if let Some(record) = by_key.or_else(|| list.iter().find(|record| name(record) == wanted)) {
        return Ok(record);
    }
    let begins: Vec<_> = list
        .iter()
        .filter(|record| name(record).starts_with(&wanted) || record.run_id.starts_with(&wanted))
        .collect();
    let shown_target = Untrusted::from(target).clean();
    match begins.as_slice() {
        [one] => Ok(one),
        [] => Err(format!(
            "no child {:?}; subagents lists them",
            shown_target.as_str()
        )),
        _ => Err(format!(
            "{:?} fits several children; give more of it, or a number",
            shown_target.as_str()
        )),
    }
}
