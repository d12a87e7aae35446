//! A screen as a picture: every cell of a buffer as SVG, in a window frame with a title.
//!
//! The same buffer gives the same bytes. Runs of cells in one style are one `text` element with its length fixed, so
//! that columns stand where they stood whatever font the reader has. Absent on purpose: scripts, fonts to load.

use super::theme::{Theme, rgb};
use crate::text;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::Modifier;
use std::fmt::Write;

/// Size of a cell, in hundredths, so that sums are exact.
const CELL_W: u32 = 840;
const CELL_H: u32 = 1700;
const BAR: u32 = 3200;
const EDGE: u32 = 1000;

type Rgb = (u8, u8, u8);

/// How a run of cells looks.
#[derive(Clone, Copy, PartialEq)]
struct Look {
    ink: Rgb,
    paper: Option<Rgb>,
    modifier: Modifier,
}

/// The picture. `title` is shown in the window's bar.
pub fn svg(buffer: &Buffer, theme: &Theme, title: &str) -> String {
    let area = *buffer.area();
    let width = 2 * EDGE + u32::from(area.width) * CELL_W;
    let height = BAR + EDGE + u32::from(area.height) * CELL_H;
    let mut out = String::new();
    let (paper, ink) = (hex(theme.paper()), hex(theme.ink()));
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" font-family="'DejaVu Sans Mono',Menlo,Consolas,monospace" font-size="14" fill="{ink}">"#,
        w = number(width),
        h = number(height),
    );
    let _ = writeln!(
        out,
        r##"<rect width="{}" height="{}" rx="9" fill="{paper}" stroke="{ink}" stroke-opacity="0.25"/>"##,
        number(width),
        number(height)
    );
    for (at, color) in [(0u32, "#f07178"), (1, "#e5b567"), (2, "#9bc86f")] {
        let _ = writeln!(
            out,
            r#"<circle cx="{}" cy="16" r="5.5" fill="{color}"/>"#,
            18 + at * 18
        );
    }
    let _ = writeln!(
        out,
        r#"<text x="{}" y="21" text-anchor="middle" fill-opacity="0.6">{}</text>"#,
        number(width / 2),
        escape(text::clean_str(title).as_str())
    );
    for y in area.top()..area.bottom() {
        row(&mut out, buffer, theme, y);
    }
    out.push_str("</svg>\n");
    out
}

fn row(out: &mut String, buffer: &Buffer, theme: &Theme, y: u16) {
    let area = buffer.area();
    let mut x = area.left();
    // A run: where it begins, how many columns, its look, its text.
    let mut run: Option<(u16, u16, Look, String)> = None;
    while x < area.right() {
        let Some(cell) = buffer.cell((x, y)) else {
            break;
        };
        let symbol = cell.symbol();
        let columns = u16::try_from(text::width(symbol).max(1))
            .unwrap_or(1)
            .min(area.right() - x);
        let look = look_of(cell, theme);
        match &mut run {
            // A wide character is a run of its own: its font may have another idea of twice the width.
            Some((_, length, before, text))
                if *before == look && columns == 1 && symbol.is_ascii() =>
            {
                *length += 1;
                text.push_str(symbol);
            }
            _ => {
                if let Some(done) = run.take() {
                    flush(out, &done, area.left(), y - area.top());
                }
                let alone = columns > 1 || !symbol.is_ascii();
                let next = (x, columns, look, symbol.to_owned());
                if alone {
                    flush(out, &next, area.left(), y - area.top());
                } else {
                    run = Some(next);
                }
            }
        }
        x += columns;
    }
    if let Some(done) = run {
        flush(out, &done, area.left(), y - area.top());
    }
}

fn look_of(cell: &Cell, theme: &Theme) -> Look {
    let ink = rgb(cell.fg).unwrap_or(theme.ink());
    let paper = rgb(cell.bg);
    let modifier = cell.modifier;
    if modifier.contains(Modifier::REVERSED) {
        Look {
            ink: paper.unwrap_or(theme.paper()),
            paper: Some(ink),
            modifier: modifier - Modifier::REVERSED,
        }
    } else {
        Look {
            ink,
            paper,
            modifier,
        }
    }
}

fn flush(out: &mut String, run: &(u16, u16, Look, String), left: u16, row: u16) {
    let (x, columns, look, text) = run;
    let x0 = EDGE + u32::from(x - left) * CELL_W;
    let y0 = BAR + u32::from(row) * CELL_H;
    let width = u32::from(*columns) * CELL_W;
    if let Some(paper) = look.paper {
        let _ = writeln!(
            out,
            r#"<rect x="{}" y="{}" width="{}" height="{}" fill="{}"/>"#,
            number(x0),
            number(y0),
            number(width),
            number(CELL_H),
            hex(paper)
        );
    }
    if look
        .modifier
        .intersects(Modifier::UNDERLINED | Modifier::CROSSED_OUT)
    {
        // A line goes on under blanks; readers of SVG may fold those, so they are hard ones here.
        letters(out, look, x0, y0, width, &text.replace(' ', "\u{a0}"));
        return;
    }
    // Words apart stand on their own: nothing depends on how a reader treats blanks.
    let mut from = 0;
    for words in text.split("  ") {
        let start = from;
        from += words.len() + 2;
        let trimmed = words.trim_start();
        let start = start + (words.len() - trimmed.len());
        let trimmed = trimmed.trim_end();
        if trimmed.is_empty() {
            continue;
        }
        // Runs of more than one symbol are ASCII, a byte a column; one symbol alone takes the run's width.
        let (at, long) = if trimmed.is_ascii() {
            (cells(start), cells(trimmed.len()))
        } else {
            (0, width)
        };
        letters(out, look, x0 + at, y0, long, trimmed);
    }
}

/// Columns in hundredths.
fn cells(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(0) * CELL_W
}

fn letters(out: &mut String, look: &Look, x: u32, y: u32, width: u32, text: &str) {
    let _ = write!(
        out,
        r#"<text x="{}" y="{}" textLength="{}" lengthAdjust="spacingAndGlyphs" fill="{}""#,
        number(x),
        number(y + 1300),
        number(width),
        hex(look.ink)
    );
    if look.modifier.contains(Modifier::BOLD) {
        out.push_str(r#" font-weight="bold""#);
    }
    if look.modifier.contains(Modifier::ITALIC) {
        out.push_str(r#" font-style="italic""#);
    }
    if look.modifier.contains(Modifier::DIM) {
        out.push_str(r#" fill-opacity="0.6""#);
    }
    match (
        look.modifier.contains(Modifier::UNDERLINED),
        look.modifier.contains(Modifier::CROSSED_OUT),
    ) {
        (true, true) => out.push_str(r#" text-decoration="underline line-through""#),
        (true, false) => out.push_str(r#" text-decoration="underline""#),
        (false, true) => out.push_str(r#" text-decoration="line-through""#),
        (false, false) => {}
    }
    let _ = writeln!(out, ">{}</text>", escape(text));
}

fn number(hundredths: u32) -> String {
    match hundredths % 100 {
        0 => format!("{}", hundredths / 100),
        part if part % 10 == 0 => format!("{}.{}", hundredths / 100, part / 10),
        part => format!("{}.{part:02}", hundredths / 100),
    }
}

fn hex((r, g, b): Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// XML text; what XML 1.0 cannot hold becomes the replacement character.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
