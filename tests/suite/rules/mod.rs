//! Rules of the specification, proved on the engine with a paused clock; each test names the rules it is about.

mod announce;
mod exchange;

mod listed;
mod order;
mod policy;
mod send;
mod spawn;

use crosstalk::agents::{
    Agent, AgentError, Answer, Progress, SharedAgent, Step, ToolCall, ToolOutcome,
};
use crosstalk::clock::Clock;
use crosstalk::config::{AgentSettings, Runtime, Settings};
use crosstalk::engine::channels::Channels;
use crosstalk::engine::context::Context;
use crosstalk::engine::{Engine, Options};
use crosstalk::model::event::{Event, What};
use crosstalk::model::key::{AgentId, SessionKey};
use crosstalk::model::message::{Content, Message, RawLine};
use crosstalk::model::run::RunOrigin;
use crosstalk::model::session::Entry;
use crosstalk::model::visibility::Level;
use crosstalk::store::state::StateStore;
use crosstalk::store::{Query, Sessions, Span};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

const START: i64 = 1_796_000_000_000;
const MAIN: &str = "agent:main:main";
const OPS: &str = "agent:ops:main";
const RESEARCH: &str = "agent:research:main";

fn agent(id: &str) -> AgentSettings {
    AgentSettings {
        id: AgentId::mend(id),
        default: id == "main",
        name: None,
        workspace: None,
        model: None,
        runtime: Runtime::Directives,
        sandbox_mode: None,
        sandbox_wrapper: None,
        allow_agents: None,
        subagent_model: None,
        subagent_thinking: None,
        require_agent_id: None,
    }
}

/// Three agents that see each other.
fn open_settings() -> Settings {
    let mut settings = Settings {
        agents: vec![agent("main"), agent("research"), agent("ops")],
        visibility: Level::All,
        ..Settings::default()
    };
    settings.cross_agent.enabled = true;
    settings
}

/// What a played agent does in a step.
#[derive(Clone)]
enum Act {
    Say(&'static str),
    SaySlowly(f64, &'static str),
    Call(&'static str, Value),
    Hang(&'static str),
}

/// An agent that is a function; it keeps the steps it saw, and has one tool of its own, `own_tool`, that answers 42.
#[derive(Clone)]
struct Played {
    play: Arc<dyn Fn(&Step) -> Act + Send + Sync>,
    seen: Arc<Mutex<Vec<Step>>>,
}

impl Played {
    fn new(play: impl Fn(&Step) -> Act + Send + Sync + 'static) -> Self {
        Self {
            play: Arc::new(play),
            seen: Arc::default(),
        }
    }
    fn seen(&self) -> Vec<Step> {
        self.seen.lock().unwrap().clone()
    }
}

impl Agent for Played {
    fn step<'a>(
        &'a self,
        request: &'a Step,
        out: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<Answer, AgentError>> {
        Box::pin(async move {
            self.seen.lock().unwrap().push(request.clone());
            let mut answer = Answer::default();
            match (self.play)(request) {
                Act::Say(text) => answer.text = text.into(),
                Act::SaySlowly(seconds, text) => {
                    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
                    answer.text = text.into();
                }
                Act::Call(name, arguments) => answer.calls.push(ToolCall {
                    id: format!("call-{}", request.results.len()),
                    name: name.into(),
                    arguments,
                }),
                Act::Hang(text) => {
                    out.text(text);
                    std::future::pending::<()>().await;
                }
            }
            Ok(answer)
        })
    }
    fn tool<'a>(
        &'a self,
        _session: &'a SessionKey,
        call: &'a ToolCall,
    ) -> Option<BoxFuture<'a, ToolOutcome>> {
        (call.name == "own_tool").then(|| {
            let outcome = ToolOutcome {
                call_id: call.id.clone(),
                name: call.name.clone(),
                text: "42".into(),
                is_error: false,
            };
            Box::pin(async move { outcome }) as BoxFuture<'a, ToolOutcome>
        })
    }
}

struct House {
    engine: Engine,
    channels: Channels,
    dir: tempfile::TempDir,
}

async fn open(
    dir: &Path,
    settings: Settings,
    channels: Channels,
    agents: HashMap<AgentId, SharedAgent>,
) -> Engine {
    let store = StateStore::open_scoped(dir, &settings.main_key, settings.scope_global).unwrap();
    let options = Options {
        clock: Clock::of_tokio(START),
        channels,
        agents,
        ..Options::default()
    };
    Engine::open(store, settings, options).await.unwrap()
}

async fn house(settings: Settings) -> House {
    house_with(settings, &[], Channels::recording()).await
}

/// A house in which some agents are played.
async fn house_of(settings: Settings, played: &[(&str, &Played)]) -> House {
    house_with(settings, played, Channels::recording()).await
}

async fn house_with(settings: Settings, played: &[(&str, &Played)], channels: Channels) -> House {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), settings, channels.clone(), cast(played)).await;
    House {
        engine,
        channels,
        dir,
    }
}

