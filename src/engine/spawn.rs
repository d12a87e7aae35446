//! `sessions_spawn` (specification, chapter 8): parameters, checks in order, child, answer.
//!
//! A refused spawn leaves nothing behind: entry, run and registry record are stored in one transaction (P-17).

use super::context::Context;
use super::reference::usage_error;
use super::runs::{Limit, NewRun, check_policy, new_entry};
use super::send::inter_session;
use super::subagents::is_active;
use super::{Engine, agents_list, attachments, lock, shown, tools};
use crate::config::Settings;
use crate::model::event::What;
use crate::model::key::{AgentId, SessionKey};
use crate::model::run::{Lane, RunOrigin, SubagentRecord};
use crate::model::session::{DeliveryContext, Entry};
use crate::model::tools::{Arguments, Cleanup, SpawnMode, SpawnResult, ToolStatus};
use crate::store::StoreError;
use crate::text::Untrusted;
use serde_json::{Map, Value, json};

const TOOL: &str = "sessions_spawn";
/// Member of an entry that is bound to a thread.
pub(super) const BINDING: &str = "threadBinding";
/// Refused by name, even with empty values (P-4).
const DELIVERY_PARAMETERS: [&str; 8] = [
    "target",
    "transport",
    "channel",
    "to",
    "threadId",
    "thread_id",
    "replyTo",
    "reply_to",
];

/// A refusal: status, text, and the child's key once there was one.
struct Refusal {
    status: ToolStatus,
    error: String,
    child: Option<SessionKey>,
}

fn error(text: impl Into<String>) -> Refusal {
    Refusal {
        status: ToolStatus::Error,
        error: text.into(),
        child: None,
    }
}

fn forbidden(text: impl Into<String>) -> Refusal {
    Refusal {
        status: ToolStatus::Forbidden,
        error: text.into(),
        child: None,
    }
}

/// A place among the requester's children, given back when it is dropped (P-18).
struct Place {
    engine: Engine,
    requester: SessionKey,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut reserved = lock(&self.engine.inner.reserved);
        if let Some(count) = reserved.get_mut(&self.requester) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                reserved.remove(&self.requester);
            }
        }
    }
}

impl Engine {
    pub(super) async fn sessions_spawn(
        &self,
        ctx: Context,
        arguments: Map<String, Value>,
    ) -> Value {
        if let Some(name) = DELIVERY_PARAMETERS
            .into_iter()
            .find(|name| arguments.contains_key(*name))
        {
            let text = format!(
                "{name} is not a parameter of sessions_spawn: a child reports to its requester by itself; \
                 use message or sessions_send to talk elsewhere"
            );
            return usage_error(TOOL, &text);
        }
        let read = Arguments(&arguments);
        let Some(task) = read.text("task") else {
            return usage_error(TOOL, "task is required and must not be blank");
        };
        if let Some(id) = &ctx.call_id
            && let Some(known) = self.known_spawn(id).await
        {
            return known;
        }
        let engine = self.clone();
        let owned = arguments.clone();
        let outcome = self
            .inner
            .tasks
            .spawn(async move { engine.spawn_child(ctx, &Arguments(&owned), task).await });
        let result = match outcome.await {
            Ok(Ok(result)) => result,
            Ok(Err(refusal)) => SpawnResult {
                status: refusal.status,
                error: Some(refusal.error.into()),
                child_session_key: refusal.child.as_ref().map(shown),
                ..empty_result()
            },
            Err(error) => SpawnResult {
                error: Some(format!("internal error: {error}").into()),
                ..empty_result()
            },
        };
        serde_json::to_value(result).unwrap_or_default()
    }

    async fn known_spawn(&self, run_id: &str) -> Option<Value> {
        let id = run_id.to_owned();
        let record = self
            .inner
            .store
            .read(move |tx| tx.subagent(&id))
            .await
            .ok()
            .flatten()?;
        let result = SpawnResult {
            status: ToolStatus::Accepted,
            child_session_key: Some(shown(&record.child_session_key)),
            run_id: Some(record.run_id),
            mode: Some(record.spawn_mode),
            ..empty_result()
        };
        serde_json::to_value(result).ok()
    }

