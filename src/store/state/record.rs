//! Entries as they are stored: JSON, read so that nothing is lost (D-3), and the columns read off them.

use crate::model::key::{Kind, KindFacts, SessionKey};
use crate::model::session::Entry;
use crate::text::Untrusted;
use serde_json::{Map, Value};

/// What columns depend on besides the entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// `session.mainKey`.
    pub main_key: String,
    /// `session.scope` is `global` (K-11).
    pub scope_global: bool,
}

impl Facts {
    /// For comparing with those that the columns were made with.
    pub fn stamp(&self) -> String {
        serde_json::json!([self.main_key, self.scope_global]).to_string()
    }

    pub fn kind(&self, entry: &Entry) -> Kind {
        entry.key.kind(&KindFacts {
            main_key: &self.main_key,
            chat_type: entry.chat_type.as_deref(),
            set_origin: entry.set_origin,
        })
    }

    /// K-11 to K-13.
    pub fn is_listed(&self, key: &SessionKey) -> bool {
        if *key == SessionKey::global() {
            return self.scope_global;
        }
        !key.is_reserved() && !key.is_cron_run()
    }
}

/// An entry, and the members that this program does not understand although it knows their names (a word that a
/// later one has added): they are set aside, and put back when the entry is written.
pub fn read_entry(key: &str, json: &str) -> (Entry, Map<String, Value>) {
    let key = SessionKey::foreign(key);
    if let Ok(mut entry) = serde_json::from_str::<Entry>(json) {
        entry.key = key;
        return (entry, Map::new());
    }
    let mut aside = Map::new();
    let mut object = match serde_json::from_str(json) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    };
    loop {
        let error =
            match serde_path_to_error::deserialize::<_, Entry>(&Value::Object(object.clone())) {
                Ok(mut entry) => {
                    entry.key = key;
                    return (entry, aside);
                }
                Err(error) => error,
            };
        let name = error.path().iter().next().map(ToString::to_string);
        match name.and_then(|name| object.remove(&name).map(|value| (name, value))) {
            Some((name, value)) => aside.insert(name, value),
            // Nobody knows which member it is: an entry of identity alone, all of it set aside.
            None => return (Entry::new(key, "", 0), object),
        };
    }
}

/// The JSON of an entry, with what was set aside when it was read.
pub fn write_entry(entry: &Entry, aside: Map<String, Value>) -> serde_json::Result<String> {
    if aside.is_empty() {
        return serde_json::to_string(entry);
    }
    let mut value = serde_json::to_value(entry)?;
    if let Value::Object(object) = &mut value {
        for (name, kept) in aside {
            object.entry(name).or_insert(kept);
        }
    }
    serde_json::to_string(&value)
}

/// What a search looks through (L-7), in lower case, a line for each.
pub fn words(entry: &Entry) -> String {
    let texts = [&entry.display_name, &entry.label, &entry.subject];
    let mut words = String::new();
    for text in texts
        .into_iter()
        .flatten()
        .map(Untrusted::raw)
        .chain([entry.session_id.as_str(), entry.key.as_str()])
    {
        words.push_str(&text.to_lowercase());
        words.push('\n');
    }
    words
}

/// The label, unless it is blank.
pub fn label(entry: &Entry) -> Option<&str> {
    entry
        .label
        .as_ref()
        .filter(|label| !label.is_blank())
        .map(Untrusted::raw)
}

/// Channel of a row (K-30 to K-34).
pub fn channel(entry: &Entry, kind: Kind) -> String {
    if matches!(kind, Kind::Cron | Kind::Hook | Kind::Node) {
        return "internal".into();
    }
    let own = || entry.channel.as_ref().map(Untrusted::raw);
    let provider = || entry.origin.as_ref()?.provider.as_ref().map(Untrusted::raw);
    let last = || entry.last_channel.as_ref().map(Untrusted::raw);
    let delivery = || {
        let context = entry.delivery_context.as_ref()?;
        context.channel.as_ref().map(Untrusted::raw)
    };
    let in_key = || entry.key.group_parts().and_then(|parts| parts.channel);
    let order: [Option<&str>; 4] = match kind {
        Kind::Group => [own(), provider(), last(), in_key()],
        Kind::Other if entry.key.is_subagent() => [own(), delivery(), last(), None],
        _ => [delivery(), last(), own(), None],
    };
    order
        .into_iter()
        .flatten()
        .map(|channel| channel.trim().to_lowercase())
        .find(|channel| !channel.is_empty())
        .unwrap_or_else(|| "unknown".into())
}
