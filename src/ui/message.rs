//! One message of a transcript as lines.
//!
//! The *body* of a message depends on its content, the width and the toggles alone, so it can be kept; its *head* (who,
//! when, what it cost) depends on names that change, and is one line made anew for each frame. Secrets are masked in the
//! text before it is parsed, so that no formatting can split one. Absent on purpose: where it is drawn.

use super::glyph;
use super::line::{Line, spaces};
use super::markdown;
use super::theme::{Role as Paint, Theme};
use super::when;
use crate::clean_format;
use crate::model::message::{Block, Content, Message, ProvenanceKind, Role, Said};
use crate::strings::ui as words;
use crate::text::mask::Masker;
use crate::text::{Clean, Untrusted, escape_json};
use jiff::tz::TimeZone;
use ratatui::style::Style;
use serde_json::Value;
use std::borrow::Cow;

/// Lines of a tool result that are shown until the result is opened.
pub const RESULT_LINES: usize = 12;

/// How a body is shown. Equal looks of the same message give equal lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    pub columns: usize,
    /// Arguments and results of tools.
    pub tools: bool,
    pub reasoning: bool,
    /// The text as written, without Markdown.
    pub raw: bool,
    pub secrets: bool,
    /// Everything of this message, without caps.
    pub open: bool,
    /// What is known of each tool call of the message, in order.
    pub outcomes: Vec<Option<Outcome>>,
}

/// What became of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub failed: bool,
    pub ms: Option<i64>,
    pub bytes: u64,
    /// The result's text, when it is to be shown under the call.
    pub text: Option<Untrusted>,
}

/// What bodies are made with.
#[derive(Clone, Copy)]
pub struct Ink<'a> {
    pub theme: &'a Theme,
    pub masker: &'a Masker,
}

impl Ink<'_> {
    fn style(&self, paint: Paint) -> Style {
        self.theme.style(paint)
    }

    /// The text, masked unless secrets are shown. It is not clean yet: it goes to the Markdown parser or through
    /// `clean` next.
    fn masked<'t>(&self, text: &'t Untrusted, look: &Look) -> Cow<'t, str> {
        if look.secrets {
            return Cow::Borrowed(text.raw());
        }
        self.masker
            .mask(text.raw())
            .map_or(Cow::Borrowed(text.raw()), Cow::Owned)
    }

    fn plain(&self, text: &Untrusted, look: &Look, columns: usize, paint: Paint) -> Vec<Line> {
        let text = Untrusted::new(self.masked(text, look));
        markdown::plain(&text, columns, self.style(paint))
    }

    fn text(&self, text: &Untrusted, look: &Look) -> Vec<Line> {
        if look.raw {
            self.plain(text, look, look.columns, Paint::Text)
        } else {
            markdown::render(&self.masked(text, look), look.columns, self.theme)
        }
    }
}

/// The body of a message: everything below its head.
pub fn body(message: &Message, look: &Look, ink: Ink<'_>) -> Vec<Line> {
    match &message.content {
        Content::Said(said) => said_body(said, look, ink),
        Content::Note { kind, text } => note_body(kind, text, look, ink),
        Content::Damage { reason, bytes } => {
            let line = Line::of(clean_format!("{} ", glyph::FAILED), ink.style(Paint::Error))
                .with(
                    clean_format!("{} {} ", words::DAMAGED_LINE, *reason),
                    ink.style(Paint::Error),
                )
                .with(
                    clean_format!("· {} · @{}", when::bytes(*bytes), message.position),
                    ink.style(Paint::Dim),
                );
            line.wrap(look.columns)
        }
    }
}

