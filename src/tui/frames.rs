//! When a frame is drawn: only when something changed, at most sixty times a second, and at once after a pause.
//!
//! Pure: time is handed in, so that it can be tested without waiting.

use std::time::Duration;
use tokio::time::Instant;

/// The least time between two frames.
pub const LEAST: Duration = Duration::from_millis(16);
/// Frames in a row that drawing itself may ask for (it tells what it clamped); a drawing that never settles stops here.
const SELF_ASKED: u8 = 3;

/// Collects wishes for a frame.
#[derive(Debug, Default)]
pub struct Frames {
    wanted: bool,
    last: Option<Instant>,
    self_asked: u8,
}

impl Frames {
    /// Something changed.
    pub fn want(&mut self) {
        self.wanted = true;
        self.self_asked = 0;
    }

    /// The drawing changed something itself.
    pub fn want_again(&mut self) {
        if self.self_asked < SELF_ASKED {
            self.self_asked += 1;
            self.wanted = true;
        }
    }

    /// When the next frame is drawn; `None`: none is wanted. A time that is past means now.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        self.wanted
            .then(|| self.last.map_or(now, |last| last + LEAST))
    }

    /// A frame was drawn.
    pub fn drawn(&mut self, now: Instant) {
        self.wanted = false;
        self.last = Some(now);
    }
}
