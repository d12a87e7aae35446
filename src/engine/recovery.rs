//! What a start after a crash puts right (AM-4, LC-22, A-22, D-27).
//!
//! Accepted and not begun: runs now. Begun and not ended: closed as interrupted, with an error line in the transcript,
//! and its requester hears of it. Never twice.

use super::lines::{self, Stop};
use super::runs::NewRun;
use super::send::inter_session;
use super::{Engine, control, shown, subagents};
use crate::agents::{Answer, ToolOutcome};
use crate::model::message::{Block, Content, Message, RawLine, Role};
use crate::model::run::{Lane, Outcome, Run, RunOrigin, RunState};
use crate::model::session::Entry;
use crate::store::{Sessions, Span, StoreError};
use crate::text::Untrusted;
use std::collections::HashSet;

const INTERRUPTED: &str =
    "the engine was restarted while this run was going on; it was not repeated";

/// Lines looked at together.
const PAGE: usize = 400;

impl Engine {
    pub(super) async fn recover(&self) -> Result<(), StoreError> {
        let now = self.now_ms();
        let begun = self
            .inner
            .store
            .read(|tx| tx.runs(RunState::Started))
            .await?;
        let mut finished = Vec::new();
        let mut lost = Vec::new();
        for mut run in begun {
            run.state = RunState::Ended;
            run.ended_at = Some(now);
            run.outcome = Some(Outcome::Interrupted);
            run.error = Some(INTERRUPTED.into());
            if let Some(entry) = self.entry_of(&run).await? {
                match self.close_transcript(&run, &entry).await {
                    // Its answer is in the transcript: only the mark of its end was lost.
                    Ok(Some(reply)) => {
                        run.outcome = Some(Outcome::Ok);
                        run.error = None;
                        run.reply = Some(reply).filter(|text| !text.is_blank());
                        finished.push(run.clone());
                    }
                    Ok(None) => {}
                    Err(error) => {
                        tracing::error!(error = %crate::text::clean_str(&error), "an interrupted run has no closing line");
                    }
                }
            }
            if run.outcome == Some(Outcome::Interrupted) && run.flow.is_some() {
                lost.push(run.clone());
            }
            let ended = run.clone();
            self.inner
                .store
                .write(move |tx| {
                    tx.put_run(&run)?;
                    if let Some(mut record) = tx.subagent(&run.run_id)? {
                        subagents::close(&mut record, &run, run.reply.clone(), now);
                        tx.put_subagent(&record)?;
                    }
                    if let Some(mut entry) = tx.entry(&run.session_key)? {
                        control::after_restart(&mut entry, &run, now);
                        tx.put_entry(&entry)?;
                    }
                    Ok(())
                })
                .await?;
            self.tell_ended(&ended);
        }
        // A flow whose step was waiting is dropped with it.
        let accepted = self
            .inner
            .store
            .read(|tx| tx.runs(RunState::Accepted))
            .await?;
        for (order, mut run) in accepted.into_iter().enumerate() {
            if matches!(run.origin, RunOrigin::Reply | RunOrigin::Announce) {
                run.state = RunState::Ended;
                run.ended_at = Some(now);
                run.outcome = Some(Outcome::Interrupted);
                run.error = Some("the exchange ended with a restart of the engine".into());
                self.inner.store.write(move |tx| tx.put_run(&run)).await?;
                continue;
            }
            self.admit(order as u64, run);
        }
        for run in finished.iter().filter(|run| run.origin != RunOrigin::Spawn) {
            self.after(run);
        }
        for run in lost {
            self.tell_lost(&run).await;
        }
        self.settle_after_restart().await?;
        self.inner
            .store
            .write(move |tx| tx.forget_runs_before(now - 7 * 24 * 3_600_000).map(|_| ()))
            .await
    }

    /// The requester of a send whose run was interrupted hears of it (AM-4, LC-22), unless it is gone or begun anew.
    async fn tell_lost(&self, run: &Run) {
        let Some(flow) = &run.flow else { return };
        let wanted = flow.requester.clone();
        let entry = self.inner.store.read(move |tx| tx.entry(&wanted)).await;
        let Ok(Some(entry)) = entry else { return };
        if flow.requester_session_id.as_ref() != Some(&entry.session_id) {
            return;
        }
        let text = format!(
            "Internal event: session {} was working on your message when the engine was restarted. It was not \
             repeated, and there will be no reply.\nYour message: {}",
            shown(&run.session_key).raw(),
            run.message.raw()
        );
        let mut new = NewRun::new(
            flow.requester.clone(),
            RunOrigin::Report,
            Lane::Nested,
            text,
        );
        new.run_id = format!("lost:{}", run.run_id);
        new.caused_by = Some(run.run_id.clone());
        new.provenance = Some(inter_session(&run.session_key, None, "sessions_send"));
        if let Err(error) = self.accept(new).await {
            tracing::info!(error = %crate::text::clean_str(&error), "a requester could not be told of a lost message");
        }
    }

