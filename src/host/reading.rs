//! An engine that only reads, in this process, for as long as a command takes.

use super::lock::Lock;
use super::resident::Resident;
use crate::backend::Backend;
use crate::model::event::Event;
use crate::protocol::methods::{Call, Code, Failure, Reply};
use crate::text::Untrusted;
use futures_util::future::BoxFuture;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::sync::mpsc;

/// A directory without an owner, read. It holds the directory's lock, so that no owner changes what is being read.
pub struct Reading {
    pub(super) resident: Arc<dyn Resident>,
    /// The directory that was asked for.
    pub(super) dir: PathBuf,
    pub(super) held: Held,
}

/// What goes when the reading is over.
pub enum Held {
    Lock(Lock),
    /// There is no state yet; an empty one was made elsewhere, so that the answers are those of a real engine.
    Scratch(TempDir),
}

impl Backend for Reading {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Failure>> {
        Box::pin(async move {
            if !call.request.is_read() {
                return Err(Failure::new(
                    Code::Refused,
                    "the state was opened for reading; nothing can be changed",
                ));
            }
            let mut reply = self.resident.backend().call(call).await?;
            if let Reply::Info(info) = &mut reply {
                info.place = Untrusted::new(self.dir.to_string_lossy());
                info.attached = 1;
            }
            Ok(reply)
        })
    }

    fn events(&self, since: Option<String>) -> mpsc::Receiver<Event> {
        self.resident.backend().events(since)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Held::Lock(lock) = &self.held {
            lock.withdraw();
        }
    }
}
