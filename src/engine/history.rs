//! `sessions_history` (specification, chapter 4), and raw lines for front doors.
//!
//! A transcript is read backwards in growing pages and only as far as the answer needs. Cleaning works on copies; the
//! stored transcript never changes. Absent on purpose: who may see what ([`super::reference`]).

use super::attachments;
use super::context::Context;
use super::reference::{self, Refusal, Why};
use crate::config::Settings;
use crate::model::key::is_safe_session_id;
use crate::model::message::{RawLine, decoded_len, read_time};
use crate::model::session::Entry;
use crate::model::tools::{Arguments, HistoryResult};
use crate::model::visibility::Doing;
use crate::protocol::methods::{Code, Failure, HistoryRequest, HistorySpan, Lines};
use crate::store::{Sessions, Span, StoreError};
use crate::text::{Untrusted, mask::Masker};
use serde_json::{Map, Value, json};

const TOOL: &str = "sessions_history";
/// H-2.
const DEFAULT_MESSAGES: i64 = 200;
const MAX_MESSAGES: i64 = 1000;
/// H-41: the list as compact JSON.
pub const MAX_BYTES: usize = 80 * 1024;
/// H-32, in UTF-16 units.
const MAX_TEXT: usize = 4000;
const CUT_MARK: &str = "\n…(truncated)…";
/// H-42.
const OVERSIZE: &str = "[sessions_history omitted: message too large]";
/// H-22.
const SILENT: &str = "NO_REPLY";
/// H-35: shorter ones are icons.
const MAX_DATA_URL: usize = 256;
/// Message lines of the first page read backwards; each further page is twice as long.
const FIRST_PAGE: usize = 16;
const LARGEST_PAGE: usize = 1024;

/// One call of `sessions_history`: the payload (H-40), or `{ status, error }` (H-11).
pub fn history(
    store: &dyn Sessions,
    settings: &Settings,
    context: &Context,
    arguments: &Map<String, Value>,
) -> Value {
    let arguments = Arguments(arguments);
    let Some(given) = arguments.text("sessionKey") else {
        return reference::usage_error(TOOL, "sessionKey is required");
    };
    let target = match reference::resolve(store, settings, context, &given, Doing::History) {
        Ok(target) => target,
        Err(refusal) => return refusal.payload(),
    };
    let offset = arguments
        .whole("offset", 0, i64::MAX)
        .map(|offset| usize::try_from(offset).unwrap_or(usize::MAX));
    let limit = arguments.whole("limit", 1, MAX_MESSAGES);
    let wanted = Wanted {
        skip: offset.unwrap_or(0),
        limit: limit.unwrap_or(DEFAULT_MESSAGES) as usize,
        tools: arguments.flag("includeTools"),
        silent: false,
        look_ahead: offset.is_some(),
        max_bytes: Some(MAX_BYTES),
    };
    let picked = match &target.entry {
        Some(entry) => pick(store, entry, &wanted, &settings.masker),
        None => Ok(Picked::nothing()),
    };
    let picked = match picked {
        Ok(picked) => picked,
        Err(error) => return Refusal::from(error).payload(),
    };
    let stored_count = target.entry.as_ref().and_then(|entry| entry.message_count);
    let total = stored_count
        .and_then(|count| usize::try_from(count).ok())
        .or(picked.total);
    let next = wanted.skip.saturating_add(picked.messages.len());
    json!(HistoryResult {
        session_key: reference::display(settings, context, &target.key),
        truncated: picked.dropped || picked.truncated,
        dropped_messages: picked.dropped,
        content_truncated: picked.truncated,
        content_redacted: picked.redacted,
        bytes: picked.bytes,
        messages: picked.messages,
        offset,
        total_messages: offset.and(total),
        has_more: offset.map(|_| picked.more),
        next_offset: offset.and(picked.more.then_some(next)),
    })
}

/// Raw lines for a front door: uncut, in file order. A well-formed key without a session is `exists: false` (H-12).
///
/// # Errors
/// [`Failure`]: malformed key, unknown id, a session the caller may not see, a transcript that cannot be read.
pub fn lines(
    store: &dyn Sessions,
    settings: &Settings,
    context: &Context,
    request: &HistoryRequest,
) -> Result<Lines, Failure> {
    let given = request.key.raw();
    let target = reference::resolve(store, settings, context, given, Doing::History)
        .map_err(|refusal| failure(&refusal))?;
    let key = Untrusted::new(target.key.display(None, &settings.main_key));
    let Some(entry) = target.entry else {
        return Ok(Lines {
            key,
            at_start: true,
            ..Lines::default()
        });
    };
    let span = match request.span {
        HistorySpan::Tail => Span::Tail,
        HistorySpan::Before(position) => Span::Before(position),
        HistorySpan::After(position) => Span::After(position),
        HistorySpan::Whole => Span::Whole,
    };
    let page = store
        .transcript(&entry, span, request.limit.unwrap_or(usize::MAX))
        .map_err(|error| Failure::new(Code::Io, error.to_string()))?;
    Ok(Lines {
        key,
        exists: true,
        lines: page.lines,
        start: page.start,
        end: page.end,
        at_start: page.at_start,
    })
}

