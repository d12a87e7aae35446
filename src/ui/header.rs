//! The first and the last line of the screen: what the source is and how alive it is; the keys that work here.

use super::canvas::{Canvas, cells, fit, word};
use super::glyph;
use super::line::Line;
use super::pen;
use super::theme::Role;
use super::when;
use crate::app::help::{self, Hint};
use crate::app::{Link, Tone};
use crate::clean_format;
use crate::strings::ui as words;
use crate::text::{self, clean_str};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// The first line.
pub fn header(canvas: &mut Canvas<'_>, area: Rect) {
    let app = canvas.app;
    let dim = canvas.style(Role::Dim);
    let info = app.header.info.as_ref();
    let source = info.map_or_else(|| app.header.source.clone(), |info| clean_str(&info.source));
    let short = Line::of(" ", Style::new()).with(words::PROGRAM, canvas.style(Role::Title));
    let mut long = short.clone().with("  ", dim).with(source, dim);
    if info.is_some_and(|info| info.demo) {
        long.push(clean_format!(" · {}", words::DEMO), dim);
    }
    let (running, queued) = app.sessions.run_counts();
    let count = |number: usize, what: &'static str, role: Role| {
        if number == 0 {
            Line::new()
        } else {
            word(clean_format!("{} {}", number, what), canvas.style(role))
        }
    };
    let runs = count(running, "running", Role::Running);
    let waiting = count(queued, "queued", Role::Waiting);
    let (_, all) = app.sessions.counts();
    let noun = if all == 1 { "session" } else { "sessions" };
    // What a person may not do is said before the time; what they may is what they expect.
    let (rank, rights) = if info.is_some_and(|info| info.read_only) {
        (2, words::READ_ONLY)
    } else if app.observe {
        (2, words::OBSERVING)
    } else {
        (5, words::AS_OPERATOR)
    };
    let columns = usize::from(area.width);
    let alive = link(canvas);
    let sessions = word(clean_format!("{} {}", all, noun), dim);
    let vital = [&alive, &runs, &waiting];
    let vital: usize = vital.iter().map(|line| line.width() + 2).sum();
    // What the source is gives way to how it is.
    let name = if long.width() + 2 + vital <= columns {
        long
    } else {
        short
    };
    let is_tight = name.width() + 2 + vital + sessions.width() > columns;
    let mut parts = if is_tight {
        let mut counts = Line::new();
        for (number, mark, role) in [
            (running, glyph::RUNNING, Role::Running),
            (queued, glyph::MORE, Role::Waiting),
            (all, "", Role::Dim),
        ] {
            if number > 0 || mark.is_empty() {
                let gap = if counts.is_empty() { "" } else { " " };
                counts.push(
                    clean_format!("{}{}{}", gap, number, mark),
                    canvas.style(role),
                );
            }
        }
        let alive = match app.header.link {
            Link::Live => word(glyph::LIVE, canvas.style(Role::Ok)),
            _ => {
                let room = columns.saturating_sub(name.width() + counts.width() + 5);
                alive.cut(room)
            }
        };
        vec![(0, alive), (1, counts)]
    } else {
        vec![(0, alive), (1, runs), (2, waiting), (3, sessions)]
    };
    parts.push((rank, word(rights, dim)));
    parts.push((4, word(when::clock(app.now_ms, canvas.zone), dim)));
    let between = Line::of("  ", Style::new());
    let room = columns.saturating_sub(name.width() + 3);
    let right = fit(parts, &between, room).with(" ", Style::new());
    canvas.line(area, &Line::justified(name, right, columns));
}

