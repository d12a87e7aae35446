//! The configuration file as typed: JSON5 in the shape of the requirement documents (chapter 14, `design/cli.md`).
//!
//! Each member is named once, where it is read; what nobody asked for is unknown (AM-12). A value that cannot be used
//! is an error that names file, line, path and what is allowed. Absent on purpose: secrets and `${ENV}` (read where
//! they are used), and members of features that read them themselves (`channels`, `gateways`, `mcp`).

mod agents;
mod place;
mod reader;

use super::{Settings, UiSettings};
use crate::model::policy::{Match, PolicyConfig, Rule};
use crate::model::session::SendPolicy;
use crate::model::visibility::Level;
use crate::text::mask::Masker;
use reader::{Members, Result, Source};
use std::path::{Path, PathBuf};

/// A configuration that cannot be used: file, line, path of the member, what is allowed.
#[derive(Debug, thiserror::Error)]
#[error("{}", .message)]
pub struct ConfigError {
    pub file: PathBuf,
    pub message: String,
}

/// Reads a file. A missing file is an error here; callers decide whether a default path may be missing.
///
/// # Errors
/// [`ConfigError`] naming file, line, path and what is allowed.
pub fn load(file: &Path) -> Result<Settings> {
    let error = |message: String| ConfigError {
        file: file.into(),
        message,
    };
    let bytes = std::fs::read(file)
        .map_err(|e| error(format!("{}: cannot be read: {e}", file.display())))?;
    let text = std::str::from_utf8(&bytes).map_err(|e| {
        let good = bytes.get(..e.valid_up_to()).unwrap_or_default();
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        error(format!(
            "{}:{line}: not UTF-8 text; allowed: JSON5 in UTF-8",
            file.display()
        ))
    })?;
    parse(text, file)
}

/// As [`load`], from text. `file` is for messages and relative paths.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, file: &Path) -> Result<Settings> {
    let source = Source::new(text, file);
    let mut settings = Settings {
        source: Some(file.into()),
        ..Settings::default()
    };
    if let Some(root) = source.read()? {
        source.root(&root, |file| read(file, &mut settings))?;
    }
    settings.warnings = source.into_warnings();
    Ok(settings)
}

fn read(file: &Members<'_>, settings: &mut Settings) -> Result<()> {
    file.section("session", |session| read_session(session, settings))?;
    file.section("models", |models| read_models(models, settings))?;
    file.section("agents", |members| agents::read(members, settings))?;
    file.section("tools", |tools| read_tools(tools, settings))?;
    file.section("logging", |logging| read_logging(logging, settings))?;
    file.section("ui", |ui| read_ui(ui, settings))?;
    for later in ["channels", "gateways", "mcp"] {
        file.section(later, |members| {
            members.any_name();
            Ok(())
        })?;
    }
    file.ignore(&["$schema"]);
    Ok(())
}

fn read_session(session: &Members<'_>, settings: &mut Settings) -> Result<()> {
    if let Some(scope) = session.word("scope", &["per-sender", "global"])? {
        settings.scope_global = scope == "global";
    }
    if let Some(key) = session.text("mainKey")? {
        // K-4
        let key = key.trim().to_lowercase();
        settings.main_key = if key.is_empty() { "main".into() } else { key };
    }
    let scopes = [
        "main",
        "per-peer",
        "per-channel-peer",
        "per-account-channel-peer",
    ];
    if let Some(scope) = session.word("dmScope", &scopes)? {
        settings.dm_scope = scope.into();
    }
    session.section("identityLinks", |links| {
        for name in links.any_name() {
            let ids = links.texts(&name)?.unwrap_or_default();
            settings.identity_links.insert(name, ids);
        }
        Ok(())
    })?;
    session.section("agentToAgent", |members| {
        if let Some(turns) = members.whole("maxPingPongTurns", 0, 5)? {
            settings.max_ping_pong_turns = small(turns);
        }
        if let Some(runs) = members.whole("maxChainRuns", 1, u64::MAX)? {
            settings.max_chain_runs = small(runs);
        }
        Ok(())
    })?;
    if session.has("sendPolicy") {
        settings.send_policy = Some(session.strict("sendPolicy", read_policy)?);
    }
    session.section("threadBindings", |members| {
        if let Some(on) = members.flag("enabled")? {
            settings.thread_bindings = on;
        }
        if let Some(hours) = members.number_from("idleHours", 0.0)? {
            settings.thread_idle_hours = hours;
        }
        if let Some(hours) = members.number_from("maxAgeHours", 0.0)? {
            settings.thread_max_age_hours = hours;
        }
        Ok(())
    })?;
    session.ignore(&["store", "maintenance"]);
    Ok(())
}