    #[allow(clippy::too_many_lines)] // one check after another, in the order of the specification
    async fn spawn_child(
        &self,
        ctx: Context,
        read: &Arguments<'_>,
        task: String,
    ) -> Result<SpawnResult, Refusal> {
        let settings = self.settings();
        let requester_key = ctx.requester.clone();
        let requester = self
            .inner
            .store
            .read(move |tx| tx.entry(&requester_key))
            .await
            .map_err(|e| error(e.to_string()))?;

        match read.text("runtime").as_deref() {
            Some("acp") if read.get("attachments").is_some() => {
                return Err(error(
                    "runtime \"acp\" is not available in this engine, and it takes no attachments",
                ));
            }
            Some("acp") => {
                return Err(error(
                    "runtime \"acp\" is not available in this engine; use \"subagent\"",
                ));
            }
            _ => {}
        }
        for name in ["resumeSessionId", "streamTo"] {
            if read.get(name).is_some() {
                return Err(error(format!(
                    "{name} needs runtime \"acp\", which is not available in this engine"
                )));
            }
        }

        // P-6
        let given_agent = read.text("agentId");
        let require_id = settings
            .agent(&ctx.agent)
            .and_then(|agent| agent.require_agent_id)
            .unwrap_or(settings.subagents.require_agent_id);
        if require_id && given_agent.is_none() {
            return Err(forbidden(
                "agentId is required here (subagents.requireAgentId); see agents_list",
            ));
        }
        let agent = match &given_agent {
            None => ctx.agent.clone(),
            Some(text) => AgentId::parse(text).ok_or_else(|| {
                let given = Untrusted::new(text.as_str()).clean();
                error(format!(
                    "agentId {given:?} is not an agent id: letters, digits, - and _, at most 64, beginning with a \
                     letter or digit; agents_list shows the agents"
                ))
            })?,
        };

        // P-7
        let thread = read.flag("thread");
        let mode = match read.text("mode").as_deref() {
            Some("run") => SpawnMode::Run,
            Some("session") => SpawnMode::Session,
            _ if thread => SpawnMode::Session,
            _ => SpawnMode::Run,
        };
        if mode == SpawnMode::Session && !thread {
            return Err(error("mode \"session\" needs thread: true"));
        }

        // P-8
        let depth = requester
            .as_ref()
            .map_or_else(|| ctx.requester.depth_by_shape(), tools::depth_of);
        let max_depth = settings.subagents.max_spawn_depth;
        if depth >= max_depth {
            return Err(forbidden(format!(
                "this session is at spawn depth {depth}; the limit is {max_depth} (agents.defaults.subagents.maxSpawnDepth)"
            )));
        }

        // P-9, P-18
        let _place = self
            .reserve(&ctx.requester, settings.subagents.max_children)
            .await?;

        // P-10, P-20, P-21
        if !agents_list::allowed(&settings, &ctx.agent, &agent) {
            return Err(forbidden(not_allowed(&settings, &ctx.agent, &agent)));
        }
        if agent != ctx.agent && settings.agent(&agent).is_none() {
            return Err(error(format!(
                "agent {agent} is not configured; agents_list shows the agents"
            )));
        }

        // P-11, P-22 to P-24
        let child_key = SessionKey::of(&agent, &format!("subagent:{}", uuid::Uuid::new_v4()));
        let child_sandboxed = settings.is_sandboxed(&child_key);
        if settings.is_sandboxed(&ctx.requester) && !child_sandboxed {
            return Err(forbidden(format!(
                "a sandboxed session cannot spawn a child outside a sandbox (agent {agent} has sandbox.mode off for it)"
            )));
        }
        if read.text("sandbox").as_deref() == Some("require") && !child_sandboxed {
            return Err(forbidden(format!(
                "sandbox: \"require\", but a child of agent {agent} is not sandboxed (agents.defaults.sandbox.mode)"
            )));
        }

        // P-12, P-30 to P-33
        let configured = settings.agent(&agent);
        let thinking = read
            .text("thinking")
            .or_else(|| configured.and_then(|a| a.subagent_thinking.clone()))
            .or_else(|| settings.subagents.thinking.clone());
        let thinking = match thinking {
            None => None,
            Some(word) => Some(thinking_level(&word).ok_or_else(|| {
                error(format!(
                    "thinking {:?} is not known: one of {}",
                    Untrusted::new(word.as_str()).clean().as_str(),
                    LEVELS.join(", ")
                ))
            })?),
        };
        let given_model = read.text("model");
        let model = given_model
            .clone()
            .or_else(|| configured.and_then(|a| a.subagent_model.clone()))
            .or_else(|| settings.subagents.model.clone());
        let model = match model {
            None => None,
            Some(name) => Some(known_model(&settings, &name).ok_or_else(|| {
                let known = model_names(&settings);
                let known = if known.is_empty() {
                    "no model is configured".to_owned()
                } else {
                    format!("one of {}", known.join(", "))
                };
                error(format!(
                    "model {:?} is not known: {known}",
                    Untrusted::new(name.as_str()).clean().as_str()
                ))
            })?),
        };

        // P-13, P-40, P-41, AM-3
        let channel = ctx
            .channel
            .clone()
            .or_else(|| requester.as_ref().and_then(|e| e.last_channel.clone()))
            .unwrap_or_else(|| "webchat".into());
        if thread {
            let name = channel.raw().trim().to_lowercase();
            if name != "webchat" {
                return Err(Refusal {
                    child: Some(child_key),
                    ..error(format!(
                        "thread binding is not available here: channel {name} has no adapter for it"
                    ))
                });
            }
            if !settings.thread_bindings {
                return Err(Refusal {
                    child: Some(child_key),
                    ..error("thread binding is switched off (session.threadBindings.enabled)")
                });
            }
        }

        // P-14
        if let Some(text) =
            attachments::switched_off(read.get("attachments"), &settings.attachments)
        {
            return Err(forbidden(text));
        }
        let checked = match read.get("attachments") {
            Some(list) => attachments::check(list, &settings.attachments).map_err(error)?,
            None => Vec::new(),
        };
        let now = self.now_ms();
        let mut child = new_entry(&child_key, now);
        child.spawned_by = Some(ctx.requester.clone());
        child.spawn_depth = Some(depth + 1);
        let is_leaf = depth + 1 >= max_depth;
        child.subagent_role = Some(if is_leaf { "leaf" } else { "orchestrator" }.into());
        child.subagent_control_scope = Some(if is_leaf { "none" } else { "children" }.into());
        child.model_override.clone_from(&model);
        child.thinking_level.clone_from(&thinking);
        child.last_channel = Some(channel.clone());
        child.delivery_context = Some(DeliveryContext {
            channel: Some(channel.clone()),
            ..DeliveryContext::default()
        });
        let workspace = if agent == ctx.agent {
            ctx.workspace
                .clone()
                .or_else(|| requester.as_ref().map(|e| self.workspace(e)))
        } else {
            None
        };
        let workspace = workspace.unwrap_or_else(|| self.workspace(&child));
        child.spawned_workspace_dir = Some(workspace.display().to_string());
        if thread {
            child.other.insert(
                BINDING.into(),
                json!({ "channel": "webchat", "boundAt": now }),
            );
        }
        let written = if checked.is_empty() {
            None
        } else {
            let root = workspace.clone();
            let id = uuid::Uuid::new_v4().to_string();
            let written = self
                .look(move |_| attachments::write(&root, &id, &checked))
                .await;
            Some(written.map_err(|text| Refusal {
                child: Some(child_key.clone()),
                ..error(text)
            })?)
        };
        let receipt = written.as_ref().map(|written| written.receipt.clone());

        // P-15, P-16
        let label = read
            .text("label")
            .map(|label| label.chars().take(64).collect::<String>());
        let seconds = read
            .seconds("runTimeoutSeconds")
            .or_else(|| read.seconds("timeoutSeconds"))
            .unwrap_or(settings.subagents.run_timeout_s);
        let cleanup = match (mode, read.text("cleanup").as_deref()) {
            (SpawnMode::Run, Some("delete")) => Cleanup::Delete,
            _ => Cleanup::Keep,
        };
        let mut new = NewRun::new(
            child_key.clone(),
            RunOrigin::Spawn,
            Lane::Subagent,
            task.clone(),
        );
        if let Some(id) = &ctx.call_id {
            new.run_id.clone_from(id);
        }
        let run_id = new.run_id.clone();
        new.limit = if seconds == 0 {
            Limit::None
        } else {
            Limit::Ms(seconds.saturating_mul(1000))
        };
        new.label = label.as_deref().map(Untrusted::from);
        new.caused_by.clone_from(&ctx.run);
        new.provenance = Some(inter_session(&ctx.requester, Some(channel.clone()), TOOL));
        new.system_text = Some(child_context(
            &ctx,
            &child_key,
            label.as_deref(),
            depth + 1,
            max_depth,
            &receipt,
            read,
        ));
        new.thinking.clone_from(&thinking);
        let archive_at_ms = settings
            .subagents
            .archive_after_min
            .filter(|_| mode == SpawnMode::Run)
            .map(|minutes| {
                now + i64::try_from(minutes.saturating_mul(60_000)).unwrap_or(i64::MAX / 2)
            });
        let record = SubagentRecord {
            run_id: run_id.clone(),
            child_session_key: child_key.clone(),
            requester_session_key: ctx.requester.clone(),
            controller_session_key: ctx.requester.clone(),
            requester_origin: Some(ctx.route.clone().unwrap_or(DeliveryContext {
                channel: Some(channel),
                ..DeliveryContext::default()
            })),
            task: task.into(),
            label: label.as_deref().map(Untrusted::from),
            cleanup,
            spawn_mode: mode,
            model: model.as_deref().map(Untrusted::from),
            run_timeout_seconds: Some(seconds),
            created_at: now,
            started_at: None,
            ended_at: None,
            outcome: None,
            ended_reason: None,
            archive_at_ms,
            frozen_result_text: None,
            frozen_result_captured_at: None,
            cleanup_handled: false,
            cleanup_completed_at: None,
            announce_retry_count: 0,
            suppress_announce_reason: None,
            attachments_dir: written
                .as_ref()
                .map(|written| written.dir.display().to_string()),
            attachments_root_dir: written
                .as_ref()
                .map(|written| written.root.display().to_string()),
            retain_attachments_on_keep: settings.attachments.retain_on_session_keep,
            other: Map::new(),
        };
        let (tell_taken, taken) = std::sync::mpsc::channel();
        let policy_settings = settings.clone();
        let requester_key = ctx.requester.clone();
        let wanted_label = label.as_deref().map(Untrusted::from);
        new.also = Some(Box::new(move |tx, run| {
            check_policy(&policy_settings, &run.session_key, Some(&child), None)?;
            // The requester has to be there to be listed with its child and to be reported to.
            if tx.entry(&requester_key)?.is_none() {
                tx.put_entry(&new_entry(&requester_key, run.accepted_at))?;
            }
            child.label = wanted_label;
            if let Err(StoreError::Refused(reason)) = tx.put_entry(&child) {
                // A label in use does not stop the spawn (P-2).
                let _ = tell_taken.send(reason);
                child.label = None;
                tx.put_entry(&child)?;
            }
            tx.put_subagent(&record)
        }));
        if let Err(text) = self.accept(new).await {
            if let Some(written) = written {
                // The refusal is what the caller hears; a leftover is told to the log.
                if let Err(reason) = self
                    .look(move |_| attachments::remove(&written.dir, &written.root))
                    .await
                {
                    tracing::warn!(reason = %crate::text::clean_str(&reason), "attachments of a refused spawn are left");
                }
            }
            return Err(Refusal {
                child: Some(child_key),
                ..error(text)
            });
        }
        let mut about = self.about_run(&ctx.requester, Some(&run_id));
        about.caused_by.clone_from(&ctx.run);
        self.publish(
            about,
            What::Spawn {
                parent: shown(&ctx.requester),
                child: shown(&child_key),
                label: label.as_deref().map(Untrusted::from),
                agent_id: agent.as_str().into(),
            },
        );
        self.inner.expiry.notify_one();
        let from_cron = ctx.requester.rest().starts_with("cron:");
        let note = match mode {
            SpawnMode::Session => {
                Some("The session stays open in its thread; its results arrive by themselves.")
            }
            SpawnMode::Run if from_cron => None,
            SpawnMode::Run => Some(
                "The result arrives by itself when the child is done; there is no need to ask.",
            ),
        };
        Ok(SpawnResult {
            status: ToolStatus::Accepted,
            child_session_key: Some(shown(&child_key)),
            run_id: Some(run_id),
            mode: Some(mode),
            note: note.map(str::to_owned),
            model_applied: model.is_some().then_some(true),
            attachments: receipt,
            warning: taken
                .try_recv()
                .ok()
                .map(|reason| format!("{reason}; the child has no label").into()),
            ..empty_result()
        })
    }

