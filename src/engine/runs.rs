//! Runs: acceptance, execution, waiting, abort (E-4 to E-13, AM-4, AM-8).

use super::events::About;
use super::lanes::Slot;
use super::lines::{self, Stop};
use super::{Engine, Trouble, lock, shown};
use crate::agents::{Answer, Progress, Step, StepKind, ToolCall, ToolOutcome};
use crate::config::Settings;
use crate::model::event::{SendState, ToolPhase, What};
use crate::model::key::SessionKey;
use crate::model::message::{Provenance, Usage};
use crate::model::policy;
use crate::model::run::{Flow, Lane, Outcome, Run, RunId, RunOrigin, RunState};
use crate::model::session::{Entry, SendPolicy, Status};
use crate::store::StoreError;
use crate::store::state::Tx;
use crate::text::Untrusted;
use futures_util::FutureExt;
use serde_json::Value;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Offered only to a run that has a child's report to wait for (B-2).
const YIELD: &str = "sessions_yield";

/// All timer values are capped (E-13).
pub const MAX_TIMER_MS: u64 = 2_147_000_000;

/// Something more that is stored in the transaction of an acceptance.
pub type Also = Box<dyn FnOnce(&mut Tx<'_>, &Run) -> Result<(), StoreError> + Send>;

/// A run to accept.
pub struct NewRun {
    pub run_id: RunId,
    pub key: SessionKey,
    pub origin: RunOrigin,
    pub lane: Lane,
    pub message: String,
    pub provenance: Option<Provenance>,
    pub system_text: Option<String>,
    pub thinking: Option<String>,
    pub limit: Limit,
    pub label: Option<Untrusted>,
    pub caused_by: Option<RunId>,
    pub flow: Option<Flow>,
    pub about: Option<Untrusted>,
    /// Channel of the current message, for the send policy.
    pub channel: Option<String>,
    /// Stored with the run, or not at all.
    pub also: Option<Also>,
}

impl NewRun {
    /// A run with nothing special.
    pub fn new(key: SessionKey, origin: RunOrigin, lane: Lane, message: impl Into<String>) -> Self {
        Self {
            run_id: lines::new_id(),
            key,
            origin,
            lane,
            message: message.into(),
            provenance: None,
            system_text: None,
            thinking: None,
            limit: Limit::Default,
            label: None,
            caused_by: None,
            flow: None,
            about: None,
            channel: None,
            also: None,
        }
    }
}

/// Limit of a run, from the moment it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// `agents.defaults.timeoutSeconds` (E-13).
    Default,
    None,
    Ms(u64),
}

/// The answer to an acceptance.
#[derive(Debug, Clone)]
pub struct Accepted {
    pub run: Run,
    pub queued_behind: u32,
}

/// A run that was accepted and has not ended.
pub struct Live {
    pub session: SessionKey,
    pub caused_by: Option<RunId>,
    pub root: Option<RunId>,
    pub started: AtomicBool,
    pub started_at: AtomicU64,
    pub abort: CancellationToken,
    end: watch::Sender<Option<Run>>,
}

/// How a wait ended.
#[derive(Debug, Clone)]
pub enum Waited {
    Ended(Box<Run>),
    /// The budget ran out; the run goes on, or is not known (E-10, E-12).
    Over,
}

/// What a turn has done so far; outlives the turn when it is dropped.
#[derive(Default)]
struct Progressed {
    partial: String,
    thinking: String,
    last_text: Option<String>,
    usage: Usage,
    lines: i64,
    open_calls: Vec<ToolCall>,
    last_tool_text: Option<String>,
    model: Option<(String, String)>,
}

struct Teller<'a> {
    engine: &'a Engine,
    run: &'a Run,
    state: &'a Mutex<Progressed>,
}

