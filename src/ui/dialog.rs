//! The one frame of all dialogs, and the dialogs that are made of lines: help, pagers, menus, questions.

use super::canvas::{Canvas, cells, word};
use super::edit;
use super::glyph;
use super::line::{Line, column, spaces};
use super::markdown;
use super::pen::{self, Titles};
use super::theme::Role;
use crate::app::details::{Pager, PagerLine};
use crate::app::geometry::Spot;
use crate::app::help;
use crate::app::menu::{Item, Menu};
use crate::app::{Layer, Prompt, Purpose};
use crate::clean_format;
use crate::strings::ui as words;
use crate::text::{self, Clean};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws the layers, innermost last.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect) {
    let app = canvas.app;
    for layer in &app.layers {
        // What lies below a dialog has no cursor.
        match layer {
            Layer::Prompt(prompt) if prompt.purpose == Purpose::Search => {}
            _ => canvas.cursor = None,
        }
        match layer {
            Layer::Help { top } => help_dialog(canvas, area, *top),
            Layer::Spawn => super::spawn::draw(canvas, area),
            Layer::Details(pager) | Layer::Json(pager) | Layer::Hidden(pager) => {
                pager_dialog(canvas, area, pager);
            }
            Layer::Menu(menu) | Layer::Palette(menu) => menu_dialog(canvas, area, menu),
            Layer::Prompt(prompt) if prompt.purpose == Purpose::Search => {}
            Layer::Prompt(prompt) => prompt_dialog(canvas, area, prompt),
        }
    }
}

/// A framed box in the middle with room for so many columns and rows of content, as far as the screen allows; gives
/// the frame and what is inside, less a column on either side.
pub fn open(
    canvas: &mut Canvas<'_>,
    screen: Rect,
    columns: usize,
    rows: usize,
    titles: &Titles,
) -> (Rect, Rect) {
    let width = cells(columns + 4).min(screen.width);
    let height = cells(rows + 2).min(screen.height);
    let area = Rect::new(
        screen.x + (screen.width - width) / 2,
        screen.y + (screen.height - height) / 3,
        width,
        height,
    );
    // A column of air to either side keeps what lies behind apart.
    let air = Rect::new(
        area.x.saturating_sub(1).max(screen.x),
        area.y,
        (area.width + 2).min(screen.right() - area.x.saturating_sub(1).max(screen.x)),
        area.height,
    );
    pen::clear(canvas.buffer, air);
    let inner = canvas.frame(area, titles, true);
    canvas.spot(area, Spot::Layer);
    let inside = Rect::new(
        inner.x + 1.min(inner.width),
        inner.y,
        inner.width.saturating_sub(2),
        inner.height,
    );
    (area, inside)
}

/// Columns of content a dialog may have.
pub fn room(screen: Rect, wanted: usize) -> usize {
    wanted
        .min(usize::from(screen.width.saturating_sub(4)))
        .max(1)
}

fn title(canvas: &Canvas<'_>, text: impl Into<Clean>) -> Titles {
    Titles {
        left: word(text, canvas.style(Role::Focus)),
        ..Titles::default()
    }
}

/// Draws lines that scroll, with their place; tells the place and the rows back.
fn scrolled(canvas: &mut Canvas<'_>, frame: Rect, inside: Rect, lines: &[Line], top: usize) {
    let rows = usize::from(inside.height);
    let top = top.min(lines.len().saturating_sub(rows));
    for (row, line) in inside.rows().zip(&lines[top..]) {
        canvas.line(row, line);
    }
    pen::scrollbar(canvas.buffer, frame, top, rows, lines.len(), canvas.theme);
    canvas.view.pager_top = top;
    canvas.view.pager_rows = inside.height;
}

