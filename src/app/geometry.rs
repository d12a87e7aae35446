//! What drawing tells back: places on the screen by what they mean. `app` knows no widths; it asks for what it needs
//! to page and to click through this.

use super::Focus;
use crate::model::key::{Kind, SessionKey};

/// Columns and rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    pub columns: u16,
    pub rows: u16,
}

/// A rectangle of cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Area {
    pub x: u16,
    pub y: u16,
    pub width: u16,
    pub height: u16,
}

impl Area {
    /// The cell lies in it.
    pub const fn contains(&self, column: u16, row: u16) -> bool {
        column >= self.x
            && row >= self.y
            && column < self.x.saturating_add(self.width)
            && row < self.y.saturating_add(self.height)
    }
}

/// What stands somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spot {
    Pane(Focus),
    /// The border between the panes, to drag.
    Divider,
    Session(SessionKey),
    /// A chip of the kinds; `None` is `all`.
    KindChip(Option<Kind>),
    /// A message, by its position.
    Message(u64),
    /// "N new": goes to the end.
    FollowMark,
    /// Item of the topmost menu.
    MenuItem(usize),
    /// Field of the spawn dialog.
    Field(super::spawn::Field),
    /// The inside of the topmost layer; a click outside of it closes it.
    Layer,
}

/// What was drawn last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Viewport {
    /// Later ones lie above earlier ones.
    pub spots: Vec<(Area, Spot)>,
    /// First row of the list that is drawn, as an index of the shown rows.
    pub list_top: usize,
    /// Session rows that fit.
    pub list_rows: u16,
    pub transcript: TranscriptView,
    /// Scroll of the topmost pager or spawn dialog as it was clamped, and the rows that fit in it.
    pub pager_top: usize,
    pub pager_rows: u16,
    /// One pane at a time.
    pub narrow: bool,
}

/// What of the transcript was drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TranscriptView {
    /// First line on the screen: message (by position) and line in it, as clamped.
    pub top: Option<(u64, usize)>,
    /// First and last message of which something is seen.
    pub first: Option<u64>,
    pub last: Option<u64>,
    /// The first one begins above, the last one ends below.
    pub first_cut: bool,
    pub last_cut: bool,
    pub at_top: bool,
    pub at_bottom: bool,
    /// Rows of the pane.
    pub rows: u16,
}
