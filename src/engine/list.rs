//! `sessions_list` (specification, chapter 3), and the same rows, complete, for front doors.
//!
//! Visibility and filters come before the limit (L-21), so a page is only short when there is no more. Transcripts are
//! opened for the rows of the page alone, and only when messages are asked for or a foreign store knows no title.
//! Absent on purpose: runs and queues; nothing here writes (L-26).

use super::context::Context;
use super::history;
use super::reference::{Access, Reach, canonical, is_unnameable, stored};
use crate::config::Settings;
use crate::model::key::{AgentId, Kind, SessionKey};
use crate::model::message::{Message, Role};
use crate::model::row::{self, RowFacts};
use crate::model::session::{Entry, Row};
use crate::model::tools::{Arguments, ListResult};
use crate::protocol::methods::{ListRequest, Rows};
use crate::store::{Archived, Filter, Page, Query, Sessions, Span, StoreError};
use crate::text::{Untrusted, mask::Masker};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::HashMap;

/// L-2, L-4, L-8, L-28.
const DEFAULT_ROWS: i64 = 100;
const MAX_ROWS: i64 = 200;
const MAX_MESSAGES: i64 = 20;
const MAX_TITLES: usize = 100;
const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;
/// L-52, and a preview that fits a line of any screen.
const TITLE_CHARS: usize = 60;
const PREVIEW_CHARS: usize = 200;
/// Message lines looked at for a title or preview that the store does not keep.
const GLANCE: usize = 20;
/// Up to here children are asked for row by row, beyond in one go.
const ASK_SINGLY: usize = 256;

/// What a page of rows is to hold.
struct Wish {
    query: Query,
    messages: Option<Messages>,
    titles: Titles,
    previews: bool,
}

