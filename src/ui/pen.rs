//! The only place that writes cells: clean text into a rectangle, nothing outside it.
//!
//! Whatever the text, no cell outside the given rectangle changes, no cell holds a control character, and a wide
//! character never straddles an edge. Absent on purpose: what is drawn.

use super::line::Line;
use super::theme::{Role, Theme};
use crate::text::{self, Clean};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Writes on the first row of `area`; gives the column after the text.
pub fn put(buffer: &mut Buffer, area: Rect, text: &Clean, style: Style) -> u16 {
    let area = area.intersection(*buffer.area());
    let mut x = area.x;
    if area.height == 0 {
        return x;
    }
    for (symbol, width) in text::graphemes(text.as_str()) {
        let Ok(width) = u16::try_from(width) else {
            break;
        };
        // Cleaning leaves neither; a line break of a block is not this function's to follow.
        if width == 0 || symbol.chars().any(char::is_control) {
            continue;
        }
        if width > area.right().saturating_sub(x) {
            break;
        }
        for column in x..x + width {
            if let Some(cell) = buffer.cell_mut((column, area.y)) {
                // The cells that a wide character covers are blank, so that a later diff leaves them alone.
                cell.set_symbol(if column == x { symbol } else { " " });
                cell.set_style(style);
            }
        }
        x += width;
    }
    x
}

/// Writes a line on the first row of `area`, marked where it is cut off; gives the column after it.
pub fn put_line(buffer: &mut Buffer, area: Rect, line: &Line) -> u16 {
    let cut;
    let line = if line.width() > usize::from(area.width) {
        cut = line.clone().cut(usize::from(area.width));
        &cut
    } else {
        line
    };
    let mut rest = area;
    for piece in &line.0 {
        let x = put(buffer, rest, &piece.text, piece.style);
        rest.width = area.right().saturating_sub(x);
        rest.x = x;
    }
    rest.x
}

/// Writes lines downwards as far as there is room; gives how many.
pub fn put_lines(buffer: &mut Buffer, area: Rect, lines: &[Line]) -> u16 {
    let mut count = 0;
    for (row, line) in area.rows().zip(lines) {
        put_line(buffer, row, line);
        count += 1;
    }
    count
}

/// Lays a style over cells that are there already.
pub fn tint(buffer: &mut Buffer, area: Rect, style: Style) {
    buffer.set_style(area.intersection(*buffer.area()), style);
}

/// Blanks cells, as a popup does with what is behind it.
pub fn clear(buffer: &mut Buffer, area: Rect) {
    let area = area.intersection(*buffer.area());
    for row in area.rows() {
        // A wide character that begins left of the area would reach into it.
        if row.x > buffer.area().x
            && let Some(cell) = buffer.cell_mut((row.x - 1, row.y))
            && text::width(cell.symbol()) > 1
        {
            cell.set_symbol(" ");
        }
        for place in row.positions() {
            if let Some(cell) = buffer.cell_mut(place) {
                cell.reset();
            }
        }
    }
}

/// A frame's words.
#[derive(Debug, Clone, Default)]
pub struct Titles {
    pub left: Line,
    pub right: Line,
    pub bottom: Line,
}

/// Draws a rounded frame with its titles in the border; gives what is inside.
pub fn frame(
    buffer: &mut Buffer,
    area: Rect,
    titles: &Titles,
    focused: bool,
    theme: &Theme,
) -> Rect {
    let area = area.intersection(*buffer.area());
    if area.width < 2 || area.height < 2 {
        return Rect::new(area.x, area.y, 0, 0);
    }
    let style = theme.style(if focused { Role::Focus } else { Role::Border });
    let (l, r, t, b) = (area.x, area.right() - 1, area.y, area.bottom() - 1);
    let corner = |x: u16, y: u16| Rect::new(x, y, 1, 1);
    for x in l..=r {
        put(buffer, corner(x, t), &"─".into(), style);
        put(buffer, corner(x, b), &"─".into(), style);
    }
    for y in t..=b {
        put(buffer, corner(l, y), &"│".into(), style);
        put(buffer, corner(r, y), &"│".into(), style);
    }
    for (x, y, symbol) in [(l, t, "╭"), (r, t, "╮"), (l, b, "╰"), (r, b, "╯")] {
        put(buffer, corner(x, y), &symbol.into(), style);
    }
    // Titles keep one border cell and a space on either side.
    let room = usize::from(area.width.saturating_sub(4));
    let pad = |line: Line| -> Line {
        if line.is_empty() {
            return line;
        }
        Line::of(" ", style).and(line).with(" ", style)
    };
    let left = pad(titles.left.clone().cut(room.saturating_sub(2)));
    let right = pad(titles.right.clone());
    let left_width = left.width();
    let at = |x: u16, y: u16, width: usize| {
        Rect::new(x, y, u16::try_from(width).unwrap_or(u16::MAX), 1).intersection(area)
    };
    put_line(buffer, at(l + 1, t, left_width), &left);
    if left_width + right.width() < room + 2 {
        let width = right.width();
        let x = r.saturating_sub(u16::try_from(width).unwrap_or(u16::MAX));
        put_line(buffer, at(x, t, width), &right);
    }
    if !titles.bottom.is_empty() {
        let bottom = pad(titles.bottom.clone().cut(room.saturating_sub(2)));
        let width = bottom.width();
        let x = r.saturating_sub(u16::try_from(width).unwrap_or(u16::MAX));
        put_line(buffer, at(x, b, width), &bottom);
    }
    Rect::new(l + 1, t + 1, area.width - 2, area.height - 2)
}

/// A mark on the right border of a frame that says where in a longer text one is.
pub fn scrollbar(
    buffer: &mut Buffer,
    framed: Rect,
    first: usize,
    shown: usize,
    all: usize,
    theme: &Theme,
) {
    let track = usize::from(framed.height.saturating_sub(2));
    if all <= shown || track == 0 || framed.width == 0 {
        return;
    }
    let size = (track * shown / all).clamp(1, track);
    let top = (track - size) * first.min(all - shown) / (all - shown);
    for row in top..top + size {
        let y = framed.y + 1 + u16::try_from(row).unwrap_or(0);
        let cell = Rect::new(framed.right() - 1, y, 1, 1);
        put(
            buffer,
            cell,
            &super::glyph::SCROLL.into(),
            theme.style(Role::Dim),
        );
    }
}