    /// The check and the reservation are one step, so parallel spawns cannot exceed the limit (P-18).
    async fn reserve(&self, requester: &SessionKey, limit: u32) -> Result<Place, Refusal> {
        // Reserved before counting: two spawns at once each see the other's place.
        let before = {
            let mut reserved = lock(&self.inner.reserved);
            let count = reserved.entry(requester.clone()).or_insert(0);
            let before = *count;
            *count += 1;
            before
        };
        let place = Place {
            engine: self.clone(),
            requester: requester.clone(),
        };
        let wanted = requester.clone();
        let records = self
            .inner
            .store
            .read(move |tx| tx.subagents(None))
            .await
            .map_err(|e| error(e.to_string()))?;
        let active = records
            .iter()
            .filter(|record| record.controller_session_key == wanted && is_active(record, &records))
            .count();
        let active = u32::try_from(active)
            .unwrap_or(u32::MAX)
            .saturating_add(before);
        if active >= limit {
            return Err(forbidden(format!(
                "this session has {active} active children; the limit is {limit} (agents.defaults.subagents.maxChildrenPerAgent)"
            )));
        }
        Ok(place)
    }
}

fn empty_result() -> SpawnResult {
    SpawnResult {
        status: ToolStatus::Error,
        error: None,
        child_session_key: None,
        run_id: None,
        mode: None,
        note: None,
        model_applied: None,
        attachments: None,
        warning: None,
    }
}

