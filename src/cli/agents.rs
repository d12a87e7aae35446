//! `agents`: who may be spawned.

use super::output::{Printer, remark};
use super::payload;
use super::source::Context;
use super::stop::Stop;
use crate::model::tools::AgentsResult;
use crate::text::{Clean, Untrusted};
use serde_json::json;

/// Lists agents.
///
/// # Errors
/// [`Stop`].
pub async fn agents(context: &Context, printer: &mut Printer) -> Result<(), Stop> {
    let backend = context.read().await?;
    let payload = context.tool(&backend, "agents_list", json!({})).await?;
    if printer.json {
        printer.value(&payload)?;
        return payload::end(&payload);
    }
    payload::check(&payload)?;
    let result: AgentsResult = serde_json::from_value(payload)
        .map_err(|error| Stop::io(format!("agents_list answered with something else: {error}")))?;
    let rows: Vec<Vec<Clean>> = result
        .agents
        .iter()
        .map(|agent| {
            let one =
                |text: &Option<Untrusted>| text.as_ref().map(Untrusted::clean).unwrap_or_default();
            vec![
                Untrusted::new(agent.id.as_str()).clean(),
                Clean::fixed(if agent.configured { "yes" } else { "no" }),
                one(&agent.model),
                one(&agent.name),
            ]
        })
        .collect();
    if result.allow_any {
        remark(&Clean::fixed("any agent may be spawned"));
    }
    printer.table(&["ID", "CONFIGURED", "MODEL", "NAME"], &rows)
}