impl Progress for Teller<'_> {
    fn text(&self, so_far: &str) {
        let delta = {
            let mut state = lock(self.state);
            let delta = so_far
                .strip_prefix(state.partial.as_str())
                .map(Untrusted::from);
            so_far.clone_into(&mut state.partial);
            delta
        };
        let what = What::RunDelta {
            text: Some(so_far.into()),
            delta,
            thinking: None,
        };
        self.engine.publish(About::run(self.run), what);
    }
    fn thinking(&self, so_far: &str) {
        so_far.clone_into(&mut lock(self.state).thinking);
        let what = What::RunDelta {
            text: None,
            delta: None,
            thinking: Some(so_far.into()),
        };
        self.engine.publish(About::run(self.run), what);
    }
}

impl Engine {
    /// Accepts a run (E-4): policy, chain and session are looked at and everything is committed in one transaction
    /// before this returns. A known run id gives its first answer and starts nothing (E-5).
    ///
    /// # Errors
    /// A text that says why the run is refused or could not be stored; then nothing is stored.
    pub async fn accept(&self, new: NewRun) -> Result<Accepted, Trouble> {
        let engine = self.clone();
        self.unbroken(async move { engine.accept_now(new).await })
            .await
    }

    async fn accept_now(&self, new: NewRun) -> Result<Accepted, Trouble> {
        if !self.inner.start_runs {
            return Err("this engine was opened for reading only".to_owned().into());
        }
        let settings = self.settings();
        let now = self.now_ms();
        let limit_ms = match new.limit {
            Limit::Default => Some(settings.run_limit_s.saturating_mul(1000)),
            Limit::None => None,
            Limit::Ms(ms) => Some(ms),
        }
        .map(|ms| ms.clamp(1, MAX_TIMER_MS));
        let policy_settings = settings.clone();
        let max_chain = settings.max_chain_runs;
        let NewRun {
            run_id,
            key,
            origin,
            lane,
            message,
            also,
            channel,
            ..
        } = new;
        let mut run = Run {
            run_id,
            session_key: key,
            origin,
            lane,
            state: RunState::Accepted,
            message: message.trim().into(),
            message_id: lines::new_id(),
            provenance: new.provenance,
            system_text: new.system_text.map(Untrusted::new),
            thinking: new.thinking,
            limit_ms,
            label: new.label,
            caused_by_run: new.caused_by,
            root_run: None,
            flow: new.flow,
            about: new.about,
            accepted_at: now,
            started_at: None,
            ended_at: None,
            outcome: None,
            error: None,
            reply: None,
            usage: None,
        };
        let (run, order, known, created, path) = self
            .inner
            .store
            .write(move |tx| {
                if let Some(known) = tx.run(&run.run_id)? {
                    return Ok((known, 0, true, None, None));
                }
                let stored = tx.entry(&run.session_key)?;
                check_policy(&policy_settings, &run.session_key, stored.as_ref(), channel.as_deref())?;
                let mut path = None;
                run.root_run = Some(match &run.caused_by_run {
                    None => run.run_id.clone(),
                    Some(cause) => {
                        let root = tx.run(cause)?.and_then(|c| c.root_run).unwrap_or_else(|| cause.clone());
                        let length = tx.chain_len(&root)?;
                        if length >= max_chain {
                            return Err(StoreError::Refused(format!(
                                "this chain of runs has reached its limit of {max_chain} (session.agentToAgent.maxChainRuns)"
                            )));
                        }
                        if run.origin == RunOrigin::Send {
                            path = passed_before(tx, &run)?;
                        }
                        root
                    }
                });
                if let Some(flow) = &mut run.flow {
                    flow.requester_session_id = tx.entry(&flow.requester)?.map(|e| e.session_id);
                }
                let mut created = None;
                match stored {
                    Some(mut entry) => {
                        entry.updated_at = entry.updated_at.max(now);
                        note_channel(&mut entry);
                        tx.put_entry(&entry)?;
                    }
                    None => {
                        let mut entry = new_entry(&run.session_key, now);
                        note_channel(&mut entry);
                        tx.put_entry(&entry)?;
                        created = Some(entry);
                    }
                }
                if let Some(also) = also {
                    also(tx, &run)?;
                    created = created.and(tx.entry(&run.session_key)?);
                }
                tx.put_run(&run)?;
                let order = tx.order_of(&run.run_id)?;
                Ok((run, order, false, created, path))
            })
            .await
            .map_err(Trouble::from)?;
        if known {
            return Ok(Accepted {
                run,
                queued_behind: 0,
            });
        }
        if let Some(entry) = created {
            self.publish(
                About::session(&entry.key),
                What::SessionCreated {
                    row: Box::new(self.row(&entry)),
                },
            );
        }
        if let Some(path) = path {
            let turns = u32::try_from(path.len().saturating_sub(1)).unwrap_or(u32::MAX);
            self.publish(
                About::run(&run),
                What::Loop {
                    path: path.iter().map(shown).collect(),
                    turns,
                },
            );
        }
        let queued_behind = self.admit(order, run.clone());
        Ok(Accepted { run, queued_behind })
    }