fn said_body(said: &Said, look: &Look, ink: Ink<'_>) -> Vec<Line> {
    let mut out = Vec::new();
    if look.raw
        && let Some(envelope) = &said.envelope
    {
        out.extend(ink.plain(envelope, look, look.columns, Paint::Dim));
    }
    if said.role == Role::ToolResult {
        result_body(said, look, ink, &mut out);
        return out;
    }
    let mut call = 0;
    let mut was_line = true;
    for block in &said.blocks {
        let start = out.len();
        // A blank line between text and what is folded beside it; lines of tools stand together.
        let is_text = matches!(block, Block::Text(text) if !text.is_blank());
        if start > 0 && (is_text || !was_line) {
            out.push(Line::new());
        }
        let before = out.len();
        match block {
            Block::Text(text) if text.is_blank() => {}
            Block::Text(text) => match control_token(text) {
                Some(meaning) if said.role == Role::Assistant => out.push(
                    Line::of(text.clean(), ink.style(Paint::Dim))
                        .with(clean_format!("  {}", meaning), ink.style(Paint::Badge)),
                ),
                _ => out.extend(ink.text(text, look)),
            },
            Block::Thinking(text) => reasoning(text, look, ink, &mut out),
            Block::ToolCall {
                name, arguments, ..
            } => {
                let outcome = look.outcomes.get(call).cloned().flatten();
                call += 1;
                tool_call(name, arguments, outcome.as_ref(), look, ink, &mut out);
            }
            Block::Image { mime, bytes } => {
                let mut line = Line::of(glyph::ATTACHED, ink.style(Paint::Tool))
                    .with(clean_format!(" {}", words::IMAGE), ink.style(Paint::Tool));
                if let Some(mime) = mime {
                    line.push(clean_format!(" · {}", mime.clean()), ink.style(Paint::Dim));
                }
                if let Some(bytes) = bytes {
                    line.push(
                        clean_format!(" · {}", when::bytes(*bytes)),
                        ink.style(Paint::Dim),
                    );
                }
                out.extend(line.wrap(look.columns));
            }
            Block::Unknown { kind, json } => {
                let name = kind.as_ref().map_or(Clean::fixed("?"), Untrusted::clean);
                out.push(Line::of(
                    clean_format!("? {} {}", words::UNKNOWN_BLOCK, name),
                    ink.style(Paint::Tool),
                ));
                json_lines(json, look, ink, &mut out);
            }
        }
        if out.len() == before {
            out.truncate(start);
        } else {
            was_line = !is_text;
        }
    }
    if let Some(error) = &said.error {
        let bad = ink.style(Paint::Error);
        for (at, line) in ink
            .plain(
                error,
                look,
                look.columns.saturating_sub(2).max(1),
                Paint::Error,
            )
            .into_iter()
            .enumerate()
        {
            let mark = if at == 0 { "✗ " } else { "  " };
            out.push(Line::of(mark, bad).and(line));
        }
    }
    if let Some(reason) = &said.stop_reason
        && let Some(line) = stopped(reason, said.error.is_some(), ink)
    {
        out.extend(line.wrap(look.columns));
    }
    if out.is_empty() {
        out.push(Line::of(words::NO_TEXT, ink.style(Paint::Dim)));
    }
    out
}

/// What a reply that is exactly a control token does.
fn control_token(text: &Untrusted) -> Option<&'static str> {
    Some(match text.raw().trim() {
        "REPLY_SKIP" => words::REPLY_SKIP,
        "ANNOUNCE_SKIP" => words::ANNOUNCE_SKIP,
        "NO_REPLY" => words::NO_REPLY,
        _ => return None,
    })
}

/// A line for an end that is not the usual one.
fn stopped(reason: &Untrusted, has_error: bool, ink: Ink<'_>) -> Option<Line> {
    match reason.raw() {
        "stop" | "end_turn" | "endTurn" | "toolUse" | "tool_use" | "toolCalls"
        | "stop_sequence" => None,
        "error" if has_error => None,
        "aborted" => Some(Line::of(
            clean_format!("{} {}", glyph::STOPPED, words::ABORTED),
            ink.style(Paint::Error),
        )),
        _ => Some(Line::of(
            clean_format!("{} {}: {}", glyph::STOPPED, words::STOPPED, reason.clean()),
            ink.style(Paint::Waiting),
        )),
    }
}

fn reasoning(text: &Untrusted, look: &Look, ink: Ink<'_>, out: &mut Vec<Line>) {
    let style = ink.style(Paint::Tool);
    let count = text.raw().split_whitespace().count();
    let head = Line::of(glyph::REASONING, style).with(
        clean_format!(" {} · {} {}", words::REASONING, count, words::WORDS),
        style,
    );
    out.push(head.cut(look.columns));
    if look.reasoning || look.open || look.raw {
        let room = look.columns.saturating_sub(2).max(1);
        for line in ink.plain(text, look, room, Paint::Quote) {
            out.push(Line::of("  ", style).and(line));
        }
    }
}

fn tool_call(
    name: &Untrusted,
    arguments: &Value,
    outcome: Option<&Outcome>,
    look: &Look,
    ink: Ink<'_>,
    out: &mut Vec<Line>,
) {
    let tool = ink.style(Paint::Tool);
    let dim = ink.style(Paint::Dim);
    let mut left = Line::of(glyph::TOOL, tool)
        .with(" ", tool)
        .with(name.clean(), ink.style(Paint::Strong));
    if let Some(argument) = key_argument(arguments) {
        let argument = Untrusted::new(ink.masked(&argument, look));
        left.push("  ", tool);
        left.push(argument.clean(), tool);
    }
    let right = match outcome {
        None => Line::of(glyph::MORE, ink.style(Paint::Running)),
        Some(outcome) => {
            let (word, paint) = if outcome.failed {
                (words::FAILED, Paint::Error)
            } else {
                (words::OK, Paint::Ok)
            };
            let mut line = Line::of(word, ink.style(paint));
            if let Some(ms) = outcome.ms {
                line.push(clean_format!(" · {}", when::span(ms)), dim);
            }
            line.push(clean_format!(" · {}", when::bytes(outcome.bytes)), dim);
            line
        }
    };
    out.push(Line::justified(left, right, look.columns));
    if look.tools || look.open || look.raw {
        json_lines(arguments, look, ink, out);
        if let Some(text) = outcome.and_then(|outcome| outcome.text.as_ref()) {
            result_text(text, look, ink, out);
        }
    }
}