fn help_dialog(canvas: &mut Canvas<'_>, screen: Rect, top: usize) {
    let sections = help::sections(canvas.app);
    let columns = room(screen, 100);
    let two = columns >= 70;
    let width = if two { (columns - 4) / 2 } else { columns };
    let mut blocks: Vec<Vec<Line>> = Vec::new();
    for section in &sections {
        let keys = section
            .hints
            .iter()
            .map(|hint| text::width(hint.keys.as_str()))
            .max()
            .unwrap_or(0)
            .min(width / 2);
        let mut lines = vec![word(section.title.clone(), canvas.style(Role::Heading))];
        for hint in &section.hints {
            let line = Line::of(column(&hint.keys, keys + 2), canvas.style(Role::Key))
                .with(hint.words.clone(), canvas.style(Role::Text));
            lines.push(line.cut(width));
        }
        lines.push(Line::new());
        blocks.push(lines);
    }
    if blocks.is_empty() {
        blocks.push(vec![word(words::NO_KEYS, canvas.style(Role::Dim))]);
    }
    let lines = if two {
        side_by_side(blocks, width)
    } else {
        blocks.concat()
    };
    let titles = title(canvas, words::HELP_TITLE);
    let (frame, inside) = open(canvas, screen, columns, lines.len(), &titles);
    scrolled(canvas, frame, inside, &lines, top);
}

/// Blocks in two columns of even height, their order kept.
fn side_by_side(blocks: Vec<Vec<Line>>, width: usize) -> Vec<Line> {
    let all: usize = blocks.iter().map(Vec::len).sum();
    let (mut left, mut right): (Vec<Line>, Vec<Line>) = (Vec::new(), Vec::new());
    for block in blocks {
        // A block goes to the left as long as most of it lies in the first half.
        if right.is_empty() && left.len() + block.len() / 2 <= all / 2 {
            left.extend(block);
        } else {
            right.extend(block);
        }
    }
    let rows = left.len().max(right.len());
    let mut rows: Vec<Line> = (0..rows)
        .map(|at| {
            let l = left.get(at).cloned().unwrap_or_default();
            let free = (width + 4).saturating_sub(l.width());
            let r = right.get(at).cloned().unwrap_or_default();
            l.with(spaces(free), Style::new()).and(r)
        })
        .collect();
    while rows
        .last()
        .is_some_and(|row| row.0.iter().all(|p| p.text.as_str().trim().is_empty()))
    {
        rows.pop();
    }
    rows
}

fn pager_dialog(canvas: &mut Canvas<'_>, screen: Rect, pager: &Pager) {
    let columns = room(screen, 96);
    let names = pager
        .lines
        .iter()
        .map(|line| match line {
            PagerLine::Fact(name, _) => text::width(name.as_str()),
            _ => 0,
        })
        .max()
        .unwrap_or(0)
        .min(columns / 2);
    let mut lines = Vec::new();
    for line in &pager.lines {
        match line {
            PagerLine::Heading(text) => {
                if !lines.is_empty() {
                    lines.push(Line::new());
                }
                lines.extend(word(text.clone(), canvas.style(Role::Heading)).wrap(columns));
            }
            PagerLine::Fact(name, value) => {
                let value = word(value.clone(), canvas.style(Role::Text));
                lines.extend(markdown::field(
                    name,
                    value,
                    names + 2,
                    columns,
                    canvas.theme,
                ));
            }
            PagerLine::Text(text) => {
                for part in text.lines() {
                    lines.extend(word(part, canvas.style(Role::Text)).wrap(columns));
                }
            }
        }
    }
    if pager.loading {
        let text = clean_format!("{} {}", canvas.spinner(), words::LOADING);
        lines.push(word(text, canvas.style(Role::Dim)));
    }
    let widest = lines.iter().map(Line::width).max().unwrap_or(0);
    let titles = title(canvas, pager.title.clone());
    let least = titles.left.width() + 2;
    let columns = widest.max(least).max(40).min(columns);
    let (frame, inside) = open(canvas, screen, columns, lines.len().max(1), &titles);
    scrolled(canvas, frame, inside, &lines, pager.top);
}