    /// Makes a stored, accepted run live and queues it.
    pub(super) fn admit(&self, order: u64, run: Run) -> u32 {
        let live = Live {
            session: run.session_key.clone(),
            caused_by: run.caused_by_run.clone(),
            root: run.root_run.clone(),
            started: AtomicBool::new(false),
            started_at: AtomicU64::new(0),
            abort: CancellationToken::new(),
            end: watch::Sender::new(None),
        };
        lock(&self.inner.live).insert(run.run_id.clone(), Arc::new(live));
        let before = self.inner.lanes.before(&run.session_key);
        let queued_behind = (before > 0).then_some(before);
        self.publish(
            About::run(&run),
            What::RunAccepted {
                origin: run.origin,
                queued_behind,
            },
        );
        self.tell_send(&run, SendState::Queued, None, None);
        self.enqueue(order, run)
    }

    pub(super) fn live(&self, run_id: &str) -> Option<Arc<Live>> {
        lock(&self.inner.live).get(run_id).cloned()
    }

    /// Tells where a send stands; runs that are no sends are left out.
    pub(super) fn tell_send(
        &self,
        run: &Run,
        state: SendState,
        reply: Option<Untrusted>,
        error: Option<Untrusted>,
    ) {
        if !matches!(run.origin, RunOrigin::Operator | RunOrigin::Send) {
            return;
        }
        let requester = run.flow.as_ref().map(|flow| shown(&flow.requester));
        let target = shown(&run.session_key);
        let what = What::SendState {
            send_id: run.run_id.clone(),
            requester,
            target,
            state,
            reply,
            error,
        };
        self.publish(About::run(run), what);
    }

    /// Runs one run to its end.
    pub(super) async fn execute(&self, mut run: Run) {
        let Some(live) = self.live(&run.run_id) else {
            return;
        };
        let mut slot: Slot = None;
        let begun = tokio::select! {
            biased;
            () = live.abort.cancelled() => false,
            taken = self.inner.lanes.slot(run.lane) => { slot = taken; true }
        };
        if !begun {
            self.finish(run, &live, Ended::aborted(), Progressed::default())
                .await;
            return;
        }
        let now = self.now_ms();
        let mut starting = run.clone();
        starting.state = RunState::Started;
        starting.started_at = Some(now);
        let begun = starting.clone();
        let started = self
            .insist(usize::MAX, &live.abort, move || {
                let starting = starting.clone();
                move |tx: &mut Tx<'_>| {
                    tx.put_run(&starting)?;
                    let Some(mut entry) = tx.entry(&starting.session_key)? else {
                        return Ok(None);
                    };
                    entry.status = Some(Status::Running);
                    entry.started_at = starting.started_at;
                    entry.ended_at = None;
                    entry.runtime_ms = None;
                    entry.updated_at = entry.updated_at.max(now);
                    count_user_message(&mut entry, &starting);
                    tx.put_entry(&entry)?;
                    if let Some(mut record) = tx.subagent(&starting.run_id)? {
                        record.started_at = starting.started_at;
                        tx.put_subagent(&record)?;
                    }
                    Ok(Some(entry))
                }
            })
            .await;
        let entry = match started {
            Ok(Some(entry)) => {
                run = begun;
                entry
            }
            Ok(None) => {
                self.finish(
                    run,
                    &live,
                    Ended::error("the session is gone"),
                    Progressed::default(),
                )
                .await;
                return;
            }
            Err(error) => {
                self.finish(
                    run,
                    &live,
                    Ended::error(&error.to_string()),
                    Progressed::default(),
                )
                .await;
                return;
            }
        };
        live.started_at
            .store(u64::try_from(now).unwrap_or(0), Ordering::SeqCst);
        live.started.store(true, Ordering::SeqCst);
        self.publish(About::run(&run), What::RunStarted { origin: run.origin });
        self.tell_send(&run, SendState::Running, None, None);
        self.tell_changed(&entry);

