//! A foreign directory as a backend, read-only (D-4).
