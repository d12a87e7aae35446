//! Result payloads of tools: what they mean for a person and for the exit code.

use super::stop::Stop;
use crate::error::Exit;
use crate::model::tools::ToolStatus;
use crate::text::Untrusted;
use serde_json::Value;

/// What a payload stands for; a payload without a status is a result.
pub fn status(payload: &Value) -> ToolStatus {
    payload
        .get("status")
        .and_then(|status| serde_json::from_value(status.clone()).ok())
        .unwrap_or(ToolStatus::Ok)
}

/// The exit code of a status.
pub const fn exit(status: ToolStatus) -> Exit {
    match status {
        ToolStatus::Ok | ToolStatus::Accepted => Exit::Done,
        ToolStatus::Error => Exit::ToolError,
        ToolStatus::Forbidden => Exit::Forbidden,
        ToolStatus::Timeout => Exit::Timeout,
    }
}

/// The exit code of a payload: that of its status, but for what could not be stored.
fn code(payload: &Value) -> Exit {
    match text(payload, "errorCode") {
        Some(code) if code == Untrusted::from("io") => Exit::Io,
        _ => exit(status(payload)),
    }
}

/// A text member.
pub fn text(payload: &Value, name: &str) -> Option<Untrusted> {
    payload
        .get(name)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
        .map(Untrusted::from)
}

/// Fails for what the tool refused, with its own words.
///
/// # Errors
/// Exit 1, 3 or 6.
pub fn check(payload: &Value) -> Result<(), Stop> {
    let status = status(payload);
    match status {
        ToolStatus::Error | ToolStatus::Forbidden => {
            let error = text(payload, "error").unwrap_or_else(|| "the tool gave no reason".into());
            Err(Stop::Because(code(payload), error))
        }
        ToolStatus::Ok | ToolStatus::Accepted | ToolStatus::Timeout => Ok(()),
    }
}

/// Ends with the payload's code, when that is not success; for output that has said everything.
///
/// # Errors
/// [`Stop::With`].
pub fn end(payload: &Value) -> Result<(), Stop> {
    match code(payload) {
        Exit::Done => Ok(()),
        exit => Err(Stop::With(exit)),
    }
}
