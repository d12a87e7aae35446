//! The spawn dialog: every field in one or two columns, scrolled so that the one being filled is seen.

use super::canvas::{Canvas, cells, word};
use super::dialog;
use super::edit;
use super::glyph;
use super::header;
use super::line::{Line, column, repeat, spaces};
use super::pen::{self, Titles};
use super::theme::Role;
use super::when;
use crate::app::action::Action;
use crate::app::geometry::Spot;
use crate::app::help;
use crate::app::spawn::{AttachmentState, Field, SpawnForm};
use crate::clean_format;
use crate::strings::ui as words;
use crate::text::Clean;
use ratatui::layout::Rect;
use ratatui::style::Style;

const LABEL: usize = 13;
const TASK_ROWS: usize = 6;

/// A part of a row: from a column, so many columns wide.
struct Slot {
    field: Option<Field>,
    x: usize,
    width: usize,
    line: Line,
}

/// The form laid out.
#[derive(Default)]
struct Form {
    rows: Vec<Vec<Slot>>,
    /// Row and column.
    cursor: Option<(usize, usize)>,
    /// Rows of the field that has the focus.
    focus: Option<(usize, usize)>,
}

/// Draws the dialog.
pub fn draw(canvas: &mut Canvas<'_>, screen: Rect) {
    let Some(form) = &canvas.app.spawn else {
        return;
    };
    let columns = dialog::room(screen, 74);
    let laid = lay(canvas, form, columns);
    let titles = Titles {
        left: word(words::SPAWN_TITLE, canvas.style(Role::Focus)),
        ..Titles::default()
    };
    let (frame, inside) = dialog::open(canvas, screen, columns, laid.rows.len() + 1, &titles);
    // How to get out stays, whatever scrolls.
    let hints = help::ways_out(canvas.app);
    let ways = header::keys(&hints, usize::from(inside.width), canvas);
    let last = Rect::new(
        inside.x,
        inside.bottom().saturating_sub(1),
        inside.width,
        inside.height.min(1),
    );
    canvas.line(
        last,
        &Line::justified(Line::new(), ways, usize::from(inside.width)),
    );
    let inside = Rect {
        height: inside.height.saturating_sub(1),
        ..inside
    };
    let rows = usize::from(inside.height);
    let mut top = form.top;
    if let Some((from, to)) = laid.focus {
        top = top.max((to + 1).saturating_sub(rows)).min(from);
        // A field higher than the window: what is typed counts.
        if let Some((row, _)) = laid.cursor {
            top = top.max((row + 1).saturating_sub(rows));
        }
    }
    top = top.min(laid.rows.len().saturating_sub(rows));
    for (place, slots) in inside.rows().zip(&laid.rows[top..]) {
        for slot in slots {
            let area = Rect::new(place.x + cells(slot.x), place.y, cells(slot.width), 1)
                .intersection(inside);
            canvas.line(area, &slot.line);
            if let Some(field) = slot.field {
                canvas.spot(area, Spot::Field(field));
            }
        }
    }
    if let Some((row, col)) = laid.cursor
        && row >= top
        && row - top < rows
        && inside.width > 0
    {
        let x = (inside.x + cells(col)).min(inside.right() - 1);
        canvas.cursor = Some((x, inside.y + cells(row - top)).into());
    }
    pen::scrollbar(
        canvas.buffer,
        frame,
        top,
        rows,
        laid.rows.len(),
        canvas.theme,
    );
    canvas.view.pager_top = top;
    canvas.view.pager_rows = inside.height;
}

