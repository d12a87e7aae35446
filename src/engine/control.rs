//! Session control: patch, abort, reset, archive, restore, delete (specification, chapter 12).

use super::events::About;
use super::runs::new_entry;
use super::{Engine, Trouble, lines, lock, spawn};
use crate::model::event::What;
use crate::model::key::SessionKey;
use crate::model::run::{Outcome, Run, RunId, RunState};
use crate::model::session::{Entry, SendPolicy, Status};
use crate::store::state::{StateStore, Tx};
use crate::store::{Sessions, StoreError};
use crate::text::Untrusted;
use serde_json::{Map, Value};
use std::time::Duration;

/// How long a delete or reset waits for the session's own run to end (LC-12).
const END_WITHIN: Duration = Duration::from_secs(15);

impl Engine {
    /// sets members, or clears them with `null`. Bad values are refused and change nothing.
    ///
    /// # Errors
    /// A text that names the member and what is allowed.
    pub async fn patch(
        &self,
        key: &SessionKey,
        fields: Map<String, Value>,
    ) -> Result<Entry, Trouble> {
        let settings = self.settings();
        let mut checked = Vec::new();
        let mut archived = None;
        for (name, value) in fields {
            if name == "archived" {
                let flag = value
                    .as_bool()
                    .ok_or_else(|| "archived takes true or false".to_owned())?;
                archived = Some(flag);
                continue;
            }
            checked.push(Change::read(&settings, &name, &value)?);
        }
        if let Some(archived) = archived {
            // First, since it is what can be refused; it makes no session.
            let entry = self.archive(key, archived).await?;
            if checked.is_empty() {
                return Ok(entry);
            }
        }
        if checked.is_empty() {
            return Err("nothing to change: give a label, model, thinking level, verbose level or send policy".to_owned().into());
        }
        let now = self.now_ms();
        let wanted = key.clone();
        let (entry, created) = self
            .inner
            .store
            .write(move |tx| {
                let known = tx.entry(&wanted)?;
                let created = known.is_none();
                let mut entry = known.unwrap_or_else(|| new_entry(&wanted, now));
                entry.updated_at = entry.updated_at.max(now);
                for change in checked {
                    change.apply(&mut entry);
                }
                tx.put_entry(&entry)?;
                Ok((entry, created))
            })
            .await?;
        let row = Box::new(self.row(&entry));
        let what = if created {
            What::SessionCreated { row }
        } else {
            What::SessionChanged { row }
        };
        self.publish(About::session(key), what);
        Ok(entry)
    }

    /// Asks the runs of a session to stop: the active one and what waits. Returns their ids.
    pub(super) fn abort_session(&self, key: &SessionKey) -> Vec<RunId> {
        let runs: Vec<RunId> = {
            let live = lock(&self.inner.live);
            live.iter()
                .filter(|(_, run)| run.session == *key)
                .map(|(id, _)| id.clone())
                .collect()
        };
        runs.into_iter().filter(|run| self.abort_run(run)).collect()
    }

    /// Aborts a run, or the active runs of a session; with `tree` everything they caused and their children too.
    /// Waits up to 15 s for proof that they ended. Returns the ids that were live.
    ///
    /// # Errors
    /// Names the runs that have not ended.
    pub async fn abort(
        &self,
        key: Option<&SessionKey>,
        run_id: Option<&str>,
        tree: bool,
    ) -> Result<Vec<RunId>, String> {
        let mut stopped = Vec::new();
        if let Some(run_id) = run_id {
            if tree {
                stopped.extend(self.abort_caused_by(run_id).await);
            }
            if self.abort_run(run_id) {
                stopped.push(run_id.to_owned());
            }
        }
        if let Some(key) = key {
            // Only the active run, unless the whole tree is meant: what waits is somebody else's message.
            let active: Vec<RunId> = {
                let live = lock(&self.inner.live);
                live.iter()
                    .filter(|(_, run)| run.session == *key)
                    .filter(|(_, run)| {
                        tree || run.started.load(std::sync::atomic::Ordering::SeqCst)
                    })
                    .map(|(id, _)| id.clone())
                    .collect()
            };
            for run in active {
                if tree {
                    stopped.extend(self.abort_caused_by(&run).await);
                }
                if self.abort_run(&run) {
                    stopped.push(run);
                }
            }
            if tree {
                stopped.extend(self.stop_children(key).await);
            }
        }
        stopped.sort();
        stopped.dedup();
        let deadline = tokio::time::Instant::now() + END_WITHIN;
        for run in &stopped {
            self.wait(
                run,
                deadline.saturating_duration_since(tokio::time::Instant::now()),
            )
            .await;
        }
        let alive: Vec<&str> = stopped
            .iter()
            .filter(|run| self.live(run).is_some())
            .map(String::as_str)
            .collect();
        if alive.is_empty() {
            Ok(stopped)
        } else {
            Err(format!("still running: {}", alive.join(", ")))
        }
    }

