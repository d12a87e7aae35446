//! `patch`: settings of a session. An empty value clears.

use super::args::Patch;
use super::control;
use super::output::Printer;
use super::source::Context;
use super::stop::Stop;
use crate::protocol::methods::Request;
use serde_json::{Map, Value};

/// Patches.
///
/// # Errors
/// [`Stop`].
pub async fn patch(context: &Context, printer: &mut Printer, args: Patch) -> Result<(), Stop> {
    let policy = args.send_policy.map(|word| match word.trim() {
        "inherit" => String::new(),
        _ => word,
    });
    let given = [
        ("label", args.label),
        ("model", args.model),
        ("thinkingLevel", args.thinking),
        ("verboseLevel", args.verbose),
        ("sendPolicy", policy),
    ];
    let fields: Map<String, Value> = given
        .into_iter()
        .filter_map(|(name, value)| {
            let value = value?;
            let cleared = value.trim().is_empty();
            let value = if cleared { Value::Null } else { value.into() };
            Some((name.to_owned(), value))
        })
        .collect();
    if fields.is_empty() {
        return Err(Stop::usage(
            "nothing to change: give --label, --model, --thinking, --verbose or --send-policy",
        ));
    }
    let request = Request::Patch {
        key: args.key.into(),
        fields,
    };
    control::done(context, printer, "changing settings", request).await
}