fn cast(played: &[(&str, &Played)]) -> HashMap<AgentId, SharedAgent> {
    played
        .iter()
        .map(|(id, agent)| {
            let agent: SharedAgent = Arc::new((*agent).clone());
            (AgentId::mend(id), agent)
        })
        .collect()
}

fn key(text: &str) -> SessionKey {
    SessionKey::parse(text).unwrap()
}

impl House {
    fn settings(&self) -> Arc<Settings> {
        self.engine.settings()
    }
    async fn call_as(&self, session: &str, tool: &str, arguments: Value) -> Value {
        let ctx = Context::session(&self.settings(), key(session));
        self.engine.call_tool(ctx, tool, arguments).await
    }
    async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.engine
            .call_tool(Context::person(&self.settings()), tool, arguments)
            .await
    }
    async fn send_as(&self, session: &str, to: &str, message: &str) -> Value {
        self.call_as(session, "sessions_send", send(to, message))
            .await
    }
    /// Spawns from a session; the child's key.
    async fn spawn_as(&self, session: &str, arguments: Value) -> String {
        let result = self.call_as(session, "sessions_spawn", arguments).await;
        assert_eq!(result["status"], "accepted", "{result}");
        result["childSessionKey"].as_str().unwrap().to_owned()
    }
    async fn incoming(&self, session: &str, text: &str) -> crosstalk::engine::incoming::Incoming {
        self.engine
            .incoming("telegram", "7", true, key(session), text)
            .await
            .unwrap()
    }
    /// Bounded: with a paused clock this passes in no time.
    async fn settle(&self) {
        for _ in 0..200_000 {
            if self.engine.settled() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the engine did not settle: {:?}", self.engine.live_runs());
    }
    fn entry(&self, session: &str) -> Option<Entry> {
        Sessions::entry(self.engine.store(), &key(session)).unwrap()
    }
    fn count(&self) -> usize {
        let query = Query {
            archived: crosstalk::store::Archived::Both,
            ..Query::default()
        };
        self.engine.store().list(&query, None).unwrap().total
    }
    fn lines(&self, session: &str) -> Vec<RawLine> {
        let Some(entry) = self.entry(session) else {
            return Vec::new();
        };
        let store = self.engine.store();
        store
            .transcript(&entry, Span::Whole, usize::MAX)
            .unwrap()
            .lines
    }
    fn messages(&self, session: &str) -> Vec<Message> {
        self.lines(session)
            .iter()
            .filter_map(Message::read)
            .collect()
    }
    /// Texts of the messages, in order.
    fn said(&self, session: &str) -> Vec<String> {
        self.messages(session)
            .into_iter()
            .filter_map(|message| match message.content {
                Content::Said(said) => Some(said.text()),
                _ => None,
            })
            .collect()
    }
    /// Posts of the engine in a session's view (N-16).
    fn posts(&self, session: &str) -> Vec<String> {
        self.lines(session)
            .iter()
            .filter_map(|line| line.line["data"]["text"].as_str().map(str::to_owned))
            .collect()
    }
}

fn drain(events: &mut mpsc::Receiver<Event>) -> Vec<Event> {
    let mut all = Vec::new();
    while let Ok(event) = events.try_recv() {
        all.push(event);
    }
    all
}

/// Sessions and origins of the runs that began, in order.
fn begun(events: &[Event]) -> Vec<(String, RunOrigin)> {
    events
        .iter()
        .filter_map(|event| match event.what {
            What::RunStarted { origin } => {
                Some((event.session_key.clone().unwrap().into_raw(), origin))
            }
            _ => None,
        })
        .collect()
}

fn send(to: &str, message: &str) -> Value {
    json!({ "sessionKey": to, "message": message })
}

fn error(result: &Value) -> &str {
    result["error"].as_str().unwrap_or_default()
}
