//! `history`: a transcript, whole and uncut unless limited.
//!
//! It is read page by page, so that its length is no matter. The human form shows who said what, with calls as lines;
//! `--json` has every message as it is stored, with the id of its line. Secrets are masked unless `--raw`.

use super::args::History;
use super::output::{Printer, remark};
use super::source::Context;
use super::stop::{Stop, unexpected};
use crate::backend::SharedBackend;
use crate::clean_format;
use crate::model::key::SessionKey;
use crate::model::message::{
    Block, Content, Message, ProvenanceKind, RawLine, Role, Said, strip_envelope,
};
use crate::model::tools::HistoryResult;
use crate::protocol::methods::{Code, HistoryRequest, HistorySpan, Lines, Reply, Request};
use crate::text::mask::Masker;
use crate::text::{Clean, Untrusted};
use serde_json::{Value, json};

/// Message lines asked for at a time.
const PAGE: usize = 500;

/// Prints a transcript.
///
/// # Errors
/// [`Stop`].
pub async fn history(context: &Context, printer: &mut Printer, args: History) -> Result<(), Stop> {
    let backend = context.read().await?;
    let masker = match args.raw {
        true => None,
        false => Some(context.masker(&backend).await),
    };
    let pages = Pages {
        context,
        backend: &backend,
        key: args.key.as_str().into(),
    };
    let mut printing = Printing {
        args: &args,
        masker,
        key: SessionKey::global(),
        messages: Vec::new(),
        damaged: Vec::new(),
        redacted: false,
        last_day: None,
        printed: false,
    };
    let found = match args.limit {
        Some(limit) => {
            let found = pages
                .newest(limit, |line| printing.counts(printer, line))
                .await?;
            printing.key = SessionKey::foreign(found.key.raw());
            for line in &found.lines {
                printing.line(printer, line)?;
            }
            found
        }
        None => {
            let mut after = 0;
            loop {
                let page = pages.page(HistorySpan::After(after), PAGE).await?;
                printing.key = SessionKey::foreign(page.key.raw());
                if after > 0 && page.start == 0 {
                    remark(&Clean::fixed(
                        "the transcript was replaced while it was read; what follows is missing",
                    ));
                    break page;
                }
                for line in &page.lines {
                    printing.line(printer, line)?;
                }
                if page.lines.is_empty() || page.end <= after {
                    // A last line without its end stands behind the end.
                    let tail = pages.page(HistorySpan::Tail, 1).await?;
                    for line in tail.lines.iter().filter(|line| line.position >= page.end) {
                        printing.line(printer, line)?;
                    }
                    break page;
                }
                after = page.end;
            }
        }
    };
    if !found.exists {
        remark(&clean_format!(
            "there is no session {} (yet)",
            found.key.clean()
        ));
    }
    printing.end(printer, &found.key)
}

/// Pages of one transcript.
struct Pages<'a> {
    context: &'a Context,
    backend: &'a SharedBackend,
    key: Untrusted,
}

impl Pages<'_> {
    /// One page, smaller where the lines are too big for one answer.
    async fn page(&self, span: HistorySpan, limit: usize) -> Result<Lines, Stop> {
        let mut limit = limit;
        loop {
            let request = HistoryRequest {
                key: self.key.clone(),
                span,
                limit: Some(limit),
            };
            let call = self.context.call(Request::History(request));
            match self.backend.call(call.clone()).await {
                Err(failure) if failure.code == Code::Refused && limit > 1 => limit /= 4,
                Err(failure) => return Err(failure.into()),
                Ok(Reply::Lines(lines)) => return Ok(lines),
                Ok(_) => return Err(unexpected()),
            }
            limit = limit.max(1);
        }
    }

    /// The newest lines that hold `limit` of what counts.
    async fn newest(&self, limit: usize, counts: impl Fn(&RawLine) -> bool) -> Result<Lines, Stop> {
        let size = limit.clamp(1, PAGE);
        let mut found = self.page(HistorySpan::Tail, size).await?;
        let mut at_start = found.at_start;
        while !at_start && found.lines.iter().filter(|line| counts(line)).count() < limit {
            let mut older = self.page(HistorySpan::Before(found.start), size).await?;
            if older.start >= found.start {
                break;
            }
            at_start = older.at_start;
            found.start = older.start;
            older.lines.append(&mut found.lines);
            found.lines = older.lines;
        }
        let mut wanted = 0;
        let from = found.lines.iter().rposition(|line| {
            wanted += usize::from(counts(line));
            wanted > limit
        });
        found.lines.drain(..from.map_or(0, |at| at + 1));
        Ok(found)
    }
}

struct Printing<'a> {
    args: &'a History,
    masker: Option<Masker>,
    key: SessionKey,
    messages: Vec<Value>,
    damaged: Vec<Value>,
    redacted: bool,
    last_day: Option<String>,
    printed: bool,
}

