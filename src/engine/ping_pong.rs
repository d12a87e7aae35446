//! The agent-to-agent flow after a send: reply-back loop and announce step (specification, chapter 6).
//!
//! It runs in the background and never changes the result of the send.

use super::events::About;
use super::runs::{Limit, NewRun, Waited};
use super::send::{ANNOUNCE_SKIP, REPLY_SKIP, SILENT, inter_session};
use super::{Engine, shown};
use crate::model::event::What;
use crate::model::key::SessionKey;
use crate::model::run::{Flow, Lane, Outcome, Run, RunId, RunOrigin};
use crate::text::Untrusted;
use std::time::Duration;

/// A step whose run has not begun by then is given up.
const BEGIN_WITHIN: Duration = Duration::from_secs(600);

/// One exchange.
struct Exchange {
    flow: Flow,
    target: SessionKey,
    request: Untrusted,
    round_one: Untrusted,
    /// Session ids at the start: a reset or delete ends the flow.
    ids: [Option<String>; 2],
    /// Root of the chain, for events.
    root: Option<RunId>,
}

/// Somebody aborted a step: the exchange ends with it, unannounced.
struct Stopped;

/// Ends the loop.
fn is_end(text: &str) -> bool {
    matches!(text.trim(), "" | REPLY_SKIP | ANNOUNCE_SKIP | SILENT)
}

impl Engine {
    /// The flow of an ended primary run.
    pub(super) async fn exchange(&self, primary: Run) {
        let (Some(flow), Some(first)) = (primary.flow.clone(), primary.reply.clone()) else {
            return;
        };
        if first.raw().trim() == SILENT {
            return;
        }
        let target = primary.session_key.clone();
        let limit = self.settings().max_ping_pong_turns;
        let ids = [
            self.session_id(&flow.requester).await,
            self.session_id(&target).await,
        ];
        let gone = flow.requester_session_id.is_some() && flow.requester_session_id != ids[0];
        if gone {
            return; // deleted or reset since the send
        }
        // A requester that had no session yet gets one by its first step, if a message may make it (S-13, A-21).
        let known = ids[0].is_some() || self.may_create(&flow.requester).await.is_ok();
        let exchange = Exchange {
            flow,
            target,
            request: primary.message.clone(),
            round_one: first.clone(),
            ids,
            root: primary.root_run.clone(),
        };
        let skipped = first.raw().trim() == REPLY_SKIP;
        self.tell_turn(
            &exchange,
            &primary.run_id,
            0,
            limit,
            &exchange.target,
            skipped,
        );

        let mut last = first;
        let mut cause = primary.run_id.clone();
        let has_requester = known && exchange.flow.requester != exchange.target;
        if limit > 0 && !skipped && has_requester {
            let (mut speaker, mut listener) =
                (exchange.flow.requester.clone(), exchange.target.clone());
            for turn in 1..=limit {
                let system = reply_context(&exchange, turn, limit, &speaker);
                let step = self
                    .step(
                        &exchange,
                        RunOrigin::Reply,
                        &speaker,
                        &listener,
                        last.clone(),
                        system,
                        &cause,
                        None,
                    )
                    .await;
                if !self.still_there(&exchange).await {
                    return;
                }
                let Ok(step) = step else { return };
                let Some((run_id, text)) = step else { break };
                let ends = is_end(text.raw());
                self.tell_turn(&exchange, &run_id, turn, limit, &speaker, ends);
                cause = run_id;
                if ends {
                    break;
                }
                last = text;
                std::mem::swap(&mut speaker, &mut listener);
            }
        }
        self.announce_exchange(&exchange, &last, &cause).await;
    }

    async fn announce_exchange(&self, exchange: &Exchange, last: &Untrusted, cause: &str) {
        let system = announce_context(exchange, last);
        let about = Some(exchange.request.clone());
        let step = self
            .step(
                exchange,
                RunOrigin::Announce,
                &exchange.target,
                &exchange.flow.requester,
                "Agent-to-agent announce step.".into(),
                system,
                cause,
                about,
            )
            .await;
        if !self.still_there(exchange).await {
            return;
        }
        if let Ok(step) = step {
            self.announce_a2a(&exchange.target, step).await;
        }
    }

