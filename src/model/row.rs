//! From an entry to a row (§3.3): channel, names, delivery, times.
