//! The words of the domain: session keys, entries, rows, messages, tool parameters and results, policies, events.
//!
//! Pure data and pure decisions. Absent on purpose: I/O, clocks, tokio, ratatui. Time and randomness come in with the
//! call.

pub mod event;
pub mod key;
pub mod message;
pub mod policy;
pub mod row;
pub mod run;
pub mod session;
pub mod tools;
pub mod visibility;
