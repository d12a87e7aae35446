//! Who speaks the parts: finds the first line that fits a step and says it at its pace.
//!
//! A message with directives is answered by the directives script, so that the cast can be made to do anything by
//! hand.

use super::{Script, Text, tokens};
use crate::agents::scripted::{Directives, call, stream};
use crate::agents::{Agent, AgentError, Answer, Progress, Step, StepKind};
use crate::model::message::Usage;
use crate::text::Untrusted;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// Characters a second of a text, when the script does not say.
const PACE: f64 = 75.0;

/// Thinking is told this many times faster than text.
const THINKING_PACE: f64 = 3.0;

/// How much of a message `{message}` repeats, in characters.
const ECHO_CHARS: usize = 120;

/// What to say to what.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AnswerLine {
    agent: Option<String>,
    /// How the key goes on after `agent:<id>:`.
    session: Option<String>,
    #[serde(default)]
    kind: Kind,
    /// Part of the message.
    when: Option<String>,
    /// Part of what the step is about.
    about: Option<String>,
    steps: Vec<StepLine>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Message,
    Reply,
    Announce,
    Report,
}

impl Kind {
    fn of(kind: StepKind) -> Self {
        match kind {
            StepKind::Message => Kind::Message,
            StepKind::Reply => Kind::Reply,
            StepKind::Announce => Kind::Announce,
            StepKind::Report => Kind::Report,
        }
    }
}

/// One model call: wait, think, speak, then call tools, fail, or be done.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StepLine {
    #[serde(default)]
    wait_ms: u64,
    thinking: Option<String>,
    text: Option<Text>,
    #[serde(default)]
    calls: Vec<CallLine>,
    /// Characters a second.
    cps: Option<f64>,
    fail: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallLine {
    tool: String,
    args: Map<String, Value>,
}

impl AnswerLine {
    fn fits(&self, step: &Step) -> bool {
        let holds = |part: Option<&String>, text: Option<&Untrusted>| {
            part.is_none_or(|part| text.is_some_and(|text| text.raw().contains(part.as_str())))
        };
        self.kind == Kind::of(step.kind)
            && self
                .agent
                .as_ref()
                .is_none_or(|agent| agent == step.agent.as_str())
            && self
                .session
                .as_ref()
                .is_none_or(|rest| step.session.rest().starts_with(rest.as_str()))
            && holds(self.when.as_ref(), Some(&step.message))
            && holds(self.about.as_ref(), step.about.as_ref())
    }

    /// The model call that comes after so many tool results.
    fn step(&self, results: usize) -> Option<&StepLine> {
        let mut left = results;
        self.steps.iter().find(|line| {
            let here = left == 0 || line.calls.is_empty();
            left = left.saturating_sub(line.calls.len());
            here
        })
    }
}

pub(super) struct Player(Arc<Script>);

impl Player {
    pub(super) fn new(script: Arc<Script>) -> Self {
        Self(script)
    }

    async fn answer(&self, step: &Step, out: &dyn Progress) -> Result<Answer, AgentError> {
        let line = self
            .0
            .answers
            .iter()
            .find(|answer| answer.fits(step))
            .and_then(|answer| answer.step(step.results.len()));
        let Some(line) = line else {
            return Err(AgentError(
                "the script has no answer to this message".into(),
            ));
        };
        tokio::time::sleep(Duration::from_millis(line.wait_ms)).await;
        let pace = line.cps.filter(|cps| *cps > 0.0).unwrap_or(PACE);
        let over =
            |text: &str, pace: f64| super::super::seconds(text.chars().count() as f64 / pace);
        if let Some(thinking) = &line.thinking {
            let over = over(thinking, pace.max(PACE) * THINKING_PACE);
            stream(thinking, over, |so_far| out.thinking(so_far)).await;
        }
        let text = line
            .text
            .as_ref()
            .map_or_else(String::new, |text| fill(&text.get(), step));
        if !text.is_empty() {
            stream(&text, over(&text, pace), |so_far| out.text(so_far)).await;
        }
        if let Some(error) = &line.fail {
            return Err(AgentError(error.as_str().into()));
        }
        let said = line.thinking.as_deref().map_or(0, tokens) + tokens(&text);
        let calls = line
            .calls
            .iter()
            .map(|line| call(line.tool.as_str(), Value::Object(line.args.clone())));
        Ok(Answer {
            thinking: line.thinking.as_deref().map(Untrusted::from),
            text: text.into(),
            calls: calls.collect(),
            ..self.signed(step, said)
        })
    }

    /// An empty answer with model and tokens of the agent.
    fn signed(&self, step: &Step, output: i64) -> Answer {
        let agent = self.0.agent(&step.agent);
        let model = step
            .model
            .as_deref()
            .or(agent.map(|agent| agent.model.as_str()))
            .unwrap_or("scripted/script");
        let context: i64 = step
            .context
            .iter()
            .map(|message| tokens(&message.to_string()))
            .sum();
        let input = agent.map_or(0, |agent| agent.prompt) + context + tokens(step.message.raw());
        let cost = self.0.model(model).map(|line| {
            let (read, written) = line.price.of(input, output);
            read + written
        });
        let (provider, name) = model.split_once('/').unwrap_or(("scripted", model));
        Answer {
            usage: Usage {
                input,
                output,
                total_tokens: input + output,
                cost_usd: cost,
                ..Usage::default()
            },
            provider: provider.into(),
            model: name.into(),
            ..Answer::default()
        }
    }
}

/// Puts what was said into a text.
fn fill(text: &str, step: &Step) -> String {
    let short = |said: &Untrusted| {
        let words: Vec<&str> = said.raw().split_whitespace().collect();
        let line = words.join(" ");
        let cut: String = line.chars().take(ECHO_CHARS).collect();
        if cut.len() < line.len() {
            format!("{cut}…")
        } else {
            cut
        }
    };
    // One placeholder a text: what is put in must not be searched again.
    if text.contains("{message}") {
        text.replace("{message}", &short(&step.message))
    } else {
        let about = step.about.as_ref().map_or_else(String::new, short);
        text.replace("{about}", &about)
    }
}

impl Agent for Player {
    fn step<'a>(
        &'a self,
        request: &'a Step,
        out: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<Answer, AgentError>> {
        if request.message.raw().contains("[[") && request.kind != StepKind::Report {
            return Directives.step(request, out);
        }
        Box::pin(self.answer(request, out))
    }
}
