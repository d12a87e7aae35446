//! The compose box: to whom, from whom, how long is waited; the text; what became of the last send.

use super::canvas::{Canvas, cells, fit, word};
use super::edit;
use super::glyph;
use super::line::{Line, column};
use super::pen::Titles;
use super::theme::Role;
use super::when;
use crate::app::Focus;
use crate::app::compose::{Sender, Sent};
use crate::app::geometry::Spot;
use crate::clean_format;
use crate::model::event::SendState;
use crate::text;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Rows of text that are shown at once.
const ROWS: usize = 8;
/// Rows a reason may take.
const REASON: usize = 3;

/// Rows the box takes of a screen part this high; 0 where nothing can be written.
pub fn height(canvas: &Canvas<'_>, columns: u16, available: u16) -> u16 {
    let app = canvas.app;
    if app.compose.target.is_none() || available < 8 {
        return 0;
    }
    let active = app.focus == Focus::Compose;
    if available < 14 && !active && app.compose.draft.is_empty() {
        return 0;
    }
    let text = edit::lay(
        &app.compose.draft,
        usize::from(columns.saturating_sub(4)),
        Style::new(),
    );
    let inside = usize::from(columns.saturating_sub(4));
    let more = below(canvas, inside).len() + completions(canvas).len();
    let rows = text.lines.len().clamp(1, ROWS) + more;
    cells(rows + 2).min(available / 2)
}

/// Draws the box.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect) {
    let app = canvas.app;
    let compose = &app.compose;
    let focused = app.focus == Focus::Compose && app.layers.is_empty();
    canvas.spot(area, Spot::Pane(Focus::Compose));
    let Some(target) = &compose.target else {
        return;
    };
    let dim = canvas.style(Role::Dim);
    let title = canvas.style(if focused { Role::Focus } else { Role::Title });
    let columns = usize::from(area.width.saturating_sub(4));
    let left = word("Send to ", title).with(target.clean(), title);
    let sender = compose.sender_shown(|key| app.sessions.speaker(key));
    let sender_role = match compose.sender {
        Sender::Operator => Role::Dim,
        Sender::Session(_) => Role::Peer,
    };
    let parts = vec![
        (
            1,
            word(clean_format!("from {}", sender), canvas.style(sender_role)),
        ),
        (
            0,
            word(clean_format!("wait {}", compose.wait.as_str()), dim),
        ),
    ];
    let room = columns.saturating_sub(left.width().min(columns / 2) + 5);
    let right = fit(parts, &word(" · ", dim), room);
    let room = columns.saturating_sub(right.width() + 5).max(columns / 2);
    let left = left.cut(room);
    let titles = Titles {
        left,
        right,
        bottom: Line::new(),
    };
    let inner = canvas.frame(area, &titles, focused);
    if inner.is_empty() {
        return;
    }
    let inner = Rect::new(
        inner.x + 1,
        inner.y,
        inner.width.saturating_sub(2),
        inner.height,
    );
    let rows = usize::from(inner.height);
    let mut lines = completions(canvas);
    lines.extend(below(canvas, usize::from(inner.width)));
    // The text keeps at least one row.
    lines.truncate(rows.saturating_sub(1));
    let text_rows = rows - lines.len();
    let text = Rect::new(inner.x, inner.y, inner.width, cells(text_rows));
    if let Some(why) = app.why_read_only().filter(|_| compose.draft.is_empty()) {
        canvas.line(text, &word(why, dim));
    } else if compose.draft.is_empty() && !focused {
        let hint = canvas.hint(crate::app::action::Action::Compose, "write a message");
        canvas.line(text, &hint.unwrap_or_default());
    } else {
        draft(canvas, text, focused);
    }
    let under = Rect::new(
        inner.x,
        inner.y + cells(text_rows),
        inner.width,
        cells(lines.len()),
    );
    for (row, line) in under.rows().zip(&lines) {
        canvas.line(row, line);
    }
}

