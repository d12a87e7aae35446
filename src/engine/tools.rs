//! One way to every tool, for agents inside runs and for front doors; and which tools a session has (P-25, P-26).

use super::context::Context;
use super::reference::usage_error;
use super::{Engine, agents_list, history, list};
use crate::agents::{SharedAgent, ToolCall, ToolOutcome};
use crate::config::Settings;
use crate::model::run::Run;
use crate::model::session::Entry;
use crate::model::tools::NAMES;
use serde_json::{Map, Value};

/// Names of the group `group:sessions`.
const GROUP_SESSIONS: &str = "group:sessions";

impl Engine {
    /// Calls a tool; the payload is the tool's own (E-14), with `status: "error"` for what cannot be used (E-15).
    pub async fn call_tool(&self, ctx: Context, name: &str, arguments: Value) -> Value {
        let arguments = match arguments {
            Value::Object(members) => members,
            Value::Null => Map::new(),
            _ => return usage_error(name, "arguments must be a JSON object"),
        };
        let settings = self.settings();
        let now = self.now_ms();
        match name {
            "sessions_list" => {
                self.look(move |store| list::list(store, &settings, &ctx, &arguments, now))
                    .await
            }
            "sessions_history" => {
                self.look(move |store| history::history(store, &settings, &ctx, &arguments))
                    .await
            }
            "agents_list" => agents_list::agents_list(&settings, &ctx),
            "sessions_send" => self.sessions_send(ctx, arguments).await,
            "sessions_spawn" => self.sessions_spawn(ctx, arguments).await,
            "session_status" => self.session_status(ctx, arguments).await,
            "subagents" => self.subagents(ctx, arguments).await,
            "sessions_yield" => self.sessions_yield(&ctx, &arguments),
            other => usage_error(
                other,
                &format!("unknown tool {other:?}; known: {}", NAMES.join(", ")),
            ),
        }
    }

    /// A tool call of a run.
    pub(super) async fn run_tool(
        &self,
        agent: &SharedAgent,
        run: &Run,
        entry: &Entry,
        allowed: &[String],
        call: &ToolCall,
    ) -> ToolOutcome {
        let outcome = |text: String, is_error| ToolOutcome {
            call_id: call.id.clone(),
            name: call.name.clone(),
            text: text.into(),
            is_error,
        };
        if !allowed.contains(&call.name) {
            if !NAMES.contains(&call.name.as_str())
                && own_tool_allowed(&self.settings(), entry, &call.name)
                && let Some(own) = agent.tool(&run.session_key, call)
            {
                return own.await;
            }
            return outcome(format!("Tool {} not found", call.name), true);
        }
        let settings = self.settings();
        let mut ctx = Context::session(&settings, run.session_key.clone());
        ctx.run = Some(run.run_id.clone());
        ctx.channel.clone_from(&entry.last_channel);
        ctx.route.clone_from(&entry.delivery_context);
        ctx.workspace = Some(self.workspace(entry));
        let payload = self
            .call_tool(ctx, &call.name, call.arguments.clone())
            .await;
        let refused = matches!(payload["status"].as_str(), Some("error" | "forbidden"));
        let text = serde_json::to_string_pretty(&payload).unwrap_or_default();
        outcome(text, refused)
    }

    /// Names of the tools a session's agent may call.
    pub(super) fn tools_for(&self, settings: &Settings, entry: &Entry) -> Vec<String> {
        let depth = depth_of(entry);
        let is_leaf = depth >= settings.subagents.max_spawn_depth;
        let rules = &settings.subagent_tools;
        NAMES
            .into_iter()
            .filter(|name| {
                if depth == 0 {
                    return true;
                }
                if named(&rules.deny, name)
                    || (!rules.allow.is_empty() && !named(&rules.allow, name))
                {
                    return false;
                }
                let kept = !is_leaf
                    && matches!(
                        *name,
                        "sessions_list" | "sessions_history" | "sessions_spawn" | "subagents"
                    );
                kept || named(&rules.allow, name) || named(&rules.also_allow, name)
            })
            .map(str::to_owned)
            .collect()
    }
}

fn named(list: &[String], name: &str) -> bool {
    list.iter().any(|pattern| names(pattern, name))
}

/// A sub-agent has the tools its agent brings along unless the rules say otherwise (P-25, P-26).
fn own_tool_allowed(settings: &Settings, entry: &Entry, name: &str) -> bool {
    let rules = &settings.subagent_tools;
    depth_of(entry) == 0
        || (!named(&rules.deny, name) && (rules.allow.is_empty() || named(&rules.allow, name)))
}

/// A name, a group, or a pattern with `*` (P-26).
fn names(pattern: &str, name: &str) -> bool {
    let pattern = pattern.trim().to_lowercase();
    if pattern == GROUP_SESSIONS {
        return name.starts_with("session");
    }
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => {
            name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
        }
    }
}

/// K-8, as far as the entry itself tells; the depth is written at spawn (P-27).
pub(super) fn depth_of(entry: &Entry) -> u32 {
    entry.spawn_depth.unwrap_or_else(|| {
        if entry.spawned_by.is_some() {
            entry.key.depth_by_shape().max(1)
        } else {
            entry.key.depth_by_shape()
        }
    })
}