/// How alive the source is.
fn link(canvas: &Canvas<'_>) -> Line {
    let app = canvas.app;
    match &app.header.link {
        Link::Connecting => word(
            clean_format!("{} {}", canvas.spinner(), words::CONNECTING),
            canvas.style(Role::Waiting),
        ),
        Link::Live => word(
            clean_format!("{} {}", glyph::LIVE, words::LIVE),
            canvas.style(Role::Ok),
        ),
        Link::Reconnecting {
            attempt,
            next_try_at,
            reason,
        } => {
            let mut text =
                clean_format!("{} {} {}", canvas.spinner(), words::RECONNECTING, *attempt);
            if let Some(at) = next_try_at {
                let left = at.saturating_sub(app.now_ms).max(0) / 1000;
                text.push(&clean_format!(" · next try in {} s", left));
            }
            if let Some(reason) = reason {
                text.push(&clean_format!(" · {}", reason.clean()));
            }
            word(crate::text::clip(&text, 60), canvas.style(Role::Waiting))
        }
        Link::Offline { since, reason } => {
            let mut text = clean_format!(
                "{} {} · as of {}",
                glyph::OFFLINE,
                words::OFFLINE,
                when::clock(*since, canvas.zone)
            );
            if let Some(reason) = reason {
                text.push(&clean_format!(" · {}", reason.clean()));
            }
            word(crate::text::clip(&text, 60), canvas.style(Role::Error))
        }
    }
}

/// The last line: the keys that work here, as many as fit whole.
pub fn footer(canvas: &mut Canvas<'_>, area: Rect) {
    let app = canvas.app;
    let columns = usize::from(area.width).saturating_sub(1);
    let line = Line::of(" ", Style::new()).and(keys(&help::footer(app), columns, canvas));
    canvas.line(area, &line);
}

/// Rows a toast may take.
const TOAST: usize = 3;

/// What happened, at the lower right of `area`, on top of what is there: nothing moves for it.
pub fn toast(canvas: &mut Canvas<'_>, area: Rect) {
    let Some(toast) = &canvas.app.toast else {
        return;
    };
    let (mark, role) = match toast.tone {
        Tone::Info => ("·", Role::Badge),
        Tone::Good => (glyph::OK, Role::Ok),
        Tone::Bad => (glyph::FAILED, Role::Error),
    };
    let room = usize::from(area.width.saturating_sub(4)).max(1);
    let text = clean_format!("{} {}", mark, &toast.text);
    let most = TOAST.min(usize::from(area.height));
    let lines = word(text, canvas.style(role)).wrap_to(room, most);
    let width = lines.iter().map(Line::width).max().unwrap_or(0) + 2;
    let (width, height) = (cells(width).min(area.width), cells(lines.len()));
    let place = Rect::new(
        area.right().saturating_sub(width + 1).max(area.x),
        area.bottom().saturating_sub(height),
        width,
        height,
    )
    .intersection(area);
    pen::clear(canvas.buffer, place);
    pen::tint(canvas.buffer, place, canvas.style(Role::Text));
    for (row, line) in place.rows().zip(&lines) {
        canvas.line(row, &Line::of(" ", Style::new()).and(line.clone()));
    }
}

/// Keys and their words, never half of one. Where they do not fit, how to get help and how to get out stay; a mark says
/// that there are more.
pub fn keys(hints: &[Hint], columns: usize, canvas: &Canvas<'_>) -> Line {
    const GAP: usize = 2;
    let width =
        |hint: &Hint| text::width(hint.keys.as_str()) + 1 + text::width(hint.words.as_str());
    let all: usize = hints.iter().map(|hint| width(hint) + GAP).sum();
    let fits_whole = all <= columns + GAP;
    let vital = |hint: &Hint| help::is_vital(hint.action);
    let kept = hints.iter().filter(|hint| vital(hint));
    // The mark takes a gap and a column.
    let mut left = columns.saturating_sub(kept.map(|hint| width(hint) + GAP).sum::<usize>() + 1);
    let mut line = Line::new();
    for hint in hints {
        if !fits_whole && !vital(hint) {
            let one = width(hint) + GAP;
            if one > left {
                // What follows is less useful, so it does not take the place either.
                left = 0;
                continue;
            }
            left -= one;
        }
        if !line.is_empty() {
            line.push("  ", Style::new());
        }
        line.push(hint.keys.clone(), canvas.style(Role::Key));
        line.push(" ", Style::new());
        line.push(hint.words.clone(), canvas.style(Role::Dim));
    }
    if !fits_whole {
        line.push("  …", canvas.style(Role::Dim));
    }
    line
}