    async fn entry_of(&self, run: &Run) -> Result<Option<Entry>, StoreError> {
        let key = run.session_key.clone();
        self.inner.store.read(move |tx| tx.entry(&key)).await
    }

    /// The user message when it is missing, results for tool calls without one, and the line that says what happened.
    /// Writes nothing when the run's answer is there: then it is given.
    async fn close_transcript(
        &self,
        run: &Run,
        entry: &Entry,
    ) -> Result<Option<Untrusted>, String> {
        let lines = self.lines_of(run, entry).await?;
        let has_message = lines
            .iter()
            .any(|line| line.id() == Some(run.message_id.as_str()));
        let mut open: Vec<(String, String)> = Vec::new();
        for message in lines.iter().filter_map(Message::read) {
            let Content::Said(said) = message.content else {
                continue;
            };
            if said.run_id.as_ref().is_none_or(|id| id.raw() != run.run_id) {
                continue;
            }
            let is_answer = said.role == Role::Assistant
                && said.stop_reason.as_ref().is_some_and(|r| r.raw() == "stop");
            if is_answer {
                return Ok(Some(said.text().trim().into()));
            }
            if said.error.is_some() {
                // Its closing line is there already.
                return Ok(None);
            }
            for block in &said.blocks {
                if let Block::ToolCall { id, name, .. } = block {
                    open.push((id.raw().to_owned(), name.raw().to_owned()));
                }
            }
            if said.role == Role::ToolResult {
                open.retain(|(id, _)| {
                    said.tool_call_id
                        .as_ref()
                        .is_none_or(|done| done.raw() != id)
                });
            }
        }
        let now = self.now_ms();
        let mut closing = Vec::new();
        if !has_message {
            closing.push(lines::user(run, run.started_at.unwrap_or(now)));
        }
        for (call_id, name) in open {
            let text = "the engine was restarted before this tool answered".into();
            closing.push(lines::tool_result(
                run,
                &ToolOutcome {
                    call_id,
                    name,
                    text,
                    is_error: true,
                },
                now,
            ));
        }
        let stop = Stop {
            reason: "error",
            error: Some(INTERRUPTED),
        };
        closing.push(lines::assistant(run, &Answer::default(), &stop, now));
        self.append(entry, closing, true).await.map(|()| None)
    }

    /// The newest lines of a transcript, as far back as the run's own message, if it is there.
    async fn lines_of(&self, run: &Run, entry: &Entry) -> Result<Vec<RawLine>, String> {
        let (entry, message_id, begun) = (entry.clone(), run.message_id.clone(), run.started_at);
        self.look(move |store| {
            let mut lines: Vec<RawLine> = Vec::new();
            let mut span = Span::Tail;
            loop {
                let page = store
                    .transcript(&entry, span, PAGE)
                    .map_err(|error| error.to_string())?;
                let is_there = page
                    .lines
                    .iter()
                    .any(|line| line.id() == Some(message_id.as_str()));
                // What is older than the run cannot be its own.
                let is_older = page
                    .lines
                    .iter()
                    .filter_map(Message::read)
                    .any(|message| message.at.zip(begun).is_some_and(|(at, begun)| at < begun));
                let (at_start, start) = (page.at_start || page.lines.is_empty(), page.start);
                lines.splice(0..0, page.lines);
                if is_there || is_older || at_start {
                    return Ok(lines);
                }
                span = Span::Before(start);
            }
        })
        .await
    }

    /// Children that had ended without a settled announce are announced; those whose session is gone are dropped.
    async fn settle_after_restart(&self) -> Result<(), StoreError> {
        let records = self.inner.store.read(|tx| tx.subagents(None)).await?;
        let keys: HashSet<_> = {
            let wanted: Vec<_> = records
                .iter()
                .map(|record| record.child_session_key.clone())
                .collect();
            self.inner
                .store
                .read(move |tx| {
                    let mut found = HashSet::new();
                    for key in wanted {
                        if tx.entry(&key)?.is_some() {
                            found.insert(key);
                        }
                    }
                    Ok(found)
                })
                .await?
        };
        for record in records {
            if !keys.contains(&record.child_session_key) && !record.cleanup_handled {
                tracing::warn!(child = %record.child_session_key.clean(), "an orphaned sub-agent record was dropped");
                let run_id = record.run_id.clone();
                self.inner
                    .store
                    .write(move |tx| tx.delete_subagent(&run_id))
                    .await?;
            } else if record.ended_at.is_some() && !record.cleanup_handled {
                let engine = self.clone();
                self.spawn(async move { engine.settle_child(record.run_id).await });
            }
        }
        Ok(())
    }
}
