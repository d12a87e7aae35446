//! What lives in a state directory that is owned: the engine, as far as an owner has to know it.

use super::HostError;
use crate::backend::SharedBackend;
use crate::config::Settings;
use futures_util::future::BoxFuture;
use std::path::Path;
use std::sync::Arc;

/// An engine.
pub trait Resident: Send + Sync {
    /// Who answers.
    fn backend(&self) -> SharedBackend;
    /// True when nothing is left to do: no run, no announce that is not settled.
    fn is_settled(&self) -> bool;
    /// Puts everything away.
    fn shutdown(&self) -> BoxFuture<'_, ()>;
}

/// Opens the engine on a directory whose lock is held; `start_runs` is false for reading.
///
/// # Errors
/// [`HostError::Store`].
pub async fn open_engine(
    dir: &Path,
    settings: Settings,
    demo: bool,
    start_runs: bool,
) -> Result<Arc<dyn Resident>, HostError> {
    let _ = (settings, demo, start_runs);
    Err(super::lock::io(
        "opening",
        dir,
        std::io::Error::other("there is no engine yet"),
    ))
}
