//! What a list asks for, decided entry by entry (L-1 to L-9): foreign indexes are held in memory, not in a database.

use super::super::{Archived, Query};
use crate::model::key::Kind;
use crate::model::row;
use crate::model::session::Entry;
use crate::text::Untrusted;

/// A query made ready for many entries.
pub(super) struct Matcher<'a> {
    query: &'a Query,
    main_key: &'a str,
    search: Option<String>,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(query: &'a Query, main_key: &'a str) -> Self {
        let search = query.search.as_deref().map(str::trim);
        Self {
            query,
            main_key,
            search: search
                .filter(|text| !text.is_empty())
                .map(str::to_lowercase),
        }
    }

    /// Cheap tests stand first: most entries of a long list fail one of them.
    pub(super) fn fits(&self, entry: &Entry) -> bool {
        let query = self.query;
        let archived = entry.archived_at.is_some();
        let shelf = match query.archived {
            Archived::Hide => !archived,
            Archived::Only => archived,
            Archived::Both => true,
        };
        shelf
            && query
                .active_since
                .is_none_or(|since| entry.updated_at > 0 && entry.updated_at >= since)
            && query
                .agent
                .as_ref()
                .is_none_or(|agent| entry.agent() == *agent)
            && (query.spawned_by.is_none() || query.spawned_by == entry.spawned_by)
            && query
                .label
                .as_deref()
                .is_none_or(|label| entry.label.as_ref().is_some_and(|l| l.raw() == label))
            && (query.kinds.is_empty() || query.kinds.contains(&self.kind(entry)))
            && query
                .channel
                .as_deref()
                .is_none_or(|channel| row::channel(entry, self.kind(entry)) == channel)
            && self
                .search
                .as_deref()
                .is_none_or(|text| contains(entry, text))
    }

    fn kind(&self, entry: &Entry) -> Kind {
        row::kind(entry, self.main_key)
    }
}

/// L-7. `text` is in lower case.
fn contains(entry: &Entry, text: &str) -> bool {
    let within = |whole: &str| whole.to_lowercase().contains(text);
    let named = |name: &Option<Untrusted>| name.as_ref().is_some_and(|name| within(name.raw()));
    entry.key.as_str().contains(text)
        || named(&entry.display_name)
        || named(&entry.label)
        || named(&entry.subject)
        || within(&entry.session_id)
}
