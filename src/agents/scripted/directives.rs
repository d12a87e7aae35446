//! The `directives` script: what to do stands in the message itself, as `[[name:argument]]` (`design/cli.md`, "The
//! directives script"). Never fails on what it reads: a directive it cannot use is as good as absent.

use super::{call, seconds, stream};
use crate::agents::{Agent, AgentError, Answer, Progress, Step, StepKind, ToolCall};
use crate::model::message::Usage;
use crate::text::Untrusted;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

/// The agent of `runtime: { type: "scripted", script: "directives" }`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Directives;

impl Agent for Directives {
    fn step<'a>(
        &'a self,
        request: &'a Step,
        out: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<Answer, AgentError>> {
        Box::pin(answer(request, out))
    }
}

/// The longest text of `[[big:N]]`.
const MAX_BIG: usize = 100_000_000;

/// Seconds of `[[slow]]` without a number.
const SLOW_S: f64 = 5.0;

/// How much of the last result `done: …` repeats, in characters.
const RESULT_CHARS: usize = 160;

async fn answer(step: &Step, out: &dyn Progress) -> Result<Answer, AgentError> {
    let message = step.message.raw();
    let found = match step.kind {
        StepKind::Message | StepKind::Reply => Found(parse(message)),
        StepKind::Announce | StepKind::Report => Found(Vec::new()),
    };
    if let Some(text) = found.get("fail") {
        let text = if text.is_empty() {
            "scripted failure"
        } else {
            text
        };
        return Err(AgentError(text.into()));
    }
    // The thinking comes first of all, so not again after a tool has answered.
    let thinking = found
        .get("think")
        .filter(|text| !text.is_empty() && step.results.is_empty())
        .map(Untrusted::from);
    if let Some(text) = &thinking {
        out.thinking(text.raw());
    }
    let mut answer = Answer {
        thinking,
        usage: usage(&found, message),
        ..named(step)
    };
    if let Some(call) = found.tool(step.results.len()) {
        answer.calls.push(call);
        return Ok(answer);
    }
    let text = text(step, &found);
    let over = found
        .get("slow")
        .map_or(0.0, |argument| argument.trim().parse().unwrap_or(SLOW_S));
    stream(&text, seconds(over), |so_far| out.text(so_far)).await;
    answer.text = text.into();
    Ok(answer)
}

/// An empty answer with what answered: the model chosen for the session, so that a choice can be seen to have arrived.
fn named(step: &Step) -> Answer {
    let chosen = step.model.as_deref().unwrap_or("scripted/directives");
    let (provider, model) = chosen.split_once('/').unwrap_or(("scripted", chosen));
    Answer {
        provider: provider.into(),
        model: model.into(),
        ..Answer::default()
    }
}

fn usage(found: &Found<'_>, message: &str) -> Usage {
    let given = found
        .get("usage")
        .and_then(|argument| argument.trim().parse::<i64>().ok())
        .filter(|tokens| *tokens >= 0);
    let input =
        given.unwrap_or_else(|| i64::try_from(message.len().div_ceil(4)).unwrap_or(i64::MAX));
    let output = 7;
    Usage {
        input,
        output,
        total_tokens: input.saturating_add(output),
        ..Usage::default()
    }
}

fn text(step: &Step, found: &Found<'_>) -> String {
    let about = step.about.as_ref().map_or("", Untrusted::raw);
    match step.kind {
        StepKind::Announce if about.contains("[[quiet]]") => "ANNOUNCE_SKIP".into(),
        StepKind::Announce => "announce: the exchange is over".into(),
        StepKind::Report if about.trim().is_empty() => "announce: a task is done".into(),
        StepKind::Report => format!("announce: {} is done", about.trim()),
        StepKind::Message | StepKind::Reply => {
            if let Some(argument) = found.get("ping") {
                ping(argument)
            } else if step.kind == StepKind::Reply {
                "REPLY_SKIP".into()
            } else {
                said(step, found)
            }
        }
    }
}

fn ping(argument: &str) -> String {
    match argument.trim().parse::<u64>() {
        Ok(left) if left > 0 => format!("pong {left} [[ping:{}]]", left - 1),
        _ => "REPLY_SKIP".into(),
    }
}

fn said(step: &Step, found: &Found<'_>) -> String {
    if let Some(text) = found.get("reply") {
        return text.to_owned();
    }
    if let Some(json) = found.get("raw") {
        return serde_json::from_str(json).unwrap_or_else(|_| json.to_owned());
    }
    if let Some(argument) = found.get("big") {
        let chars = argument.trim().parse().unwrap_or(0).min(MAX_BIG);
        return "lorem ipsum ".chars().cycle().take(chars).collect();
    }
    if let Some(last) = step.results.last() {
        let squeezed: Vec<&str> = last.text.raw().split_whitespace().collect();
        let cut: String = squeezed.join(" ").chars().take(RESULT_CHARS).collect();
        return format!("done: {} tool result(s); last: {cut}", step.results.len());
    }
    format!("echo: {}", step.message.raw().trim())
}

/// Directives of a message, in order: name and argument.
struct Found<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Found<'a> {
    /// Argument of the first directive of a name; empty when it has none.
    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, a)| *a)
    }

    /// The call number `at`, counted from 0.
    fn tool(&self, at: usize) -> Option<ToolCall> {
        let calls = self.0.iter().filter(|(name, _)| *name == "tool");
        let named = calls.filter_map(|(_, argument)| {
            let argument = argument.trim();
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
            let end = argument.find(|c| !is_name(c)).unwrap_or(argument.len());
            let (name, json) = argument.split_at(end);
            (!name.is_empty()).then_some((name, json))
        });
        let (name, json) = named.into_iter().nth(at)?;
        let arguments = serde_json::from_str(json.trim())
            .ok()
            .filter(Value::is_object)
            .unwrap_or_else(|| json!({}));
        Some(call(name, arguments))
    }
}

/// Finds `[[name]]` and `[[name:argument]]`; brackets may nest inside the argument. What is never closed is text.
fn parse(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find("[[").map(|at| from + at) {
        let Some(end) = closing(text, start) else {
            break;
        };
        let inner = &text[start + 2..end];
        let (name, argument) = inner.split_once(':').map_or((inner, ""), |(n, a)| (n, a));
        // `[[tool NAME]]` and the like are words in brackets, no directives.
        if !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase()) {
            found.push((name, argument));
        }
        from = end + 2;
    }
    found
}

/// Where the `]]` stands that closes the `[[` at `start`.
fn closing(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    let mut at = start;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"[[" => {
                depth += 1;
                at += 2;
            }
            b"]]" => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
                at += 2;
            }
            _ => at += 1,
        }
    }
    None
}
