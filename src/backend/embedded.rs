//! Our engine in this process, as a backend.

use super::Backend;
use crate::engine::context::Context;
use crate::engine::incoming::Incoming;
use crate::engine::runs::{Accepted as Admitted, Waited as Over};
use crate::engine::{Engine, Trouble, agents_list, history, list, reference, spawn};
use crate::model::event::Event;
use crate::model::key::SessionKey;
use crate::model::policy::{self, Source};
use crate::model::run::RunState;
use crate::model::visibility::Doing;
use crate::protocol::methods::{
    Accepted, Call, Caller, Choices, Code, Detail, Failure, Info, Reply, Request, Waited, key_text,
};
use crate::store::{Sessions, StoreError};
use crate::text::Untrusted;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::time::Duration;
use tokio::sync::mpsc;

/// The embedded engine as a backend. Cheap to clone.
#[derive(Clone)]
pub struct EmbeddedBackend {
    engine: Engine,
}

fn refused(text: String) -> Failure {
    Failure::new(Code::Refused, text)
}

fn trouble(trouble: Trouble) -> Failure {
    let code = if trouble.is_io {
        Code::Io
    } else {
        Code::Refused
    };
    Failure::new(code, trouble.text)
}

fn stored(error: StoreError) -> Failure {
    Failure::new(Code::Io, error.to_string())
}

fn accepted(admitted: Admitted) -> Accepted {
    Accepted {
        session_key: key_text(&admitted.run.session_key),
        run_id: admitted.run.run_id,
        queued_behind: admitted.queued_behind,
    }
}