/// The text, scrolled so that the cursor is seen.
fn draft(canvas: &mut Canvas<'_>, area: Rect, focused: bool) {
    let style = canvas.style(Role::Text);
    let laid = edit::lay(&canvas.app.compose.draft, usize::from(area.width), style);
    let rows = usize::from(area.height);
    let (row, column) = laid.cursor;
    let top = (row + 1).saturating_sub(rows);
    for (place, line) in area.rows().zip(laid.lines.iter().skip(top)) {
        canvas.line(place, line);
    }
    if focused && row - top < rows {
        let x = area.x + cells(column).min(area.width.saturating_sub(1));
        canvas.cursor = Some((x, area.y + cells(row - top)).into());
    }
}

/// Commands that fit what is typed.
fn completions(canvas: &Canvas<'_>) -> Vec<Line> {
    let commands = &canvas.app.compose.completions;
    let name = |at: usize| clean_format!("{} {}", commands[at].name, commands[at].arguments);
    let width = (0..commands.len())
        .map(|at| text::width(name(at).as_str()))
        .max()
        .unwrap_or(0);
    (0..commands.len().min(6))
        .map(|at| {
            Line::of(column(&name(at), width + 2), canvas.style(Role::Key))
                .with(commands[at].words, canvas.style(Role::Dim))
        })
        .collect()
}

/// Why a send failed, else what became of the last one; what to know before a word is typed.
fn below(canvas: &Canvas<'_>, columns: usize) -> Vec<Line> {
    let compose = &canvas.app.compose;
    let wrapped = |line: Line| line.wrap_to(columns, REASON);
    if let Some(failure) = &compose.failure {
        let text = clean_format!("{} {}", glyph::FAILED, failure);
        return wrapped(word(text, canvas.style(Role::Error)));
    }
    let last = compose
        .target
        .as_ref()
        .and_then(|target| compose.sends_to(target).next())
        .filter(|sent| sent.entry.state != SendState::Refused || !canvas.app.knows_policy());
    let mut lines = Vec::new();
    // A send of one's own that is under way says by itself that the session is busy.
    let is_said = canvas.app.is_read_only() && compose.draft.is_empty();
    if last.is_none_or(Sent::is_settled)
        && !is_said
        && let Some(hint) = canvas.app.compose_hint()
    {
        let text = clean_format!("{} {}", glyph::WARN, hint);
        lines.extend(wrapped(word(text, canvas.style(Role::Waiting))));
    }
    if let Some(sent) = last {
        let line = state_line(canvas, sent);
        // A reason is said in full; where a send stands fits, but for its time.
        if sent.entry.error.is_some() {
            lines.extend(wrapped(line));
        } else {
            lines.push(line);
        }
    }
    lines
}

fn state_line(canvas: &Canvas<'_>, sent: &Sent) -> Line {
    let now = canvas.app.now_ms;
    let entry = &sent.entry;
    let (mark, role) = match entry.state {
        SendState::Outbox | SendState::Queued | SendState::WaitOver => (glyph::MORE, Role::Waiting),
        SendState::Running => (canvas.spinner(), Role::Running),
        SendState::Replied | SendState::NoReply => (glyph::OK, Role::Ok),
        SendState::Failed | SendState::Refused => (glyph::FAILED, Role::Error),
        SendState::Unknown => ("?", Role::Waiting),
        SendState::Discarded => (glyph::STOPPED, Role::Dim),
    };
    let dim = canvas.style(Role::Dim);
    let mut line = Line::of(
        clean_format!("{} {}", mark, sent.state_shown()),
        canvas.style(role),
    );
    if let Some(until) = sent.wait_until.filter(|until| *until > now) {
        line.push(
            clean_format!(" · waiting {} s more", (until - now) / 1000),
            dim,
        );
    }
    line.with(
        clean_format!("  {}", when::time(entry.sent_at, canvas.zone)),
        dim,
    )
}