impl Printing<'_> {
    /// The line counts against `--limit`: it is a message that is shown.
    fn counts(&self, printer: &Printer, line: &RawLine) -> bool {
        let tools = self.args.tools || printer.json;
        line.message().is_some_and(|message| {
            let role = message.get("role").and_then(Value::as_str);
            tools || !matches!(role, Some("toolResult" | "tool"))
        })
    }

    fn line(&mut self, printer: &mut Printer, line: &RawLine) -> Result<(), Stop> {
        if printer.json {
            self.collect(line);
            return Ok(());
        }
        match Message::read(line) {
            Some(message) => self.print(printer, &message),
            None => Ok(()),
        }
    }

    /// For `--json`.
    fn collect(&mut self, line: &RawLine) {
        if let Some(damage) = line.damage {
            self.damaged.push(json!({
                "position": line.position,
                "bytes": line.bytes,
                "reason": damage.as_str(),
            }));
            return;
        }
        let Some(mut message) = whole_message(line) else {
            return;
        };
        if !self.args.raw {
            strip(&mut message);
        }
        if let Some(masker) = &self.masker {
            self.redacted |= mask_all(&mut message, masker);
        }
        self.messages.push(message);
    }

    fn end(self, printer: &mut Printer, key: &Untrusted) -> Result<(), Stop> {
        if !printer.json {
            return Ok(());
        }
        let bytes = serde_json::to_string(&self.messages).map_or(0, |text| text.len());
        let mut result = json!(HistoryResult {
            session_key: key.clone(),
            messages: self.messages,
            truncated: false,
            dropped_messages: false,
            content_truncated: false,
            content_redacted: self.redacted,
            bytes,
            offset: None,
            total_messages: None,
            has_more: None,
            next_offset: None,
        });
        if !self.damaged.is_empty() {
            result["damagedLines"] = Value::Array(self.damaged);
        }
        printer.value(&result)
    }

    fn print(&mut self, printer: &mut Printer, message: &Message) -> Result<(), Stop> {
        let when = self.when(printer, message.at)?;
        match &message.content {
            Content::Said(said) => self.said(printer, &when, said),
            Content::Note { kind, text } => {
                self.gap(printer)?;
                let text = self.masked(text);
                printer.line(&clean_format!("{}{}", when, kind.clean()))?;
                self.text(printer, &text)
            }
            Content::Damage { reason, bytes } => {
                self.gap(printer)?;
                let mark = printer.mark("✗", "x");
                printer.line(&clean_format!(
                    "{}{} {} ({} bytes)",
                    when,
                    mark,
                    *reason,
                    *bytes
                ))
            }
        }
    }

    fn said(&mut self, printer: &mut Printer, when: &Clean, said: &Said) -> Result<(), Stop> {
        if said.role == Role::ToolResult && !self.args.tools {
            return Ok(());
        }
        self.gap(printer)?;
        let who = self.who(printer, said);
        printer.line(&clean_format!("{}{}", when, who))?;
        let mut envelope = said.envelope.as_ref().filter(|_| self.args.raw);
        for block in &said.blocks {
            match block {
                Block::Text(text) => {
                    let text = self.masked(envelope.take().unwrap_or(text));
                    self.text(printer, &text)?;
                }
                other => {
                    let line = self.other(printer, other);
                    printer.line(&line)?;
                }
            }
        }
        if let Some(error) = &said.error {
            let (mark, error) = (printer.mark("✗", "x"), self.masked(error));
            printer.line(&clean_format!("  {} {}", mark, error.clean()))?;
        }
        Ok(())
    }

    /// A block that is not text, on one line.
    fn other(&self, printer: &Printer, block: &Block) -> Clean {
        let mark = printer.mark("▸", ">");
        match block {
            Block::Text(text) => text.clean(),
            Block::Thinking(text) => {
                clean_format!("  {} reasoning, {} bytes", mark, text.len())
            }
            Block::ToolCall {
                name, arguments, ..
            } => {
                let arguments = self.masked(&arguments.to_string().into());
                clean_format!("  {} {} {}", mark, name.clean(), arguments.clean())
            }
            Block::Image { mime, bytes } => {
                let mime = mime.as_ref().map(Untrusted::clean);
                let mime = mime.unwrap_or_else(|| Clean::fixed("image"));
                match bytes {
                    Some(bytes) => clean_format!("  {} {}, {} bytes", mark, mime, *bytes),
                    None => clean_format!("  {} {}", mark, mime),
                }
            }
            Block::Unknown { kind, json } => {
                let kind = kind.as_ref().map(Untrusted::clean);
                let kind = kind.unwrap_or_else(|| Clean::fixed("unknown block"));
                let json = self.masked(&json.to_string().into());
                clean_format!("  {} {} {}", mark, kind, json.clean())
            }
        }
    }

    fn who(&self, printer: &Printer, said: &Said) -> Clean {
        let own = self.key.clean();
        let provenance = said.provenance.as_ref();
        let from = provenance.and_then(|provenance| provenance.source_session_key.as_ref());
        if let (true, Some(from)) = (said.is_inter_session(), from) {
            let mark = printer.mark("⇄", "<->");
            return clean_format!("{} {} {}", from.clean(), mark, own);
        }
        match &said.role {
            Role::User if provenance.is_some_and(|p| p.kind == ProvenanceKind::InternalSystem) => {
                Clean::fixed("engine")
            }
            Role::Assistant => {
                let agent = self.key.agent();
                let agent = agent.map(|agent| Untrusted::new(agent.to_string()).clean());
                let agent = agent.unwrap_or_else(|| Clean::fixed("assistant"));
                match &said.model {
                    Some(model) => clean_format!("{} ({})", agent, model.clean()),
                    None => agent,
                }
            }
            Role::ToolResult => {
                let name = said.tool_name.as_ref().map(Untrusted::clean);
                let name = name.unwrap_or_else(|| Clean::fixed("tool"));
                let outcome = if said.is_error { "error" } else { "ok" };
                clean_format!("{} {} {}", printer.mark("◂", "<"), name, outcome)
            }
            role => self::role(role),
        }
    }

    /// Time of day; a new day is said on a line of its own.
    fn when(&mut self, printer: &mut Printer, at: Option<i64>) -> Result<Clean, Stop> {
        let zoned = at
            .and_then(|at| jiff::Timestamp::from_millisecond(at).ok())
            .map(|at| at.to_zoned_datetime(jiff::tz::TimeZone::system()));
        let Some(zoned) = zoned else {
            return Ok(Clean::empty());
        };
        let day = zoned.strftime("%Y-%m-%d").to_string();
        if self.last_day.as_ref() != Some(&day) {
            self.gap(printer)?;
            printer.line(&crate::text::clean_str(&day))?;
            self.last_day = Some(day);
        }
        let time = zoned.strftime("%H:%M:%S ").to_string();
        Ok(crate::text::clean_str(&time))
    }

    /// An empty line between two messages.
    fn gap(&mut self, printer: &mut Printer) -> Result<(), Stop> {
        if std::mem::replace(&mut self.printed, true) {
            printer.line(&Clean::empty())?;
        }
        Ok(())
    }

    fn masked(&self, text: &Untrusted) -> Untrusted {
        let masker = self.masker.as_ref();
        // Masked text is still text from outside.
        let masked = masker.and_then(|masker| masker.mask(text.raw()));
        masked.map_or_else(|| text.clone(), Untrusted::from)
    }

    /// Uncut, indented.
    fn text(&self, printer: &mut Printer, text: &Untrusted) -> Result<(), Stop> {
        if text.is_blank() {
            return Ok(());
        }
        for line in text.clean_block().lines() {
            if line.as_str().trim().is_empty() {
                printer.block(&Clean::empty())?;
            } else {
                printer.block(&clean_format!("  {}", line))?;
            }
        }
        Ok(())
    }
}