/// A refusal as front doors tell it.
pub fn failure(refusal: &Refusal) -> Failure {
    let code = match refusal.why {
        Why::Usage | Why::Malformed => Code::InvalidRequest,
        Why::NotFound => Code::NotFound,
        Why::Ambiguous => Code::Refused,
        Why::Denied => Code::Forbidden,
        Why::Store => Code::Io,
    };
    Failure::new(code, refusal.error.clone())
}

/// Which messages, newest first.
pub(super) struct Wanted {
    pub skip: usize,
    pub limit: usize,
    /// Tool results too (H-21).
    pub tools: bool,
    /// Silent answers too (H-22).
    pub silent: bool,
    /// Find out whether there is more.
    pub look_ahead: bool,
    /// H-41; `None`: uncapped.
    pub max_bytes: Option<usize>,
}

/// Cleaned messages in file order, and what cleaning and caps did.
pub(super) struct Picked {
    pub messages: Vec<Value>,
    bytes: usize,
    truncated: bool,
    redacted: bool,
    dropped: bool,
    more: bool,
    /// Known when the whole transcript was seen.
    total: Option<usize>,
}

impl Picked {
    fn nothing() -> Self {
        Self {
            messages: Vec::new(),
            bytes: 2,
            truncated: false,
            redacted: false,
            dropped: false,
            more: false,
            total: Some(0),
        }
    }
}

/// Selection (§4.2), cleaning (§4.3) and caps (H-41, H-42), reading no further back than needed.
pub(super) fn pick(
    store: &dyn Sessions,
    entry: &Entry,
    wanted: &Wanted,
    masker: &Masker,
) -> Result<Picked, StoreError> {
    let mut picked = Picked::nothing();
    if !is_safe_session_id(&entry.session_id) && entry.session_file.is_none() {
        return Ok(picked);
    }
    let mut seen = 0usize;
    for message in Backwards::of(store, entry) {
        let message = message?;
        if (!wanted.tools && is_tool(&message)) || (!wanted.silent && is_silent(&message)) {
            continue;
        }
        seen += 1;
        if seen <= wanted.skip {
            continue;
        }
        if picked.messages.len() == wanted.limit {
            picked.more = true;
            break;
        }
        let (clean, truncated, redacted) = clean_message(&message, masker);
        let comma = usize::from(!picked.messages.is_empty());
        let bytes = picked.bytes + compact_len(&clean) + comma;
        if comma == 1 && wanted.max_bytes.is_some_and(|max| bytes > max) {
            picked.dropped = true;
            picked.more = true;
            break;
        }
        picked.bytes = bytes;
        picked.truncated |= truncated;
        picked.redacted |= redacted;
        picked.messages.push(clean);
        if !wanted.look_ahead && picked.messages.len() == wanted.limit {
            picked.total = None;
            break;
        }
    }
    picked.total = (!picked.more && picked.total.is_some()).then_some(seen);
    picked.messages.reverse();
    if wanted.max_bytes.is_some_and(|max| picked.bytes > max) {
        picked.messages = vec![json!({ "role": "assistant", "content": OVERSIZE })];
        picked.bytes = 2 + compact_len(&picked.messages[0]);
        picked.dropped = true;
    }
    Ok(picked)
}

fn compact_len(value: &Value) -> usize {
    serde_json::to_string(value).map_or(0, |text| text.len())
}

/// The messages of a transcript from the newest to the oldest.
struct Backwards<'a> {
    store: &'a dyn Sessions,
    entry: &'a Entry,
    span: Option<Span>,
    size: usize,
    lines: std::iter::Rev<std::vec::IntoIter<RawLine>>,
}

impl<'a> Backwards<'a> {
    fn of(store: &'a dyn Sessions, entry: &'a Entry) -> Self {
        Self {
            store,
            entry,
            span: Some(Span::Tail),
            size: FIRST_PAGE,
            lines: Vec::new().into_iter().rev(),
        }
    }
}

