//! `call`: one tool call, arguments in, result payload out, nothing else on standard output.

use super::args::ToolCall;
use super::output::Printer;
use super::payload;
use super::source::{Context, text_or_stdin};
use super::stop::Stop;
use crate::error::Exit;
use crate::model::tools::NAMES;
use crate::text::Untrusted;
use serde_json::Value;

/// Tools that change nothing.
const READING: [&str; 3] = ["sessions_list", "sessions_history", "agents_list"];

/// Calls.
///
/// # Errors
/// [`Stop`]; the payload's own code.
pub async fn call(context: &Context, printer: &mut Printer, args: ToolCall) -> Result<(), Stop> {
    let text = text_or_stdin(&args.arguments)?;
    let arguments: Value = serde_json::from_str(&text)
        .map_err(|error| Stop::usage(format!("the arguments are no JSON: {error}")))?;
    if !arguments.is_object() {
        return Err(Stop::usage("the arguments are no JSON object"));
    }
    if !NAMES.contains(&args.tool.as_str()) {
        let tool = Untrusted::from(args.tool.as_str()).clean();
        let text = format!(
            "unknown tool {:?}; known: {}",
            tool.as_str(),
            NAMES.join(", ")
        );
        return Err(Stop::because(Exit::ToolError, text));
    }
    let backend = if READING.contains(&args.tool.as_str()) {
        context.read().await?
    } else {
        context.change("this tool").await?
    };
    let payload = context.tool(&backend, &args.tool, arguments).await?;
    printer.value(&payload)?;
    payload::end(&payload)
}
