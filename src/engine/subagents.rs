//! The registry of sub-agents: outcome, report to the requester, cleanup, archive, kill (specification, chapter 10).

use super::attachments;
use super::channels::{announce_route, is_external};
use super::events::About;
use super::runs::NewRun;
use super::send::{ANNOUNCE_SKIP, SILENT, inter_session};
use super::spawn::BINDING;
use super::{Engine, lines, lock, shown};
use crate::model::event::{AnnounceKind, Fate, What};
use crate::model::key::SessionKey;
use crate::model::run::{ChildOutcome, Lane, Outcome, Run, RunId, RunOrigin, SubagentRecord};
use crate::model::session::{DeliveryContext, Entry};
use crate::model::tools::{Cleanup, SpawnMode};
use crate::store::Sessions;
use crate::text::Untrusted;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Frozen results are at most this long (N-3).
const RESULT_BYTES: usize = 100 * 1024;
/// Pauses after the tries of one delivery (N-25); the last ends it.
const DELIVERY_PAUSES_S: [u64; 4] = [5, 10, 20, 0];
/// Pauses after the announces (N-26); the last ends it.
const ANNOUNCE_PAUSES_S: [u64; 3] = [1, 2, 0];
/// N-26.
const GIVE_UP_AFTER_MS: i64 = 30 * 60_000;
/// Members of a record that the specification does not name: its requester's agent was told, the result is a tool's
/// answer, the size of a result that was cut.
const TOLD: &str = "told";
const FROM_TOOL: &str = "resultFromTool";
const WHOLE_BYTES: &str = "resultBytes";
/// Member of a record whose post was made (N-24): a restart does not make it again.
const POSTED: &str = "posted";
/// Nothing to report (table 0.1).
const NO_OUTPUT: &str = "(no output)";

/// P-18: a registered run that has not ended, or has ended while descendants have not ended and reported.
pub(super) fn is_active(record: &SubagentRecord, all: &[SubagentRecord]) -> bool {
    record.ended_at.is_none() || has_open_descendants(&record.child_session_key, all)
}

fn has_open_descendants(key: &SessionKey, all: &[SubagentRecord]) -> bool {
    let mut seen = HashSet::from([key.clone()]);
    let mut open = vec![key.clone()];
    while let Some(at) = open.pop() {
        for child in all
            .iter()
            .filter(|record| record.requester_session_key == at)
        {
            if !child.cleanup_handled {
                return true;
            }
            if seen.insert(child.child_session_key.clone()) {
                open.push(child.child_session_key.clone());
            }
        }
    }
    false
}

/// Freezes the outcome of a child's run (N-1 to N-3); only the engine decides it.
pub(super) fn close(record: &mut SubagentRecord, run: &Run, text: Option<Untrusted>, now: i64) {
    record.ended_at = Some(now);
    let (status, reason) = match run.outcome {
        Some(Outcome::Ok) => ("ok", "subagent-complete"),
        Some(Outcome::Timeout) => ("timeout", "subagent-complete"),
        Some(Outcome::Aborted) => ("error", "subagent-killed"),
        Some(Outcome::Error | Outcome::Interrupted) => ("error", "subagent-error"),
        None => ("unknown", "subagent-error"),
    };
    record.outcome = Some(ChildOutcome {
        status: status.into(),
        error: run.error.clone().filter(|_| status == "error"),
    });
    record.ended_reason = Some(reason.into());
    if run.reply.is_none() && text.is_some() {
        record.other.insert(FROM_TOOL.into(), true.into());
    }
    let text = text.map(Untrusted::into_raw).unwrap_or_default();
    record.frozen_result_text = Some(if text.len() > RESULT_BYTES {
        let cut = (0..=RESULT_BYTES)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        record.other.insert(WHOLE_BYTES.into(), text.len().into());
        format!("{}\n(cut; {} bytes in all)", &text[..cut], text.len()).into()
    } else {
        text.into()
    });
    record.frozen_result_captured_at = Some(now);
    if run.outcome == Some(Outcome::Aborted) {
        record.suppress_announce_reason = Some("killed".into());
    }
}

