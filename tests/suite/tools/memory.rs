//! A store in memory, as its interface says, that counts how much of a transcript it was asked for.

use crosstalk::model::key::{AgentId, SessionKey};
use crosstalk::model::message::{Damage, RawLine};
use crosstalk::model::row;
use crosstalk::model::session::Entry;
use crosstalk::store::{Archived, Filter, Page, Query, Sessions, Span, StoreError, TranscriptPage};
use crosstalk::text::Untrusted;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Default)]
pub struct Memory {
    pub main_key: Option<String>,
    entries: BTreeMap<SessionKey, Entry>,
    lines: HashMap<String, Vec<Value>>,
    /// Session ids whose transcript cannot be read.
    pub broken: Vec<String>,
    pub lines_read: AtomicUsize,
}

impl Memory {
    pub fn put(&mut self, key: &str, mut members: Value) {
        let id = key.replace(':', "-");
        members["sessionId"] = members.get("sessionId").cloned().unwrap_or(json!(id));
        members["updatedAt"] = members.get("updatedAt").cloned().unwrap_or(json!(1000));
        let mut entry: Entry = serde_json::from_value(members).unwrap();
        entry.key = SessionKey::foreign(key);
        let newer = self
            .entries
            .get(&entry.key)
            .is_none_or(|old| old.updated_at < entry.updated_at);
        if newer {
            self.entries.insert(entry.key.clone(), entry);
        }
    }

    /// Message lines.
    pub fn say(&mut self, key: &str, messages: impl IntoIterator<Item = Value>) {
        for message in messages {
            self.line(
                key,
                json!({ "type": "message", "id": "l", "message": message }),
            );
        }
    }

    /// Any line; a text stands for one that is not JSON.
    pub fn line(&mut self, key: &str, line: Value) {
        let id = &self.entries[&SessionKey::foreign(key)].session_id;
        self.lines.entry(id.clone()).or_default().push(line);
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    pub fn lines(&self, id: &str) -> &[Value] {
        self.lines.get(id).map_or(&[], Vec::as_slice)
    }

    fn raw(&self, id: &str, at: usize) -> RawLine {
        let line = &self.lines[id][at];
        RawLine {
            position: at as u64,
            bytes: line.to_string().len() as u64,
            damage: line.is_string().then_some(Damage::NotJson),
            line: if line.is_string() {
                Value::Null
            } else {
                line.clone()
            },
        }
    }
}

impl Sessions for Memory {
    fn agents(&self) -> Result<Vec<AgentId>, StoreError> {
        let mut agents: Vec<AgentId> = self.entries.keys().filter_map(SessionKey::agent).collect();
        agents.dedup();
        Ok(agents)
    }

    fn list(&self, query: &Query, filter: Filter<'_>) -> Result<Page, StoreError> {
        let main_key = self.main_key.as_deref().unwrap_or("main");
        let contains = |entry: &Entry, needle: &str| {
            [&entry.display_name, &entry.label, &entry.subject]
                .into_iter()
                .flatten()
                .map(Untrusted::raw)
                .chain([entry.session_id.as_str(), entry.key.as_str()])
                .any(|text| text.to_lowercase().contains(&needle.to_lowercase()))
        };
        let mut entries: Vec<Entry> = self
            .entries
            .values()
            .filter(|entry| {
                let kind = row::kind(entry, main_key);
                !entry.key.is_reserved()
                    && !entry.key.is_cron_run()
                    && (query.kinds.is_empty() || query.kinds.contains(&kind))
                    && query
                        .agent
                        .as_ref()
                        .is_none_or(|a| entry.key.agent().as_ref() == Some(a))
                    && query.active_since.is_none_or(|at| entry.updated_at >= at)
                    && query
                        .label
                        .as_ref()
                        .is_none_or(|l| entry.label.as_ref().is_some_and(|e| e.raw() == l))
                    && query.search.as_ref().is_none_or(|s| contains(entry, s))
                    && query
                        .spawned_by
                        .as_ref()
                        .is_none_or(|by| entry.spawned_by.as_ref() == Some(by))
                    && match query.archived {
                        Archived::Hide => entry.archived_at.is_none(),
                        Archived::Only => entry.archived_at.is_some(),
                        Archived::Both => true,
                    }
                    && filter.is_none_or(|filter| filter(entry))
            })
            .cloned()
            .collect();
        entries.sort_by(|a, b| (b.updated_at, &a.key).cmp(&(a.updated_at, &b.key)));
        let total = entries.len();
        let limit = query.limit.unwrap_or(usize::MAX);
        Ok(Page {
            entries: entries.into_iter().skip(query.offset).take(limit).collect(),
            total,
        })
    }

    fn entry(&self, key: &SessionKey) -> Result<Option<Entry>, StoreError> {
        Ok(self.entries.get(key).cloned())
    }

    fn by_session_id(&self, id: &str) -> Result<Vec<Entry>, StoreError> {
        let same = self.entries.values().filter(|entry| entry.session_id == id);
        Ok(same.cloned().collect())
    }

    fn transcript_path(&self, _entry: &Entry) -> Option<PathBuf> {
        None
    }

    fn transcript(
        &self,
        entry: &Entry,
        span: Span,
        limit: usize,
    ) -> Result<TranscriptPage, StoreError> {
        let id = &entry.session_id;
        if self.broken.contains(id) {
            return Err(StoreError::Refused("binary noise".into()));
        }
        let count = self.lines.get(id).map_or(0, Vec::len);
        let range = match span {
            Span::Tail => count.saturating_sub(limit)..count,
            Span::Before(at) => (at as usize).saturating_sub(limit)..at as usize,
            Span::After(at) => at as usize..count.min((at as usize).saturating_add(limit)),
            Span::Whole => 0..count.min(limit),
        };
        self.lines_read.fetch_add(range.len(), Ordering::Relaxed);
        Ok(TranscriptPage {
            start: range.start as u64,
            end: range.end as u64,
            at_start: range.start == 0,
            lines: range.map(|at| self.raw(id, at)).collect(),
        })
    }
}
