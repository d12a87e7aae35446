//! Settings, resolved: what the engine uses (specification, chapter 14, column "use").

use crate::model::key::{AgentId, SessionKey};
use crate::model::policy::PolicyConfig;
use crate::model::visibility::{CrossAgent, Level};
use crate::text::{Untrusted, mask::Masker};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Everything the engine and the front doors are told by configuration. `Settings::default()` is the empty file.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The file they came from; `None` for the empty configuration.
    pub source: Option<PathBuf>,
    /// `session.scope: "global"` (C-1).
    pub scope_global: bool,
    /// `session.mainKey`, canonical (C-2).
    pub main_key: String,
    /// `session.dmScope` (C-3).
    pub dm_scope: String,
    /// `session.identityLinks` (C-4).
    pub identity_links: BTreeMap<String, Vec<String>>,
    /// `session.agentToAgent.maxPingPongTurns` (C-6), 0 to 5.
    pub max_ping_pong_turns: u32,
    /// `session.agentToAgent.maxChainRuns` (C-37), at least 1.
    pub max_chain_runs: u32,
    /// `session.sendPolicy` (C-7).
    pub send_policy: Option<PolicyConfig>,
    /// `session.threadBindings.enabled` (C-8).
    pub thread_bindings: bool,
    /// `session.threadBindings.idleHours`, `.maxAgeHours` (C-9); 0 is never.
    pub thread_idle_hours: f64,
    pub thread_max_age_hours: f64,
    /// `agents.list`, in file order (C-34, C-41).
    pub agents: Vec<AgentSettings>,
    /// `agents.defaults.model` (C-33).
    pub default_model: Option<String>,
    /// Keys of `agents.defaults.models`; empty allows every known model (P-31).
    pub allowed_models: Vec<String>,
    /// `provider/model` of every model that `models.providers` names, with its context window.
    pub known_models: Vec<(String, Option<i64>)>,
    /// `agents.defaults.timeoutSeconds` (C-32).
    pub run_limit_s: u64,
    /// `agents.defaults.maxConcurrent` (C-31).
    pub max_concurrent: usize,
    /// `agents.defaults.sandbox.mode` (C-19).
    pub sandbox_mode: SandboxMode,
    /// `agents.defaults.sandbox.sessionToolsVisibility` is `spawned` (C-20).
    pub sandbox_spawned_only: bool,
    /// `agents.defaults.subagents` (C-21 to C-30).
    pub subagents: SubagentSettings,
    /// `tools.sessions.visibility` (C-12).
    pub visibility: Level,
    /// `tools.agentToAgent` (C-13, C-14).
    pub cross_agent: CrossAgent,
    /// `tools.sessions.allowThreadTargets` (C-38).
    pub allow_thread_targets: bool,
    /// `tools.subagents.tools` (C-15).
    pub subagent_tools: SubagentTools,
    /// `tools.sessions_spawn.attachments` (C-16 to C-18).
    pub attachments: AttachmentLimits,
    /// `logging.redactPatterns` or the built-in set (C-35).
    pub masker: Masker,
    /// `ui`.
    pub ui: UiSettings,
    /// Unknown members and the like (AM-12): path and nearest known name, one line each.
    pub warnings: Vec<Untrusted>,
}

/// One agent of `agents.list`.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    pub id: AgentId,
    pub default: bool,
    pub name: Option<Untrusted>,
    pub workspace: Option<PathBuf>,
    /// Primary model.
    pub model: Option<String>,
    pub runtime: Runtime,
    pub sandbox_mode: Option<SandboxMode>,
    /// `sandbox.wrapper` (C-39).
    pub sandbox_wrapper: Option<Vec<String>>,
    /// `subagents.allowAgents` (C-29); `None` when the agent has none of its own.
    pub allow_agents: Option<Vec<String>>,
    pub subagent_model: Option<String>,
    pub subagent_thinking: Option<String>,
    pub require_agent_id: Option<bool>,
}

/// What runs an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runtime {
    /// Neither model nor runtime: runs fail with "no runtime configured for agent X".
    None,
    /// A model provider.
    Llm,
    /// A program per turn.
    Command(Vec<String>),
    /// The `directives` script.
    Directives,
    /// A script file of ours (the built-in cast).
    Script(PathBuf),
}