impl Engine {
    async fn record(&self, run_id: &str) -> Option<SubagentRecord> {
        let id = run_id.to_owned();
        self.inner
            .store
            .read(move |tx| tx.subagent(&id))
            .await
            .ok()
            .flatten()
    }

    /// After a child's run has ended: reports once all descendants are settled, then cleans up.
    pub(super) fn settle_child(&self, run_id: String) -> BoxFuture<'static, ()> {
        let engine = self.clone();
        async move { engine.settle_child_now(run_id).await }.boxed()
    }

    async fn settle_child_now(&self, run_id: String) {
        // Two descendants that settle at once both come here: one after the other, or the report would be made twice.
        let turn = lock(&self.inner.settling)
            .entry(run_id.clone())
            .or_default()
            .clone();
        let turn = turn.lock().await;
        if let Some(mut record) = self.with_all_results(&run_id).await {
            let settled = self.report(&mut record).await;
            self.clean_up(&mut record, settled).await;
            let parent = record.requester_session_key.clone();
            self.settle_parent_of(&parent).await;
        }
        drop(turn);
        let mut settling = lock(&self.inner.settling);
        if settling
            .get(&run_id)
            .is_some_and(|turn| Arc::strong_count(turn) == 1)
        {
            settling.remove(&run_id);
        }
    }

    /// The record of an ended child once all its descendants are settled and it has read their results (N-28); `None`
    /// when it is handled already, or when the last descendant to settle will come back here.
    async fn with_all_results(&self, run_id: &str) -> Option<SubagentRecord> {
        loop {
            let mut record = self.record(run_id).await.filter(|r| !r.cleanup_handled)?;
            if self.descendants_open(&record.child_session_key).await {
                return None;
            }
            if record.suppress_announce_reason.is_some() {
                return Some(record);
            }
            let reading = match self.reading_reports(&record.child_session_key).await {
                Some(run_id) => Some(run_id),
                None => self.wake_with_results(&record).await,
            };
            let Some(reading) = reading else {
                if let Some(text) = self.text_after_reports(&record).await {
                    record.frozen_result_text = Some(text);
                }
                return Some(record);
            };
            self.wait(&reading, Duration::from_secs(24 * 3600)).await;
        }
    }

    /// A report that waits or runs in a session.
    async fn reading_reports(&self, key: &SessionKey) -> Option<RunId> {
        let wanted = key.clone();
        let runs = self
            .inner
            .store
            .read(move |tx| tx.runs_of(&wanted))
            .await
            .ok()?;
        runs.into_iter()
            .filter(|run| run.origin == RunOrigin::Report)
            .map(|run| run.run_id)
            .find(|run_id| self.is_live(run_id))
    }

    /// What a child said last of the reports it read after its own run had ended.
    async fn text_after_reports(&self, record: &SubagentRecord) -> Option<Untrusted> {
        let key = record.child_session_key.clone();
        let ended = record.ended_at?;
        let runs = self
            .inner
            .store
            .read(move |tx| tx.runs_of(&key))
            .await
            .ok()?;
        runs.into_iter()
            .filter(|run| run.origin == RunOrigin::Report && run.outcome == Some(Outcome::Ok))
            .filter(|run| run.ended_at.is_some_and(|at| at >= ended))
            .filter_map(|run| run.reply)
            .next_back()
    }

    /// The record of a session that is itself a child.
    async fn record_of(&self, child: &SessionKey) -> Option<SubagentRecord> {
        if !child.is_subagent() {
            return None;
        }
        let key = child.clone();
        let records = self
            .inner
            .store
            .read(move |tx| tx.subagents(None))
            .await
            .ok()?;
        records
            .into_iter()
            .find(|record| record.child_session_key == key)
    }

    /// What was posted for a child's run (N-20), and whether that is settled; waits for it until the deadline.
    pub async fn post_of(
        &self,
        run_id: &str,
        deadline: tokio::time::Instant,
    ) -> (Option<Untrusted>, bool) {
        loop {
            let Some(record) = self.record(run_id).await else {
                return (None, true);
            };
            if record.cleanup_handled {
                let post = record.other.get("post").and_then(|post| post.as_str());
                return (post.map(Untrusted::from), true);
            }
            let now = tokio::time::Instant::now();
            if now >= deadline {
                return (None, false);
            }
            tokio::time::sleep_until(deadline.min(now + Duration::from_millis(20))).await;
        }
    }

    pub(super) async fn descendants_open(&self, key: &SessionKey) -> bool {
        let key = key.clone();
        self.inner
            .store
            .read(move |tx| Ok(has_open_descendants(&key, &tx.subagents(None)?)))
            .await
            .unwrap_or(false)
    }

    /// A requester that is itself an ended child was waiting for this one.
    async fn settle_parent_of(&self, requester: &SessionKey) {
        if !requester.is_subagent() {
            return;
        }
        let parent = self.record_of(requester).await;
        if let Some(parent) =
            parent.filter(|parent| parent.ended_at.is_some() && !parent.cleanup_handled)
        {
            let engine = self.clone();
            self.spawn(async move { engine.settle_child(parent.run_id).await });
        }
    }

    /// N-28: a child whose descendants settled after its own run had ended is woken with the results it has not read.
    async fn wake_with_results(&self, record: &SubagentRecord) -> Option<RunId> {
        let key = record.child_session_key.clone();
        let mut unread = self
            .inner
            .store
            .read(move |tx| tx.subagents(Some(&key)))
            .await
            .ok()?;
        unread.retain(|child| child.cleanup_handled && !child.other.contains_key(TOLD));
        let first = unread.first()?;
        let results = unread
            .iter()
            .map(|child| self.event_text(child, &None, &record.child_session_key))
            .collect::<Vec<_>>()
            .join("\n\n");
        let mut new = NewRun::new(
            record.child_session_key.clone(),
            RunOrigin::Report,
            Lane::Subagent,
            results,
        );
        new.run_id = format!("wake:{}", first.run_id);
        new.caused_by = Some(record.run_id.clone());
        new.about = Some(name_of(first));
        new.provenance = Some(inter_session(
            &first.child_session_key,
            None,
            "subagent_announce",
        ));
        for child in &mut unread {
            child.other.insert(TOLD.into(), true.into());
        }
        let told = unread.clone();
        new.also = Some(Box::new(move |tx, _| {
            told.iter().try_for_each(|child| tx.put_subagent(child))
        }));
        match self.accept(new).await {
            Ok(accepted) => Some(accepted.run.run_id),
            Err(error) => {
                tracing::info!(error = %crate::text::clean_str(&error), "a child could not be woken with its results");
                None
            }
        }
    }

    /// Reports a child to its requester (N-10 to N-30). True when nothing is left to be told.
    async fn report(&self, record: &mut SubagentRecord) -> bool {
        let text = record
            .frozen_result_text
            .as_ref()
            .map(|t| t.raw().trim().to_owned())
            .unwrap_or_default();
        let ok = record
            .outcome
            .as_ref()
            .is_some_and(|outcome| outcome.status == "ok");
        let is_token = matches!(text.as_str(), ANNOUNCE_SKIP | SILENT);
        if record.suppress_announce_reason.is_some() || (ok && is_token) {
            record.other.insert(TOLD.into(), true.into());
            self.tell_announce(record, None, Fate::Skipped, None, None);
            return true;
        }
        if is_token {
            record.frozen_result_text = Some(NO_OUTPUT.into());
        }
        let Some((requester, entry)) = self.report_to(record).await else {
            let error = "the requester's session is gone".to_owned();
            self.tell_announce(record, None, Fate::Failed, None, Some(error));
            return false;
        };
        if self
            .record_of(&requester)
            .await
            .is_some_and(|parent| parent.cleanup_handled)
        {
            // It has finished and reported: what comes late is dropped as handled (N-21).
            record.other.insert(TOLD.into(), true.into());
            self.tell_announce(record, None, Fate::Skipped, None, None);
            return true;
        }
        let child = {
            let key = record.child_session_key.clone();
            self.inner
                .store
                .read(move |tx| tx.entry(&key))
                .await
                .ok()
                .flatten()
        };
        let post = self.post_text(record, &child);
        record.other.insert("post".into(), post.clone().into());

        // N-21: no external delivery to a sub-agent or cron session.
        let internal = requester.is_subagent() || requester.rest().starts_with("cron:");
        let route = if internal {
            None
        } else {
            report_route(record, &entry)
        };
        let posted = record.other.contains_key(POSTED);
        let (fate, error) = match &route {
            // The browser's view of the requester is the route.
            None => (Fate::Delivered, None),
            // A restart came between the post and the rest.
            Some(_) if posted => (Fate::Delivered, None),
            Some(route) => self.deliver_report(record, &requester, route, &post).await,
        };
        if !posted {
            let line = lines::post(&post, &record.child_session_key);
            if let Err(error) = self.append(&entry, vec![line], true).await {
                tracing::warn!(error = %crate::text::clean_str(&error), "a report could not be shown in its requester");
            }
            if fate == Fate::Delivered {
                record.other.insert(POSTED.into(), true.into());
                let stored = record.clone();
                if let Err(error) = self
                    .inner
                    .store
                    .write(move |tx| tx.put_subagent(&stored))
                    .await
                {
                    tracing::error!(error = %crate::text::clean_str(&error.to_string()), "a post is not on record");
                }
            }
        }
        self.tell_announce(record, route.as_ref(), fate, Some(post), error);

        if self
            .record_of(&requester)
            .await
            .is_some_and(|parent| parent.ended_at.is_some())
        {
            // It is woken with the results of all its children (N-28).
            return true;
        }
        record.other.insert(TOLD.into(), true.into());
        let mut new = NewRun::new(
            requester.clone(),
            RunOrigin::Report,
            Lane::Nested,
            self.event_text(record, &child, &requester),
        );
        // N-24: a fixed function of child key and run id.
        new.run_id = format!("report:{}", record.run_id);
        new.provenance = Some(inter_session(
            &record.child_session_key,
            None,
            "subagent_announce",
        ));
        new.caused_by = Some(record.run_id.clone());
        new.about = Some(name_of(record));
        if let Err(error) = self.accept(new).await {
            tracing::info!(error = %crate::text::clean_str(&error), "a requester could not be told of its child");
        }
        matches!(fate, Fate::Delivered | Fate::Denied)
    }

    /// Who hears of it: the requester, or its own requester when it is gone, and so on (N-21).
    async fn report_to(&self, record: &SubagentRecord) -> Option<(SessionKey, Entry)> {
        let mut key = record.requester_session_key.clone();
        let mut seen = HashSet::new();
        loop {
            let wanted = key.clone();
            let (entry, above) = self
                .inner
                .store
                .read(move |tx| {
                    let above = tx
                        .subagents(None)?
                        .into_iter()
                        .find(|r| r.child_session_key == wanted);
                    Ok((tx.entry(&wanted)?, above.map(|r| r.requester_session_key)))
                })
                .await
                .ok()?;
            if let Some(entry) = entry {
                return Some((key, entry));
            }
            if !seen.insert(key) {
                return None;
            }
            key = above?;
        }
    }

    /// N-10 followed by N-12.
    fn post_text(&self, record: &SubagentRecord, child: &Option<Entry>) -> String {
        let (status, result, notes) = normal_form(record);
        let notes = if notes.is_empty() {
            String::new()
        } else {
            format!("\nNotes: {notes}")
        };
        format!(
            "Status: {status}\nResult: {result}{notes}\n{}",
            self.stats(record, child)
        )
    }

    /// N-12.
    fn stats(&self, record: &SubagentRecord, child: &Option<Entry>) -> String {
        let runtime = record
            .started_at
            .zip(record.ended_at)
            .map_or_else(|| "n/a".to_owned(), |(from, to)| runtime(to - from));
        let entry = child.as_ref();
        let number = |pick: fn(&Entry) -> Option<i64>| entry.and_then(pick).unwrap_or(0);
        let (input, output) = (number(|e| e.input_tokens), number(|e| e.output_tokens));
        let mut line = format!(
            "Stats: runtime {runtime} · tokens in {}, out {}, total {}",
            tokens(input),
            tokens(output),
            tokens(input + output)
        );
        let context = number(|e| e.total_tokens);
        if context > input + output {
            line.push_str(&format!(" (prompt/cache {})", tokens(context)));
        }
        line.push_str(&format!(
            " · session {}",
            shown(&record.child_session_key).raw()
        ));
        if let Some(entry) = entry {
            line.push_str(&format!(" · id {}", entry.session_id));
            if let Some(path) = self.inner.store.transcript_path(entry) {
                line.push_str(&format!(" · transcript {}", path.display()));
            }
            if let Some(cost) = entry.estimated_cost_usd {
                line.push_str(&format!(" · cost ${cost:.2}"));
            }
        }
        line
    }

    /// N-14: the internal event for the requester's model. The marks hold a nonce, so that no result can close them.
    fn event_text(
        &self,
        record: &SubagentRecord,
        child: &Option<Entry>,
        to: &SessionKey,
    ) -> String {
        let (status, result, notes) = normal_form(record);
        let nonce = record
            .run_id
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .rev()
            .take(12)
            .collect::<String>();
        let session_id = child
            .as_ref()
            .map_or("unknown", |entry| entry.session_id.as_str());
        // Nor may a result look like the marks.
        let result = result.replace("UNTRUSTED_RESULT", "UNTRUSTED-RESULT");
        let name = name_of(record).into_raw();
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        let how = if to.is_subagent() {
            "Fold this into your own work."
        } else {
            "Tell the user about it in your own voice, without internals."
        };
        let notes = if notes.is_empty() {
            String::new()
        } else {
            format!("\nNotes: {notes}")
        };
        format!(
            "Internal event: a sub-agent has finished.\nsource: subagent\nsession: {}\nsession id: {session_id}\ntask: {}\n\
             status: {status}{notes}\n<<<BEGIN_UNTRUSTED_RESULT {nonce}>>>\n{result}\n<<<END_UNTRUSTED_RESULT {nonce}>>>\n{}\n\
             {how} Answer exactly {SILENT} when nothing needs saying.",
            shown(&record.child_session_key).raw(),
            name.replace("UNTRUSTED_RESULT", "UNTRUSTED-RESULT"),
            self.stats(record, child),
        )
    }

    /// N-25 to N-27: transient failures are repeated, permanent ones are not; given up after three announces, or half
    /// an hour after the child's end.
    async fn deliver_report(
        &self,
        record: &mut SubagentRecord,
        requester: &SessionKey,
        route: &DeliveryContext,
        post: &str,
    ) -> (Fate, Option<String>) {
        let give_up_at = record.ended_at.unwrap_or_else(|| self.now_ms()) + GIVE_UP_AFTER_MS;
        let mut last = None;
        for between in ANNOUNCE_PAUSES_S {
            for pause in DELIVERY_PAUSES_S {
                let delivery = self.deliver(requester, route, post).await;
                if !delivery.transient || self.now_ms() >= give_up_at {
                    return (delivery.fate, delivery.error);
                }
                last = delivery.error;
                tokio::time::sleep(Duration::from_secs(pause)).await;
            }
            record.announce_retry_count += 1;
            tokio::time::sleep(Duration::from_secs(between)).await;
        }
        (Fate::Failed, last)
    }

    fn tell_announce(
        &self,
        record: &SubagentRecord,
        route: Option<&DeliveryContext>,
        fate: Fate,
        text: Option<String>,
        error: Option<String>,
    ) {
        let about = About {
            session: Some(record.child_session_key.clone()),
            run: Some(record.run_id.clone()),
            ..About::default()
        };
        let what = What::Announce {
            kind: AnnounceKind::Subagent,
            from: shown(&record.child_session_key),
            to: Some(shown(&record.requester_session_key)),
            channel: route.and_then(|route| route.channel.clone()),
            fate,
            text: text.map(Untrusted::new),
            error: error.map(Untrusted::new),
        };
        self.publish(about, what);
    }

    /// Cleanup after the announce (LC-1, LC-2, T-31, N-27).
    async fn clean_up(&self, record: &mut SubagentRecord, settled: bool) {
        record.cleanup_handled = true;
        record.cleanup_completed_at = Some(self.now_ms());
        let remove = record.cleanup == Cleanup::Delete || !record.retain_attachments_on_keep;
        if settled && remove {
            self.remove_attachments(record).await;
        }
        let stored = record.clone();
        if let Err(error) = self
            .inner
            .store
            .write(move |tx| tx.put_subagent(&stored))
            .await
        {
            tracing::error!(error = %crate::text::clean_str(&error.to_string()), "a report is not marked as settled");
        }
        let child = record.child_session_key.clone();
        if settled && record.cleanup == Cleanup::Delete {
            // Runs that somebody else put into its queue end with it (LC-12).
            let removed = match self.quiet(&child).await {
                Ok(()) => self.remove_session(&child, "deleted").await.map(|_| ()),
                Err(error) => Err(error),
            };
            if let Err(error) = removed {
                tracing::warn!(error = %crate::text::clean_str(&error), "a child is kept");
            }
        } else if record.spawn_mode == SpawnMode::Run {
            self.release_binding(&child).await;
        }
        self.inner.expiry.notify_one();
    }

    /// Bound while it ran, released afterwards (P-44).
    async fn release_binding(&self, child: &SessionKey) {
        let wanted = child.clone();
        let bound = self.inner.store.read(move |tx| tx.entry(&wanted)).await;
        if bound.is_ok_and(|entry| entry.is_some_and(|e| e.other.contains_key(BINDING))) {
            let released = self
                .change_entry(child, |entry| {
                    entry.other.shift_remove(BINDING);
                    Ok(())
                })
                .await;
            if let Err(error) = released {
                tracing::warn!(error = %crate::text::clean_str(&error.to_string()), "a thread stays bound");
            }
        }
    }

    async fn remove_attachments(&self, record: &mut SubagentRecord) {
        if let (Some(dir), Some(root)) = (
            record.attachments_dir.take(),
            record.attachments_root_dir.clone(),
        ) {
            let removed = self
                .look(move |_| attachments::remove(Path::new(&dir), Path::new(&root)))
                .await;
            if let Err(reason) = removed {
                tracing::warn!(reason = %crate::text::clean_str(&reason), "attachments could not be removed");
            }
        }
    }

    /// Archives children whose time has come (LC-3). Sleeps until the next one is due.
    pub(super) fn watch_expiry(&self) {
        let engine = self.clone();
        let closing = self.inner.closing.clone();
        // Not among the tracked tasks: an engine with nothing but this is settled.
        tokio::spawn(async move {
            loop {
                let next = engine.archive_due().await;
                let pause = async {
                    match next {
                        Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = closing.cancelled() => return,
                    () = engine.inner.expiry.notified() => {}
                    () = pause => {}
                }
            }
        });
    }

    /// Archives what is due; returns the milliseconds until the next is.
    async fn archive_due(&self) -> Option<u64> {
        let now = self.now_ms();
        let records = self.inner.store.read(|tx| tx.subagents(None)).await.ok()?;
        let mut next: Option<i64> = None;
        for mut record in records {
            let Some(due) = record.archive_at_ms else {
                continue;
            };
            if due > now {
                next = Some(next.map_or(due, |next| next.min(due)));
                continue;
            }
            if record.ended_at.is_none() || !record.cleanup_handled {
                // Not before the run has ended and its announce is settled; that wakes this task.
                continue;
            }
            record.archive_at_ms = None;
            self.remove_attachments(&mut record).await;
            let key = record.child_session_key.clone();
            let archived = self
                .inner
                .store
                .write(move |tx| {
                    tx.put_subagent(&record)?;
                    let Some(mut entry) = tx.entry(&key)? else {
                        return Ok(None);
                    };
                    entry.archived_at.get_or_insert(now);
                    tx.put_entry(&entry)?;
                    Ok(Some(entry))
                })
                .await;
            if let Ok(Some(entry)) = archived {
                self.publish(
                    About::session(&entry.key),
                    What::SessionArchived {
                        row: Box::new(self.row(&entry)),
                    },
                );
            }
        }
        // Checked at most once a second, at least once a minute is not needed: the next due time is known.
        next.map(|due| {
            u64::try_from(due - now)
                .unwrap_or(0)
                .clamp(1000, super::runs::MAX_TIMER_MS)
        })
    }

    /// Stops a session's children down the tree, each once (LC-10). Returns the runs that were stopped.
    pub(super) async fn stop_children(&self, key: &SessionKey) -> Vec<RunId> {
        let records = self
            .inner
            .store
            .read(|tx| tx.subagents(None))
            .await
            .unwrap_or_default();
        let mut seen = HashSet::from([key.clone()]);
        let mut open = vec![key.clone()];
        let mut stopped = Vec::new();
        while let Some(at) = open.pop() {
            for child in records
                .iter()
                .filter(|record| record.controller_session_key == at)
            {
                if !seen.insert(child.child_session_key.clone()) {
                    continue;
                }
                open.push(child.child_session_key.clone());
                stopped.extend(self.kill(child).await);
            }
        }
        stopped
    }

    /// Ends what a child does (LC-10). One that has ended and waits for its own children is not announced either.
    pub(super) async fn kill(&self, child: &SubagentRecord) -> Vec<RunId> {
        if child.ended_at.is_some() && !child.cleanup_handled {
            let run_id = child.run_id.clone();
            let marked = self.inner.store.write(move |tx| {
                if let Some(mut record) = tx.subagent(&run_id)?.filter(|r| !r.cleanup_handled) {
                    record.suppress_announce_reason = Some("killed".into());
                    record.ended_reason = Some("subagent-killed".into());
                    tx.put_subagent(&record)?;
                }
                Ok(())
            });
            if let Err(error) = marked.await {
                tracing::error!(error = %crate::text::clean_str(&error.to_string()), "a kill is not stored");
            }
        }
        self.abort_session(&child.child_session_key)
    }
}

