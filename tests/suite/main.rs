//! One integration program, a module per area.
#![allow(clippy::unwrap_used)]

mod agents;
mod app;
mod cli;
mod config;
mod crash;
mod engine;
mod floors;
mod host;
mod model;
mod openclaw;
mod rules;
mod store;
mod text;
mod tools;
mod tui;
mod ui;
