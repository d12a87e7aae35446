//! Popups that are read: details of a session, JSON, what is hidden, remarks.

use crate::text::Clean;

/// Text to read, with a place in it.
#[derive(Debug, Clone, Default)]
pub struct Pager {
    pub title: Clean,
    pub lines: Vec<PagerLine>,
    /// First line wanted on the screen; the drawing clamps it.
    pub top: usize,
    /// Still asked for.
    pub loading: bool,
}

/// A line of a pager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PagerLine {
    Heading(Clean),
    /// A name and its value, in two columns.
    Fact(Clean, Clean),
    Text(Clean),
}