impl EmbeddedBackend {
    /// A backend over an engine.
    pub fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Work of the store's common interface, off the async threads.
    async fn look<T: Send + 'static>(
        &self,
        reading: impl FnOnce(&dyn Sessions) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let store = self.engine.store().clone();
        match tokio::task::spawn_blocking(move || reading(&store)).await {
            Ok(result) => result,
            Err(error) => Err(Failure::new(Code::Io, format!("internal error: {error}"))),
        }
    }

    /// Who calls: a person, or a session, which must exist (the main session of a configured agent always does).
    async fn context(&self, caller: &Caller) -> Result<Context, Failure> {
        let settings = self.engine.settings();
        let Some(given) = caller.session.clone() else {
            return Ok(Context::person(&settings));
        };
        self.look(move |store| {
            let person = Context::person(&settings);
            let target = reference::resolve(store, &settings, &person, given.raw(), Doing::Status)
                .map_err(|refusal| history::failure(&refusal))?;
            let agent = target
                .key
                .agent()
                .unwrap_or_else(|| settings.default_agent());
            let is_main = settings.is_main(&target.key)
                && (settings.agent(&agent).is_some() || agent == settings.default_agent());
            if target.entry.is_none() && !is_main {
                let text = format!("--as {}: there is no such session", given.clean());
                return Err(Failure::new(Code::NotFound, text));
            }
            let mut ctx = Context::session(&settings, target.key);
            if let Some(entry) = &target.entry {
                let route = entry.route();
                ctx.channel = route.channel.clone().or_else(|| entry.channel.clone());
                ctx.route = Some(route).filter(|route| !route.is_empty());
                ctx.workspace = entry.spawned_workspace_dir.clone().map(Into::into);
            }
            Ok(ctx)
        })
        .await
    }

    /// A session that may not exist yet, for a person.
    async fn key(
        &self,
        ctx: &Context,
        given: &Untrusted,
        doing: Doing,
    ) -> Result<(SessionKey, bool), Failure> {
        let settings = self.engine.settings();
        let (ctx, given) = (ctx.clone(), given.clone());
        self.look(move |store| {
            reference::resolve(store, &settings, &ctx, given.raw(), doing)
                .map(|target| (target.key, target.entry.is_some()))
                .map_err(|refusal| history::failure(&refusal))
        })
        .await
    }

    /// A session that must exist. Session control is a person's: a session does it through its tools only.
    async fn existing(&self, ctx: &Context, given: &Untrusted) -> Result<SessionKey, Failure> {
        self.person_only(ctx)?;
        match self.key(ctx, given, Doing::Status).await? {
            (key, true) => Ok(key),
            (key, false) => Err(Failure::new(
                Code::NotFound,
                format!("no session {}", key.clean()),
            )),
        }
    }

    fn person_only(&self, ctx: &Context) -> Result<(), Failure> {
        if ctx.person {
            return Ok(());
        }
        Err(Failure::new(
            Code::Forbidden,
            "session control is for a person: leave --as out",
        ))
    }

    async fn detail(&self, ctx: Context, given: Untrusted) -> Result<Reply, Failure> {
        let settings = self.engine.settings();
        let now = self.engine.now_ms();
        let asked = given.clone();
        let asked_settings = settings.clone();
        let (row, entry) = self
            .look(move |store| {
                let target =
                    reference::resolve(store, &asked_settings, &ctx, asked.raw(), Doing::Status)
                        .map_err(|refusal| history::failure(&refusal))?;
                let Some(entry) = target.entry else {
                    return Err(Failure::new(
                        Code::NotFound,
                        format!("no session {}", target.key.clean()),
                    ));
                };
                let row = list::one(store, &asked_settings, &ctx, &entry, now).map_err(stored)?;
                Ok((row, entry))
            })
            .await?;
        let decision = policy::decide(
            settings.send_policy.as_ref(),
            &entry.key,
            Some(&entry),
            None,
            None,
        );
        let key = entry.key.clone();
        let runs = self
            .engine
            .store()
            .read(move |tx| {
                let mut runs = tx.runs_of(&key)?;
                runs.retain(|run| run.state != RunState::Ended);
                Ok(runs)
            })
            .await
            .map_err(stored)?;
        Ok(Reply::Detail(Box::new(Detail {
            row,
            send_policy: decision.policy,
            send_policy_source: match decision.source {
                Source::Override => "override".into(),
                Source::Rule(number) => format!("rule {number}"),
                Source::Default => "default".into(),
            },
            entry: serde_json::to_value(&entry).unwrap_or_default(),
            runs,
        })))
    }

    fn info(&self) -> Info {
        let settings = self.engine.settings();
        let live = self.engine.live_runs();
        let running = live.iter().filter(|(_, _, started)| *started).count();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Info {
            source: "embedded".into(),
            place: self.engine.store().dir().display().to_string().into(),
            config: settings
                .source
                .as_ref()
                .map(|file| file.display().to_string().into()),
            version: env!("CARGO_PKG_VERSION").into(),
            read_only: false,
            demo: self.engine.has_cast(),
            default_agent: settings.default_agent().to_string(),
            main_key: settings.main_key.clone(),
            pid: Some(std::process::id()),
            warnings: settings.warnings.clone(),
            running: count(running),
            queued: count(live.len() - running),
            attached: 0,
        }
    }

    async fn choices(&self, ctx: Context) -> Result<Reply, Failure> {
        let settings = self.engine.settings();
        let requester = ctx.requester.clone();
        let children_of = requester.clone();
        let (entry, children) = self
            .engine
            .store()
            .read(move |tx| {
                let children = tx.subagents(Some(&children_of))?;
                Ok((
                    tx.entry(&children_of)?,
                    children
                        .iter()
                        .filter(|child| child.ended_at.is_none())
                        .count(),
                ))
            })
            .await
            .map_err(stored)?;
        let agents = agents_list::agents(&settings, &ctx.agent);
        let channel = ctx
            .channel
            .clone()
            .or_else(|| entry.as_ref().and_then(|entry| entry.last_channel.clone()));
        let channel = channel.unwrap_or_else(|| "webchat".into());
        let child = SessionKey::of(&ctx.agent, "subagent:any");
        Ok(Reply::Choices(Choices {
            requester: agents.requester,
            allow_any: agents.allow_any,
            agents: agents.agents,
            models: spawn::model_names(&settings),
            default_model: settings
                .agent(&ctx.agent)
                .and_then(|agent| agent.model.clone())
                .or_else(|| settings.default_model.clone()),
            sandboxed: settings.is_sandboxed(&child),
            depth: spawn::depth(entry.as_ref(), &requester),
            max_depth: settings.subagents.max_spawn_depth,
            children: u32::try_from(children).unwrap_or(u32::MAX),
            max_children: settings.subagents.max_children,
            run_timeout_s: settings.subagents.run_timeout_s,
            threads: channel.raw() == "webchat" && settings.thread_bindings,
            report_to: channel,
            attachments: settings.attachments.enabled,
        }))
    }

    async fn answer(&self, call: Call) -> Result<Reply, Failure> {
        let ctx = self.context(&call.caller).await?;
        let settings = self.engine.settings();
        let now = self.engine.now_ms();
        let done = |note: String| Reply::Done {
            note: Some(note.into()),
        };
        match call.request {
            Request::Info {} => Ok(Reply::Info(Box::new(self.info()))),
            Request::List(request) => {
                let mut rows = self
                    .look(move |store| {
                        list::rows(store, &settings, &ctx, &request, now).map_err(stored)
                    })
                    .await?;
                self.engine.note_queues(&mut rows.rows);
                Ok(Reply::Rows(rows))
            }
            Request::Detail { key } => self.detail(ctx, key).await,
            Request::History(request) => self
                .look(move |store| history::lines(store, &settings, &ctx, &request))
                .await
                .map(Reply::Lines),
            Request::Tool {
                name,
                arguments,
                call_id,
            } => {
                let ctx = Context { call_id, ..ctx };
                Ok(Reply::Tool {
                    payload: self.engine.call_tool(ctx, &name, arguments).await,
                })
            }
            Request::Send {
                key,
                message,
                run_id,
            } => {
                self.person_only(&ctx)?;
                let (key, _) = self.key(&ctx, &key, Doing::Send).await?;
                let sent = self.engine.operator_send(key, message.raw(), &run_id).await;
                sent.map(accepted).map(Reply::Accepted).map_err(trouble)
            }
            Request::Wait { run_id, timeout_ms } => self.wait(run_id, timeout_ms).await,
            Request::Choices {} => self.choices(ctx).await,
            Request::Patch { key, fields } => {
                self.person_only(&ctx)?;
                let (key, _) = self.key(&ctx, &key, Doing::Status).await?;
                self.engine.patch(&key, fields).await.map_err(trouble)?;
                Ok(Reply::Done { note: None })
            }
            Request::Abort { target, tree } => {
                self.person_only(&ctx)?;
                let aborted = if self.engine.is_live(target.raw()) {
                    self.engine.abort(None, Some(target.raw()), tree).await
                } else {
                    let key = self.existing(&ctx, &target).await?;
                    self.engine.abort(Some(&key), None, tree).await
                };
                aborted
                    .map(|run_ids| Reply::Aborted { run_ids })
                    .map_err(refused)
            }
            Request::Reset { key } => {
                let key = self.existing(&ctx, &key).await?;
                self.engine.reset(&key).await.map_err(refused)?;
                Ok(done(
                    "a new session has begun; the old transcript is kept beside it".into(),
                ))
            }
            Request::Archive { key } => {
                let key = self.existing(&ctx, &key).await?;
                self.engine.archive(&key, true).await.map_err(refused)?;
                Ok(done("archived: hidden and kept".into()))
            }
            Request::Restore { key } => {
                let key = self.existing(&ctx, &key).await?;
                self.engine.archive(&key, false).await.map_err(refused)?;
                Ok(done("restored".into()))
            }
            Request::Delete { key } => {
                let key = self.existing(&ctx, &key).await?;
                self.engine.delete(&key).await.map_err(refused)?;
                Ok(done("deleted; the transcript is kept, renamed".into()))
            }
            Request::Incoming {
                channel,
                from,
                owner,
                key,
                text,
            } => {
                self.person_only(&ctx)?;
                let (key, _) = self.key(&ctx, &key, Doing::Send).await?;
                match self
                    .engine
                    .incoming(&channel, &from, owner, key, text.raw())
                    .await
                    .map_err(refused)?
                {
                    Incoming::Run(admitted) => Ok(Reply::Accepted(accepted(*admitted))),
                    Incoming::Answer(text) => Ok(done(text)),
                    Incoming::Silence => Ok(Reply::Done { note: None }),
                }
            }
            Request::Runs {} => {
                let runs = self
                    .engine
                    .store()
                    .read(|tx| {
                        let mut runs = tx.runs(RunState::Started)?;
                        runs.extend(tx.runs(RunState::Accepted)?);
                        Ok(runs)
                    })
                    .await
                    .map_err(stored)?;
                Ok(Reply::Runs { runs })
            }
            Request::PlayDemo {} => {
                self.engine.play_demo().map_err(refused)?;
                Ok(Reply::Done { note: None })
            }
        }
    }

    async fn wait(&self, run_id: String, timeout_ms: u64) -> Result<Reply, Failure> {
        let mut waited = Waited {
            run_id: run_id.clone(),
            outcome: None,
            reply: None,
            error: None,
            post: None,
            settled: false,
            state: self.engine.state_of(&run_id),
            started_at: None,
            ended_at: None,
        };
        let deadline =
            tokio::time::Instant::now() + Duration::from_millis(timeout_ms.min(2_147_000_000));
        match self
            .engine
            .wait(&run_id, Duration::from_millis(timeout_ms))
            .await
        {
            // Asking without waiting is no wait that is over.
            Over::Over if timeout_ms > 0 => self.engine.tell_wait_over(&run_id).await,
            Over::Over => {}
            Over::Ended(run) => {
                waited.state = Some(run.state);
                waited.outcome = run.outcome;
                waited.reply = run.reply;
                waited.error = run.error;
                waited.started_at = run.started_at;
                waited.ended_at = run.ended_at;
                (waited.post, waited.settled) = self.engine.post_of(&run_id, deadline).await;
            }
        }
        Ok(Reply::Waited(waited))
    }
}

impl Backend for EmbeddedBackend {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Failure>> {
        self.answer(call).boxed()
    }

    fn events(&self, since: Option<String>) -> mpsc::Receiver<Event> {
        self.engine.events(since.as_deref())
    }
}
