//! Session control: `abort`, `reset`, `archive`, `restore`, `delete`, and what `patch` and `incoming` share with them.

use super::args::{Abort, Incoming};
use super::output::{Printer, remark};
use super::source::{Context, text_or_stdin};
use super::stop::{Stop, ask, unexpected};
use crate::clean_format;
use crate::protocol::methods::{Reply, Request};
use crate::text::{Clean, Untrusted};
use serde_json::json;

/// Asks for a change that is answered with a note at most.
///
/// # Errors
/// [`Stop`].
pub async fn done(
    context: &Context,
    printer: &mut Printer,
    what: &'static str,
    request: Request,
) -> Result<(), Stop> {
    let backend = context.change(what).await?;
    let note = ask(&backend, context.call(request), |reply| match reply {
        Reply::Done { note } => Some(note),
        _ => None,
    })
    .await?;
    say(printer, note.as_ref())
}

fn say(printer: &mut Printer, note: Option<&Untrusted>) -> Result<(), Stop> {
    if printer.json {
        return printer.value(&json!({ "status": "ok", "note": note }));
    }
    match note {
        Some(note) => printer.block(&note.clean_block()),
        None => Ok(()),
    }
}

/// Aborts.
///
/// # Errors
/// [`Stop`].
pub async fn abort(context: &Context, printer: &mut Printer, args: Abort) -> Result<(), Stop> {
    let backend = context.change("aborting").await?;
    let call = context.call(Request::Abort {
        target: args.target.into(),
        tree: args.tree,
    });
    let runs = ask(&backend, call, |reply| match reply {
        Reply::Aborted { run_ids } => Some(run_ids),
        _ => None,
    })
    .await?;
    if printer.json {
        return printer
            .value(&json!({ "status": "ok", "aborted": !runs.is_empty(), "runIds": runs }));
    }
    if runs.is_empty() {
        remark(&Clean::fixed("nothing was running"));
    }
    for run in runs {
        printer.line(&clean_format!("{}", Untrusted::new(run).clean()))?;
    }
    Ok(())
}

/// Hands in a message as a channel would.
///
/// # Errors
/// [`Stop`].
pub async fn incoming(
    context: &Context,
    printer: &mut Printer,
    args: Incoming,
) -> Result<(), Stop> {
    let text = text_or_stdin(&args.text)?;
    let backend = context.change("handing in messages").await?;
    let call = context.call(Request::Incoming {
        channel: args.channel,
        from: args.from,
        owner: args.owner,
        key: args.key.into(),
        text: text.into(),
    });
    match backend.call(call).await? {
        Reply::Accepted(accepted) if printer.json => {
            printer.value(&json!({ "status": "accepted", "runId": accepted.run_id, "sessionKey": accepted.session_key }))
        }
        Reply::Accepted(accepted) => {
            let run = Untrusted::new(accepted.run_id).clean();
            printer.line(&clean_format!("{}  run {}", accepted.session_key.clean(), run))
        }
        Reply::Done { note } => say(printer, note.as_ref()),
        _ => Err(unexpected()),
    }
}