fn name_of(record: &SubagentRecord) -> Untrusted {
    record.label.clone().unwrap_or_else(|| record.task.clone())
}

/// N-22: the origin stored at spawn, filled from the requester's entry; an origin of channel `webchat` gives way to
/// the entry's external route.
fn report_route(record: &SubagentRecord, requester: &Entry) -> Option<DeliveryContext> {
    let origin = record
        .requester_origin
        .clone()
        .filter(|route| !route.is_empty());
    if let Some(route) = origin.filter(is_external) {
        return Some(route);
    }
    announce_route(&requester.key, Some(requester)).filter(is_external)
}

/// Status, result and notes (N-10, N-11).
fn normal_form(record: &SubagentRecord) -> (String, String, String) {
    let outcome = record.outcome.as_ref();
    let status = match outcome.map(|outcome| outcome.status.as_str()) {
        Some("ok") => "completed successfully".to_owned(),
        Some("timeout") => "timed out".to_owned(),
        Some("error") => {
            let error = outcome
                .and_then(|o| o.error.as_ref())
                .map_or("unknown error", |e| e.raw());
            format!("failed: {error}")
        }
        _ => "finished with unknown status".to_owned(),
    };
    let text = record
        .frozen_result_text
        .as_ref()
        .map(|text| text.raw().trim())
        .unwrap_or_default();
    let result = if text.is_empty() { NO_OUTPUT } else { text };
    let mut notes = Vec::new();
    if record.other.contains_key(FROM_TOOL) && !text.is_empty() {
        notes.push("the result is what the last tool answered".to_owned());
    }
    if let Some(bytes) = record.other.get(WHOLE_BYTES) {
        notes.push(format!("the result was cut; it has {bytes} bytes"));
    }
    if record.announce_retry_count > 0 {
        notes.push(format!(
            "reported again {} time(s)",
            record.announce_retry_count
        ));
    }
    (status, result.to_owned(), notes.join("; "))
}

/// `42s`, `5m12s`, `1h3m`.
fn runtime(ms: i64) -> String {
    let s = (ms.max(0) + 500) / 1000;
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{}s", s / 60, s % 60),
        _ => format!("{}h{}m", s / 3600, s % 3600 / 60),
    }
}

/// `950`, `12.3k`, `1.2m`.
fn tokens(count: i64) -> String {
    match count {
        ..1000 => count.max(0).to_string(),
        1000..1_000_000 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}m", count as f64 / 1e6),
    }
}