        let state = Mutex::new(Progressed {
            lines: 1,
            ..Progressed::default()
        });
        let limit = run
            .limit_ms
            .map_or(Duration::from_millis(MAX_TIMER_MS), Duration::from_millis);
        let ended = match self
            .append(&entry, vec![lines::user(&run, now)], false)
            .await
        {
            Err(error) => Ended::error(&error),
            Ok(()) => tokio::select! {
                biased;
                () = live.abort.cancelled() => Ended::aborted(),
                () = tokio::time::sleep(limit) => Ended::over(limit),
                result = AssertUnwindSafe(self.turn(&run, &entry, &state, &mut slot)).catch_unwind() => match result {
                    Err(_) => Ended::error("internal error: the agent's turn panicked; the log says where"),
                    Ok(Ok(())) => Ended { outcome: Outcome::Ok, error: None },
                    Ok(Err(error)) => Ended::error(&error),
                },
            },
        };
        drop(slot);
        let state = state
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        self.finish(run, &live, ended, state).await;
    }

    async fn turn(
        &self,
        run: &Run,
        entry: &Entry,
        state: &Mutex<Progressed>,
        slot: &mut Slot,
    ) -> Result<(), String> {
        let settings = self.settings();
        let agent_id = entry
            .key
            .agent()
            .unwrap_or_else(|| settings.default_agent());
        let agent = self.agent_for(&settings, &agent_id)?;
        let mut step = Step {
            session: run.session_key.clone(),
            agent: agent_id,
            kind: match run.origin {
                RunOrigin::Reply => StepKind::Reply,
                RunOrigin::Announce => StepKind::Announce,
                RunOrigin::Report => StepKind::Report,
                _ => StepKind::Message,
            },
            message: run.message.clone(),
            about: run.about.clone(),
            system_text: run.system_text.clone(),
            model: self.model_of(&settings, entry),
            thinking: run
                .thinking
                .clone()
                .or_else(|| entry.thinking_level.clone()),
            tools: self.tools_for(&settings, entry),
            results: Vec::new(),
            context: Arc::default(),
        };
        // A script that never stops calling tools would otherwise fill the disk.
        for _ in 0..100 {
            step.tools.retain(|name| name != YIELD);
            if self.descendants_open(&run.session_key).await {
                step.tools.push(YIELD.to_owned());
            }
            let teller = Teller {
                engine: self,
                run,
                state,
            };
            let answer = agent
                .step(&step, &teller)
                .await
                .map_err(|error| error.0.into_raw())?;
            self.note_answer(run, entry, &answer, state).await?;
            if answer.calls.is_empty() {
                return Ok(());
            }
            for call in answer.calls {
                // A run that waits in a tool call holds no slot that another run needs (E-8).
                *slot = None;
                let about = About::run(run);
                let told = |phase| What::RunTool {
                    name: call.name.as_str().into(),
                    call_id: call.id.as_str().into(),
                    phase,
                };
                self.publish(about.clone(), told(ToolPhase::Start));
                let outcome = self.run_tool(&agent, run, entry, &step.tools, &call).await;
                self.publish(
                    about,
                    told(if outcome.is_error {
                        ToolPhase::Error
                    } else {
                        ToolPhase::Result
                    }),
                );
                *slot = self.inner.lanes.slot(run.lane).await;
                self.append(
                    entry,
                    vec![lines::tool_result(run, &outcome, self.now_ms())],
                    false,
                )
                .await?;
                {
                    let mut state = lock(state);
                    state.lines += 1;
                    state.open_calls.retain(|open| open.id != call.id);
                    state.last_tool_text = Some(outcome.text.raw().to_owned());
                }
                let yielded = call.name == YIELD && !outcome.is_error;
                step.results.push(outcome);
                if yielded {
                    // The turn counts as finished: what the agent sees next is a child's report (B-2).
                    return Ok(());
                }
            }
        }
        Err("the agent asked for tools 100 times in one turn; the run was ended".into())
    }

    async fn note_answer(
        &self,
        run: &Run,
        entry: &Entry,
        answer: &Answer,
        state: &Mutex<Progressed>,
    ) -> Result<(), String> {
        let reason = if answer.calls.is_empty() {
            "stop"
        } else {
            "toolUse"
        };
        let line = lines::assistant(
            run,
            answer,
            &Stop {
                reason,
                error: None,
            },
            self.now_ms(),
        );
        // A message is on disk before its run is marked as ended.
        self.append(entry, vec![line], answer.calls.is_empty())
            .await?;
        let mut state = lock(state);
        state.partial.clear();
        state.thinking.clear();
        state.lines += 1;
        state.open_calls.clone_from(&answer.calls);
        state.last_text = Some(answer.text.raw().to_owned());
        state.model = Some((answer.provider.clone(), answer.model.clone()));
        state.usage.input += answer.usage.input;
        state.usage.output += answer.usage.output;
        state.usage.cache_read += answer.usage.cache_read;
        state.usage.cache_write += answer.usage.cache_write;
        state.usage.total_tokens = answer.usage.total_tokens;
        if let Some(cost) = answer.usage.cost_usd {
            *state.usage.cost_usd.get_or_insert(0.0) += cost;
        }
        Ok(())
    }

    /// Closes a run: what is open in the transcript is closed (D-27), the end is committed, and told.
    async fn finish(&self, mut run: Run, live: &Live, ended: Ended, mut state: Progressed) {
        let now = self.now_ms();
        let was_started = run.state == RunState::Started;
        if was_started && ended.outcome != Outcome::Ok {
            let entry = self.inner.store.read({
                let key = run.session_key.clone();
                move |tx| tx.entry(&key)
            });
            if let Ok(Some(entry)) = entry.await {
                let mut closing: Vec<Value> = Vec::new();
                for call in std::mem::take(&mut state.open_calls) {
                    let text = "the run ended before this tool answered".into();
                    let outcome = ToolOutcome {
                        call_id: call.id,
                        name: call.name,
                        text,
                        is_error: true,
                    };
                    closing.push(lines::tool_result(&run, &outcome, now));
                }
                let (provider, model) = state.model.clone().unwrap_or_default();
                let thinking = (!state.thinking.is_empty()).then(|| state.thinking.as_str().into());
                let text = state.partial.as_str().into();
                let answer = Answer {
                    thinking,
                    text,
                    provider,
                    model,
                    ..Answer::default()
                };
                let reason = if ended.outcome == Outcome::Aborted {
                    "aborted"
                } else {
                    "error"
                };
                closing.push(lines::assistant(
                    &run,
                    &answer,
                    &Stop {
                        reason,
                        error: ended.error.as_deref(),
                    },
                    now,
                ));
                state.lines += i64::try_from(closing.len()).unwrap_or(0);
                if let Err(error) = self.append(&entry, closing, true).await {
                    tracing::error!(error = %crate::text::clean_str(&error), "the end of a run could not be written");
                }
            }
        }
        run.state = RunState::Ended;
        run.ended_at = Some(now);
        run.outcome = Some(ended.outcome);
        run.error = ended.error.map(Untrusted::new);
        run.usage = was_started.then_some(state.usage);
        // A timed-out child still reports what it has (P-35); the reply of a send is only that of a run that is done.
        let visible = if state.partial.trim().is_empty() {
            state.last_text.clone()
        } else {
            Some(state.partial.clone())
        };
        run.reply = visible
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
            .map(Untrusted::new);
        let stored = run.clone();
        let child_text = run
            .reply
            .clone()
            .or_else(|| state.last_tool_text.clone().map(Untrusted::new));
        let state = Arc::new(state);
        let changed = self
            .insist(8, &CancellationToken::new(), move || {
                let (stored, child_text, state) =
                    (stored.clone(), child_text.clone(), state.clone());
                move |tx: &mut Tx<'_>| {
                    tx.put_run(&stored)?;
                    if let Some(mut record) = tx.subagent(&stored.run_id)? {
                        super::subagents::close(&mut record, &stored, child_text, now);
                        tx.put_subagent(&record)?;
                    }
                    let Some(mut entry) = tx.entry(&stored.session_key)? else {
                        return Ok(None);
                    };
                    if was_started {
                        count_end(&mut entry, &stored, &state, now);
                    } else if stored.origin == RunOrigin::Spawn
                        && stored.outcome == Some(Outcome::Aborted)
                    {
                        // Killed before its turn came (LC-10).
                        entry.aborted_last_run = Some(true);
                        entry.status = Some(Status::Killed);
                        entry.ended_at = Some(now);
                    }
                    tx.put_entry(&entry)?;
                    Ok(Some(entry))
                }
            })
            .await;
        match changed {
            Ok(entry) => {
                if let Some(entry) = entry {
                    self.tell_changed(&entry);
                }
            }
            Err(error) => {
                tracing::error!(error = %crate::text::clean_str(&error.to_string()), "the end of a run is not stored");
            }
        }
        lock(&self.inner.live).remove(&run.run_id);
        self.tell_ended(&run);
        self.after(&run);
        live.end.send_replace(Some(run));
    }

    /// Tells how a run ended, and what that means for the send it was.
    pub(super) fn tell_ended(&self, run: &Run) {
        let outcome = run.outcome.unwrap_or(Outcome::Error);
        let what = What::RunEnded {
            origin: run.origin,
            outcome,
            error: run.error.clone(),
            usage: run.usage,
        };
        self.publish(About::run(run), what);
        let (state, reply) = match (outcome, &run.reply) {
            (Outcome::Ok, Some(reply)) => (SendState::Replied, Some(reply.clone())),
            (Outcome::Ok, None) => (SendState::NoReply, None),
            _ => (SendState::Failed, None),
        };
        self.tell_send(run, state, reply, run.error.clone());
    }

    /// A change that has to be stored: a full disk is waited for, so that nothing is told that a restart would undo.
    async fn insist<T, M, F>(
        &self,
        tries: usize,
        stop: &CancellationToken,
        make: M,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        M: Fn() -> F,
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let mut pause = Duration::from_millis(250);
        let mut tried = 0;
        loop {
            let error = match self.inner.store.write(make()).await {
                Err(error @ (StoreError::Io { .. } | StoreError::Sql { .. })) => error,
                settled => return settled,
            };
            tried += 1;
            if tried >= tries {
                return Err(error);
            }
            tracing::warn!(error = %crate::text::clean_str(&error.to_string()), "a change is not stored yet");
            tokio::select! {
                () = stop.cancelled() => return Err(error),
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(Duration::from_secs(30));
        }
    }

    /// What follows the end of a run; never changes its result.
    pub(super) fn after(&self, run: &Run) {
        if run.flow.is_some()
            && run.outcome == Some(Outcome::Ok)
            && matches!(run.origin, RunOrigin::Send)
        {
            let engine = self.clone();
            let run = run.clone();
            self.spawn(async move { engine.exchange(run).await });
        }
        if run.origin == RunOrigin::Spawn {
            let engine = self.clone();
            let run_id = run.run_id.clone();
            self.spawn(async move { engine.settle_child(run_id).await });
        }
        if matches!(run.origin, RunOrigin::Channel | RunOrigin::Report) {
            let engine = self.clone();
            let run = run.clone();
            self.spawn(async move { engine.deliver_reply(run).await });
        }
    }

    /// Waits for a run (E-9): dropping the waiter changes nothing, and any later waiter gets the same answer.
    pub async fn wait(&self, run_id: &str, budget: Duration) -> Waited {
        let deadline =
            tokio::time::Instant::now() + budget.min(Duration::from_millis(MAX_TIMER_MS));
        if let Some(live) = self.live(run_id) {
            let mut end = live.end.subscribe();
            drop(live);
            let ended = tokio::time::timeout_at(deadline, end.wait_for(Option::is_some)).await;
            if let Ok(Ok(run)) = ended
                && let Some(run) = run.as_ref()
            {
                return Waited::Ended(Box::new(run.clone()));
            }
            if tokio::time::Instant::now() >= deadline {
                return Waited::Over;
            }
        }
        let id = run_id.to_owned();
        if let Ok(Some(run)) = self.inner.store.read(move |tx| tx.run(&id)).await
            && run.state == RunState::Ended
        {
            return Waited::Ended(Box::new(run));
        }
        tokio::time::sleep_until(deadline).await;
        Waited::Over
    }

    /// Asks a run to stop. False when it is not live.
    pub fn abort_run(&self, run_id: &str) -> bool {
        let Some(live) = self.live(run_id) else {
            return false;
        };
        live.abort.cancel();
        if !live.started.load(Ordering::SeqCst) {
            // It may stand in a queue behind a long run: it ends now, not when its turn comes.
            for run in self
                .inner
                .lanes
                .withdraw(&live.session, |run| run.run_id == run_id)
            {
                let engine = self.clone();
                let live = live.clone();
                self.inner.tasks.spawn(async move {
                    engine
                        .finish(run, &live, Ended::aborted(), Progressed::default())
                        .await;
                });
            }
        }
        true
    }

    /// What an event of a session is about, with cause and root of the run when it is live.
    pub(super) fn about_run(&self, key: &SessionKey, run_id: Option<&str>) -> About {
        let live = run_id.and_then(|run_id| self.live(run_id));
        About {
            session: Some(key.clone()),
            run: run_id.map(str::to_owned),
            caused_by: live.as_ref().and_then(|live| live.caused_by.clone()),
            root: live.and_then(|live| live.root.clone()),
        }
    }

    /// Where a live run stands; `None` for one that has ended or is not known.
    pub fn state_of(&self, run_id: &str) -> Option<RunState> {
        let live = self.live(run_id)?;
        Some(if live.started.load(Ordering::SeqCst) {
            RunState::Started
        } else {
            RunState::Accepted
        })
    }

    /// True for a run that is accepted or started.
    pub fn is_live(&self, run_id: &str) -> bool {
        self.live(run_id).is_some()
    }

    /// Fills in how many runs wait in each row's queue.
    pub fn note_queues(&self, rows: &mut [crate::model::session::Row]) {
        for row in rows {
            let queued = self.inner.lanes.queued(&SessionKey::foreign(row.key.raw()));
            row.queued = (queued > 0).then_some(queued);
        }
    }

    /// Runs that are accepted or started.
    pub fn live_runs(&self) -> Vec<(RunId, SessionKey, bool)> {
        let live = lock(&self.inner.live);
        live.iter()
            .map(|(id, run)| {
                (
                    id.clone(),
                    run.session.clone(),
                    run.started.load(Ordering::SeqCst),
                )
            })
            .collect()
    }

    /// The model a session's runs use.
    pub(super) fn model_of(&self, settings: &Settings, entry: &Entry) -> Option<String> {
        let agent = entry.key.agent();
        let configured = agent.and_then(|id| settings.agent(&id).and_then(|a| a.model.clone()));
        entry
            .model_override
            .clone()
            .or(configured)
            .or_else(|| settings.default_model.clone())
    }
}

