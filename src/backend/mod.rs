//! The one interface of all front doors. Implementations: [`embedded`] (our engine in this process), [`remote`]
//! (another process), [`files`] (a foreign directory, read-only).

pub mod embedded;
pub mod files;
pub mod remote;

use crate::model::event::Event;
use crate::protocol::methods::{Call, Failure, Reply};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Who answers.
pub trait Backend: Send + Sync {
    /// Answers a request. Dropping the future gives the answer up, never the work it began.
    ///
    /// # Errors
    /// [`Failure`] with a stable code and a text for people. What a *tool* refuses is no failure but its payload.
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Failure>>;

    /// Live events from now on, or from a cursor. A consumer that is too slow gets a `resync` and goes on; the channel
    /// closes only when the backend is gone for good.
    fn events(&self, since: Option<String>) -> mpsc::Receiver<Event>;
}

/// A shared backend.
pub type SharedBackend = Arc<dyn Backend>;