fn lay(canvas: &Canvas<'_>, form: &SpawnForm, columns: usize) -> Form {
    let app = canvas.app;
    let dim = canvas.style(Role::Dim);
    let mut out = Form::default();
    let from = Line::of(app.sessions.name(&form.parent), canvas.style(Role::Text))
        .with(clean_format!(" · {}", form.parent.clean()), dim);
    fixed(canvas, &mut out, words::FROM, from, columns);
    task(canvas, form, &mut out, columns);
    let two = columns >= 64;
    if two {
        let half = columns / 2;
        single(canvas, form, &mut out, Field::Agent, columns);
        single(canvas, form, &mut out, Field::Label, columns);
        for (left, right) in [
            (Field::Model, Field::Thinking),
            (Field::RunLimit, Field::Cleanup),
            (Field::Mode, Field::Thread),
        ] {
            out.rows.push(Vec::new());
            slot(canvas, form, &mut out, left, 0, half - 1);
            slot(canvas, form, &mut out, right, half, columns - half);
        }
        out.rows.push(Vec::new());
        slot(canvas, form, &mut out, Field::Sandbox, 0, half - 1);
        let report = label(canvas, words::REPORT_TO, false)
            .with(form.report_to.clone(), canvas.style(Role::Text));
        put(&mut out, None, half, columns - half, report);
    } else {
        for field in [
            Field::Agent,
            Field::Label,
            Field::Model,
            Field::Thinking,
            Field::RunLimit,
            Field::Cleanup,
            Field::Mode,
            Field::Thread,
            Field::Sandbox,
        ] {
            single(canvas, form, &mut out, field, columns);
        }
        let report = word(form.report_to.clone(), canvas.style(Role::Text));
        fixed(canvas, &mut out, words::REPORT_TO, report, columns);
    }
    attachments(canvas, form, &mut out, columns);
    // Why something cannot be chosen, and what was refused, in full.
    let mut remarks: Vec<Line> = Vec::new();
    for field in Field::ALL {
        let blocked = form
            .choice(field)
            .and_then(|choice| choice.current())
            .and_then(|offer| offer.blocked.as_ref());
        if let Some(reason) = blocked {
            remarks.push(word(
                clean_format!("{} {}: {}", glyph::WARN, field.words(), reason),
                canvas.style(Role::Waiting),
            ));
        }
    }
    for (_, error) in &form.errors {
        remarks.push(word(
            clean_format!("{} {}", glyph::FAILED, error),
            canvas.style(Role::Error),
        ));
    }
    if form.busy {
        remarks.push(word(
            clean_format!("{} {}", canvas.spinner(), words::SPAWNING),
            canvas.style(Role::Running),
        ));
    } else if form.offered.is_none() {
        remarks.push(word(
            clean_format!("{} {}", canvas.spinner(), words::ASKING),
            dim,
        ));
    }
    for line in remarks.into_iter().flat_map(|line| line.wrap(columns)) {
        out.rows.push(Vec::new());
        put(&mut out, None, 0, columns, line);
    }
    out
}

fn put(out: &mut Form, field: Option<Field>, x: usize, width: usize, line: Line) {
    if let Some(row) = out.rows.last_mut() {
        row.push(Slot {
            field,
            x,
            width,
            line,
        });
    }
}

fn label(canvas: &Canvas<'_>, text: &'static str, focused: bool) -> Line {
    let role = if focused { Role::Focus } else { Role::Dim };
    Line::of(column(&text.into(), LABEL), canvas.style(role))
}

fn fixed(canvas: &Canvas<'_>, out: &mut Form, name: &'static str, value: Line, columns: usize) {
    out.rows.push(Vec::new());
    put(out, None, 0, columns, label(canvas, name, false).and(value));
}

fn single(canvas: &Canvas<'_>, form: &SpawnForm, out: &mut Form, field: Field, columns: usize) {
    out.rows.push(Vec::new());
    slot(canvas, form, out, field, 0, columns);
}

/// A field in the row begun last.
fn slot(
    canvas: &Canvas<'_>,
    form: &SpawnForm,
    out: &mut Form,
    field: Field,
    x: usize,
    width: usize,
) {
    let focused = form.field == field;
    let row = out.rows.len() - 1;
    if focused {
        out.focus = Some((row, row));
    }
    let dim = canvas.style(Role::Dim);
    let mut line = label(canvas, field.words(), focused);
    if let Some(choice) = form.choice(field) {
        let offer = choice.current();
        let text = offer.map_or_else(|| Clean::fixed("–"), |offer| offer.label.clone());
        let blocked = offer.is_some_and(|offer| offer.blocked.is_some());
        let arrows = canvas.style(if focused { Role::Focus } else { Role::Border });
        let value = match (blocked, focused) {
            (true, _) => dim,
            (false, true) => canvas.style(Role::Strong),
            (false, false) => canvas.style(Role::Text),
        };
        line.push("‹ ", arrows);
        let room = width.saturating_sub(LABEL + 4);
        line.push(crate::text::clip(&text, room), value);
        line.push(" ›", arrows);
        let others = choice
            .options
            .iter()
            .filter(|other| other.blocked.is_none())
            .count()
            .saturating_sub(usize::from(!blocked));
        if field == Field::Agent && others > 0 {
            line.push(clean_format!("   {} more allowed", others), dim);
        }
    } else if let Some(draft) = form.draft(field) {
        let room = width.saturating_sub(LABEL + 1).max(2);
        let (text, at) = edit::one_line(draft, room, canvas.style(Role::Text));
        let is_empty = draft.is_empty();
        if focused {
            out.cursor = Some((row, x + LABEL + at));
        }
        if field == Field::RunLimit {
            if is_empty {
                line.push("0", dim);
            } else {
                line = line.and(text);
            }
            let is_none = draft
                .text()
                .clean()
                .as_str()
                .trim()
                .trim_matches('0')
                .is_empty();
            line.push(" s", dim);
            if is_none {
                line.push(clean_format!("  {}", words::NO_LIMIT), dim);
            }
        } else if is_empty && !focused {
            line.push("–", canvas.style(Role::Border));
        } else {
            line = line.and(text);
        }
    }
    put(out, Some(field), x, width, line);
}

