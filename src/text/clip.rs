//! Cutting clean text to a number of columns, always with a visible mark.
//!
//! The result is one line, never wider than asked for, and never half of a grapheme; where a wide one does not fit
//! whole, the result is a column narrower. Work is done for what is kept, not for what is cut off.
//! Absent on purpose: padding, which is the view's business.

use super::Clean;
use super::width::{graphemes, graphemes_back};

const MARK: &str = "…";

/// At most `columns` wide; what is cut off is marked with `…`. A block is cut at its first line break.
pub fn clip(text: &Clean, columns: usize) -> Clean {
    let text = text.as_str();
    let Some(kept) = overflow(text, columns) else {
        return Clean(text.to_owned());
    };
    if columns == 0 {
        return Clean::empty();
    }
    Clean([&text[..kept], MARK].concat())
}

/// As [`clip`], keeping both ends: the start gets the odd column.
pub fn clip_middle(text: &Clean, columns: usize) -> Clean {
    let text = text.as_str();
    if overflow(text, columns).is_none() {
        return Clean(text.to_owned());
    }
    if columns == 0 {
        return Clean::empty();
    }
    let room = columns - 1;
    let (head, used) = fitting(graphemes(text), room.div_ceil(2));
    let (tail, _) = fitting(graphemes_back(&text[head..]), room - used);
    Clean([&text[..head], MARK, &text[text.len() - tail..]].concat())
}

/// `None` when `text` is one line that fits; otherwise the bytes that fit beside the mark.
fn overflow(text: &str, columns: usize) -> Option<usize> {
    let (all, _) = fitting(graphemes(text), columns);
    if all == text.len() {
        return None;
    }
    Some(fitting(graphemes(text), columns.saturating_sub(1)).0)
}

/// Bytes and columns of the pieces that fit, up to a line break.
fn fitting<'a>(pieces: impl Iterator<Item = (&'a str, usize)>, columns: usize) -> (usize, usize) {
    let mut bytes = 0;
    let mut used = 0;
    for (piece, wide) in pieces {
        if piece == "\n" || used + wide > columns {
            break;
        }
        bytes += piece.len();
        used += wide;
    }
    (bytes, used)
}
