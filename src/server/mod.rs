//! Puts any backend on the wire.
//!
//! One task per connection, one per request: answers come in any order, and a request that waits for a run delays
//! nothing. A connection that goes away takes its answers along, never the work (that is the backend's contract).
//! What goes out is bounded: a client that does not read stops its own connection, and the backend tells its event
//! stream to resync. Absent on purpose: who may see what, and sockets beyond this machine.

mod attached;
mod connection;

pub use attached::Attached;
pub use connection::serve_stream;

use crate::backend::SharedBackend;
use crate::protocol::frames::ServerInfo;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::task::JoinSet;

/// What all connections of a server share.
#[derive(Clone)]
pub struct Service {
    pub backend: SharedBackend,
    /// What the server says of itself; the connection id is filled in.
    pub server: ServerInfo,
    pub attached: Arc<Attached>,
}

/// Serves every connection of our own user, until the future is dropped; then all connections are closed.
pub async fn serve(listener: UnixListener, service: Service) {
    let own = rustix::process::geteuid().as_raw();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => match stream.peer_cred() {
                    Ok(peer) if may_connect(peer.uid(), own) => {
                        let Some(entry) = service.attached.enter(peer.pid()) else {
                            continue;
                        };
                        let service = service.clone();
                        connections.spawn(async move {
                            serve_stream(stream, service).await;
                            drop(entry);
                        });
                    }
                    Ok(peer) => tracing::warn!("user {} was turned away", peer.uid()),
                    Err(error) => tracing::warn!("a connection of an unknown user was turned away: {error}"),
                },
                Err(error) => {
                    // No file descriptors left, most likely: they come back when others hang up.
                    tracing::warn!("accept: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// Only our own user may connect; not even root, whose commands would make files we cannot change.
pub fn may_connect(peer_uid: u32, own_uid: u32) -> bool {
    peer_uid == own_uid
}