    /// One run of the flow: its id and text, or nothing when it was denied, failed, timed out or said nothing.
    #[allow(clippy::too_many_arguments)]
    async fn step(
        &self,
        exchange: &Exchange,
        origin: RunOrigin,
        speaker: &SessionKey,
        from: &SessionKey,
        input: Untrusted,
        system: String,
        cause: &str,
        about: Option<Untrusted>,
    ) -> Result<Option<(RunId, Untrusted)>, Stopped> {
        let mut new = NewRun::new(speaker.clone(), origin, Lane::Nested, input.into_raw());
        let channel = if *from == exchange.flow.requester {
            exchange.flow.requester_channel.clone()
        } else {
            None
        };
        new.provenance = Some(inter_session(from, channel, "sessions_send"));
        new.system_text = Some(system);
        new.limit = Limit::Ms(exchange.flow.step_budget_ms);
        new.caused_by = Some(cause.to_owned());
        new.about = about;
        let accepted = match self.accept(new).await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::info!(error = %crate::text::clean_str(&error), "a step of an exchange was refused");
                return Ok(None);
            }
        };
        let run_id = accepted.run.run_id;
        let budget = BEGIN_WITHIN + Duration::from_millis(exchange.flow.step_budget_ms);
        match self.wait_begun(&run_id, BEGIN_WITHIN, budget).await {
            Waited::Ended(run) if run.outcome == Some(Outcome::Ok) => {
                Ok(run.reply.map(|text| (run_id, text)))
            }
            Waited::Ended(run) if run.outcome == Some(Outcome::Aborted) => Err(Stopped),
            Waited::Ended(_) => Ok(None),
            Waited::Over => {
                self.abort_run(&run_id);
                Ok(None)
            }
        }
    }

    /// Waits for a run that must begin within a time of its own.
    async fn wait_begun(&self, run_id: &str, begin_within: Duration, budget: Duration) -> Waited {
        match self.wait(run_id, begin_within).await {
            Waited::Over => {
                let begun = self
                    .live(run_id)
                    .is_some_and(|live| live.started.load(std::sync::atomic::Ordering::SeqCst));
                if begun {
                    self.wait(run_id, budget.saturating_sub(begin_within)).await
                } else {
                    Waited::Over
                }
            }
            ended @ Waited::Ended(_) => ended,
        }
    }

    async fn session_id(&self, key: &SessionKey) -> Option<String> {
        let key = key.clone();
        let entry = self
            .inner
            .store
            .read(move |tx| tx.entry(&key))
            .await
            .ok()
            .flatten()?;
        Some(entry.session_id)
    }

    async fn still_there(&self, exchange: &Exchange) -> bool {
        let now = [
            self.session_id(&exchange.flow.requester).await,
            self.session_id(&exchange.target).await,
        ];
        // A requester that had no session yet gets one by its first step.
        let same =
            |before: &Option<String>, after: &Option<String>| before.is_none() || before == after;
        same(&exchange.ids[0], &now[0]) && same(&exchange.ids[1], &now[1])
    }

    fn tell_turn(
        &self,
        exchange: &Exchange,
        run_id: &str,
        turn: u32,
        limit: u32,
        speaker: &SessionKey,
        skipped: bool,
    ) {
        let about = About {
            session: Some(speaker.clone()),
            run: Some(run_id.to_owned()),
            caused_by: None,
            root: exchange.root.clone(),
        };
        let what = What::A2aTurn {
            requester: shown(&exchange.flow.requester),
            target: shown(&exchange.target),
            turn,
            limit,
            speaker: shown(speaker),
            skipped,
        };
        self.publish(about, what);
    }
}

fn parties(exchange: &Exchange) -> String {
    let channel = exchange
        .flow
        .requester_channel
        .as_ref()
        .map(|c| format!(" (channel {})", c.raw()));
    format!(
        "Agent 1, the requester: session {}{}.\nAgent 2, the target: session {}.",
        shown(&exchange.flow.requester).raw(),
        channel.unwrap_or_default(),
        shown(&exchange.target).raw(),
    )
}

///
fn reply_context(exchange: &Exchange, turn: u32, limit: u32, speaker: &SessionKey) -> String {
    let role = if *speaker == exchange.flow.requester {
        "agent 1, the requester"
    } else {
        "agent 2, the target"
    };
    format!(
        "Agent-to-agent reply step: you are {role}. Turn {turn} of at most {limit}.\n{}\n\
         Answer the other agent, or answer exactly {REPLY_SKIP} to stop the exchange.",
        parties(exchange)
    )
}

///
fn announce_context(exchange: &Exchange, last: &Untrusted) -> String {
    let text = |text: &Untrusted| {
        if text.is_blank() {
            "not available".to_owned()
        } else {
            text.raw().to_owned()
        }
    };
    format!(
        "Agent-to-agent announce step.\n{}\nOriginal request: {}\nRound 1 reply: {}\nLatest reply: {}\n\
         Answer exactly {ANNOUNCE_SKIP} to keep silent. Any other answer goes to the target's channel. \
         The exchange is over after it.",
        parties(exchange),
        text(&exchange.request),
        text(&exchange.round_one),
        text(last),
    )
}
