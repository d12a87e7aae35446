//! `sessions_send` (specification, chapter 5), and a person's plain message.

use super::context::Context;
use super::reference;
use super::runs::{Accepted, NewRun, Waited};
use super::{Engine, Trouble, lines, shown};
use crate::model::event::{SendState, What};
use crate::model::key::SessionKey;
use crate::model::message::{Provenance, ProvenanceKind};
use crate::model::run::{Flow, Lane, Outcome, RunOrigin, RunState};
use crate::model::tools::{Arguments, Delivery, SendResult, ToolStatus};
use crate::model::visibility::Doing;
use crate::store::Sessions;
use crate::text::Untrusted;
use serde_json::{Map, Value};
use std::time::Duration;

const TOOL: &str = "sessions_send";

/// Exactly this keeps a turn from being shown or delivered.
pub const SILENT: &str = "NO_REPLY";
/// Exactly this ends the reply-back loop.
pub const REPLY_SKIP: &str = "REPLY_SKIP";
/// Exactly this keeps an announce silent.
pub const ANNOUNCE_SKIP: &str = "ANNOUNCE_SKIP";

/// A result of the tool as it is built up; `runId` is there from the start (S-15).
fn result(
    run_id: &str,
    status: ToolStatus,
    error: Option<String>,
    key: Option<Untrusted>,
) -> SendResult {
    SendResult {
        run_id: run_id.to_owned(),
        status,
        reply: None,
        error: error.map(Untrusted::new),
        session_key: key,
        delivery: None,
    }
}

fn payload(result: &SendResult) -> Value {
    serde_json::to_value(result).unwrap_or_default()
}

impl Engine {
    pub(super) async fn sessions_send(&self, ctx: Context, arguments: Map<String, Value>) -> Value {
        let arguments = Arguments(&arguments);
        let Some(message) = arguments.text("message") else {
            return reference::usage_error(TOOL, "message is required and must not be blank");
        };
        let run_id = ctx.call_id.clone().unwrap_or_else(lines::new_id);
        let seconds = arguments.seconds("timeoutSeconds").unwrap_or(30);
        let refuse = |status, error: String, key: Option<Untrusted>| {
            self.tell_refused(&run_id, &ctx, key.clone(), &error);
            payload(&result(&run_id, status, Some(error), key))
        };

        let (key, exists) = match self.target(&ctx, &arguments).await {
            Ok(found) => found,
            Err(refusal) => {
                let key = refusal
                    .key
                    .as_ref()
                    .map(|key| reference::display(&self.settings(), &ctx, key));
                return refuse(refusal.status, refusal.error, key);
            }
        };
        let settings = self.settings();
        let display = reference::display(&settings, &ctx, &key);
        if !ctx.person && key == ctx.requester {
            return refuse(
                ToolStatus::Error,
                "a session cannot send to itself; answer in this session instead".into(),
                Some(display),
            );
        }
        if !settings.allow_thread_targets
            && let Some(parent) = key.thread_parent()
        {
            let parent = parent.display(ctx.own(), &settings.main_key);
            let error = format!(
                "sends to threads are switched off (tools.sessions.allowThreadTargets); send to {parent}"
            );
            return refuse(ToolStatus::Error, error, Some(display));
        }
        if !exists && let Err(error) = self.may_create(&key).await {
            return refuse(ToolStatus::Error, error, Some(display));
        }

        let mut new = NewRun::new(key.clone(), RunOrigin::Operator, Lane::Main, message);
        new.run_id.clone_from(&run_id);
        new.channel = Some("webchat".into()).filter(|_| ctx.person);
        if ctx.person {
            new.provenance = Some(external_user());
        } else {
            new.origin = RunOrigin::Send;
            new.lane = Lane::Nested;
            new.caused_by.clone_from(&ctx.run);
            new.provenance = Some(inter_session(&ctx.requester, ctx.channel.clone(), TOOL));
            new.system_text = Some(a2a_context(&ctx, &key));
            let step_budget_ms = if seconds == 0 {
                30_000
            } else {
                seconds.saturating_mul(1000).min(60_000)
            };
            new.flow = Some(Flow {
                requester: ctx.requester.clone(),
                requester_channel: ctx.channel.clone(),
                requester_session_id: None,
                step_budget_ms,
            });
        }
        let person = ctx.person;
        let delivery = |status: &str| {
            (!person).then(|| Delivery {
                status: status.into(),
                mode: "announce".into(),
            })
        };
        // The wait counts from acceptance (S-44).
        let begun = tokio::time::Instant::now();
        if let Err(error) = self.accept(new).await {
            let is_io = error.is_io;
            let mut refused = refuse(ToolStatus::Error, error.into(), Some(display));
            if is_io {
                // Nothing is wrong with the request: a front door tells a full disk from a refusal by this.
                refused["errorCode"] = "io".into();
            }
            return refused;
        }
        let mut answer = result(&run_id, ToolStatus::Accepted, None, Some(display));
        if seconds == 0 {
            answer.delivery = delivery("pending");
            return payload(&answer);
        }
        let budget = Duration::from_secs(seconds).saturating_sub(begun.elapsed());
        match self.wait(&run_id, budget).await {
            Waited::Over => {
                answer.status = ToolStatus::Timeout;
                answer.error = Some(
                    format!("the wait of {seconds} s is over; the run goes on and can be read with sessions_history")
                        .into(),
                );
                self.tell_wait_over(&run_id).await;
            }
            Waited::Ended(run) if run.outcome == Some(Outcome::Ok) => {
                answer.status = ToolStatus::Ok;
                answer.delivery = delivery(if run.reply.is_some() {
                    "pending"
                } else {
                    "skipped"
                });
                answer.reply.clone_from(&run.reply);
            }
            Waited::Ended(run) => {
                answer.status = ToolStatus::Error;
                answer.error = Some(run.error.clone().unwrap_or_else(|| "the run failed".into()));
            }
        }
        payload(&answer)
    }

