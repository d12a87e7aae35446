//! The first and the last line of the screen: what the source is and how alive it is; the keys that work here.

use super::canvas::{Canvas, fit, word};
use super::glyph;
use super::line::Line;
use super::theme::Role;
use super::when;
use crate::app::{Link, Tone, help};
use crate::clean_format;
use crate::strings::ui as words;
use crate::text::{Clean, clean_str};
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
    let rights = if info.is_some_and(|info| info.read_only) {
        words::READ_ONLY
    } else if app.observe {
        words::OBSERVING
    } else {
        words::AS_OPERATOR
    };
    let parts = vec![
        (0, link(canvas)),
        (1, runs),
        (2, waiting),
        (5, word(clean_format!("{} {}", all, noun), dim)),
        (4, word(rights, dim)),
        (3, word(when::clock(app.now_ms, canvas.zone), dim)),
    ];
    let columns = usize::from(area.width);
    let between = Line::of("  ", Style::new());
    // What the source is gives way to how it is.
    let vital: usize = parts[..3].iter().map(|(_, line)| line.width() + 2).sum();
    let name = if long.width() + 2 + vital <= columns {
        long
    } else {
        short
    };
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

/// The last line: what happened, then the keys, as many as fit whole.
pub fn footer(canvas: &mut Canvas<'_>, area: Rect) {
    let app = canvas.app;
    let mut line = Line::of(" ", Style::new());
    if let Some(toast) = &app.toast {
        let (mark, role) = match toast.tone {
            Tone::Info => ("·", Role::Badge),
            Tone::Good => (glyph::OK, Role::Ok),
            Tone::Bad => (glyph::FAILED, Role::Error),
        };
        line.push(
            clean_format!("{} {}", mark, &toast.text),
            canvas.style(role),
        );
        line.push("   ", Style::new());
    }
    let columns = usize::from(area.width);
    let hints = help::footer(app);
    let line = keys(
        line,
        hints.into_iter().map(|h| (h.keys, h.words)),
        columns,
        canvas,
    );
    canvas.line(area, &line);
}

/// Adds keys and their words, never half of one; a mark says that there are more.
fn keys(
    mut line: Line,
    hints: impl Iterator<Item = (Clean, Clean)>,
    columns: usize,
    canvas: &Canvas<'_>,
) -> Line {
    let mut used = line.width();
    let mut first = true;
    let mut hints = hints.peekable();
    while let Some((keys, what)) = hints.next() {
        let gap = if first { 0 } else { 2 };
        let one = crate::text::width(keys.as_str()) + 1 + crate::text::width(what.as_str());
        let reserve = if hints.peek().is_some() { 3 } else { 0 };
        if used + gap + one + reserve > columns {
            if used + 2 <= columns {
                line.push(" …", canvas.style(Role::Dim));
            }
            break;
        }
        if !first {
            line.push("  ", Style::new());
        }
        line.push(keys, canvas.style(Role::Key));
        line.push(" ", Style::new());
        line.push(what, canvas.style(Role::Dim));
        used += gap + one;
        first = false;
    }
    line
}
