//! The built-in cast: agents, sessions to begin with, a story and its lines, all of it data (`assets/demo`).
//!
//! The story is finite and small on purpose: only what comes from outside is on its timeline. What agents do to each
//! other they do by calling session tools, so whoever watches the demo watches the real engine. Absent on purpose:
//! playing it (the engine seeds the sessions and feeds the cues).

mod player;
mod seed;

pub use seed::Seed;

use crate::agents::SharedAgent;
use crate::config::{AgentSettings, Runtime, Settings, SubagentTools};
use crate::model::key::{AgentId, SessionKey};
use crate::model::visibility::{CrossAgent, Level};
use crate::text::Untrusted;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A script as written: the built-in cast, or a file named by `runtime.script` (which needs no more than `answers`).
#[derive(Debug, Clone)]
pub struct Cast {
    script: Arc<Script>,
    cues: Vec<Cue>,
}

/// Something that comes from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cue {
    /// Milliseconds from the start of the story; cues are in this order.
    pub at_ms: u64,
    pub cue: CueKind,
}

/// What comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CueKind {
    /// A message of a channel (AM-13).
    Incoming {
        channel: String,
        from: String,
        owner: bool,
        key: SessionKey,
        text: Untrusted,
    },
    /// A plain message of the operator.
    Operator { key: SessionKey, text: Untrusted },
}

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct ScriptError {
    /// Member of the script.
    pub path: String,
    pub reason: String,
}

impl Cast {
    /// The cast that comes with the program.
    pub fn built_in() -> Self {
        // A constant of this program; a test reads it.
        Self::parse(include_str!("../../../../assets/demo/cast.json5"))
            .expect("the built-in cast can be read")
    }

    /// Reads the script that `runtime.script` names.
    ///
    /// # Errors
    /// Names the file, and the member where there is one.
    pub fn read(file: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("script {}: {error}", file.display()))?;
        Self::parse(&text).map_err(|error| format!("script {}: {error}", file.display()))
    }

    /// Reads a script (JSON5).
    ///
    /// # Errors
    /// [`ScriptError`] naming the member.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let mut reader = json5::Deserializer::from_str(text);
        let script: Script =
            serde_path_to_error::deserialize(&mut reader).map_err(|error| ScriptError {
                path: match error.path().to_string().as_str() {
                    "." | "?" => "script".into(),
                    path => path.to_owned(),
                },
                reason: error.inner().to_string(),
            })?;
        let mut cues = script
            .timeline
            .iter()
            .enumerate()
            .map(|(at, line)| line.cue(at))
            .collect::<Result<Vec<Cue>, ScriptError>>()?;
        cues.sort_by_key(|cue| cue.at_ms);
        Ok(Self {
            script: Arc::new(script),
            cues,
        })
    }

    /// What the engine runs on while the cast plays: its agents, everybody sees everybody.
    pub fn settings(&self) -> Settings {
        let script = &*self.script;
        Settings {
            agents: script.agents.iter().map(AgentLine::settings).collect(),
            known_models: script
                .models
                .iter()
                .map(|model| (model.id.clone(), Some(model.context_window)))
                .collect(),
            visibility: Level::All,
            cross_agent: CrossAgent {
                enabled: true,
                allow: Vec::new(),
            },
            subagent_tools: SubagentTools {
                also_allow: script.subagent_tools.clone(),
                ..SubagentTools::default()
            },
            ..Settings::default()
        }
    }

    /// The one agent that speaks all parts.
    pub fn agent(&self) -> SharedAgent {
        Arc::new(player::Player::new(Arc::clone(&self.script)))
    }

    /// The sessions to begin with, as if the story began at `now_ms`. The same time gives the same ids and lines.
    pub fn seeds(&self, now_ms: i64) -> Vec<Seed> {
        seed::seeds(&self.script, now_ms)
    }

    /// What comes from outside, in order.
    pub fn timeline(&self) -> &[Cue] {
        &self.cues
    }
}

/// The file.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Script {
    #[serde(default)]
    models: Vec<ModelLine>,
    #[serde(default)]
    agents: Vec<AgentLine>,
    #[serde(default)]
    subagent_tools: Vec<String>,
    #[serde(default)]
    seed: Vec<seed::SeedLine>,
    #[serde(default)]
    timeline: Vec<CueLine>,
    #[serde(default)]
    answers: Vec<player::AnswerLine>,
}

impl Script {
    fn agent(&self, id: &AgentId) -> Option<&AgentLine> {
        self.agents
            .iter()
            .find(|agent| AgentId::mend(&agent.id) == *id)
    }

    fn model(&self, id: &str) -> Option<&ModelLine> {
        self.models.iter().find(|model| model.id == id)
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ModelLine {
    id: String,
    context_window: i64,
    #[serde(default)]
    price: Price,
}

/// US dollars a million tokens.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Price {
    input: f64,
    output: f64,
}

impl Price {
    fn of(self, input: i64, output: i64) -> (f64, f64) {
        let million = 1_000_000.0;
        (
            self.input * input as f64 / million,
            self.output * output as f64 / million,
        )
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AgentLine {
    id: String,
    name: String,
    #[serde(default)]
    default: bool,
    model: String,
    /// Tokens of the standing instructions.
    #[serde(default)]
    prompt: i64,
    #[serde(default)]
    allow_agents: Vec<String>,
}

impl AgentLine {
    fn settings(&self) -> AgentSettings {
        AgentSettings {
            id: AgentId::mend(&self.id),
            default: self.default,
            name: Some(self.name.as_str().into()),
            workspace: None,
            model: Some(self.model.clone()),
            runtime: Runtime::Script(PathBuf::from("built-in cast")),
            sandbox_mode: None,
            sandbox_wrapper: None,
            allow_agents: Some(self.allow_agents.clone()),
            subagent_model: None,
            subagent_thinking: None,
            require_agent_id: None,
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum CueLine {
    Incoming {
        at: u64,
        channel: String,
        from: String,
        #[serde(default)]
        owner: bool,
        key: String,
        text: String,
    },
    Operator {
        at: u64,
        key: String,
        text: String,
    },
}

impl CueLine {
    fn cue(&self, at: usize) -> Result<Cue, ScriptError> {
        let key = |text: &str| {
            SessionKey::parse(text).map_err(|error| ScriptError {
                path: format!("timeline[{at}].key"),
                reason: error.to_string(),
            })
        };
        Ok(match self {
            CueLine::Incoming {
                at,
                channel,
                from,
                owner,
                key: to,
                text,
            } => Cue {
                at_ms: *at,
                cue: CueKind::Incoming {
                    channel: channel.clone(),
                    from: from.clone(),
                    owner: *owner,
                    key: key(to)?,
                    text: text.as_str().into(),
                },
            },
            CueLine::Operator { at, key: to, text } => Cue {
                at_ms: *at,
                cue: CueKind::Operator {
                    key: key(to)?,
                    text: text.as_str().into(),
                },
            },
        })
    }
}

/// A text, written as one string or as its lines.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Text {
    One(String),
    Lines(Vec<String>),
}

impl Text {
    fn get(&self) -> String {
        match self {
            Text::One(text) => text.clone(),
            Text::Lines(lines) => lines.join("\n"),
        }
    }
}

/// Tokens of a text, about as models count them.
fn tokens(text: &str) -> i64 {
    i64::try_from(text.len().div_ceil(4)).unwrap_or(i64::MAX)
}
