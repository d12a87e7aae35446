//! Text that is being typed, wrapped hard at the edge so that every character, blanks at the end too, has a cell.

use super::line::Line;
use crate::app::draft::Draft;
use crate::text::{self, Clean};
use ratatui::style::Style;

/// A draft laid out at a width.
#[derive(Debug, Clone)]
pub struct Laid {
    pub lines: Vec<Line>,
    /// Row and column of the cursor.
    pub cursor: (usize, usize),
}

/// Lays a draft out.
pub fn lay(draft: &Draft, columns: usize, style: Style) -> Laid {
    let columns = columns.max(2);
    let (cursor_line, _) = draft.cursor();
    let (before, _) = draft.around_cursor();
    let before = before.clean();
    let mut lines = Vec::new();
    let mut cursor = (0, 0);
    for (at, line) in draft.lines().iter().enumerate() {
        let clean = line.clean();
        let rows = hard(&clean, columns);
        if at == cursor_line {
            let shown = hard(&before, columns);
            let last = shown.last().map_or(0, |row| text::width(row.as_str()));
            cursor = (lines.len() + shown.len().saturating_sub(1), last);
            if last >= columns {
                cursor = (cursor.0 + 1, 0);
            }
        }
        lines.extend(rows.into_iter().map(|row| Line::of(row, style)));
    }
    // The cursor may stand after a full last row.
    while lines.len() <= cursor.0 {
        lines.push(Line::new());
    }
    Laid { lines, cursor }
}

/// Rows of at most `columns`, cut between any two characters; at least one.
fn hard(line: &Clean, columns: usize) -> Vec<Clean> {
    let mut rows = Vec::new();
    let (mut start, mut end, mut used) = (0, 0, 0);
    for (symbol, width) in text::graphemes(line.as_str()) {
        if used + width > columns {
            rows.push(line.slice(start..end));
            start = end;
            used = 0;
        }
        used += width;
        end += symbol.len();
    }
    rows.push(line.slice(start..end));
    rows
}

/// The part of a one-line draft that is around its cursor, and the cursor's column in it.
pub fn one_line(draft: &Draft, columns: usize, style: Style) -> (Line, usize) {
    let columns = columns.max(2);
    let (before, after) = draft.around_cursor();
    let (before, after) = (before.clean(), after.clean());
    let width = text::width(before.as_str());
    let shown = if width < columns {
        before
    } else {
        // The end of what stands before the cursor, with a cell left for the cursor itself.
        let mut skip = width + 1 - columns;
        let mut from = 0;
        for (symbol, w) in text::graphemes(before.as_str()) {
            if skip == 0 {
                break;
            }
            skip = skip.saturating_sub(w);
            from += symbol.len();
        }
        let end = before.as_str().len();
        before.slice(from..end)
    };
    let column = text::width(shown.as_str());
    let line = Line::of(shown, style).with(after, style).cut(columns);
    (line, column.min(columns - 1))
}
