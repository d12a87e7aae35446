//! An owner: lock, engine and endpoint in this process.

use super::HostError;
use super::endpoint::Endpoint;
use super::lock::{Lock, Record};
use super::resident::Resident;
use crate::backend::Backend;
use crate::clock::Clock;
use crate::model::event::Event;
use crate::protocol::frames::ServerInfo;
use crate::protocol::methods::{Call, Failure, Reply};
use crate::server::{Attached, Service, serve};
use futures_util::future::BoxFuture;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How long a new host waits for the process that started it.
const GRACE: Duration = Duration::from_secs(5);
/// How long nobody has to be attached before a host ends itself.
const IDLE: Duration = Duration::from_secs(1);
/// How long an engine may take to put its things away.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// The record of this process.
pub fn record(config: Option<PathBuf>, demo: bool) -> Record {
    Record {
        pid: std::process::id(),
        endpoint: None,
        config,
        demo,
        version: env!("CARGO_PKG_VERSION").into(),
        started_at: Clock::system().now_ms(),
    }
}

/// The owner of a state directory. Dropping it ends the engine in the background; [`Owner::close`] waits for that.
pub struct Owner(Option<Parts>);

struct Parts {
    resident: Arc<dyn Resident>,
    attached: Arc<Attached>,
    serving: JoinHandle<()>,
    // Dropped in this order: the lock goes last.
    _endpoint: Endpoint,
    lock: Lock,
}

impl Owner {
    /// Serves a directory whose lock is held.
    ///
    /// # Errors
    /// [`HostError::Io`].
    pub fn serve(
        lock: Lock,
        resident: Arc<dyn Resident>,
        mut record: Record,
    ) -> Result<Self, HostError> {
        let (endpoint, listener) = Endpoint::bind(&lock)?;
        record.endpoint = Some(endpoint.path().into());
        lock.publish(&record)?;
        let attached = Arc::new(Attached::default());
        let service = Service {
            backend: resident.backend(),
            server: ServerInfo {
                version: record.version,
                conn_id: String::new(),
                pid: Some(record.pid),
                config: record.config,
                demo: record.demo,
            },
            attached: attached.clone(),
        };
        Ok(Self(Some(Parts {
            resident,
            attached,
            serving: tokio::spawn(serve(listener, service)),
            _endpoint: endpoint,
            lock,
        })))
    }

    /// Waits until nothing is left to do for anybody. Then nobody is let in any longer.
    pub async fn until_idle(&self) {
        let Some(parts) = &self.0 else { return };
        let mut wait = GRACE;
        loop {
            parts.attached.nobody().await;
            tokio::select! {
                () = parts.attached.somebody() => {}
                () = tokio::time::sleep(wait) => {
                    if parts.resident.is_settled() && parts.attached.close_if_empty() {
                        return;
                    }
                }
            }
            wait = IDLE;
        }
    }

    /// Hangs up, lets the engine put its things away, and gives the lock back.
    pub async fn close(mut self) {
        if let Some(parts) = self.0.take() {
            parts.close().await;
        }
    }
}

impl Parts {
    async fn close(self) {
        self.serving.abort();
        // Until the listener is gone: who comes now has to find nobody.
        let _ = self.serving.await;
        let shutdown = tokio::time::timeout(SHUTDOWN, self.resident.shutdown());
        if shutdown.await.is_err() {
            tracing::warn!(
                "the engine did not end in time; what it left is put right by the next one"
            );
        }
        self.lock.withdraw();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(parts) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(parts.close());
        }
    }
}

/// The owner's engine for the owner's own process.
impl Backend for Owner {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Failure>> {
        Box::pin(async move {
            let Some(parts) = &self.0 else {
                return Err(super::gone());
            };
            let mut reply = parts.resident.backend().call(call).await?;
            if let Reply::Info(info) = &mut reply {
                info.attached = parts.attached.count() + 1;
            }
            Ok(reply)
        })
    }

    fn events(&self, since: Option<String>) -> mpsc::Receiver<Event> {
        match &self.0 {
            Some(parts) => parts.resident.backend().events(since),
            None => mpsc::channel(1).1,
        }
    }
}