impl Iterator for Backwards<'_> {
    type Item = Result<Value, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(message) = self.lines.by_ref().find_map(shown) {
                return Some(Ok(message));
            }
            let span = self.span.take()?;
            let page = match self.store.transcript(self.entry, span, self.size) {
                Ok(page) => page,
                Err(error) => return Some(Err(error)),
            };
            // A page that does not get on would never end.
            let stuck = matches!(span, Span::Before(at) if page.start >= at);
            if !page.at_start && !stuck {
                self.span = Some(Span::Before(page.start));
            }
            self.size = (self.size * 2).min(LARGEST_PAGE);
            self.lines = page.lines.into_iter().rev();
        }
    }
}

/// The message of a line as it is shown (H-20, D-24): message lines, and compactions as a system message.
fn shown(mut raw: RawLine) -> Option<Value> {
    if raw.damage.is_some() {
        return None;
    }
    if raw.message().is_some() {
        let mut message = raw.line.as_object_mut()?.remove("message")?;
        // Version 2 called it so.
        if message.get("role").and_then(Value::as_str) == Some("hookMessage") {
            message["role"] = "custom".into();
        }
        return Some(message);
    }
    if raw.line.get("type").and_then(Value::as_str) != Some("compaction") {
        return None;
    }
    let mut message = json!({
        "role": "system",
        "content": [{ "type": "text", "text": "Compaction" }],
    });
    if let Some(id) = raw.id() {
        message["id"] = id.into();
    }
    if let Some(at) = raw.line.get("timestamp").and_then(read_time) {
        message["timestamp"] = at.into();
    }
    Some(message)
}

fn is_tool(message: &Value) -> bool {
    matches!(
        message.get("role").and_then(Value::as_str),
        Some("toolResult" | "tool")
    )
}

/// H-22. A message that also calls tools is not silent.
fn is_silent(message: &Value) -> bool {
    if message.get("role").and_then(Value::as_str) != Some("assistant") {
        return false;
    }
    match message.get("content") {
        Some(Value::String(text)) => text.trim() == SILENT,
        Some(Value::Array(blocks)) => {
            let mut text = String::new();
            for block in blocks {
                match block.get("type").and_then(Value::as_str) {
                    Some("text") => {
                        text.push_str(block.get("text").and_then(Value::as_str).unwrap_or(""));
                    }
                    Some("thinking") => {}
                    _ => return false,
                }
            }
            text.trim() == SILENT
        }
        _ => message
            .get("text")
            .and_then(Value::as_str)
            .is_some_and(|text| text.trim() == SILENT),
    }
}

/// A copy of a stored message without what is secret or too much (H-30 to H-36), whether something was cut
/// (`contentTruncated`), and whether something was masked (`contentRedacted`).
pub fn clean_message(message: &Value, masker: &Masker) -> (Value, bool, bool) {
    let mut cleaner = Cleaner {
        masker,
        truncated: false,
        redacted: false,
    };
    let mut message = message.clone();
    drop_nulls(&mut message);
    attachments::redact_message(&mut message);
    if let Some(members) = message.as_object_mut() {
        for name in ["details", "usage", "cost"] {
            cleaner.truncated |= members.shift_remove(name).is_some();
        }
        if let Some(Value::String(text)) = members.get_mut("text") {
            cleaner.text(text);
        }
        if let Some(content) = members.get_mut("content") {
            cleaner.content(content);
        }
        cleaner.images_of(members);
    }
    (message, cleaner.truncated, cleaner.redacted)
}

/// E-14: no payload holds a `null` member.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

struct Cleaner<'a> {
    masker: &'a Masker,
    truncated: bool,
    redacted: bool,
}

