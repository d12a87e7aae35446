//! One line of the screen before it has a place: pieces of clean text with styles.
//!
//! A [`Line`] can only be made of [`Clean`] text and of the program's own words, so whatever is drawn has been
//! cleaned. Widths are columns. Absent on purpose: where a line goes.

use crate::text::{self, Clean};
use ratatui::style::Style;

/// Text in one style.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    pub text: Clean,
    pub style: Style,
}

/// Pieces side by side.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line(pub Vec<Piece>);

impl Line {
    /// Nothing.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// One piece.
    pub fn of(text: impl Into<Clean>, style: Style) -> Self {
        Self::new().with(text, style)
    }

    /// With one piece more.
    #[must_use]
    pub fn with(mut self, text: impl Into<Clean>, style: Style) -> Self {
        self.push(text, style);
        self
    }

    /// With the pieces of another line.
    #[must_use]
    pub fn and(mut self, other: Line) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Adds a piece.
    pub fn push(&mut self, text: impl Into<Clean>, style: Style) {
        let text = text.into();
        if !text.as_str().is_empty() {
            self.0.push(Piece { text, style });
        }
    }

    /// Nothing to see.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.0
            .iter()
            .map(|piece| text::width(piece.text.as_str()))
            .sum()
    }

    /// The same pieces with a style laid over each.
    #[must_use]
    pub fn patched(mut self, style: Style) -> Self {
        for piece in &mut self.0 {
            piece.style = piece.style.patch(style);
        }
        self
    }

    /// At most `columns` wide; what is cut off is marked.
    #[must_use]
    pub fn cut(self, columns: usize) -> Self {
        if self.width() <= columns {
            return self;
        }
        let mut left = columns;
        let mut out = Line::new();
        for (at, piece) in self.0.iter().enumerate() {
            let width = text::width(piece.text.as_str());
            let more = self.0[at + 1..].iter().any(|p| !p.text.as_str().is_empty());
            // The mark needs a column of its own unless this piece is the last one and fits.
            if width < left || (width == left && !more) {
                out.push(piece.text.clone(), piece.style);
                left -= width;
                continue;
            }
            let marked = if width <= left {
                // The piece fits but what follows does not: the mark takes its last column.
                let mut longer = piece.text.clone();
                longer.push(&Clean::fixed("  "));
                text::clip(&longer, left)
            } else {
                text::clip(&piece.text, left)
            };
            out.push(marked, piece.style);
            break;
        }
        out
    }

    /// As many lines as it takes at `columns` (at least one).
    pub fn wrap(&self, columns: usize) -> Vec<Line> {
        let columns = columns.max(1);
        if self.width() <= columns {
            return vec![self.clone()];
        }
        let whole: String = self.0.iter().map(|piece| piece.text.as_str()).collect();
        let mut ends = Vec::with_capacity(self.0.len());
        let mut end = 0;
        for piece in &self.0 {
            end += piece.text.as_str().len();
            ends.push(end);
        }
        let mut out = Vec::new();
        let mut first = 0;
        for range in text::wrap(&whole, columns) {
            let mut line = Line::new();
            while first < ends.len() && ends[first] <= range.start {
                first += 1;
            }
            for (piece, end) in self.0.iter().zip(&ends).skip(first) {
                let start = end - piece.text.as_str().len();
                if start >= range.end {
                    break;
                }
                let from = range.start.max(start) - start;
                let to = range.end.min(*end) - start;
                line.push(piece.text.slice(from..to), piece.style);
            }
            out.push(line);
        }
        if out.is_empty() {
            out.push(Line::new());
        }
        out
    }

    /// As [`Line::wrap`], at most `most` lines (at least one); what is cut off is marked.
    pub fn wrap_to(&self, columns: usize, most: usize) -> Vec<Line> {
        let mut lines = self.wrap(columns);
        if lines.len() > most.max(1) {
            let rest = lines.split_off(most.max(1) - 1);
            let mut last = Line::new();
            for line in rest {
                if !last.is_empty() {
                    last.push(" ", Style::new());
                }
                last = last.and(line);
            }
            lines.push(last.cut(columns));
        }
        lines
    }

    /// `left`, then space, then `right` against the right edge. What does not fit is cut off the left; where that
    /// would leave less than a third of the columns, the right part is given up.
    pub fn justified(left: Line, right: Line, columns: usize) -> Line {
        let (l, r) = (left.width(), right.width());
        if r == 0 {
            return left.cut(columns);
        }
        if l + 1 + r <= columns {
            let gap = columns - l - r;
            return left.with(spaces(gap), Style::new()).and(right);
        }
        if r + 1 + columns / 3 > columns {
            return left.cut(columns);
        }
        let left = left.cut(columns - r - 1);
        let gap = columns - r - left.width();
        left.with(spaces(gap), Style::new()).and(right)
    }
}

/// Nothing but columns.
pub fn spaces(columns: usize) -> Clean {
    crate::clean_format!("{:1$}", "", columns)
}

/// A symbol of ours, again and again.
pub fn repeat(symbol: &'static str, times: usize) -> Clean {
    let one = Clean::fixed(symbol);
    let mut all = Clean::empty();
    for _ in 0..times {
        all.push(&one);
    }
    all
}

/// Exactly `columns` wide: cut with a mark, or filled with spaces.
pub fn column(text: &Clean, columns: usize) -> Clean {
    let mut out = text::clip(text, columns);
    let width = text::width(out.as_str());
    if width < columns {
        out.push(&spaces(columns - width));
    }
    out
}