/// Messages per row, and the caps that tools have and people do not.
#[derive(Clone, Copy)]
struct Messages {
    count: usize,
    capped: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Titles {
    None,
    /// Always something, a transcript's beginning or the id if need be (L-52).
    Full,
    /// What the store knows.
    Known,
}

/// One call of `sessions_list`: the payload (L-25).
pub fn list(
    store: &dyn Sessions,
    settings: &Settings,
    context: &Context,
    arguments: &Map<String, Value>,
    now_ms: i64,
) -> Value {
    let arguments = Arguments(arguments);
    let limit = arguments
        .whole("limit", 1, MAX_ROWS)
        .unwrap_or(DEFAULT_ROWS) as usize;
    let asked = arguments.whole("messageLimit", 0, i64::MAX).unwrap_or(0);
    let count = asked.min(MAX_MESSAGES) as usize;
    let offset = arguments.whole("offset", 0, i64::MAX).unwrap_or(0);
    let kinds = arguments.list("kinds");
    let wish = Wish {
        query: Query {
            kinds: kinds.iter().filter_map(|word| Kind::parse(word)).collect(),
            agent: arguments.text("agentId").map(|id| AgentId::mend(&id)),
            active_since: arguments
                .whole("activeMinutes", 1, i64::MAX)
                .map(|minutes| active_since(now_ms, minutes)),
            label: arguments.text("label"),
            search: arguments.text("search"),
            archived: archived(&arguments),
            offset: usize::try_from(offset).unwrap_or(usize::MAX),
            limit: Some(limit),
            ..Query::default()
        },
        messages: (count > 0).then_some(Messages {
            count,
            capped: true,
        }),
        titles: if arguments.flag("includeDerivedTitles") {
            Titles::Full
        } else {
            Titles::None
        },
        previews: arguments.flag("includeLastMessage"),
    };
    let page = match page(store, settings, context, &wish, now_ms) {
        Ok(page) => page,
        Err(error) => return json!({ "status": "error", "error": error.to_string() }),
    };
    let next = wish.query.offset.saturating_add(page.rows.len());
    let has_more = next < page.total;
    let mut result = ListResult {
        count: page.rows.len(),
        sessions: page.rows,
        has_more: Some(has_more),
        next_offset: has_more.then_some(next),
        limit_applied: Some(limit),
        message_limit_applied: (asked > MAX_MESSAGES).then_some(count),
    };
    fit(&mut result);
    json!(result)
}

/// Rows for a front door: complete unless limited, with the counts that belong to them.
///
/// # Errors
/// What the store says.
pub fn rows(
    store: &dyn Sessions,
    settings: &Settings,
    context: &Context,
    request: &ListRequest,
    now_ms: i64,
) -> Result<Rows, StoreError> {
    let wish = Wish {
        query: Query {
            kinds: request.kinds.clone(),
            channel: request.channel.clone(),
            agent: request.agent.as_deref().map(AgentId::mend),
            active_since: request
                .active_minutes
                .map(|minutes| active_since(now_ms, i64::try_from(minutes).unwrap_or(i64::MAX))),
            search: request
                .search
                .clone()
                .filter(|text| !text.trim().is_empty()),
            archived: match (request.archived_only, request.archived_too) {
                (true, _) => Archived::Only,
                (false, true) => Archived::Both,
                (false, false) => Archived::Hide,
            },
            offset: request.offset,
            limit: request.limit,
            ..Query::default()
        },
        messages: (request.messages > 0).then_some(Messages {
            count: request.messages,
            capped: false,
        }),
        titles: Titles::Known,
        previews: true,
    };
    let page = page(store, settings, context, &wish, now_ms)?;
    let access = Access::of(settings, context);
    let count = |archived| {
        let query = Query {
            archived,
            limit: Some(0),
            ..Query::default()
        };
        Ok::<_, StoreError>(select(store, settings, &access, &query)?.total)
    };
    Ok(Rows {
        rows: page.rows,
        total: page.total,
        all: count(Archived::Hide)?,
        archived: count(Archived::Only)?,
        warnings: store.warnings().into_iter().map(Untrusted::from).collect(),
    })
}

/// One session as a row, as the caller sees it.
///
/// # Errors
/// What the store says.
pub fn one(
    store: &dyn Sessions,
    settings: &Settings,
    context: &Context,
    entry: &Entry,
    now_ms: i64,
) -> Result<Row, StoreError> {
    let wish = Wish {
        query: Query::default(),
        messages: None,
        titles: Titles::Known,
        previews: true,
    };
    let entries = std::slice::from_ref(entry);
    let mut rows = make_rows(store, settings, context, &wish, entries, now_ms)?;
    Ok(rows.pop().unwrap_or_default())
}

/// L-3: the edge is inside; a session without a time is never active.
fn active_since(now_ms: i64, minutes: i64) -> i64 {
    now_ms
        .saturating_sub(minutes.max(1).saturating_mul(60_000))
        .max(1)
}

/// L-9.
fn archived(arguments: &Arguments<'_>) -> Archived {
    let all = arguments
        .get("archived")
        .and_then(Value::as_str)
        .is_some_and(|word| word.trim().eq_ignore_ascii_case("all"));
    if all || arguments.flag("includeArchived") {
        Archived::Both
    } else if arguments.flag("archived") {
        Archived::Only
    } else {
        Archived::Hide
    }
}

struct RowPage {
    rows: Vec<Row>,
    total: usize,
}

fn page(
    store: &dyn Sessions,
    settings: &Settings,
    context: &Context,
    wish: &Wish,
    now_ms: i64,
) -> Result<RowPage, StoreError> {
    let access = Access::of(settings, context);
    let found = select(store, settings, &access, &wish.query)?;
    Ok(RowPage {
        rows: make_rows(store, settings, context, wish, &found.entries, now_ms)?,
        total: found.total,
    })
}

/// The entries of a page (L-20 to L-22). A store is asked no more than the level can show: it may hold many sessions.
fn select(
    store: &dyn Sessions,
    settings: &Settings,
    access: &Access<'_>,
    query: &Query,
) -> Result<Page, StoreError> {
    let shadowed = shadowed(store, settings)?;
    let reach = access.reach();
    if reach == Reach::All && shadowed.is_empty() && !settings.scope_global {
        return store.list(query, None);
    }
    let listable = |entry: &Entry| {
        access.sees(entry)
            && !is_unnameable(settings, &entry.key)
            && !entry.key.is_cron_run()
            && !shadowed.contains(&entry.key)
    };
    let mut asked = query.clone();
    if let Reach::Agent(own) = reach {
        asked.agent.get_or_insert_with(|| own.clone());
    }
    // One session that the question does not cover: the requester beside its children, or `global`, which stores may
    // leave out and which is the session there is in its scope (K-11).
    let beside = match reach {
        Reach::Tree(requester) => {
            asked.spawned_by = Some(requester.clone());
            requester.clone()
        }
        _ if settings.scope_global => SessionKey::global(),
        _ => return store.list(&asked, Some(&listable)),
    };
    asked.offset = 0;
    asked.limit = None;
    let mut entries = store.list(&asked, Some(&listable))?.entries;
    if entries.iter().all(|entry| entry.key != beside)
        && let Some(entry) = stored(store, settings, &beside)?
        && listable(&entry)
        && matches(&entry, query, &settings.main_key)
    {
        entries.push(entry);
    }
    entries.sort_by(|a, b| (b.updated_at, &a.key).cmp(&(a.updated_at, &b.key)));
    let total = entries.len();
    let limit = query.limit.unwrap_or(usize::MAX);
    Ok(Page {
        entries: entries.into_iter().skip(query.offset).take(limit).collect(),
        total,
    })
}

/// Keys under which an agent's main session is stored a second time (K-16, K-11): never reached, so never listed.
fn shadowed(store: &dyn Sessions, settings: &Settings) -> Result<Vec<SessionKey>, StoreError> {
    if !settings.scope_global && settings.main_key == "main" {
        return Ok(Vec::new());
    }
    let mut shadowed = Vec::new();
    for agent in store.agents()? {
        let main = settings.main_session(&agent);
        if store.entry(&main)?.is_some() {
            let spellings = ["main", &settings.main_key].map(|rest| SessionKey::of(&agent, rest));
            shadowed.extend(spellings.into_iter().filter(|key| *key != main));
        }
    }
    Ok(shadowed)
}

/// What stores do with a query, for the one entry they were not asked for.
fn matches(entry: &Entry, query: &Query, main_key: &str) -> bool {
    let kind = row::kind(entry, main_key);
    let is_global = entry.key == SessionKey::global();
    let name = if is_global {
        "main"
    } else {
        entry.key.as_str()
    };
    let contains = |needle: &str| {
        let needle = needle.trim().to_lowercase();
        let texts = [&entry.display_name, &entry.label, &entry.subject];
        texts
            .into_iter()
            .flatten()
            .map(Untrusted::raw)
            .chain([entry.session_id.as_str(), name])
            .any(|text| text.to_lowercase().contains(&needle))
    };
    let channel = || row::channel(entry, kind);
    (query.kinds.is_empty() || query.kinds.contains(&kind))
        && query
            .channel
            .as_ref()
            .is_none_or(|wanted| wanted.trim().to_lowercase() == channel())
        && query.active_since.is_none_or(|at| entry.updated_at >= at)
        && query
            .label
            .as_deref()
            .is_none_or(|wanted| entry.label.as_ref().map(Untrusted::raw) == Some(wanted))
        && query.search.as_deref().is_none_or(contains)
        && query
            .agent
            .as_ref()
            .is_none_or(|agent| is_global || entry.key.agent().as_ref() == Some(agent))
        && match query.archived {
            Archived::Hide => entry.archived_at.is_none(),
            Archived::Only => entry.archived_at.is_some(),
            Archived::Both => true,
        }
}

fn make_rows(
    store: &dyn Sessions,
    settings: &Settings,
    context: &Context,
    wish: &Wish,
    entries: &[Entry],
    now_ms: i64,
) -> Result<Vec<Row>, StoreError> {
    let access = Access::of(settings, context);
    let mut children = children(store, settings, &access, entries)?;
    let known: RefCell<HashMap<SessionKey, bool>> = RefCell::default();
    let may_see = |key: &SessionKey| {
        if context.person {
            return true;
        }
        let key = canonical(settings, key);
        if let Some(seen) = known.borrow().get(&key) {
            return *seen;
        }
        let entry = stored(store, settings, &key).ok().flatten();
        let seen = access.denial(&key, entry.as_ref()).is_none();
        known.borrow_mut().insert(key, seen);
        seen
    };
    let display = |key: SessionKey| Untrusted::new(key.display(context.own(), &settings.main_key));
    let default_agent = settings.default_agent();
    let mut rows = Vec::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        let agent = entry.key.agent();
        let agent = settings.agent(agent.as_ref().unwrap_or(&default_agent));
        let facts = RowFacts {
            own: context.own(),
            main_key: &settings.main_key,
            default_model: agent
                .and_then(|agent| agent.model.as_deref())
                .or(settings.default_model.as_deref()),
            children: children
                .remove(&canonical(settings, &entry.key))
                .unwrap_or_default()
                .into_iter()
                .map(display)
                .collect(),
            transcript_path: store.transcript_path(entry),
            may_see: &may_see,
            now_ms,
            queued: None,
        };
        let mut row = row::row(entry, &facts);
        if at < MAX_TITLES || wish.titles == Titles::Known {
            row.derived_title = title(store, entry, wish.titles, &settings.masker);
            if wish.previews {
                let glance = wish.titles != Titles::Known;
                row.last_message_preview = preview(store, entry, glance, &settings.masker);
            }
        }
        if let Some(messages) = wish.messages {
            row.messages = Some(last_messages(store, entry, messages, &settings.masker));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Direct children that may be seen, by their parent's canonical key (L-47), oldest first.
fn children(
    store: &dyn Sessions,
    settings: &Settings,
    access: &Access<'_>,
    entries: &[Entry],
) -> Result<HashMap<SessionKey, Vec<SessionKey>>, StoreError> {
    let mut children: HashMap<SessionKey, Vec<SessionKey>> = HashMap::new();
    let is_child = |entry: &Entry| entry.spawned_by.is_some() && access.sees(entry);
    let filter: Filter<'_> = match access.reach() {
        Reach::All => None,
        _ => Some(&is_child),
    };
    let mut take = |query: &Query| -> Result<(), StoreError> {
        for child in store.list(query, filter)?.entries.into_iter().rev() {
            if let Some(parent) = &child.spawned_by {
                let parent = canonical(settings, parent);
                children.entry(parent).or_default().push(child.key);
            }
        }
        Ok(())
    };
    if entries.len() > ASK_SINGLY {
        take(&Query::default())?;
        return Ok(children);
    }
    for entry in entries {
        take(&Query {
            spawned_by: Some(canonical(settings, &entry.key)),
            ..Query::default()
        })?;
    }
    Ok(children)
}

/// L-23, L-24: what cannot be read is an empty list.
fn last_messages(
    store: &dyn Sessions,
    entry: &Entry,
    messages: Messages,
    masker: &Masker,
) -> Vec<Value> {
    let wanted = history::Wanted {
        skip: 0,
        limit: messages.count,
        tools: false,
        silent: true,
        look_ahead: false,
        max_bytes: messages.capped.then_some(history::MAX_BYTES),
    };
    history::pick(store, entry, &wanted, masker)
        .map_or_else(|_| Vec::new(), |picked| picked.messages)
}

/// Title and preview as far as the entry itself holds them (AM-10); no transcript is read.
pub(super) fn add_known_words(row: &mut Row, store: &dyn Sessions, entry: &Entry, masker: &Masker) {
    row.derived_title = title(store, entry, Titles::Known, masker);
    row.last_message_preview = preview(store, entry, false, masker);
}

/// L-52.
fn title(
    store: &dyn Sessions,
    entry: &Entry,
    titles: Titles,
    masker: &Masker,
) -> Option<Untrusted> {
    if titles == Titles::None {
        return None;
    }
    let line = |text: &Untrusted| one_line(text.raw(), masker);
    let kept = [&entry.display_name, &entry.subject, &entry.first_user_text]
        .into_iter()
        .flatten()
        .map(line)
        .find(|text| !text.is_empty());
    let glanced = || {
        if titles != Titles::Full || entry.message_count.is_some() {
            return None;
        }
        let page = store.transcript(entry, Span::Whole, GLANCE).ok()?;
        page.lines
            .iter()
            .filter_map(Message::read)
            .find_map(|message| {
                let said = message.said()?;
                let text = one_line(&said.text(), masker);
                (said.role == Role::User && !said.is_inter_session() && !text.is_empty())
                    .then_some(text)
            })
    };
    if let Some(text) = kept.or_else(glanced) {
        return Some(cut_at_word(&text, TITLE_CHARS).into());
    }
    if titles == Titles::Known || entry.session_id.is_empty() {
        return None;
    }
    let id: String = entry.session_id.chars().take(8).collect();
    let day = jiff::Timestamp::from_millisecond(entry.updated_at)
        .ok()
        .filter(|_| entry.updated_at > 0)
        .map(|at| at.strftime("%Y-%m-%d").to_string());
    Some(
        day.map_or_else(|| id.clone(), |day| format!("{id} ({day})"))
            .into(),
    )
}

/// L-53.
fn preview(
    store: &dyn Sessions,
    entry: &Entry,
    glance: bool,
    masker: &Masker,
) -> Option<Untrusted> {
    let text = match &entry.last_text {
        Some(text) => one_line(text.raw(), masker),
        None if glance && entry.message_count.is_none() => {
            let page = store.transcript(entry, Span::Tail, GLANCE).ok()?;
            let newest = page.lines.iter().rev().filter_map(Message::read);
            newest.into_iter().find_map(|message| {
                let said = message.said()?;
                let text = one_line(&said.text(), masker);
                (matches!(said.role, Role::User | Role::Assistant) && !text.is_empty())
                    .then_some(text)
            })?
        }
        None => return None,
    };
    (!text.is_empty()).then(|| cut_at_word(&text, PREVIEW_CHARS).into())
}

/// Secrets masked, white space squeezed. Only the beginning is looked at: titles and previews need no more.
fn one_line(text: &str, masker: &Masker) -> String {
    const ENOUGH_BYTES: usize = 4096;
    let text = &text[..text.floor_char_boundary(ENOUGH_BYTES.min(text.len()))];
    let masked = masker.mask(text);
    let words: Vec<&str> = masked
        .as_deref()
        .unwrap_or(text)
        .split_whitespace()
        .collect();
    words.join(" ")
}

/// At most `max` characters; a cut falls on a word edge, when one is near, and is marked with `…`.
fn cut_at_word(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let cut: String = text.chars().take(max - 1).collect();
    let near = cut
        .rfind(' ')
        .filter(|at| cut[..*at].chars().count() * 5 > max * 3);
    format!("{}…", near.map_or(cut.as_str(), |at| &cut[..at]).trim_end())
}

/// L-28: from the last row backwards, messages are given up until the payload fits.
fn fit(result: &mut ListResult) {
    // As the payload is printed: two spaces a level, messages on the fourth level.
    const INDENT: usize = 6;
    let mut bytes = printed(result).len();
    for row in result.sessions.iter_mut().rev() {
        if bytes < MAX_PAYLOAD_BYTES {
            return;
        }
        if let Some(messages) = row.messages.take_if(|messages| !messages.is_empty()) {
            let text = printed(&messages);
            let lines = text.bytes().filter(|byte| *byte == b'\n').count();
            bytes = bytes.saturating_sub(text.len() + lines * INDENT);
            row.messages_omitted = Some(true);
        }
    }
}

fn printed<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