/// C-19.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SandboxMode {
    #[default]
    Off,
    NonMain,
    All,
}

/// `agents.defaults.subagents`.
#[derive(Debug, Clone)]
pub struct SubagentSettings {
    pub run_timeout_s: u64,
    /// `None` is off (LC-3).
    pub archive_after_min: Option<u64>,
    pub max_spawn_depth: u32,
    pub max_children: u32,
    pub max_concurrent: usize,
    pub announce_timeout_ms: u64,
    pub model: Option<String>,
    pub thinking: Option<String>,
    pub allow_agents: Option<Vec<String>>,
    pub require_agent_id: bool,
}

/// P-26.
#[derive(Debug, Clone, Default)]
pub struct SubagentTools {
    pub allow: Vec<String>,
    pub also_allow: Vec<String>,
    pub deny: Vec<String>,
}

/// T-2, T-3.
#[derive(Debug, Clone)]
pub struct AttachmentLimits {
    pub enabled: bool,
    pub max_files: u64,
    pub max_file_bytes: u64,
    pub max_total_bytes: u64,
    pub retain_on_session_keep: bool,
}

/// `ui`: what a person likes; each may be overridden by a flag.
#[derive(Debug, Clone, Default)]
pub struct UiSettings {
    pub theme: Option<String>,
    pub ascii: Option<bool>,
    pub mouse: Option<bool>,
    pub sort: Option<String>,
    pub tree: Option<bool>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            source: None,
            scope_global: false,
            main_key: "main".into(),
            dm_scope: "main".into(),
            identity_links: BTreeMap::new(),
            max_ping_pong_turns: 5,
            max_chain_runs: 40,
            send_policy: None,
            thread_bindings: true,
            thread_idle_hours: 24.0,
            thread_max_age_hours: 0.0,
            agents: Vec::new(),
            default_model: None,
            allowed_models: Vec::new(),
            known_models: Vec::new(),
            run_limit_s: 600,
            max_concurrent: 4,
            sandbox_mode: SandboxMode::Off,
            sandbox_spawned_only: true,
            subagents: SubagentSettings {
                run_timeout_s: 0,
                archive_after_min: Some(60),
                max_spawn_depth: 1,
                max_children: 5,
                max_concurrent: 8,
                announce_timeout_ms: 90_000,
                model: None,
                thinking: None,
                allow_agents: None,
                require_agent_id: false,
            },
            visibility: Level::Tree,
            cross_agent: CrossAgent::default(),
            allow_thread_targets: true,
            subagent_tools: SubagentTools::default(),
            attachments: AttachmentLimits {
                enabled: true,
                max_files: 50,
                max_file_bytes: 1_048_576,
                max_total_bytes: 5_242_880,
                retain_on_session_keep: false,
            },
            masker: Masker::builtin(),
            ui: UiSettings::default(),
            warnings: Vec::new(),
        }
    }
}

impl Settings {
    /// K-3.
    pub fn default_agent(&self) -> AgentId {
        let chosen = self
            .agents
            .iter()
            .find(|a| a.default)
            .or_else(|| self.agents.first());
        chosen.map_or_else(AgentId::main, |a| a.id.clone())
    }

    /// The agent's settings, when it is configured.
    pub fn agent(&self, id: &AgentId) -> Option<&AgentSettings> {
        self.agents.iter().find(|a| a.id == *id)
    }

    /// The stored key of an agent's main session (K-9, K-11).
    pub fn main_session(&self, agent: &AgentId) -> SessionKey {
        if self.scope_global {
            SessionKey::global()
        } else {
            SessionKey::of(agent, &self.main_key)
        }
    }

    /// True for the main session of any agent.
    pub fn is_main(&self, key: &SessionKey) -> bool {
        key.as_str() == "global" || key.rest() == self.main_key || key.rest() == "main"
    }

    /// P-22: by the agent's own mode over the default.
    pub fn is_sandboxed(&self, key: &SessionKey) -> bool {
        let agent = key.agent().unwrap_or_else(|| self.default_agent());
        let mode = self
            .agent(&agent)
            .and_then(|a| a.sandbox_mode)
            .unwrap_or(self.sandbox_mode);
        match mode {
            SandboxMode::Off => false,
            SandboxMode::All => true,
            SandboxMode::NonMain => !self.is_main(key),
        }
    }
}