    /// S-6 to S-8, S-10: from parameters to a session the requester may send to, and whether it exists.
    async fn target(
        &self,
        ctx: &Context,
        arguments: &Arguments<'_>,
    ) -> Result<(SessionKey, bool), reference::Refusal> {
        let given = ["sessionKey", "label", "agentId"].map(|name| arguments.text(name));
        let settings = self.settings();
        let ctx = ctx.clone();
        self.look(move |store| {
            let [key, label, agent] = &given;
            let given = (key.as_deref(), label.as_deref(), agent.as_deref());
            reference::resolve_target(store, &settings, &ctx, given, Doing::Send)
                .map(|target| (target.key, target.entry.is_some()))
        })
        .await
    }

    /// S-13: which sessions a send may make.
    pub(super) async fn may_create(&self, key: &SessionKey) -> Result<(), String> {
        let missing = || {
            format!(
                "no session {}; sessions_list shows the sessions",
                key.clean()
            )
        };
        if key.is_subagent() {
            return Err(missing());
        }
        let Some(agent) = key.agent() else {
            return if key.as_str() == "global" {
                Ok(())
            } else {
                Err(missing())
            };
        };
        let settings = self.settings();
        if settings.agent(&agent).is_some() || agent == settings.default_agent() {
            return Ok(());
        }
        let wanted = agent.clone();
        match self
            .look(move |store| store.agents().map(|agents| agents.contains(&wanted)))
            .await
        {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("{}: agent {agent} does not exist", missing())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// A person's plain message; the run id is the idempotency key (E-5).
    ///
    /// # Errors
    /// A text that says why it is refused, on what.
    pub async fn operator_send(
        &self,
        key: SessionKey,
        message: &str,
        run_id: &str,
    ) -> Result<Accepted, Trouble> {
        if message.trim().is_empty() {
            return Err("the message is empty".to_owned().into());
        }
        let wanted = key.clone();
        let known = self.inner.store.read(move |tx| tx.entry(&wanted)).await?;
        if known.is_none() {
            self.may_create(&key).await?;
        }
        let mut new = NewRun::new(key.clone(), RunOrigin::Operator, Lane::Main, message);
        run_id.clone_into(&mut new.run_id);
        new.provenance = Some(external_user());
        new.channel = Some("webchat".into());
        self.accept(new).await.map_err(|error| Trouble {
            text: format!("{}: {error}", key.clean()),
            ..error
        })
    }

    fn tell_refused(&self, run_id: &str, ctx: &Context, target: Option<Untrusted>, error: &str) {
        let what = What::SendState {
            send_id: run_id.to_owned(),
            requester: (!ctx.person).then(|| shown(&ctx.requester)),
            target: target.unwrap_or_default(),
            state: SendState::Refused,
            reply: None,
            error: Some(error.into()),
        };
        let about = super::events::About {
            run: Some(run_id.to_owned()),
            ..Default::default()
        };
        self.publish(about, what);
    }

    /// Tells that somebody's wait ended before the run did.
    pub async fn tell_wait_over(&self, run_id: &str) {
        let id = run_id.to_owned();
        if let Ok(Some(run)) = self.inner.store.read(move |tx| tx.run(&id)).await
            && run.state != RunState::Ended
        {
            self.tell_send(&run, SendState::WaitOver, None, None);
        }
    }
}

/// Provenance of a person's message.
pub(super) fn external_user() -> Provenance {
    Provenance {
        kind: ProvenanceKind::ExternalUser,
        source_session_key: None,
        source_channel: Some("webchat".into()),
        source_tool: None,
    }
}

/// Provenance of a routed message (S-21).
pub(super) fn inter_session(
    source: &SessionKey,
    channel: Option<Untrusted>,
    tool: &str,
) -> Provenance {
    Provenance {
        kind: ProvenanceKind::InterSession,
        source_session_key: Some(shown(source)),
        source_channel: channel.filter(|channel| !channel.is_blank()),
        source_tool: Some(tool.into()),
    }
}

/// S-23.
fn a2a_context(ctx: &Context, target: &SessionKey) -> String {
    let channel = ctx
        .channel
        .as_ref()
        .map(|c| format!(" (channel {})", c.raw()))
        .unwrap_or_default();
    format!(
        "Agent-to-agent message.\nAgent 1, the requester: session {}{channel}.\nAgent 2, the target (you): session {}.",
        shown(&ctx.requester).raw(),
        shown(target).raw(),
    )
}
