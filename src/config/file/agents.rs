//! `agents`: defaults, and the agents themselves as a list or a map (C-41).

use super::reader::{Members, Result};
use super::{count, small};
use crate::config::{AgentSettings, Runtime, SandboxMode, Settings};
use crate::model::key::AgentId;
use std::path::{Path, PathBuf};

/// All timer values are capped at this (E-13).
const MAX_TIMER_MS: u64 = 2_147_000_000;

pub(super) fn read(agents: &Members<'_>, settings: &mut Settings) -> Result<()> {
    agents.section("defaults", |defaults| read_defaults(defaults, settings))?;
    let has_default = settings.default_model.is_some();
    let mut found: Vec<AgentSettings> = Vec::new();
    let mut add = |agent: &Members<'_>, given: &str, at: &str| {
        let id = AgentId::mend(given);
        if let Some(other) = found.iter().position(|a| a.id == id) {
            return Err(agent.error(
                at,
                &format!(
                    "{given:?} is agent \"{id}\" again, which is already number {}",
                    other + 1
                ),
                "each agent once",
            ));
        }
        let agent_settings = read_agent(agent, id, has_default)?;
        if agent_settings.default && found.iter().any(|a| a.default) {
            agent.warn("is not the default agent: an earlier one is marked as default");
        }
        found.push(agent_settings);
        Ok(())
    };
    agents.list("list", |agent| {
        let id = agent.needed_text("id")?;
        add(agent, &id, "id")
    })?;
    agents.section("entries", |entries| {
        for name in entries.any_name() {
            entries.section(&name, |agent| {
                if let Some(id) = agent.text("id")?
                    && AgentId::mend(&id) != AgentId::mend(&name)
                {
                    let reason = format!("{id:?} is another id than the entry's name {name:?}");
                    return Err(agent.error("id", &reason, "the name of the entry, or no id"));
                }
                add(agent, &name, "")
            })?;
        }
        Ok(())
    })?;
    settings.agents = found;
    Ok(())
}

fn read_defaults(defaults: &Members<'_>, settings: &mut Settings) -> Result<()> {
    settings.default_model = model(defaults, "model")?;
    defaults.section("models", |models| {
        settings.allowed_models = models.any_name();
        Ok(())
    })?;
    if let Some(seconds) = defaults.whole("timeoutSeconds", 1, u64::MAX)? {
        settings.run_limit_s = seconds;
    }
    if let Some(runs) = defaults.whole("maxConcurrent", 1, u64::MAX)? {
        settings.max_concurrent = count(runs);
    }
    defaults.section("sandbox", |sandbox| {
        if let Some(mode) = sandbox_mode(sandbox)? {
            settings.sandbox_mode = mode;
        }
        if let Some(word) = sandbox.word("sessionToolsVisibility", &["spawned", "all"])? {
            settings.sandbox_spawned_only = word == "spawned";
        }
        Ok(())
    })?;
    defaults.section("subagents", |members| {
        let subagents = &mut settings.subagents;
        if let Some(seconds) = members.whole("runTimeoutSeconds", 0, u64::MAX)? {
            subagents.run_timeout_s = seconds;
        }
        if let Some(minutes) = members.whole("archiveAfterMinutes", 0, u64::MAX)? {
            subagents.archive_after_min = (minutes > 0).then_some(minutes);
        }
        if let Some(depth) = members.whole("maxSpawnDepth", 1, 5)? {
            subagents.max_spawn_depth = small(depth);
        }
        if let Some(children) = members.whole("maxChildrenPerAgent", 1, 20)? {
            subagents.max_children = small(children);
        }
        if let Some(runs) = members.whole("maxConcurrent", 1, u64::MAX)? {
            subagents.max_concurrent = count(runs);
        }
        if let Some(ms) = members.whole("announceTimeoutMs", 1, u64::MAX)? {
            subagents.announce_timeout_ms = ms.min(MAX_TIMER_MS);
        }
        subagents.model = model(members, "model")?;
        subagents.thinking = word(members, "thinking")?;
        subagents.allow_agents = members.texts("allowAgents")?;
        if let Some(needed) = members.flag("requireAgentId")? {
            subagents.require_agent_id = needed;
        }
        Ok(())
    })
}