    /// Aborts what a run caused, also by way of runs that have ended.
    async fn abort_caused_by(&self, run_id: &str) -> Vec<RunId> {
        let live: Vec<(RunId, Option<RunId>)> = {
            let live = lock(&self.inner.live);
            live.iter()
                .map(|(id, run)| (id.clone(), run.caused_by.clone()))
                .collect()
        };
        let root = run_id.to_owned();
        let caused = self
            .inner
            .store
            .read(move |tx| {
                let mut caused = Vec::new();
                for (id, cause) in live {
                    let mut at = cause;
                    // Chains have a limit (AM-5), so this ends.
                    while let Some(cause) = at {
                        if cause == root {
                            caused.push(id);
                            break;
                        }
                        at = tx.run(&cause)?.and_then(|run| run.caused_by_run);
                    }
                }
                Ok(caused)
            })
            .await
            .unwrap_or_default();
        caused
            .into_iter()
            .filter(|run| self.abort_run(run))
            .collect()
    }

    /// Stops a session's children and its own runs before it goes (LC-12).
    pub(super) async fn quiet(&self, key: &SessionKey) -> Result<(), String> {
        self.stop_children(key).await;
        let runs = self.abort_session(key);
        let deadline = tokio::time::Instant::now() + END_WITHIN;
        for run in &runs {
            self.wait(
                run,
                deadline.saturating_duration_since(tokio::time::Instant::now()),
            )
            .await;
        }
        if runs.iter().any(|run| self.live(run).is_some()) {
            return Err(format!(
                "session {} is still active: its run has not ended; try again",
                key.clean()
            ));
        }
        Ok(())
    }

    fn not_main(&self, key: &SessionKey, what: &str) -> Result<(), String> {
        if self.settings().is_main(key) {
            return Err(format!(
                "{} is a main session: it can be reset, not {what}",
                key.clean()
            ));
        }
        Ok(())
    }

    /// a new session id, counters zero; the old transcript is put aside.
    ///
    /// # Errors
    /// Says why, on what.
    pub async fn reset(&self, key: &SessionKey) -> Result<Entry, String> {
        self.quiet(key).await?;
        let now = self.now_ms();
        let store = self.inner.store.clone();
        let time = lines::file_time(now);
        let changed = self
            .change_entry_with(key, move |tx, entry| {
                no_run_in(tx, &entry.key)?;
                put_aside(&store, entry, "reset", &time)?;
                let fresh = Entry::new(
                    entry.key.clone(),
                    uuid::Uuid::new_v4().to_string(),
                    now.max(entry.updated_at),
                );
                let old = std::mem::replace(entry, fresh);
                entry.label = old.label;
                entry.display_name = old.display_name;
                entry.channel = old.channel;
                entry.chat_type = old.chat_type;
                entry.set_origin = old.set_origin;
                entry.group_id = old.group_id;
                entry.subject = old.subject;
                entry.group_channel = old.group_channel;
                entry.space = old.space;
                entry.origin = old.origin;
                entry.delivery_context = old.delivery_context;
                entry.last_channel = old.last_channel;
                entry.last_to = old.last_to;
                entry.last_account_id = old.last_account_id;
                entry.last_thread_id = old.last_thread_id;
                entry.spawned_by = old.spawned_by;
                entry.spawned_workspace_dir = old.spawned_workspace_dir;
                entry.spawn_depth = old.spawn_depth;
                entry.subagent_role = old.subagent_role;
                entry.subagent_control_scope = old.subagent_control_scope;
                entry.parent_session_key = old.parent_session_key;
                entry.thinking_level = old.thinking_level;
                entry.verbose_level = old.verbose_level;
                entry.reasoning_level = old.reasoning_level;
                entry.elevated_level = old.elevated_level;
                entry.send_policy = old.send_policy;
                entry.provider_override = old.provider_override;
                entry.model_override = old.model_override;
                entry.other = old.other;
                Ok(())
            })
            .await
            .map_err(|error| error.to_string())?;
        self.forget_writer(key);
        let entry = changed.ok_or_else(|| format!("no session {}", key.clean()))?;
        self.publish(
            About::session(key),
            What::SessionReset {
                row: Box::new(self.row(&entry)),
            },
        );
        Ok(entry)
    }

