//! Entries as they are stored, and the columns read off them.

use crate::model::key::{AgentId, Kind, SessionKey};
use crate::model::row;
use crate::model::session::Entry;
use crate::text::Untrusted;

/// An entry from its JSON. What cannot be read at all becomes an entry of its identity alone: one bad record spoils
/// no list.
pub fn read_entry(key: &str, json: &str) -> Entry {
    let key = SessionKey::foreign(key);
    // First the reading that tolerates nothing: it is the faster one, and nearly always enough.
    let strict = Entry::deserialize(&mut serde_json::Deserializer::from_str(json));
    match strict.or_else(|_| serde_json::from_str::<Entry>(json)) {
        Ok(mut entry) => {
            entry.key = key;
            entry
        }
        Err(_) => Entry::new(key, "", 0),
    }
}

/// What columns depend on besides the entry.
#[derive(Debug)]
pub struct Facts {
    /// `session.mainKey`.
    pub main_key: String,
    /// `session.scope` is `global` (K-11).
    pub scope_global: bool,
}

/// What finding and ordering need.
#[derive(Debug, PartialEq)]
pub struct Columns {
    pub agent: AgentId,
    pub kind: Kind,
    pub channel: String,
    /// Without it when it is blank.
    pub label: Option<String>,
    /// Reserved keys and cron runs are left out of lists (K-11 to K-13).
    pub listed: bool,
    /// What a search looks through (L-7), in lower case, a line for each.
    pub words: String,
}

impl Columns {
    pub fn of(entry: &Entry, facts: &Facts) -> Self {
        let kind = row::kind(entry, &facts.main_key);
        let label = entry.label.as_ref().filter(|label| !label.is_blank());
        let texts = [&entry.display_name, &entry.label, &entry.subject];
        let words = texts
            .into_iter()
            .flatten()
            .map(Untrusted::raw)
            .chain([entry.session_id.as_str(), entry.key.as_str()])
            .map(|text| text.to_lowercase() + "\n");
        Self {
            agent: entry.agent(),
            kind,
            channel: row::channel(entry, kind),
            label: label.map(|label| label.raw().to_owned()),
            listed: if entry.key == SessionKey::global() {
                facts.scope_global
            } else {
                !entry.key.is_reserved() && !entry.key.is_cron_run()
            },
            words: words.collect(),
        }
    }
}
