//! Popups that are read: details of a session, JSON, what is hidden, remarks.

use super::update::{Wanted, wire};
use super::{App, Layer, ages};
use crate::clean_format;
use crate::model::key::SessionKey;
use crate::model::session::Row;
use crate::protocol::methods::{Detail, Request};
use crate::text::mask::Masker;
use crate::text::{Clean, Untrusted, escape_json};
use serde_json::Value;

/// Text to read, with a place in it.
#[derive(Debug, Clone, Default)]
pub struct Pager {
    pub title: Clean,
    pub lines: Vec<PagerLine>,
    /// First line wanted on the screen; the drawing clamps it.
    pub top: usize,
    /// Still asked for.
    pub loading: bool,
}

/// A line of a pager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PagerLine {
    Heading(Clean),
    /// A name and its value, in two columns.
    Fact(Clean, Clean),
    Text(Clean),
}

/// The value with secrets masked in each of its texts: some rules need a text as it is, without JSON's escapes.
fn masked(value: &Value, masker: &Masker) -> Value {
    match value {
        Value::String(text) => masker
            .mask(text)
            .map_or_else(|| value.clone(), Value::String),
        Value::Array(all) => all.iter().map(|one| masked(one, masker)).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, one)| (name.clone(), masked(one, masker)))
            .collect(),
        _ => value.clone(),
    }
}

impl App {
    /// JSON as lines; what is not drawable is escaped, and secrets are masked unless they are shown.
    pub(super) fn json_lines(&self, value: &Value) -> Vec<PagerLine> {
        let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
        let text = if self.transcript.show_secrets {
            pretty(value)
        } else {
            let text = pretty(&masked(value, &self.masker));
            // Other rules go by the name of the member.
            self.masker.mask(&text).unwrap_or(text)
        };
        escape_json(&text).lines().map(PagerLine::Text).collect()
    }

    /// The session that details, JSON and the like are about: the selected one, or the one being read.
    pub(super) fn subject(&self) -> Option<SessionKey> {
        match self.focus {
            super::Focus::List => self.sessions.selected.clone(),
            _ => self
                .transcript
                .key
                .clone()
                .or_else(|| self.sessions.selected.clone()),
        }
    }

    pub(super) fn ask_details(&mut self) {
        let Some(key) = self.subject() else { return };
        let title = clean_format!("Details of {}", self.sessions.name(&key));
        self.layers.push(Layer::Details(Pager {
            title,
            loading: true,
            ..Pager::default()
        }));
        self.ask(
            Wanted::Details(key.clone()),
            Request::Detail { key: wire(&key) },
        );
    }

    pub(super) fn ask_json(&mut self) {
        let Some(key) = self.subject() else { return };
        self.layers.push(Layer::Json(Pager {
            title: key.clean(),
            loading: true,
            ..Pager::default()
        }));
        self.ask(
            Wanted::Json(key.clone()),
            Request::Detail { key: wire(&key) },
        );
    }

    pub(super) fn details_came(&mut self, detail: &Detail) {
        let lines = self.detail_lines(detail);
        if let Some(Layer::Details(pager)) = self.layers.last_mut() {
            pager.loading = false;
            pager.lines = lines;
        }
    }

    pub(super) fn json_came(&mut self, detail: &Detail) {
        let value = serde_json::to_value(detail).unwrap_or(Value::Null);
        let lines = self.json_lines(&value);
        if let Some(Layer::Json(pager)) = self.layers.last_mut() {
            pager.loading = false;
            pager.lines = lines;
        }
    }

    /// Every member of the row, in words, the telling ones first.
    fn detail_lines(&self, detail: &Detail) -> Vec<PagerLine> {
        let row = &detail.row;
        let fact = |name: &'static str, value: Clean| PagerLine::Fact(name.into(), value);
        let named = |key: &Untrusted| {
            let key = super::sessions::identity(key);
            clean_format!("{} · {}", self.sessions.name(&key), key.clean())
        };
        let mut lines = vec![fact("Key", row.key.clean())];
        let policy = clean_format!(
            "{} ({})",
            detail.send_policy.as_str(),
            Untrusted::new(detail.send_policy_source.as_str()).clean()
        );
        lines.push(fact("Kind", row.kind.as_str().into()));
        lines.push(fact("Send policy", policy));
        if let Some(parent) = &row.spawned_by {
            lines.push(fact("Spawned by", named(parent)));
        }
        if let Some(parent) = row
            .parent_session_key
            .as_ref()
            .filter(|p| Some(*p) != row.spawned_by.as_ref())
        {
            lines.push(fact("Parent", named(parent)));
        }
        for child in &row.child_sessions {
            lines.push(fact("Child", named(child)));
        }
        if let Some(path) = &row.transcript_path {
            lines.push(fact("Transcript", path.clean()));
        }
        for run in &detail.runs {
            let since = run.started_at.unwrap_or(run.accepted_at);
            let state = if run.started_at.is_some() {
                "running"
            } else {
                "waiting"
            };
            let id = Untrusted::new(run.run_id.as_str()).clean();
            let age = ages::shown(self.now_ms, since);
            lines.push(fact("Run", clean_format!("{} · {} · {}", state, age, id)));
        }
        lines.push(PagerLine::Heading("Row".into()));
        lines.extend(self.row_facts(row));
        lines.push(PagerLine::Heading("Stored entry".into()));
        lines.extend(self.json_lines(&detail.entry));
        lines
    }

    fn row_facts(&self, row: &Row) -> Vec<PagerLine> {
        let Ok(Value::Object(members)) = serde_json::to_value(row) else {
            return Vec::new();
        };
        let show = self.transcript.show_secrets;
        members
            .into_iter()
            .filter(|(name, _)| name != "childSessions" && name != "messages")
            .map(|(name, value)| {
                let shown = match (&value, name.ends_with("At")) {
                    (Value::Number(number), true) => {
                        let time = number
                            .as_i64()
                            .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
                        time.map_or_else(|| number.to_string(), |time| time.to_string())
                    }
                    (Value::String(text), _) => text.clone(),
                    _ => value.to_string(),
                };
                let shown = match self.masker.mask(&shown) {
                    Some(masked) if !show => masked,
                    _ => shown,
                };
                PagerLine::Fact(Untrusted::new(name).clean(), Untrusted::new(shown).clean())
            })
            .collect()
    }
}
