//! Scripted agents: the directives script and the built-in cast.

mod cast;
mod directives;
mod played;

use crosstalk::agents::{Agent, AgentError, Answer, Progress, Step, StepKind, ToolOutcome};
use crosstalk::model::key::{AgentId, SessionKey};
use crosstalk::text::Untrusted;
use std::sync::{Arc, Mutex};

/// A step of agent `ops` in its main session.
fn step(kind: StepKind, message: &str) -> Step {
    Step {
        session: SessionKey::parse("agent:ops:main").unwrap(),
        agent: AgentId::mend("ops"),
        kind,
        message: message.into(),
        about: None,
        system_text: None,
        model: None,
        thinking: None,
        tools: Vec::new(),
        results: Vec::new(),
        context: Arc::new(Vec::new()),
    }
}

fn outcome(text: &str) -> ToolOutcome {
    ToolOutcome {
        call_id: "call_1".into(),
        name: "sessions_list".into(),
        text: text.into(),
        is_error: false,
    }
}

/// What an agent told while it answered, with the milliseconds of tokio's clock.
#[derive(Default)]
struct Told {
    texts: Mutex<Vec<(u64, String)>>,
    thoughts: Mutex<Vec<String>>,
}

impl Progress for Told {
    fn text(&self, so_far: &str) {
        self.texts.lock().unwrap().push((now(), so_far.into()));
    }
    fn thinking(&self, so_far: &str) {
        self.thoughts.lock().unwrap().push(so_far.into());
    }
}

/// Milliseconds of tokio's clock, from some start.
fn now() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let start = *START.get_or_init(std::time::Instant::now);
    let now = tokio::time::Instant::now().into_std();
    u64::try_from(now.saturating_duration_since(start).as_millis()).unwrap()
}

async fn ask(agent: &dyn Agent, step: &Step) -> Result<Answer, AgentError> {
    agent.step(step, &Told::default()).await
}

fn text(answer: &Answer) -> &str {
    answer.text.raw()
}

fn raw(text: Option<&Untrusted>) -> Option<&str> {
    text.map(Untrusted::raw)
}
