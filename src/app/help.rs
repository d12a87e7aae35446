//! Footer and help, derived from the key table.

use super::action::Action;
use crate::text::Clean;

/// Keys and what they do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    pub action: Action,
    /// `Ctrl+P`, `gg`, `j`.
    pub keys: Clean,
    pub words: Clean,
}

/// Part of the help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelpSection {
    pub title: Clean,
    pub hints: Vec<Hint>,
}

/// What works here, the most useful first; the drawing takes what fits.
pub fn footer(app: &super::App) -> Vec<Hint> {
    let _ = app;
    Vec::new()
}

/// Every key that works here and elsewhere, by place.
pub fn sections(app: &super::App) -> Vec<HelpSection> {
    let _ = app;
    Vec::new()
}
