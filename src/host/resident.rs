//! What lives in a state directory that is owned: the engine, as far as an owner has to know it.

use super::HostError;
use super::lock::io;
use crate::agents::scripted::Cast;
use crate::backend::SharedBackend;
use crate::backend::embedded::EmbeddedBackend;
use crate::config::Settings;
use crate::engine::{Engine, Options};
use crate::store::state::StateStore;
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

struct Embedded {
    engine: Engine,
    backend: SharedBackend,
}

impl Resident for Embedded {
    fn backend(&self) -> SharedBackend {
        self.backend.clone()
    }
    fn is_settled(&self) -> bool {
        self.engine.settled()
    }
    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.engine.shutdown())
    }
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
    let cast = demo.then(|| Arc::new(Cast::built_in()));
    let settings = cast.as_ref().map_or(settings, |cast| cast.settings());
    let (at, main_key, global) = (
        dir.to_owned(),
        settings.main_key.clone(),
        settings.scope_global,
    );
    let opening =
        tokio::task::spawn_blocking(move || StateStore::open_scoped(&at, &main_key, global));
    let store = opening
        .await
        .map_err(|panic| io("opening", dir, std::io::Error::other(panic)))??;
    let options = Options {
        cast,
        start_runs,
        ..Options::default()
    };
    let engine = Engine::open(store, settings, options).await?;
    Ok(Arc::new(Embedded {
        backend: Arc::new(EmbeddedBackend::new(engine.clone())),
        engine,
    }))
}
