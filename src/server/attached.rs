//! How many processes are attached to a server.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::watch;

/// Counts processes, not connections: a browser has a connection for its calls and one for its events.
pub struct Attached {
    state: watch::Sender<State>,
    unknown: AtomicI64,
}

#[derive(Default)]
struct State {
    /// Nobody comes in any longer.
    closed: bool,
    by_process: HashMap<i64, usize>,
}

impl Default for Attached {
    fn default() -> Self {
        Self {
            state: watch::channel(State::default()).0,
            unknown: AtomicI64::new(0),
        }
    }
}

impl Attached {
    /// How many processes are attached.
    pub fn count(&self) -> u32 {
        u32::try_from(self.state.borrow().by_process.len()).unwrap_or(u32::MAX)
    }

    /// Waits until nobody is attached.
    pub async fn nobody(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self
            .state
            .subscribe()
            .wait_for(|state| state.by_process.is_empty())
            .await;
    }

    /// Waits until somebody is.
    pub async fn somebody(&self) {
        let _ = self
            .state
            .subscribe()
            .wait_for(|state| !state.by_process.is_empty())
            .await;
    }

    /// Closes the door when nobody is in; true when it is closed. Who is let in after looking and before closing
    /// would be greeted and then thrown out, with a request half done.
    pub fn close_if_empty(&self) -> bool {
        self.state.send_if_modified(|state| {
            let empty = state.by_process.is_empty();
            state.closed |= empty;
            empty
        })
    }

    /// Counts a connection of a process until the entry is dropped; `None` when the door is closed. A process that
    /// cannot be told counts by itself.
    pub fn enter(self: &Arc<Self>, pid: Option<i32>) -> Option<Entry> {
        let process = pid.map_or_else(
            || self.unknown.fetch_sub(1, Ordering::Relaxed) - 1,
            i64::from,
        );
        let entered = self.state.send_if_modified(|state| {
            if !state.closed {
                *state.by_process.entry(process).or_default() += 1;
            }
            !state.closed
        });
        entered.then(|| Entry {
            attached: self.clone(),
            process,
        })
    }
}

/// One connection.
pub struct Entry {
    attached: Arc<Attached>,
    process: i64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.attached.state.send_modify(|state| {
            if let Some(connections) = state.by_process.get_mut(&self.process) {
                *connections -= 1;
                if *connections == 0 {
                    state.by_process.remove(&self.process);
                }
            }
        });
    }
}
