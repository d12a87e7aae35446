//! `list`: rows, all of them unless limited.

use super::args::{ArchivedWhich, List};
use super::output::{Printer, remark};
use super::source::Context;
use super::stop::{Stop, ask};
use crate::backend::SharedBackend;
use crate::clean_format;
use crate::clock::Clock;
use crate::model::message::{Message, RawLine};
use crate::model::session::Row;
use crate::model::tools::ListResult;
use crate::protocol::methods::{ListRequest, Reply, Request, Rows};
use crate::text::{Clean, Untrusted};
use serde_json::{Value, json};
use std::collections::HashSet;

/// Rows asked for at a time, so that no answer outgrows a frame.
const PAGE: usize = 20_000;
/// The same where each row brings messages.
const PAGE_WITH_MESSAGES: usize = 200;

/// Lists.
///
/// # Errors
/// [`Stop`].
pub async fn list(context: &Context, printer: &mut Printer, args: List) -> Result<(), Stop> {
    let backend = context.read().await?;
    let rows = fetch(context, &backend, &args).await?;
    for warning in &rows.warnings {
        remark(&warning.clean());
    }
    if printer.json {
        return printer.value(&ListResult {
            count: rows.rows.len(),
            sessions: rows.rows,
            has_more: None,
            next_offset: None,
            limit_applied: None,
            message_limit_applied: None,
        });
    }
    if rows.rows.is_empty() {
        remark(&if rows.all == 0 && rows.archived == 0 {
            Clean::fixed("there are no sessions")
        } else {
            clean_format!("none of {} sessions ({} archived)", rows.all, rows.archived)
        });
        return Ok(());
    }
    print(printer, &rows)
}

/// How many there are, and the remarks of the source; no rows.
///
/// # Errors
/// [`Stop`].
pub async fn count(context: &Context, backend: &SharedBackend) -> Result<Rows, Stop> {
    let request = ListRequest {
        limit: Some(0),
        ..ListRequest::default()
    };
    page(context, backend, request).await
}

async fn page(
    context: &Context,
    backend: &SharedBackend,
    request: ListRequest,
) -> Result<Rows, Stop> {
    let call = context.call(Request::List(request));
    ask(backend, call, |reply| match reply {
        Reply::Rows(rows) => Some(rows),
        _ => None,
    })
    .await
}

async fn fetch(context: &Context, backend: &SharedBackend, args: &List) -> Result<Rows, Stop> {
    let page_size = if args.messages > 0 {
        PAGE_WITH_MESSAGES
    } else {
        PAGE
    };
    let mut request = ListRequest {
        kinds: args.kinds.clone(),
        agent: args.agent.clone(),
        active_minutes: args.active_minutes,
        search: args.search.clone(),
        archived_only: args.archived == Some(ArchivedWhich::Only),
        archived_too: args.archived == Some(ArchivedWhich::All),
        messages: args.messages,
        ..ListRequest::default()
    };
    let mut all = Rows::default();
    // A session that moved up while pages were turned is seen twice.
    let mut seen = HashSet::new();
    loop {
        let wanted = args.limit.map_or(page_size, |limit| {
            page_size.min(limit.saturating_sub(all.rows.len()))
        });
        request.limit = Some(wanted);
        let rows = page(context, backend, request.clone()).await?;
        let got = rows.rows.len();
        request.offset += got;
        let fresh = rows.rows.into_iter();
        let fresh = fresh.filter(|row| seen.insert(row.key.clone()));
        all.rows.extend(fresh);
        (all.total, all.all, all.archived) = (rows.total, rows.all, rows.archived);
        all.warnings = rows.warnings;
        let enough = args.limit.is_some_and(|limit| all.rows.len() >= limit);
        if enough || got < wanted {
            return Ok(all);
        }
    }
}

fn print(printer: &mut Printer, rows: &Rows) -> Result<(), Stop> {
    let now = Clock::system().now_ms();
    let cells: Vec<Vec<Clean>> = rows.rows.iter().map(|row| cells(row, now)).collect();
    let heading = [
        "KEY", "KIND", "CHANNEL", "STATUS", "AGE", "MESSAGES", "MODEL", "NAME",
    ];
    if rows.rows.iter().all(|row| row.messages.is_none()) {
        printer.table(&heading, &cells)?;
    } else {
        for (row, cells) in rows.rows.iter().zip(cells) {
            printer.line(&spaced(&cells))?;
            for message in row.messages.iter().flatten() {
                excerpt(printer, message)?;
            }
        }
    }
    if rows.rows.len() < rows.total {
        remark(&clean_format!("{} of {}", rows.rows.len(), rows.total));
    }
    Ok(())
}

fn spaced(cells: &[Clean]) -> Clean {
    let mut line = Clean::empty();
    for cell in cells.iter().filter(|cell| !cell.as_str().is_empty()) {
        line.push(cell);
        line.push(&Clean::fixed("  "));
    }
    line
}

fn cells(row: &Row, now: i64) -> Vec<Clean> {
    let status = match (row.archived_at, row.queued, row.status) {
        (Some(_), _, _) => Clean::fixed("archived"),
        (None, Some(queued), Some(status)) if queued > 0 => {
            clean_format!("{} +{}", status.as_str(), queued)
        }
        (None, Some(queued), None) if queued > 0 => clean_format!("{} queued", queued),
        (None, _, Some(status)) => Clean::fixed(status.as_str()),
        (None, _, None) => Clean::empty(),
    };
    let name = row
        .display_name
        .as_ref()
        .or(row.label.as_ref())
        .or(row.derived_title.as_ref());
    let one = |text: Option<&Untrusted>| text.map(Untrusted::clean).unwrap_or_default();
    vec![
        row.key.clean(),
        Clean::fixed(row.kind.as_str()),
        row.channel.clean(),
        status,
        row.updated_at.map(|at| age(now, at)).unwrap_or_default(),
        row.message_count
            .map(|count| clean_format!("{}", count))
            .unwrap_or_default(),
        one(row.model.as_ref()),
        one(name),
    ]
}

/// How long ago, in one unit.
fn age(now: i64, at: i64) -> Clean {
    let seconds = (now - at).max(0) / 1000;
    match seconds {
        0..=59 => clean_format!("{}s", seconds),
        60..=3599 => clean_format!("{}m", seconds / 60),
        3600..=86_399 => clean_format!("{}h", seconds / 3600),
        _ => clean_format!("{}d", seconds / 86_400),
    }
}

/// One line of a message that came with its row.
fn excerpt(printer: &mut Printer, message: &Value) -> Result<(), Stop> {
    let raw = RawLine {
        position: 0,
        bytes: 0,
        line: json!({ "type": "message", "message": message }),
        damage: None,
    };
    let Some(message) = Message::read(&raw) else {
        return Ok(());
    };
    let Some(said) = message.said() else {
        return Ok(());
    };
    let role = super::history::role(&said.role);
    let text = Untrusted::new(said.text()).clean();
    printer.line(&clean_format!("    {}: {}", role, text))
}