/// A role in a word.
pub fn role(role: &Role) -> Clean {
    match role {
        Role::User => Clean::fixed("user"),
        Role::Assistant => Clean::fixed("assistant"),
        Role::ToolResult => Clean::fixed("tool"),
        Role::System => Clean::fixed("system"),
        Role::Other(word) => word.clean(),
    }
}

/// The message of a line as it is stored, with the line's id and run; a compaction as a message of the system (H-20).
fn whole_message(line: &RawLine) -> Option<Value> {
    let mut message = match line.message() {
        Some(message) => message.clone(),
        None if line.line.get("type").and_then(Value::as_str) == Some("compaction") => json!({
            "role": "system",
            "content": [{ "type": "text", "text": "Compaction" }],
            "summary": line.line.get("summary"),
        }),
        None => return None,
    };
    let members = message.as_object_mut()?;
    for name in ["id", "runId", "timestamp"] {
        if let Some(value) = line.line.get(name) {
            members.entry(name).or_insert_with(|| value.clone());
        }
    }
    Some(message)
}

/// Takes the envelope off that a gateway put around a user's words.
fn strip(message: &mut Value) {
    if message.get("role").and_then(Value::as_str) != Some("user") {
        return;
    }
    let text = match message.get_mut("content") {
        Some(Value::Array(blocks)) => blocks
            .iter_mut()
            .find(|block| block.get("type").and_then(Value::as_str) == Some("text"))
            .and_then(|block| block.get_mut("text")),
        text => text,
    };
    if let Some(Value::String(text)) = text
        && let Some(inner) = strip_envelope(text)
    {
        *text = inner;
    }
}

/// Masks every text of a value; true when there was something to mask.
fn mask_all(value: &mut Value, masker: &Masker) -> bool {
    match value {
        Value::String(text) => match masker.mask(text) {
            Some(masked) => {
                *text = masked;
                true
            }
            None => false,
        },
        // Counted, not asked for the first: every one is to be masked.
        Value::Array(items) => {
            items
                .iter_mut()
                .filter_map(|item| mask_all(item, masker).then_some(()))
                .count()
                > 0
        }
        Value::Object(members) => {
            members
                .values_mut()
                .filter_map(|member| mask_all(member, masker).then_some(()))
                .count()
                > 0
        }
        _ => false,
    }
}
