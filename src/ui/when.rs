//! Moments and spans as people read them.
//!
//! Absent on purpose: the clock itself, and ages ([`crate::app::ages`], which also knows when they change).

use crate::clean_format;
use crate::text::{Clean, clean_str};
use jiff::tz::TimeZone;

/// A span: `340 ms`, `4.1 s`, `2 min 5 s`, `3 h 12 min`.
pub fn span(ms: i64) -> Clean {
    let ms = ms.max(0);
    match ms {
        0..=999 => clean_format!("{} ms", ms),
        1_000..=9_949 => clean_format!("{:.1} s", ms as f64 / 1000.0),
        9_950..=59_499 => clean_format!("{} s", (ms + 500) / 1000),
        59_500..=3_599_999 => {
            let s = (ms + 500) / 1000;
            if s % 60 == 0 {
                clean_format!("{} min", s / 60)
            } else {
                clean_format!("{} min {} s", s / 60, s % 60)
            }
        }
        _ => clean_format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

fn format(at: i64, zone: &TimeZone, pattern: &str) -> Option<Clean> {
    let zoned = jiff::Timestamp::from_millisecond(at)
        .ok()?
        .to_zoned_datetime(zone.clone());
    Some(clean_str(&zoned.strftime(pattern).to_string()))
}

/// `14:02`
pub fn clock(at: i64, zone: &TimeZone) -> Clean {
    format(at, zone, "%H:%M").unwrap_or_else(|| "--:--".into())
}

/// `14:02:58`
pub fn time(at: i64, zone: &TimeZone) -> Clean {
    format(at, zone, "%H:%M:%S").unwrap_or_else(|| "--:--:--".into())
}

/// `Mon 30 Nov 2026`
pub fn day(at: i64, zone: &TimeZone) -> Clean {
    format(at, zone, "%a %-d %b %Y").unwrap_or_else(|| "some day".into())
}

/// `312 B`, `1.3 kB`, `4.0 MB`.
pub fn bytes(count: u64) -> Clean {
    match count {
        0..=999 => clean_format!("{} B", count),
        1_000..=999_949 => clean_format!("{:.1} kB", count as f64 / 1e3),
        999_950..=999_949_999 => clean_format!("{:.1} MB", count as f64 / 1e6),
        _ => clean_format!("{:.1} GB", count as f64 / 1e9),
    }
}

/// `312`, `12.4k`, `1.2M`.
pub fn count(number: i64) -> Clean {
    match number {
        i64::MIN..=9_999 => clean_format!("{}", number),
        10_000..=99_949 => clean_format!("{:.1}k", number as f64 / 1e3),
        99_950..=999_499 => clean_format!("{}k", (number + 500) / 1000),
        _ => clean_format!("{:.1}M", number as f64 / 1e6),
    }
}

/// `$0.002`, `$1.25`.
pub fn dollars(amount: f64) -> Clean {
    if amount < 0.1 {
        clean_format!("${:.3}", amount)
    } else {
        clean_format!("${:.2}", amount)
    }
}