fn read_agent(agent: &Members<'_>, id: AgentId, has_default: bool) -> Result<AgentSettings> {
    let model_name = model(agent, "model")?;
    let has_model = has_default || model_name.is_some();
    let mut read = AgentSettings {
        id,
        default: agent.flag("default")?.unwrap_or(false),
        name: word(agent, "name")?.map(Into::into),
        workspace: word(agent, "workspace")?.map(|path| file_path(agent.dir(), &path)),
        model: model_name,
        runtime: if has_model {
            Runtime::Llm
        } else {
            Runtime::None
        },
        sandbox_mode: None,
        sandbox_wrapper: None,
        allow_agents: None,
        subagent_model: None,
        subagent_thinking: None,
        require_agent_id: None,
    };
    if agent.has("runtime") {
        read.runtime = agent.section("runtime", read_runtime)?;
    }
    agent.section("sandbox", |sandbox| {
        read.sandbox_mode = sandbox_mode(sandbox)?;
        read.sandbox_wrapper = command(sandbox, "wrapper")?;
        Ok(())
    })?;
    agent.section("subagents", |members| {
        read.allow_agents = members.texts("allowAgents")?;
        read.subagent_model = model(members, "model")?;
        read.subagent_thinking = word(members, "thinking")?;
        read.require_agent_id = members.flag("requireAgentId")?;
        Ok(())
    })?;
    Ok(read)
}

fn read_runtime(runtime: &Members<'_>) -> Result<Runtime> {
    let kinds = ["llm", "command", "scripted"];
    match runtime.word("type", &kinds)? {
        Some("llm") => Ok(Runtime::Llm),
        Some("command") => match command(runtime, "command")? {
            Some(command) => Ok(Runtime::Command(command)),
            None => Err(runtime.error(
                "command",
                "is missing",
                "a list of strings: a program and its arguments",
            )),
        },
        Some("scripted") => match runtime.needed_text("script")?.as_str() {
            "directives" => Ok(Runtime::Directives),
            file => Ok(Runtime::Script(file_path(runtime.dir(), file))),
        },
        _ => Err(runtime.error("type", "is missing", "llm, command, scripted")),
    }
}

/// A model: `provider/model`, or an object of which the primary one counts (P-30).
fn model(members: &Members<'_>, name: &str) -> Result<Option<String>> {
    if !members.is_object(name) {
        return Ok(members
            .text_or(name, "a string, or { primary, fallbacks }")?
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty()));
    }
    members.section(name, |object| {
        object.texts("fallbacks")?;
        word(object, "primary")
    })
}

/// A text, trimmed; blank is none.
fn word(members: &Members<'_>, name: &str) -> Result<Option<String>> {
    Ok(members
        .text(name)?
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty()))
}

fn sandbox_mode(sandbox: &Members<'_>) -> Result<Option<SandboxMode>> {
    let mode = sandbox.word("mode", &["off", "non-main", "all"])?;
    Ok(mode.map(|mode| match mode {
        "all" => SandboxMode::All,
        "non-main" => SandboxMode::NonMain,
        _ => SandboxMode::Off,
    }))
}

/// A program with its arguments.
fn command(members: &Members<'_>, name: &str) -> Result<Option<Vec<String>>> {
    let command = members.texts(name)?;
    if command.as_ref().is_some_and(|words| {
        words
            .first()
            .is_none_or(|program| program.trim().is_empty())
    }) {
        return Err(members.error(
            name,
            "names no program",
            "a list of strings: a program and its arguments",
        ));
    }
    Ok(command)
}

/// Paths are relative to the directory of the configuration; `~/` is the home directory.
fn file_path(dir: &Path, path: &str) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => etcetera::home_dir().map_or_else(|_| dir.join(path), |home| home.join(rest)),
        None => dir.join(path),
    }
}
