//! Text that is being typed, wrapped so that every character, blanks at the end too, has a cell.

use super::line::Line;
use crate::app::draft::Draft;
use crate::text::{self, Clean};
use ratatui::style::Style;
use std::ops::Range;

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
    let before = before.clean().as_str().len();
    let mut lines = Vec::new();
    let mut cursor = (0, 0);
    for (at, line) in draft.lines().iter().enumerate() {
        let clean = line.clean();
        let rows = rows(&clean, columns);
        if at == cursor_line {
            let row = rows
                .iter()
                .rposition(|row| row.start <= before)
                .unwrap_or(0);
            let start = rows.get(row).map_or(0, |row| row.start);
            let column = text::width(clean.slice(start..before.max(start)).as_str());
            cursor = (lines.len() + row, column);
            // Behind a full last row it stands at the beginning of the next.
            if column >= columns {
                cursor = (cursor.0 + 1, 0);
            }
        }
        lines.extend(
            rows.into_iter()
                .map(|row| Line::of(clean.slice(row), style)),
        );
    }
    while lines.len() <= cursor.0 {
        lines.push(Line::new());
    }
    Laid { lines, cursor }
}

/// Rows of at most `columns` that leave out nothing: cut behind a blank where there is one, else anywhere.
fn rows(line: &Clean, columns: usize) -> Vec<Range<usize>> {
    let mut rows = Vec::new();
    let (mut start, mut end, mut used) = (0, 0, 0);
    // Where the word begins that is being read, and the columns before it.
    let mut word = (0, 0);
    for (symbol, width) in text::graphemes(line.as_str()) {
        if used + width > columns {
            let (cut, before) = if word.0 > start && symbol != " " {
                word
            } else {
                (end, used)
            };
            rows.push(start..cut);
            start = cut;
            used -= before;
            word = (start, 0);
        }
        used += width;
        end += symbol.len();
        if symbol == " " {
            word = (end, used);
        }
    }
    rows.push(start..end);
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
