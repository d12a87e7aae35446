//! `send`: a message, and the reply to it.

use super::args::Send;
use super::output::{Printer, remark};
use super::payload;
use super::source::{Context, text_or_stdin};
use super::stop::Stop;
use crate::clean_format;
use crate::error::Exit;
use crate::model::tools::ToolStatus;
use crate::text::Untrusted;
use serde_json::json;

/// Sends. The operator's message is a plain one; a session's has everything follow that its tool would have.
///
/// # Errors
/// [`Stop`]; exit 4 when the wait is over before the run is.
pub async fn send(context: &Context, printer: &mut Printer, args: Send) -> Result<(), Stop> {
    let message = text_or_stdin(&args.message)?;
    let backend = context.change("sending").await?;
    let arguments = json!({
        "sessionKey": args.key,
        "message": message,
        "timeoutSeconds": args.timeout,
    });
    let payload = context.tool(&backend, "sessions_send", arguments).await?;
    if printer.json {
        printer.value(&payload)?;
        return payload::end(&payload);
    }
    let run = payload::text(&payload, "runId");
    let run = run.as_ref().map(Untrusted::clean).unwrap_or_default();
    payload::check(&payload)?;
    match payload::status(&payload) {
        ToolStatus::Accepted => printer.block(&run),
        ToolStatus::Timeout => {
            remark(&clean_format!(
                "no reply within {} s; run {} goes on",
                args.timeout,
                run
            ));
            Err(Stop::With(Exit::Timeout))
        }
        _ => match payload::text(&payload, "reply") {
            Some(reply) => printer.block(&reply.clean_block()),
            None => {
                remark(&clean_format!("done without a reply (run {})", run));
                Ok(())
            }
        },
    }
}