/// The argument that tells most: the first of the known members, else the first text.
fn key_argument(arguments: &Value) -> Option<Untrusted> {
    const TELLING: [&str; 16] = [
        "sessionKey",
        "session_key",
        "label",
        "task",
        "path",
        "file_path",
        "file",
        "command",
        "cmd",
        "url",
        "query",
        "pattern",
        "message",
        "text",
        "name",
        "action",
    ];
    let members = arguments.as_object()?;
    let text = |value: &Value| {
        value
            .as_str()
            .filter(|t| !t.is_empty())
            .map(Untrusted::from)
    };
    TELLING
        .iter()
        .find_map(|name| members.get(*name).and_then(text))
        .or_else(|| members.values().find_map(text))
}

fn json_lines(value: &Value, look: &Look, ink: Ink<'_>, out: &mut Vec<Line>) {
    let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
    if empty {
        return;
    }
    let json = serde_json::to_string_pretty(value).unwrap_or_default();
    let json = Untrusted::new(json);
    let masked = ink.masked(&json, look);
    let clean = escape_json(&masked);
    let room = look.columns.saturating_sub(4).max(1);
    let lines: Vec<Line> = clean
        .lines()
        .flat_map(|line| Line::of(line, ink.style(Paint::Dim)).wrap(room))
        .collect();
    capped(lines, look, ink, out);
}

fn result_body(said: &Said, look: &Look, ink: Ink<'_>, out: &mut Vec<Line>) {
    let text: Untrusted = said.text().into();
    result_text(&text, look, ink, out);
    for block in &said.blocks {
        match block {
            Block::Image { mime, bytes } => {
                let mime = mime.as_ref().map_or(Clean::fixed("?"), Untrusted::clean);
                let size = bytes.map_or_else(Clean::empty, when::bytes);
                out.push(Line::of(
                    clean_format!("  {} {} {} {}", glyph::ATTACHED, words::IMAGE, mime, size),
                    ink.style(Paint::Tool),
                ));
            }
            Block::Text(_) => {}
            Block::Thinking(text) => reasoning(text, look, ink, out),
            Block::ToolCall { arguments, .. } => json_lines(arguments, look, ink, out),
            Block::Unknown { json, .. } => json_lines(json, look, ink, out),
        }
    }
}

fn result_text(text: &Untrusted, look: &Look, ink: Ink<'_>, out: &mut Vec<Line>) {
    if text.is_blank() {
        return;
    }
    let room = look.columns.saturating_sub(4).max(1);
    let lines = ink.plain(text, look, room, Paint::Tool);
    capped(lines, look, ink, out);
}

/// Lines behind a bar; what is over the cap is counted, never silently left out.
fn capped(lines: Vec<Line>, look: &Look, ink: Ink<'_>, out: &mut Vec<Line>) {
    let bar = ink.style(Paint::CodeBar);
    let all = lines.len();
    let shown = if look.open || look.raw || all <= RESULT_LINES + 1 {
        all
    } else {
        RESULT_LINES
    };
    for line in lines.into_iter().take(shown) {
        out.push(Line::of("  ▎ ", bar).and(line));
    }
    if shown < all {
        out.push(Line::of(
            clean_format!("    … {} {}", all - shown, words::MORE_LINES),
            ink.style(Paint::Badge),
        ));
    }
}

fn note_body(kind: &Untrusted, text: &Untrusted, look: &Look, ink: Ink<'_>) -> Vec<Line> {
    let dim = ink.style(Paint::Dim);
    match kind.raw() {
        // A post of the engine (N-16) or of an extension: its words count.
        "report" | "custom_message" => ink.text(text, look),
        "compaction" | "branch_summary" => {
            let name = if kind.raw() == "compaction" {
                words::COMPACTION
            } else {
                words::BRANCH_SUMMARY
            };
            let mut out = vec![rule(&name.into(), look.columns, ink.theme)];
            out.extend(ink.plain(text, look, look.columns, Paint::Dim));
            out
        }
        _ => {
            let name = match kind.raw() {
                "model_change" => Clean::fixed(words::MODEL),
                "thinking_level_change" => Clean::fixed(words::THINKING),
                _ => kind.clean(),
            };
            let text = Untrusted::new(ink.masked(text, look)).clean();
            Line::of(clean_format!("· {}  ", name), dim)
                .with(text, ink.style(Paint::Badge))
                .wrap(look.columns)
        }
    }
}