struct Ended {
    outcome: Outcome,
    error: Option<String>,
}

impl Ended {
    fn aborted() -> Self {
        Self {
            outcome: Outcome::Aborted,
            error: Some("the run was aborted".into()),
        }
    }
    fn over(limit: Duration) -> Self {
        let error = format!(
            "the run went over its own limit of {} s",
            limit.as_secs_f64()
        );
        Self {
            outcome: Outcome::Timeout,
            error: Some(error),
        }
    }
    fn error(text: &str) -> Self {
        Self {
            outcome: Outcome::Error,
            error: Some(text.to_owned()),
        }
    }
}

/// A session as it is made by its first run.
pub(super) fn new_entry(key: &SessionKey, now: i64) -> Entry {
    let mut entry = Entry::new(key.clone(), uuid::Uuid::new_v4().to_string(), now);
    if let Some(parts) = key.group_parts() {
        entry.chat_type = Some(if parts.is_channel { "channel" } else { "group" }.into());
        entry.channel = parts.channel.map(Untrusted::from);
    }
    entry
}

/// A session without any channel was reached from here, which is the channel `webchat` (S-20).
fn note_channel(entry: &mut Entry) {
    if entry.channel.is_none() && entry.route().is_empty() {
        entry.last_channel = Some("webchat".into());
    }
}