    /// AM-6: hidden and kept.
    ///
    /// # Errors
    /// Says why, on what.
    pub async fn archive(&self, key: &SessionKey, archived: bool) -> Result<Entry, String> {
        if archived {
            self.not_main(key, "archived")?;
            if lock(&self.inner.live)
                .values()
                .any(|live| live.session == *key)
            {
                return Err(format!(
                    "session {} has a run; abort it or wait for its end first",
                    key.clean()
                ));
            }
        }
        let now = self.now_ms();
        let wanted = key.clone();
        let entry = self
            .inner
            .store
            .write(move |tx| {
                let Some(mut entry) = tx.entry(&wanted)? else {
                    return Ok(None);
                };
                if !archived && entry.archived_at.is_none() {
                    let text = format!("session {} is not archived", wanted.clean());
                    return Err(StoreError::Refused(text));
                }
                entry.archived_at = archived.then_some(entry.archived_at.unwrap_or(now));
                tx.put_entry(&entry)?;
                Ok(Some(entry))
            })
            .await
            .map_err(|error| error.to_string())?
            .ok_or_else(|| format!("no session {}", key.clean()))?;
        let row = Box::new(self.row(&entry));
        let what = if archived {
            What::SessionArchived { row }
        } else {
            What::SessionChanged { row }
        };
        self.publish(About::session(key), what);
        Ok(entry)
    }

    /// removes the entry and puts the transcript aside.
    ///
    /// # Errors
    /// Says why, on what.
    pub async fn delete(&self, key: &SessionKey) -> Result<(), String> {
        self.not_main(key, "deleted")?;
        self.quiet(key).await?;
        if self.remove_session(key, "deleted").await? {
            Ok(())
        } else {
            Err(format!("no session {}", key.clean()))
        }
    }

    /// LC-1: the entry goes, the transcript is renamed. False when there was none.
    pub(super) async fn remove_session(
        &self,
        key: &SessionKey,
        how: &'static str,
    ) -> Result<bool, String> {
        let wanted = key.clone();
        let store = self.inner.store.clone();
        let time = lines::file_time(self.now_ms());
        let removed = self
            .inner
            .store
            .write(move |tx| {
                let Some(entry) = tx.entry(&wanted)? else {
                    return Ok(None);
                };
                no_run_in(tx, &wanted)?;
                put_aside(&store, &entry, how, &time)?;
                tx.delete_entry(&wanted)?;
                // Spawned after its children were stopped: these go with it (LC-12).
                let mut late = tx.subagents(Some(&wanted))?;
                late.retain(|child| !child.cleanup_handled);
                for child in &mut late {
                    child.suppress_announce_reason = Some("killed".into());
                    tx.put_subagent(child)?;
                }
                Ok(Some((entry, late)))
            })
            .await
            .map_err(|e| e.to_string())?;
        let Some((entry, late)) = removed else {
            return Ok(false);
        };
        for child in late {
            self.abort_session(&child.child_session_key);
        }
        self.forget_writer(key);
        let row = Box::new(self.row(&entry));
        self.publish(About::session(key), What::SessionDeleted { row });
        Ok(true)
    }
}

/// A run may have begun since the session was made quiet; its lines must not go into a file put aside.
fn no_run_in(tx: &Tx<'_>, key: &SessionKey) -> Result<(), StoreError> {
    let begun = tx.runs(RunState::Started)?;
    if begun.iter().any(|run| run.session_key == *key) {
        return Err(StoreError::Refused(format!(
            "session {} is still active: a run has just begun; try again",
            key.clean()
        )));
    }
    Ok(())
}

