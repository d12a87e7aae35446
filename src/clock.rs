//! Time and ids as things that are handed in, so that every rule about time can be tested (E-3).
//!
//! Waiting is tokio's, which tests pause; this is only what the wall says. Absent on purpose: formatting.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, from somewhere.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(Arc::new(|| {
            let since = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        }))
    }

    /// `start_ms` plus what tokio's clock says has passed; moves with a paused test clock.
    pub fn of_tokio(start_ms: i64) -> Self {
        let start = tokio::time::Instant::now();
        Self(Arc::new(move || {
            start_ms + i64::try_from(start.elapsed().as_millis()).unwrap_or(0)
        }))
    }

    /// Now.
    pub fn now_ms(&self) -> i64 {
        (self.0)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clock({})", self.now_ms())
    }
}
