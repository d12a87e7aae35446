//! Draws the browser: `app` in, cells out.
//!
//! [`draw`] depends on the state, the size and the options alone; [`Cache`] only saves work. Whatever the state and
//! the size, from one cell up, it draws and does not panic; text from outside goes through `text::clean` on its way
//! into a [`line::Line`], and [`pen`] is the only writer of cells. Absent on purpose: keys, time, the terminal.

mod cache;
mod canvas;
mod compose;
mod dialog;
mod edit;
pub mod glyph;
mod header;
pub mod line;
mod list;
pub mod markdown;
mod message;
pub mod pen;
mod spawn;
mod svg;
pub mod theme;
mod transcript;
mod when;

pub use cache::{Cache, UiOptions};
pub use svg::svg;
pub use theme::{ColorDepth, Theme, ThemeError};

use crate::app::geometry::{Area, Spot, Viewport};
use crate::app::{App, Focus, Link};
use crate::clean_format;
use canvas::{Canvas, word};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use theme::Role;

/// The smallest screen that can be used.
const LEAST: (u16, u16) = (40, 12);
/// From this width on, list and transcript stand side by side.
const TWO_PANES: u16 = 90;

/// Draws the whole screen; gives back what stands where.
pub fn draw(app: &App, cache: &mut Cache, frame: &mut Frame<'_>) -> Viewport {
    let (view, cursor) = paint(app, cache, frame.buffer_mut());
    if let Some(cursor) = cursor {
        frame.set_cursor_position(cursor);
    }
    view
}

/// As [`draw`], into a buffer; also gives the place of the cursor, where there is one.
pub fn paint(app: &App, cache: &mut Cache, buffer: &mut Buffer) -> (Viewport, Option<Position>) {
    let area = *buffer.area();
    let theme = cache.options.theme.clone();
    let zone = cache.zone.clone();
    let mut canvas = Canvas {
        app,
        theme: &theme,
        zone: &zone,
        buffer,
        view: Viewport::default(),
        cursor: None,
    };
    let text = theme.style(Role::Text);
    pen::tint(canvas.buffer, area, text);
    if area.width < LEAST.0 || area.height < LEAST.1 {
        too_small(&mut canvas, area);
    } else {
        screen(&mut canvas, cache, area);
    }
    let (view, cursor) = (canvas.view, canvas.cursor);
    if cache.options.ascii {
        glyph::transcribe(buffer);
    }
    (view, cursor.filter(|cursor| area.contains(*cursor)))
}

/// As [`paint`], into a buffer of its own as big as the app takes the screen to be: for pictures.
pub fn picture(app: &App, cache: &mut Cache) -> (Viewport, Buffer) {
    let mut buffer = Buffer::empty(Rect::new(0, 0, app.size.columns, app.size.rows));
    let (view, _) = paint(app, cache, &mut buffer);
    (view, buffer)
}

fn too_small(canvas: &mut Canvas<'_>, area: Rect) {
    let text = clean_format!(
        "terminal too small ({}x{}), needs {}x{}",
        area.width,
        area.height,
        LEAST.0,
        LEAST.1
    );
    let line = word(text, canvas.style(Role::Text));
    let lines = line.wrap(usize::from(area.width));
    pen::put_lines(canvas.buffer, area, &lines);
}

fn screen(canvas: &mut Canvas<'_>, cache: &mut Cache, area: Rect) {
    let app = canvas.app;
    header::header(canvas, Rect::new(area.x, area.y, area.width, 1));
    let last = Rect::new(area.x, area.bottom() - 1, area.width, 1);
    header::footer(canvas, last);
    let body = Rect::new(area.x, area.y + 1, area.width, area.height - 2);
    if area.width < TWO_PANES {
        canvas.view.narrow = true;
        if app.focus == Focus::List {
            list::draw(canvas, body);
        } else {
            right(canvas, cache, body);
        }
    } else {
        let width = app.list_width.clamp(34, 48).min(area.width / 2);
        list::draw(canvas, Rect::new(body.x, body.y, width, body.height));
        right(
            canvas,
            cache,
            Rect::new(body.x + width, body.y, body.width - width, body.height),
        );
        canvas.spot(
            Rect::new(body.x + width - 1, body.y, 2, body.height),
            Spot::Divider,
        );
    }
    if matches!(
        app.header.link,
        Link::Offline { .. } | Link::Reconnecting { .. }
    ) {
        // What may be out of date looks it.
        pen::tint(canvas.buffer, body, canvas.theme.style(Role::Dim));
    }
    dialog::draw(
        canvas,
        Rect::new(area.x, area.y, area.width, area.height - 1),
    );
    header::toast(canvas, above_text(canvas, body));
}

/// Where a toast covers nothing that is typed: above the compose box, where that is seen.
fn above_text(canvas: &Canvas<'_>, body: Rect) -> Rect {
    let is_box = |(_, spot): &&(Area, Spot)| matches!(spot, Spot::Pane(Focus::Compose));
    let compose = canvas.view.spots.iter().find(is_box);
    match compose {
        Some((at, _)) if canvas.app.layers.is_empty() && at.y > body.y => {
            Rect::new(at.x, body.y, at.width, at.y - body.y)
        }
        _ => body,
    }
}

/// Transcript and compose box.
fn right(canvas: &mut Canvas<'_>, cache: &mut Cache, area: Rect) {
    let below = compose::height(canvas, area.width, area.height);
    transcript::draw(
        canvas,
        cache,
        Rect::new(area.x, area.y, area.width, area.height - below),
    );
    if below > 0 {
        let place = Rect::new(area.x, area.bottom() - below, area.width, below);
        compose::draw(canvas, place);
    }
}