/// SP-30, SP-31.
pub(super) fn check_policy(
    settings: &Settings,
    key: &SessionKey,
    entry: Option<&Entry>,
    channel: Option<&str>,
) -> Result<(), StoreError> {
    let decision = policy::decide(settings.send_policy.as_ref(), key, entry, channel, None);
    match decision.policy {
        SendPolicy::Allow => Ok(()),
        SendPolicy::Deny => Err(StoreError::Refused(
            "sending is blocked by the session's send policy".into(),
        )),
    }
}

/// The sessions a chain of sends has passed, when it comes back to one of them (AM-5).
fn passed_before(tx: &Tx<'_>, run: &Run) -> Result<Option<Vec<SessionKey>>, StoreError> {
    let mut path = vec![run.session_key.clone()];
    let mut at = run.caused_by_run.clone();
    // The chain has a limit of its own, so this ends.
    while let Some(cause) = at {
        let Some(cause) = tx.run(&cause)? else { break };
        path.push(cause.session_key.clone());
        if cause.session_key == run.session_key {
            path.reverse();
            return Ok(Some(path));
        }
        at = cause.caused_by_run;
    }
    Ok(None)
}

/// White space squeezed and cut, for titles and previews.
fn one_line(text: &str, limit: usize) -> String {
    let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if squeezed.chars().count() <= limit {
        return squeezed;
    }
    squeezed
        .chars()
        .take(limit.saturating_sub(1))
        .chain(['…'])
        .collect()
}