impl Cleaner<'_> {
    fn content(&mut self, content: &mut Value) {
        match content {
            Value::String(text) => self.text(text),
            Value::Array(blocks) => {
                for block in blocks {
                    match block {
                        Value::String(text) => self.text(text),
                        Value::Object(members) => self.block(members),
                        _ => {}
                    }
                }
            }
            Value::Object(members) => self.block(members),
            _ => {}
        }
    }

    fn block(&mut self, members: &mut Map<String, Value>) {
        for name in ["text", "thinking", "partialJson"] {
            if let Some(Value::String(text)) = members.get_mut(name) {
                self.text(text);
            }
        }
        match members.get("type").and_then(Value::as_str) {
            Some("thinking") => {
                let before = members.len();
                members.retain(|name, _| !is_replay(name));
                self.truncated |= members.len() != before;
            }
            Some("image") => {
                self.omit_data(members);
                members.insert("omitted".into(), true.into());
            }
            _ => {}
        }
        // Results of tools may hold blocks of their own.
        if let Some(nested) = members.get_mut("content") {
            self.content(nested);
        }
    }

    /// H-35, H-31, H-32, in this order: an image is no text, and a secret must not survive by straddling the cut.
    fn text(&mut self, text: &mut String) {
        if let Some(without) = without_images(text) {
            *text = without;
            self.truncated = true;
        }
        if let Some(masked) = self.masker.mask(text) {
            *text = masked;
            self.redacted = true;
        }
        if let Some(end) = cut_at(text) {
            text.truncate(end);
            text.push_str(CUT_MARK);
            self.truncated = true;
        }
    }

    /// Takes `data` out of an object, leaving its decoded size.
    fn omit_data(&mut self, members: &mut Map<String, Value>) {
        let Some(data) = members.shift_remove("data") else {
            return;
        };
        self.truncated = true;
        members.insert("omitted".into(), true.into());
        if let Some(text) = data.as_str() {
            members.insert("bytes".into(), decoded_len(text).into());
        }
    }

    /// H-35: image data anywhere else. Texts have been seen to by [`Self::text`].
    fn images_of(&mut self, members: &mut Map<String, Value>) {
        if members.get("data").is_some_and(Value::is_string) && holds_image(members) {
            self.omit_data(members);
        }
        let urls: Vec<String> = members
            .iter()
            .filter(|(_, value)| value.as_str().is_some_and(is_image_url))
            .map(|(name, _)| name.clone())
            .collect();
        for name in urls {
            if let Some(Value::String(url)) = members.shift_remove(&name) {
                members.insert("omitted".into(), true.into());
                members.insert("bytes".into(), data_url_bytes(&url).into());
                self.truncated = true;
            }
        }
        for value in members.values_mut() {
            self.images(value);
        }
    }

    fn images(&mut self, value: &mut Value) {
        match value {
            Value::Object(members) => self.images_of(members),
            Value::Array(items) => {
                for item in items {
                    match item.as_str().filter(|text| is_image_url(text)) {
                        Some(url) => {
                            *item = json!({ "omitted": true, "bytes": data_url_bytes(url) });
                            self.truncated = true;
                        }
                        None => self.images(item),
                    }
                }
            }
            _ => {}
        }
    }
}

/// Members of a thinking block that only serve to replay it to its provider (H-33).
fn is_replay(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("signature") || name.contains("replay") || name.contains("encrypted")
}

/// Whether `data` of this object is that of an image.
fn holds_image(members: &Map<String, Value>) -> bool {
    let word = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or("");
    let is_image = |mime: &str| {
        mime.get(..6)
            .is_some_and(|m| m.eq_ignore_ascii_case("image/"))
    };
    word("type") == "image"
        || word("type") == "base64"
        || ["mimeType", "mime_type", "mediaType", "media_type"]
            .iter()
            .any(|name| is_image(word(name)))
}

const DATA_URL: &str = "data:image/";

fn is_image_url(text: &str) -> bool {
    text.len() > MAX_DATA_URL
        && text
            .get(..DATA_URL.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(DATA_URL))
}

fn data_url_bytes(url: &str) -> u64 {
    decoded_len(url.split_once(',').map_or(url, |(_, data)| data))
}

/// A text with long image data in it replaced by a remark; `None` when there is none.
fn without_images(text: &str) -> Option<String> {
    let in_url = |c: char| c.is_ascii_alphanumeric() || ":/;,+=-._%".contains(c);
    let mut out = String::new();
    let mut rest = text;
    let mut found = false;
    while let Some(at) = rest.find(DATA_URL) {
        let (before, tail) = rest.split_at(at);
        let end = tail.find(|c| !in_url(c)).unwrap_or(tail.len());
        let (url, after) = tail.split_at(end);
        out.push_str(before);
        if url.len() > MAX_DATA_URL {
            found = true;
            out.push_str(&format!("[image omitted: {} bytes]", data_url_bytes(url)));
        } else {
            out.push_str(url);
        }
        rest = after;
    }
    found.then(|| format!("{out}{rest}"))
}

/// Where a text of more than [`MAX_TEXT`] UTF-16 units is cut, without splitting a character.
fn cut_at(text: &str) -> Option<usize> {
    if text.len() <= MAX_TEXT {
        return None;
    }
    let mut units = 0;
    text.char_indices().find_map(|(at, c)| {
        units += c.len_utf16();
        (units > MAX_TEXT).then_some(at)
    })
}