/// The task in a box of its own.
fn task(canvas: &Canvas<'_>, form: &SpawnForm, out: &mut Form, columns: usize) {
    let focused = form.field == Field::Task;
    let border = canvas.style(if focused { Role::Focus } else { Role::Border });
    let outer = columns.saturating_sub(LABEL).max(6);
    let room = outer.saturating_sub(4).max(2);
    let laid = edit::lay(&form.task, room, canvas.style(Role::Text));
    let (row, col) = laid.cursor;
    let shown = laid.lines.len().clamp(2, TASK_ROWS);
    let top = (row + 1).saturating_sub(shown);
    let first = out.rows.len();
    let mut add = |name: Line, line: Line| {
        out.rows.push(Vec::new());
        put(out, Some(Field::Task), 0, columns, name.and(line));
    };
    let edge = |l: &'static str, r: &'static str| {
        Line::of(l, border)
            .with(repeat(glyph::RULE, outer - 2), border)
            .with(r, border)
    };
    add(label(canvas, Field::Task.words(), focused), edge("╭", "╮"));
    for at in 0..shown {
        let line = laid.lines.get(top + at).cloned().unwrap_or_default();
        let free = room.saturating_sub(line.width());
        let line = Line::of("│ ", border)
            .and(line)
            .with(spaces(free), Style::new())
            .with(" │", border);
        add(Line::of(spaces(LABEL), Style::new()), line);
    }
    let mut bottom = edge("╰", "╯");
    let hidden = laid.lines.len() - shown.min(laid.lines.len());
    if hidden > 0 {
        let more = clean_format!(" {} more lines ", hidden);
        let fill = outer.saturating_sub(3 + crate::text::width(more.as_str()));
        bottom = Line::of("╰─", border)
            .with(more, canvas.style(Role::Dim))
            .with(repeat(glyph::RULE, fill), border)
            .with("╯", border);
    }
    add(Line::of(spaces(LABEL), Style::new()), bottom);
    if focused {
        out.focus = Some((first, first + shown + 1));
        out.cursor = Some((first + 1 + row - top, LABEL + 2 + col));
    }
}

fn attachments(canvas: &Canvas<'_>, form: &SpawnForm, out: &mut Form, columns: usize) {
    let dim = canvas.style(Role::Dim);
    let mut name = label(canvas, Field::Attach.words(), form.field == Field::Attach);
    let removes = form
        .is_on_files()
        .then(|| {
            canvas
                .app
                .keymap
                .key_of(canvas.app.contexts(), Action::DeleteLeft)
        })
        .flatten();
    for (at, attachment) in form.attachments.iter().enumerate() {
        let chosen = form.is_on_files() && at == form.file;
        let state = match &attachment.state {
            AttachmentState::Reading => word(
                clean_format!("{} reading", canvas.spinner()),
                canvas.style(Role::Running),
            ),
            AttachmentState::Read(bytes) => word(when::bytes(bytes.len() as u64), dim),
            AttachmentState::Failed(reason) => word(
                clean_format!("{} {}", glyph::FAILED, reason),
                canvas.style(Role::Error),
            ),
        };
        let line = name
            .with(
                attachment.name.clone(),
                canvas.style(if chosen { Role::Strong } else { Role::Text }),
            )
            .with("  ", dim)
            .and(state);
        let line = match removes.clone().filter(|_| chosen) {
            Some(key) => Line::justified(
                line,
                word(key, canvas.style(Role::Key)).with(words::REMOVES, dim),
                columns,
            ),
            None => line,
        };
        out.rows.push(Vec::new());
        put(out, Some(Field::Attach), 0, columns, line);
        name = Line::of(spaces(LABEL), Style::new());
    }
    let focused = form.field == Field::Attach;
    let row = out.rows.len();
    out.rows.push(Vec::new());
    let line = if focused {
        let room = columns.saturating_sub(LABEL + 3).max(2);
        let (text, at) = edit::one_line(&form.attach, room, canvas.style(Role::Text));
        out.cursor = Some((row, LABEL + 2 + at));
        out.focus = Some((row, row));
        let line = name.with("+ ", canvas.style(Role::Focus));
        if form.attach.is_empty() {
            line.with(words::ADD_FILE, dim)
        } else {
            line.and(text)
        }
    } else {
        name.with("+ add", dim)
    };
    put(out, Some(Field::Attach), 0, columns, line);
}