/// SP-1.
fn read_policy(policy: &Members<'_>) -> Result<PolicyConfig> {
    let words = ["allow", "deny"];
    let default = policy.word("default", &words)?.map(|word| match word {
        "deny" => SendPolicy::Deny,
        _ => SendPolicy::Allow,
    });
    let rules = policy.strict_list("rules", |rule| {
        if !rule.has("action") {
            // SP-17: easily meant otherwise, so it is said.
            rule.warn("has no action, which counts as \"allow\"");
        }
        let action = rule.word("action", &words)?.map(str::to_owned);
        let matches = if rule.has("match") {
            Some(rule.strict("match", |matches| {
                let chats = ["direct", "group", "channel", "dm"];
                Ok(Match {
                    channel: matches.text("channel")?,
                    chat_type: matches.word("chatType", &chats)?.map(str::to_owned),
                    key_prefix: matches.text("keyPrefix")?,
                    raw_key_prefix: matches.text("rawKeyPrefix")?,
                })
            })?)
        } else {
            None
        };
        Ok(Rule { action, matches })
    })?;
    Ok(PolicyConfig { default, rules })
}

fn read_models(models: &Members<'_>, settings: &mut Settings) -> Result<()> {
    models.section("providers", |providers| {
        for provider in providers.any_name() {
            providers.section(&provider, |members| {
                members.any_name();
                members.list("models", |model| {
                    model.any_name();
                    let id = model.needed_text("id")?;
                    let window = model.whole("contextWindow", 1, u64::MAX)?;
                    let window = window.map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX));
                    settings
                        .known_models
                        .push((format!("{provider}/{id}"), window));
                    Ok(())
                })?;
                Ok(())
            })?;
        }
        Ok(())
    })?;
    models.ignore(&["mode"]);
    Ok(())
}

fn read_tools(tools: &Members<'_>, settings: &mut Settings) -> Result<()> {
    tools.section("sessions", |sessions| {
        if let Some(level) = sessions.word("visibility", &["self", "tree", "agent", "all"])? {
            settings.visibility = Level::read(Some(level));
        }
        if let Some(allowed) = sessions.flag("allowThreadTargets")? {
            settings.allow_thread_targets = allowed;
        }
        Ok(())
    })?;
    tools.section("agentToAgent", |members| {
        if let Some(on) = members.flag("enabled")? {
            settings.cross_agent.enabled = on;
        }
        if let Some(allow) = members.texts("allow")? {
            settings.cross_agent.allow = allow;
        }
        Ok(())
    })?;
    tools.section("subagents", |subagents| {
        subagents.section("tools", |members| {
            let names = &mut settings.subagent_tools;
            names.allow = members.texts("allow")?.unwrap_or_default();
            names.also_allow = members.texts("alsoAllow")?.unwrap_or_default();
            names.deny = members.texts("deny")?.unwrap_or_default();
            if !names.allow.is_empty() && !names.also_allow.is_empty() {
                return Err(members.error(
                    "alsoAllow",
                    "stands together with allow",
                    "one of the two: allow (only these tools) or alsoAllow (these too)",
                ));
            }
            Ok(())
        })
    })?;
    tools.section("sessions_spawn", |spawn| {
        spawn.section("attachments", |members| {
            let limits = &mut settings.attachments;
            if let Some(on) = members.flag("enabled")? {
                limits.enabled = on;
            }
            for (name, limit) in [
                ("maxFiles", &mut limits.max_files),
                ("maxFileBytes", &mut limits.max_file_bytes),
                ("maxTotalBytes", &mut limits.max_total_bytes),
            ] {
                if let Some(number) = members.number(name)? {
                    // C-17: cut, at least 0; the cast does both.
                    *limit = number as u64;
                }
            }
            if let Some(on) = members.flag("retainOnSessionKeep")? {
                limits.retain_on_session_keep = on;
            }
            Ok(())
        })
    })
}

fn read_logging(logging: &Members<'_>, settings: &mut Settings) -> Result<()> {
    // Without effect on the tools (H-50).
    logging.ignore(&["redactSensitive"]);
    let Some(patterns) = logging.texts("redactPatterns")? else {
        return Ok(());
    };
    if patterns.is_empty() {
        // Masking is always on (H-50): no patterns are the built-in ones.
        return Ok(());
    }
    for (at, pattern) in patterns.iter().enumerate() {
        Masker::custom(std::slice::from_ref(pattern)).map_err(|reason| {
            logging.item_error(
                "redactPatterns",
                at,
                &reason,
                "an expression without look-around and back-references, plain or as /…/flags",
            )
        })?;
    }
    settings.masker = Masker::custom(&patterns)
        .map_err(|reason| logging.error("redactPatterns", &reason, "a list of expressions"))?;
    Ok(())
}

fn read_ui(ui: &Members<'_>, settings: &mut Settings) -> Result<()> {
    ui.any_name();
    settings.ui = UiSettings {
        theme: ui.text("theme")?,
        ascii: ui.flag("ascii")?,
        mouse: ui.flag("mouse")?,
        sort: ui.text("sort")?,
        tree: ui.flag("tree")?,
    };
    Ok(())
}

/// A number that is limited elsewhere or has no upper limit: as large as it can be kept.
fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// As [`small`], for counts.
fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
