//! `spawn`: a sub-agent, and with `--wait` its report.

use super::args::{CleanupWord, Mode, Sandbox, Spawn};
use super::output::{Printer, remark};
use super::payload;
use super::source::{Context, text_or_stdin};
use super::stop::{Stop, ask};
use crate::backend::SharedBackend;
use crate::clean_format;
use crate::error::Exit;
use crate::model::run::Outcome;
use crate::protocol::methods::{Reply, Request, Waited};
use crate::text::Untrusted;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Spawns.
///
/// # Errors
/// [`Stop`]; exit 1 when the child failed, 4 when `--wait` ran out.
pub async fn spawn(context: &Context, printer: &mut Printer, args: Spawn) -> Result<(), Stop> {
    let arguments = arguments(&args)?;
    let backend = context.change("spawning").await?;
    let payload = context.tool(&backend, "sessions_spawn", arguments).await?;
    let run = payload.get("runId").and_then(Value::as_str);
    let waited = match (args.wait, run) {
        (Some(seconds), Some(run)) => Some(wait(context, &backend, run, seconds).await?),
        _ => None,
    };
    if printer.json {
        let Some(waited) = waited else {
            printer.value(&payload)?;
            return payload::end(&payload);
        };
        printer.value(&json!({ "spawn": payload, "waited": waited }))?;
        return end(&waited);
    }
    payload::check(&payload)?;
    if let Some(warning) = payload::text(&payload, "warning") {
        remark(&warning.clean());
    }
    let member = |name| payload::text(&payload, name).as_ref().map(Untrusted::clean);
    let child = member("childSessionKey").unwrap_or_default();
    let run = member("runId").unwrap_or_default();
    let Some(waited) = waited else {
        return printer.line(&clean_format!("{}  run {}", child, run));
    };
    remark(&clean_format!("{} (run {})", child, &run));
    if let Some(post) = waited.post.as_ref().or(waited.reply.as_ref()) {
        printer.block(&post.clean_block())?;
    }
    match waited.outcome {
        Some(Outcome::Ok) => {}
        Some(_) => {
            if let Some(error) = &waited.error {
                remark(&error.clean());
            }
        }
        None => {
            let seconds = args.wait.unwrap_or_default();
            remark(&clean_format!(
                "no report within {} s; run {} goes on",
                seconds,
                run
            ));
        }
    }
    end(&waited)
}

fn end(waited: &Waited) -> Result<(), Stop> {
    match waited.outcome {
        Some(Outcome::Ok) if waited.post.is_none() && !waited.settled => {
            Err(Stop::With(Exit::Timeout))
        }
        Some(Outcome::Ok) => Ok(()),
        Some(_) => Err(Stop::With(Exit::ToolError)),
        None => Err(Stop::With(Exit::Timeout)),
    }
}

async fn wait(
    context: &Context,
    backend: &SharedBackend,
    run: &str,
    seconds: u64,
) -> Result<Waited, Stop> {
    let call = context.call(Request::Wait {
        run_id: run.into(),
        timeout_ms: seconds.saturating_mul(1000),
    });
    ask(backend, call, |reply| match reply {
        Reply::Waited(waited) => Some(waited),
        _ => None,
    })
    .await
}

/// The tool's arguments; files are read before anything is opened.
fn arguments(args: &Spawn) -> Result<Value, Stop> {
    let mut members = Map::new();
    members.insert("task".into(), text_or_stdin(&args.task)?.into());
    let texts = [
        ("agentId", &args.agent),
        ("label", &args.label),
        ("model", &args.model),
        ("thinking", &args.thinking),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            members.insert(name.into(), text.as_str().into());
        }
    }
    if let Some(seconds) = args.run_timeout {
        members.insert("runTimeoutSeconds".into(), seconds.into());
    }
    if args.thread {
        members.insert("thread".into(), true.into());
    }
    if let Some(mode) = args.mode {
        let word = match mode {
            Mode::Run => "run",
            Mode::Session => "session",
        };
        members.insert("mode".into(), word.into());
    }
    if let Some(cleanup) = args.cleanup {
        let word = match cleanup {
            CleanupWord::Keep => "keep",
            CleanupWord::Delete => "delete",
        };
        members.insert("cleanup".into(), word.into());
    }
    if let Some(sandbox) = args.sandbox {
        let word = match sandbox {
            Sandbox::Inherit => "inherit",
            Sandbox::Require => "require",
        };
        members.insert("sandbox".into(), word.into());
    }
    if !args.attach.is_empty() {
        let files = args.attach.iter().map(|path| attachment(path));
        members.insert("attachments".into(), files.collect::<Result<_, _>>()?);
    }
    Ok(Value::Object(members))
}

/// A file as an attachment (T-1).
fn attachment(path: &Path) -> Result<Value, Stop> {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name else {
        return Err(Stop::usage(format!(
            "{}: not the name of a file",
            path.display()
        )));
    };
    let bytes = std::fs::read(path)
        .map_err(|error| Stop::io(format!("cannot read {}: {error}", path.display())))?;
    Ok(json!({ "name": name, "content": STANDARD.encode(bytes), "encoding": "base64" }))
}
