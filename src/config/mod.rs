//! Settings: as typed ([`file`]), resolved once ([`Settings`]).
//!
//! Absent on purpose: anything that is not configuration; secrets are read where they are used.

mod file;
mod settings;

pub use file::{ConfigError, load, parse};
pub use settings::{
    AgentSettings, AttachmentLimits, Runtime, SandboxMode, Settings, SubagentSettings,
    SubagentTools, UiSettings,
};
