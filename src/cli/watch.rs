//! `watch`: live events, one JSON object a line.

use super::args::Watch;
use super::output::{Printer, remark};
use super::source::{Context, Source};
use super::stop::{Stop, unexpected};
use crate::backend::SharedBackend;
use crate::clean_format;
use crate::error::Exit;
use crate::host::Purpose;
use crate::model::event::{Event, What};
use crate::model::key::SessionKey;
use crate::protocol::methods::{Code, Reply, Request};
use crate::store::state::StateStore;
use crate::text::Untrusted;
use std::time::Duration;

/// Between two looks for a directory that is not there yet.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Watches until nobody reads or the source is gone for good.
///
/// # Errors
/// [`Stop`]; exit 5 when the source is gone.
pub async fn watch(context: &Context, printer: &mut Printer, args: Watch) -> Result<(), Stop> {
    if context.caller.session.is_some() {
        return Err(Stop::usage(
            "watch tells of every session: it is the operator's, and takes no --as",
        ));
    }
    let mut since = args.since;
    if let Source::State { dir, .. } = &context.source
        && !StateStore::exists(dir)
    {
        // Says what is wrong with the directory, when it can never become ours.
        drop(context.source.open(Purpose::Read).await?);
        remark(&clean_format!(
            "nothing in {} yet; waiting for it",
            Untrusted::new(dir.to_string_lossy()).clean()
        ));
        while !StateStore::exists(dir) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        // Whatever happened there until we are attached is news, too.
        since = since.or_else(|| Some("0".into()));
    }
    let backend = context.source.open(Purpose::Work).await?;
    let mut events = backend.events(since);
    let only = match args.key {
        Some(key) => Some(session(context, &backend, &key).await?),
        None => None,
    };
    while let Some(event) = events.recv().await {
        if only.as_ref().is_none_or(|key| concerns(&event, key)) {
            printer.json_line(&event)?;
        }
    }
    Err(Stop::because(Exit::NoOwner, "the source is gone"))
}

/// The session that is meant, which may not exist yet.
async fn session(
    context: &Context,
    backend: &SharedBackend,
    given: &str,
) -> Result<SessionKey, Stop> {
    let call = context.call(Request::Detail { key: given.into() });
    match backend.call(call).await {
        Ok(Reply::Detail(detail)) => Ok(SessionKey::foreign(detail.row.key.raw())),
        Ok(_) => Err(unexpected()),
        Err(failure) if failure.code == Code::NotFound => {
            SessionKey::parse(given).map_err(|_| failure.into())
        }
        Err(failure) => Err(failure.into()),
    }
}

/// The event is about the session, or about the source as a whole.
fn concerns(event: &Event, key: &SessionKey) -> bool {
    let is = |other: &Untrusted| SessionKey::foreign(other.raw()) == *key;
    if event.session_key.as_ref().is_some_and(is) {
        return true;
    }
    match &event.what {
        What::SendState {
            requester, target, ..
        } => is(target) || requester.as_ref().is_some_and(is),
        What::A2aTurn {
            requester, target, ..
        } => is(requester) || is(target),
        What::Announce { from, to, .. } => is(from) || to.as_ref().is_some_and(is),
        What::Spawn { parent, child, .. } => is(parent) || is(child),
        What::Loop { path, .. } => path.iter().any(is),
        What::Connection { .. } | What::Resync {} => true,
        _ => false,
    }
}
