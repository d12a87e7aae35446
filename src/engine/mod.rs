//! The embedded engine: session tools, runs, lanes, agent-to-agent flow, sub-agents.
//!
//! It does not know who is asking or how: front doors reach it only through `backend`.

pub mod agents_list;
pub mod attachments;
pub mod context;
pub mod history;
pub mod list;
pub mod reference;