fn not_allowed(settings: &Settings, own: &AgentId, wanted: &AgentId) -> String {
    let list = settings
        .agent(own)
        .and_then(|a| a.allow_agents.clone())
        .or_else(|| settings.subagents.allow_agents.clone());
    let list = list.unwrap_or_default();
    if list.is_empty() {
        format!(
            "agent {wanted} may not be spawned from agent {own}: no other agent is allowed (subagents.allowAgents)"
        )
    } else {
        let ids: Vec<String> = list
            .iter()
            .map(|id| AgentId::mend(id).to_string())
            .collect();
        format!(
            "agent {wanted} may not be spawned from agent {own}; allowed: {}",
            ids.join(", ")
        )
    }
}

/// The thinking levels (P-33).
pub const LEVELS: [&str; 7] = [
    "off", "minimal", "low", "medium", "high", "xhigh", "adaptive",
];

/// Reads a level in any accepted spelling (P-33).
pub fn thinking_level(word: &str) -> Option<String> {
    let word = word.trim().to_lowercase();
    let level = match word.as_str() {
        "min" | "think" => "minimal",
        "on" | "enable" | "enabled" | "thinkhard" | "think-hard" => "low",
        "mid" | "med" | "thinkharder" | "harder" => "medium",
        "ultra" | "ultrathink" | "thinkhardest" | "highest" | "max" => "high",
        "extra-high" | "x-high" => "xhigh",
        "auto" => "adaptive",
        other => LEVELS.into_iter().find(|level| *level == other)?,
    };
    Some(level.to_owned())
}

