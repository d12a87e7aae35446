//! Ages as they are shown, and when what is shown changes: nothing is redrawn for a second that does not show.

use crate::clean_format;
use crate::text::Clean;

/// `now`, `14s`, `3m`, `1h`, `2d`, `5w`.
pub fn shown(now_ms: i64, at: i64) -> Clean {
    let seconds = seconds(now_ms, at);
    match seconds {
        0..=4 => Clean::fixed("now"),
        5..=59 => clean_format!("{}s", seconds),
        60..=3599 => clean_format!("{}m", seconds / 60),
        3600..=86_399 => clean_format!("{}h", seconds / 3600),
        86_400..=1_209_599 => clean_format!("{}d", seconds / 86_400),
        _ => clean_format!("{}w", seconds / 604_800),
    }
}

/// The time at which [`shown`] gives something else.
pub fn changes_at(now_ms: i64, at: i64) -> i64 {
    let seconds = seconds(now_ms, at);
    let next = match seconds {
        0..=4 => 5,
        5..=59 => seconds + 1,
        60..=3599 => (seconds / 60 + 1) * 60,
        3600..=86_399 => (seconds / 3600 + 1) * 3600,
        86_400..=1_209_599 => (seconds / 86_400 + 1) * 86_400,
        _ => (seconds / 604_800 + 1) * 604_800,
    };
    // A time in the future counts as now; it begins to age when it is reached.
    at.saturating_add(next.saturating_mul(1000))
}

fn seconds(now_ms: i64, at: i64) -> i64 {
    now_ms.saturating_sub(at).max(0) / 1000
}