/// Renames a transcript to `<file>.<how>.<time>` in the same directory (D-28).
fn put_aside(
    store: &StateStore,
    entry: &Entry,
    how: &'static str,
    time: &str,
) -> Result<(), StoreError> {
    let Some(path) = store.transcript_path(entry) else {
        return Ok(());
    };
    let mut aside = path.clone().into_os_string();
    aside.push(format!(".{how}.{time}"));
    match std::fs::rename(&path, &aside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::Io {
            what: "could not put aside",
            path,
            error,
        }),
        _ => Ok(()),
    }
}

/// One checked change of a patch.
enum Change {
    Label(Option<Untrusted>),
    Thinking(Option<String>),
    Verbose(Option<String>),
    Reasoning(Option<String>),
    Elevated(Option<String>),
    Model(Option<String>),
    SendPolicy(Option<SendPolicy>),
}

impl Change {
    fn read(settings: &crate::config::Settings, name: &str, value: &Value) -> Result<Self, String> {
        let text = match value {
            Value::Null => None,
            Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            _ => return Err(format!("{name} takes a text, or null to clear it")),
        };
        Ok(match name {
            "label" => {
                if text
                    .as_ref()
                    .is_some_and(|label| label.chars().count() > 64)
                {
                    return Err("label: at most 64 characters".into());
                }
                Change::Label(text.map(Untrusted::new))
            }
            "thinkingLevel" => Change::Thinking(match text {
                None => None,
                Some(word) => Some(spawn::thinking_level(&word).ok_or_else(|| {
                    let word = Untrusted::new(word).clean();
                    format!(
                        "thinkingLevel {word:?} is not known: one of {}",
                        spawn::LEVELS.join(", ")
                    )
                })?),
            }),
            "verboseLevel" => Change::Verbose(one_of(name, text, &["on", "off", "full"])?),
            "reasoningLevel" => Change::Reasoning(one_of(name, text, &["on", "off", "stream"])?),
            "elevatedLevel" => Change::Elevated(one_of(name, text, &["on", "off", "ask", "full"])?),
            "model" => Change::Model(match text {
                None => None,
                Some(model) => Some(spawn::known_model(settings, &model).ok_or_else(|| {
                    let known = spawn::model_names(settings).join(", ");
                    format!(
                        "model {:?} is not known: one of {known}",
                        Untrusted::new(model).clean()
                    )
                })?),
            }),
            "sendPolicy" => Change::SendPolicy(match text.as_deref() {
                None => None,
                Some("allow") => Some(SendPolicy::Allow),
                Some("deny") => Some(SendPolicy::Deny),
                Some(_) => return Err("sendPolicy: allow or deny, or null to inherit".into()),
            }),
            other => {
                return Err(format!(
                    "{:?} cannot be changed; known: label, thinkingLevel, verboseLevel, reasoningLevel, elevatedLevel, model, sendPolicy, archived",
                    Untrusted::new(other).clean()
                ));
            }
        })
    }

    fn apply(self, entry: &mut Entry) {
        match self {
            Change::Label(value) => entry.label = value,
            Change::Thinking(value) => entry.thinking_level = value,
            Change::Verbose(value) => entry.verbose_level = value,
            Change::Reasoning(value) => entry.reasoning_level = value,
            Change::Elevated(value) => entry.elevated_level = value,
            Change::Model(value) => entry.model_override = value,
            Change::SendPolicy(value) => entry.send_policy = value,
        }
    }
}

fn one_of(name: &str, text: Option<String>, words: &[&str]) -> Result<Option<String>, String> {
    match text.map(|text| text.to_lowercase()) {
        None => Ok(None),
        Some(word) if words.contains(&word.as_str()) => Ok(Some(word)),
        Some(_) => Err(format!(
            "{name}: one of {}, or null to clear it",
            words.join(", ")
        )),
    }
}

/// State of a session whose run was going on when the engine went away.
pub(super) fn after_restart(entry: &mut Entry, run: &Run, now: i64) {
    if entry.status == Some(Status::Running) {
        let done = run.outcome == Some(Outcome::Ok);
        entry.status = Some(if done { Status::Done } else { Status::Failed });
        entry.ended_at = Some(now);
        entry.runtime_ms = entry.started_at.map(|start| (now - start).max(0));
    }
}
