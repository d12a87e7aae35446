//! Crosstalk: a terminal browser for agent sessions.
//!
//! The house has floors; a module uses what stands below it, never what stands above or beside it (a test reads the
//! modules' paths and fails on any other arrow):
//!
//! ```text
//! 10  main.rs                            parse, dispatch, exit code
//!  9  tui/      cli/                     the front doors: a person, a script
//!  8  host/                              who owns a state directory
//!  7  ui/       server/                  ui draws app; server puts any backend on the wire
//!  6  app/                               the browser as pure state
//!  5  backend/                           the one interface of all front doors
//!  4  engine/   client/                  who answers it: our engine, or another process
//!  3  agents/   store/   protocol/       what an engine runs, where things are kept, what goes over the wire
//!  2  config/                            settings as typed, resolved once
//!  1  model/                             the words of the domain
//!  0  error  clock  text/  strings       plain helpers
//! ```
//!
//! What is absent: `model` and `app` know no file, clock, tokio or ratatui; only `store` opens session files and
//! databases; only `client`, `server` and `host` name tungstenite; only `ui` and `tui` name ratatui or crossterm (but
//! for the text area in one file of `app`); only `agents` talks to a model; and no text from outside reaches a sink
//! but through `text::clean`.

pub mod agents;
pub mod app;
pub mod backend;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod engine;
pub mod error;
pub mod host;
pub mod model;
pub mod protocol;
pub mod server;
pub mod store;
pub mod strings;
pub mod text;
pub mod tui;
pub mod ui;