fn menu_dialog(canvas: &mut Canvas<'_>, screen: Rect, menu: &Menu) {
    let item_width = |item: &Item| {
        let detail = item.blocked.as_ref().unwrap_or(&item.detail);
        let between = if detail.as_str().is_empty() { 0 } else { 2 };
        // The mark, the letter, the label, what is said on the right and a column of air.
        let letter = if item.letter.is_some() { 3 } else { 1 };
        4 + letter + text::width(item.label.as_str()) + between + text::width(detail.as_str())
    };
    let widest = menu.items.iter().map(item_width).max().unwrap_or(0);
    let notes = menu
        .note
        .iter()
        .map(|note| text::width(note.as_str()))
        .max()
        .unwrap_or(0);
    let least = if menu.filter.is_some() { 56 } else { 30 };
    let columns = room(screen, widest.max(notes.min(60)).clamp(least, 100));
    let mut above: Vec<Line> = Vec::new();
    for note in &menu.note {
        above.extend(word(note.clone(), canvas.style(Role::Text)).wrap(columns));
    }
    if !above.is_empty() {
        above.push(Line::new());
    }
    let filter_rows = if menu.filter.is_some() { 2 } else { 0 };
    // A palette keeps its size while it is narrowed.
    let most = menu.items.len().max(1);
    let titles = title(canvas, menu.title.clone());
    let rows = above.len() + filter_rows + most.min(20);
    let (frame, inside) = open(canvas, screen, columns, rows, &titles);
    let mut rest = inside;
    let mut take = |count: usize| {
        let height = cells(count).min(rest.height);
        let area = Rect::new(rest.x, rest.y, rest.width, height);
        rest.y += height;
        rest.height -= height;
        area
    };
    if let Some(filter) = &menu.filter {
        let row = take(filter_rows);
        if row.height > 0 {
            let style = canvas.style(Role::Text);
            let (line, at) =
                edit::one_line(filter, usize::from(row.width.saturating_sub(2)), style);
            let line = Line::of("› ", canvas.style(Role::Key)).and(line);
            canvas.line(row, &line);
            canvas.cursor = Some((row.x + 2 + cells(at), row.y).into());
        }
    }
    // Where there is little room the items are what counts.
    let note_rows = above
        .len()
        .min(usize::from(inside.height.saturating_sub(3)));
    let area = take(note_rows);
    for (row, line) in area.rows().zip(&above) {
        canvas.line(row, line);
    }
    let area = rest;
    if menu.shown.is_empty() {
        canvas.line(area, &word(words::NO_ITEM, canvas.style(Role::Dim)));
        return;
    }
    let rows = usize::from(area.height);
    let top = (menu.selected + 1)
        .saturating_sub(rows)
        .min(menu.shown.len().saturating_sub(rows));
    for (offset, (row, index)) in area.rows().zip(&menu.shown[top..]).enumerate() {
        let at = top + offset;
        let Some(item) = menu.items.get(*index) else {
            continue;
        };
        menu_item(canvas, row, item, at == menu.selected);
        canvas.spot(row, Spot::MenuItem(at));
    }
    let bar = Rect::new(
        frame.x,
        area.y.saturating_sub(1),
        frame.width,
        area.height + 2,
    );
    pen::scrollbar(
        canvas.buffer,
        bar,
        top,
        rows,
        menu.shown.len(),
        canvas.theme,
    );
}

fn menu_item(canvas: &mut Canvas<'_>, row: Rect, item: &Item, selected: bool) {
    let dim = canvas.style(Role::Dim);
    let mut left = Line::new();
    left.push(
        if item.marked { "● " } else { "  " },
        canvas.style(Role::Ok),
    );
    match item.letter {
        Some(letter) => left.push(clean_format!("{}  ", letter), canvas.style(Role::Key)),
        None => left.push(" ", dim),
    }
    let style = if item.blocked.is_some() {
        dim
    } else {
        canvas.style(Role::Text)
    };
    left.push(item.label.clone(), style);
    let right = item.blocked.as_ref().unwrap_or(&item.detail);
    let right = word(right.clone(), dim).with(" ", dim);
    let line = Line::justified(left, right, usize::from(row.width));
    canvas.line(row, &line);
    if selected {
        pen::tint(canvas.buffer, row, canvas.theme.style(Role::Selected));
    }
}

fn prompt_dialog(canvas: &mut Canvas<'_>, screen: Rect, prompt: &Prompt) {
    let columns = room(screen, 56);
    let mut below = Vec::new();
    if let Some(error) = &prompt.error {
        let text = clean_format!("{} {}", glyph::FAILED, error);
        below.extend(word(text, canvas.style(Role::Error)).wrap(columns));
    }
    let titles = title(canvas, prompt.title.clone());
    let (_, inside) = open(canvas, screen, columns, 1 + below.len(), &titles);
    if inside.is_empty() {
        return;
    }
    let style = canvas.style(Role::Text);
    let (line, at) = edit::one_line(&prompt.draft, usize::from(inside.width), style);
    canvas.line(inside, &line);
    canvas.cursor = Some((inside.x + cells(at), inside.y).into());
    for (row, line) in inside.rows().skip(1).zip(&below) {
        canvas.line(row, line);
    }
}