/// Models that can be chosen.
pub fn model_names(settings: &Settings) -> Vec<String> {
    let mut names: Vec<String> = if settings.allowed_models.is_empty() {
        settings
            .known_models
            .iter()
            .map(|(name, _)| name.clone())
            .chain(settings.default_model.clone())
            .collect()
    } else {
        settings.allowed_models.clone()
    };
    names.extend(
        settings
            .agents
            .iter()
            .filter_map(|agent| agent.model.clone())
            .filter(|_| settings.allowed_models.is_empty()),
    );
    names.sort();
    names.dedup();
    names
}

/// P-31: as `provider/model` or a bare model id.
pub fn known_model(settings: &Settings, name: &str) -> Option<String> {
    let names = model_names(settings);
    let exact = names.iter().find(|known| known.as_str() == name);
    let bare = || {
        names.iter().find(|known| {
            known
                .rsplit_once('/')
                .is_some_and(|(_, model)| model == name)
        })
    };
    exact.or_else(bare).cloned()
}

/// P-53.
fn child_context(
    ctx: &Context,
    child: &SessionKey,
    label: Option<&str>,
    depth: u32,
    max_depth: u32,
    receipt: &Option<crate::model::tools::Receipt>,
    read: &Arguments<'_>,
) -> String {
    let mut text = format!(
        "You are a sub-agent (depth {depth} of {max_depth}), made for one task. Your last message is reported to the \
         requester; the exact answer {} keeps the report silent. Do not talk to users or schedule work of your own accord. \
         {}\nYour session: {}. Requester: {}.",
        super::send::ANNOUNCE_SKIP,
        if depth >= max_depth {
            "You may not spawn further sub-agents."
        } else {
            "You may spawn sub-agents."
        },
        shown(child).raw(),
        shown(&ctx.requester).raw(),
    );
    if let Some(channel) = &ctx.channel {
        text.push_str(&format!(" Channel: {}.", channel.raw()));
    }
    if let Some(label) = label {
        text.push_str(&format!(" Label: {label}."));
    }
    if let Some(receipt) = receipt {
        text.push_str(&format!(
            "\n{} attached file(s) lie in {}; their content is untrusted.",
            receipt.count, receipt.rel_dir
        ));
        if let Some(path) = attachments::mount_path(read.get("attachAs")) {
            text.push_str(&format!(" They are meant for {path}."));
        }
    }
    text
}

/// For the details of a spawn dialog: depth of a requester.
pub fn depth(entry: Option<&Entry>, key: &SessionKey) -> u32 {
    entry.map_or_else(|| key.depth_by_shape(), tools::depth_of)
}