/// `── words ──────`
pub fn rule(text: &Clean, columns: usize, theme: &Theme) -> Line {
    let border = theme.style(Paint::Border);
    let line = Line::of("── ", border)
        .with(text.clone(), theme.style(Paint::Dim))
        .with(" ", border);
    let left = columns.saturating_sub(line.width());
    line.with(super::line::repeat(glyph::RULE, left), border)
        .cut(columns)
}

/// What the head of a message says about others.
pub struct Head<'a> {
    pub theme: &'a Theme,
    pub zone: &'a TimeZone,
    pub columns: usize,
    /// The agent whose transcript this is.
    pub own: Clean,
    /// The session's model: a message's own is shown where it differs.
    pub model: Option<&'a Clean>,
    /// Who is behind a session key.
    pub who: &'a dyn Fn(&Untrusted) -> Clean,
}

/// The head of a message; `None` where it needs none.
pub fn head(message: &Message, with: &Head<'_>) -> Option<Line> {
    let style = |paint: Paint| with.theme.style(paint);
    let dim = style(Paint::Dim);
    let time = message
        .at
        .map_or_else(|| spaces(8), |at| when::time(at, with.zone));
    let left = Line::of(time, dim).with(" ", dim);
    let said = match &message.content {
        Content::Said(said) => said,
        Content::Note { kind, .. } if matches!(kind.raw(), "report" | "custom_message") => {
            let mut line = left.with(words::ENGINE, style(Paint::Peer));
            if kind.raw() == "report" {
                line.push("  report", style(Paint::Badge));
            }
            return Some(line.cut(with.columns));
        }
        Content::Note { .. } | Content::Damage { .. } => return None,
    };
    let left = match (&said.role, &said.provenance) {
        (Role::ToolResult, _) => {
            let name = said
                .tool_name
                .as_ref()
                .map_or_else(|| Clean::fixed(words::RESULT), Untrusted::clean);
            let line = Line::of("  ↳ ", style(Paint::Tool)).with(name, style(Paint::Tool));
            let (word, paint) = if said.is_error {
                (words::FAILED, Paint::Error)
            } else {
                (words::OK, Paint::Ok)
            };
            let size = said.text().len() as u64;
            let right =
                Line::of(word, style(paint)).with(clean_format!(" · {}", when::bytes(size)), dim);
            return Some(Line::justified(line, right, with.columns));
        }
        (_, Some(provenance)) if provenance.kind == ProvenanceKind::InterSession => {
            let peer = style(Paint::Peer);
            let from = provenance
                .source_session_key
                .as_ref()
                .map_or_else(|| Clean::fixed(words::ANOTHER_SESSION), with.who);
            let line = left
                .with(from, peer)
                .with(clean_format!(" {} ", glyph::BETWEEN), peer)
                .with(with.own.clone(), peer);
            match provenance.source_tool.as_ref().map(Untrusted::raw) {
                Some("sessions_spawn") => line.with("  task", style(Paint::Badge)),
                Some("subagent_announce") => line.with("  report", style(Paint::Badge)),
                Some("sessions_send") | None => line,
                Some(_) => {
                    let tool = provenance
                        .source_tool
                        .as_ref()
                        .map_or_else(Clean::empty, Untrusted::clean);
                    line.with(clean_format!("  {}", tool), style(Paint::Badge))
                }
            }
        }
        (_, Some(provenance)) if provenance.kind == ProvenanceKind::InternalSystem => {
            left.with(words::ENGINE, style(Paint::Badge))
        }
        (Role::User, provenance) => {
            let line = left.with(words::USER, style(Paint::Strong));
            match provenance.as_ref().and_then(|p| p.source_channel.as_ref()) {
                Some(channel) => line.with(clean_format!("  {}", channel.clean()), dim),
                None => line,
            }
        }
        (Role::Assistant, _) => left.with(with.own.clone(), style(Paint::Title)),
        (Role::System, _) => left.with(words::SYSTEM, style(Paint::Badge)),
        (Role::Other(role), _) => left.with(role.clean(), style(Paint::Badge)),
    };
    let mut facts: Vec<Clean> = Vec::new();
    if let Some(model) = said.model.as_ref().map(Untrusted::clean)
        && with.model.is_some_and(|own| *own != model)
    {
        facts.push(model);
    }
    if let Some(usage) = &said.usage {
        if usage.output > 0 {
            facts.push(clean_format!("{} tok", when::count(usage.output)));
        }
        if let Some(cost) = usage.cost_usd {
            facts.push(when::dollars(cost));
        }
    }
    let mut right = Line::new();
    for (at, fact) in facts.into_iter().enumerate() {
        if at > 0 {
            right.push(" · ", dim);
        }
        right.push(fact, dim);
    }
    Some(Line::justified(left, right, with.columns))
}
