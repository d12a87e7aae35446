//! Foreign OpenClaw directories, read-only: nothing in them is ever written, created, locked or touched (D-4, AM-2).

pub mod directory;
pub mod files;
mod index;
mod query;
mod snapshot;
pub mod sqlite;
mod view;