/// Counts and previews are kept as messages are written (AM-10).
pub(super) fn count_user_message(entry: &mut Entry, run: &Run) {
    entry.message_count = Some(entry.message_count.unwrap_or(0) + 1);
    let text = one_line(run.message.raw(), 200);
    let is_human = run
        .provenance
        .as_ref()
        .is_none_or(|p| p.kind != crate::model::message::ProvenanceKind::InterSession);
    if is_human && entry.first_user_text.is_none() {
        entry.first_user_text = Some(text.as_str().into());
    }
    entry.last_text = Some(text.into());
}

fn count_end(entry: &mut Entry, run: &Run, state: &Progressed, now: i64) {
    entry.message_count = Some(entry.message_count.unwrap_or(0) + state.lines - 1);
    if let Some(text) = &run.reply {
        entry.last_text = Some(one_line(text.raw(), 200).into());
    }
    entry.input_tokens = Some(entry.input_tokens.unwrap_or(0) + state.usage.input);
    entry.output_tokens = Some(entry.output_tokens.unwrap_or(0) + state.usage.output);
    if state.usage.total_tokens > 0 {
        entry.total_tokens = Some(state.usage.total_tokens);
        entry.total_tokens_fresh = Some(true);
    }
    if let Some(cost) = state.usage.cost_usd {
        entry.estimated_cost_usd = Some(entry.estimated_cost_usd.unwrap_or(0.0) + cost);
    }
    if let Some((provider, model)) = &state.model {
        entry.model = Some(model.as_str().into());
        entry.model_provider = Some(provider.clone());
    }
    entry.aborted_last_run = Some(run.outcome == Some(Outcome::Aborted));
    entry.system_sent = Some(true);
    entry.status = Some(match run.outcome {
        Some(Outcome::Ok) => Status::Done,
        Some(Outcome::Aborted) => Status::Killed,
        Some(Outcome::Timeout) => Status::Timeout,
        _ => Status::Failed,
    });
    entry.ended_at = Some(now);
    entry.runtime_ms = run.started_at.map(|start| (now - start).max(0));
    entry.updated_at = entry.updated_at.max(now);
}
