//! The list pane: kinds with their counts, what narrows and orders, one line per session.
//!
//! Only the lines on the screen are made. Absent on purpose: which sessions match, and their order.

use super::canvas::{Canvas, cells, fit_or_more, word};
use super::edit;
use super::glyph;
use super::line::{Line, column, spaces};
use super::pen::{self, Titles};
use super::theme::Role;
use crate::app::Focus;
use crate::app::action::Action;
use crate::app::ages;
use crate::app::geometry::Spot;
use crate::app::sessions::{Line as Row, Session, State, minutes_shown};
use crate::clean_format;
use crate::model::key::Kind;
use crate::strings::ui as words;
use crate::text::{self, Clean};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws the pane.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect) {
    let app = canvas.app;
    let pane = &app.sessions;
    let focused = app.focus == Focus::List && app.layers.is_empty();
    canvas.spot(area, Spot::Pane(Focus::List));
    let (shown, all) = pane.counts();
    let title_role = if focused { Role::Focus } else { Role::Title };
    let titles = Titles {
        left: word(words::SESSIONS, canvas.style(title_role)),
        right: word(
            clean_format!("{} of {}", shown, all),
            canvas.style(Role::Dim),
        ),
        bottom: Line::new(),
    };
    let inner = canvas.frame(area, &titles, focused);
    if inner.height == 0 {
        return;
    }
    let mut rows = inner.rows();
    if let Some(row) = rows.next() {
        chips(canvas, row);
    }
    if inner.height >= 6
        && let Some(row) = rows.next()
    {
        options(canvas, row);
    }
    let filtering = pane.filter_input.is_some() || !pane.filters.text.is_blank();
    if (filtering || inner.height >= 9)
        && let Some(row) = rows.next()
        && filtering
    {
        filter(canvas, row);
    }
    let Some(first) = rows.next() else { return };
    let body = Rect::new(inner.x, first.y, inner.width, inner.bottom() - first.y);
    canvas.view.list_rows = body.height;
    if pane.lines.is_empty() {
        empty(canvas, body);
        return;
    }
    let height = usize::from(body.height);
    let selected = pane.selected_line();
    let mut top = pane.top;
    if let Some(at) = selected {
        top = top.min(at).max((at + 1).saturating_sub(height));
    }
    top = top.min(pane.lines.len().saturating_sub(height));
    canvas.view.list_top = top;
    for (at, (place, line)) in body.rows().zip(&pane.lines[top..]).enumerate() {
        row(canvas, place, line, selected == Some(top + at), focused);
    }
    pen::scrollbar(
        canvas.buffer,
        area,
        top,
        height,
        pane.lines.len(),
        canvas.theme,
    );
}

/// `[all] main 3  group 4 …`; the chosen one is always among those that fit.
fn chips(canvas: &mut Canvas<'_>, area: Rect) {
    let pane = &canvas.app.sessions;
    let chosen = pane.filters.kind;
    let kinds = std::iter::once(None).chain(Kind::ALL.into_iter().map(Some));
    let mut chips: Vec<(Option<Kind>, Line)> = Vec::new();
    for kind in kinds {
        let count = pane.kind_counts.get(&kind).copied().unwrap_or(0);
        let name = kind.map_or("all", Kind::as_str);
        let line = if kind == chosen {
            let style = canvas.style(Role::Focus);
            match kind {
                None => word(clean_format!("[{}]", name), style),
                Some(_) => word(clean_format!("[{} {}]", name, count), style),
            }
        } else {
            let style = canvas.style(if count == 0 { Role::Border } else { Role::Dim });
            match kind {
                None => word(clean_format!("{}", name), style),
                Some(_) => word(clean_format!("{} {}", name, count), style),
            }
        };
        chips.push((kind, line));
    }
    let room = usize::from(area.width.saturating_sub(2));
    let chosen_at = chips
        .iter()
        .position(|(kind, _)| *kind == chosen)
        .unwrap_or(0);
    let width = |from: usize, to: usize| -> usize {
        chips[from..=to]
            .iter()
            .map(|(_, line)| line.width())
            .sum::<usize>()
            + 2 * (to - from)
    };
    let mut from = 0;
    // Two columns for the mark on the left.
    while from < chosen_at && width(from, chosen_at) + if from > 0 { 2 } else { 0 } + 2 > room {
        from += 1;
    }
    let mut x = area.x + 1;
    let dim = canvas.style(Role::Dim);
    if from > 0 {
        canvas.line(
            Rect::new(x, area.y, 1, 1).intersection(area),
            &word(glyph::MORE, dim),
        );
        x += 2;
    }
    let count = chips.len();
    for (at, (kind, line)) in chips.into_iter().enumerate().skip(from) {
        let columns = cells(line.width());
        let reserve = if at + 1 < count { 2 } else { 0 };
        if x + columns + reserve > area.right() {
            let place = Rect::new(x, area.y, 1, 1).intersection(area);
            canvas.line(place, &word(glyph::MORE, dim));
            break;
        }
        let place = Rect::new(x, area.y, columns, 1).intersection(area);
        canvas.line(place, &line);
        canvas.spot(place, Spot::KindChip(kind));
        x += columns + 2;
    }
}

/// `active any    sort recent    tree on`, and what else narrows.
fn options(canvas: &mut Canvas<'_>, area: Rect) {
    let pane = &canvas.app.sessions;
    let filters = &pane.filters;
    let dim = canvas.style(Role::Dim);
    let set = canvas.style(Role::Key);
    let part = |name: &'static str, value: Clean, is_set: bool| {
        Line::of(clean_format!("{} ", name), dim)
            .with(value, if is_set { set } else { Style::new() })
    };
    let mut parts = Vec::new();
    if let Some(agent) = &filters.agent {
        parts.push((0, part("agent", agent.clean(), true)));
    }
    if let Some(channel) = &filters.channel {
        parts.push((0, part("channel", channel.clone(), true)));
    }
    if filters.live_only {
        parts.push((0, word("live only", set)));
    }
    if filters.archived_too {
        parts.push((1, word("archived too", set)));
    }
    let active = filters.active_minutes;
    let shown = active.map_or_else(|| Clean::fixed("any"), minutes_shown);
    parts.push((
        if active.is_some() { 0 } else { 4 },
        part("active", shown, active.is_some()),
    ));
    parts.push((2, part("sort", pane.sort.as_str().into(), false)));
    parts.push((
        3,
        part("tree", if pane.tree { "on" } else { "off" }.into(), false),
    ));
    let between = Line::of("   ", dim);
    let columns = usize::from(area.width.saturating_sub(2));
    let line = fit_or_more(parts, &between, columns, dim);
    canvas.line(inset(area), &line);
}

fn filter(canvas: &mut Canvas<'_>, area: Rect) {
    let pane = &canvas.app.sessions;
    let area = inset(area);
    let columns = usize::from(area.width.saturating_sub(2)).max(1);
    let line = Line::of("/ ", canvas.style(Role::Key));
    match &pane.filter_input {
        Some(draft) => {
            let (text, at) = edit::one_line(draft, columns, canvas.style(Role::Text));
            canvas.line(area, &line.and(text));
            canvas.cursor = Some((area.x + 2 + cells(at), area.y).into());
        }
        None => {
            let text = pane.filters.text.clean();
            canvas.line(area, &line.with(text, canvas.style(Role::Text)));
        }
    }
}

fn inset(area: Rect) -> Rect {
    Rect::new(
        area.x + 1,
        area.y,
        area.width.saturating_sub(2),
        area.height,
    )
}

fn empty(canvas: &mut Canvas<'_>, area: Rect) {
    let pane = &canvas.app.sessions;
    let dim = canvas.style(Role::Dim);
    let mut lines = Vec::new();
    if let Some(failure) = &pane.failure {
        let text = clean_format!("{} {}", glyph::FAILED, failure);
        lines.push(word(text, canvas.style(Role::Error)));
    } else if !pane.loaded {
        let text = clean_format!("{} {}", canvas.spinner(), words::LOADING_SESSIONS);
        lines.push(word(text, dim));
    } else if pane.is_empty() {
        lines.push(word(words::NO_SESSIONS, canvas.style(Role::Text)));
        lines.push(word(words::NO_SESSIONS_HINT, dim));
    } else {
        lines.push(word(words::NOTHING_MATCHES, canvas.style(Role::Text)));
        lines.push(Line::new());
        lines.extend(canvas.hint(Action::Hidden, words::NOTHING_MATCHES_HINT));
        lines.extend(canvas.hint(Action::ClearFilters, words::SHOW_ALL));
    }
    canvas.say(area, lines);
}

/// Columns of agent, channel and age; a name that would get narrower than this takes theirs.
const AGENT: usize = 8;
const CHANNEL: usize = 9;
const AGE: usize = 4;
const NAME: usize = 13;
/// Levels of the tree that are drawn; deeper ones stand at the last.
const LEVELS: usize = 5;

fn row(canvas: &mut Canvas<'_>, area: Rect, line: &Row, selected: bool, focused: bool) {
    let pane = &canvas.app.sessions;
    let dim = canvas.style(Role::Dim);
    let border = canvas.style(Role::Border);
    let session = pane.session_of(line);
    let room = usize::from(area.width.saturating_sub(2));

    let mut left = Line::new();
    let depth = usize::from(line.depth);
    if depth > 0 {
        for goes_on in line.rails().take(LEVELS - 1) {
            left.push(if goes_on { glyph::TRUNK } else { "  " }, border);
        }
        if depth > LEVELS {
            left.push(glyph::MORE, border);
        }
        left.push(
            if line.is_last {
                glyph::LAST
            } else {
                glyph::BRANCH
            },
            border,
        );
    }
    let quiet = line.is_context || session.is_none_or(|s| s.archived);
    let (mark, role) = session.map_or((glyph::OTHER, Role::Dim), |s| state_glyph(canvas, s));
    left.push(mark, canvas.style(role));
    left.push(" ", Style::new());

    let guides = left.width();
    let fixed = |agent: bool, channel: bool| {
        AGE + 1 + if agent { AGENT + 1 } else { 0 } + if channel { CHANNEL + 1 } else { 0 }
    };
    let (agent, channel) = if room >= fixed(true, true) + NAME + 2 {
        (true, true)
    } else if room >= fixed(true, false) + NAME + 2 {
        (true, false)
    } else {
        (false, false)
    };
    let name_room = room.saturating_sub(fixed(agent, channel) + guides);
    let mut name = session.map_or_else(|| pane.key_of(line).short(), Session::name);
    if line.folded > 0 {
        let more = clean_format!(" +{}", line.folded);
        name = text::clip(&name, name_room.saturating_sub(more.as_str().len()));
        name.push(&more);
    }
    let name_style = if quiet { dim } else { canvas.style(Role::Text) };
    // Where there is room to spare, what it is about.
    let about = session.and_then(|s| s.title().or_else(|| s.preview()));
    match about.filter(|about| *about != name) {
        Some(about) if name_room >= 3 * NAME => {
            let first = 2 * NAME - guides.min(NAME);
            left.push(column(&name, first), name_style);
            left.push("  ", dim);
            left.push(column(&about, name_room - first - 2), dim);
        }
        _ => left.push(column(&name, name_room), name_style),
    }
    if agent {
        let shown = session
            .and_then(|s| s.agent.as_ref())
            .map_or_else(Clean::empty, |agent| agent.clean());
        left.push(" ", dim);
        left.push(column(&shown, AGENT), dim);
    }
    if channel {
        let shown = session.map_or_else(Clean::empty, |s| Clean::clone(&s.channel));
        left.push(" ", dim);
        left.push(column(&shown, CHANNEL), dim);
    }
    let age = session
        .and_then(|s| s.updated_at)
        .map_or_else(Clean::empty, |at| ages::shown(canvas.app.now_ms, at));
    let free = AGE.saturating_sub(text::width(age.as_str()));
    left.push(spaces(free + 1), dim);
    left.push(age, dim);

    canvas.line(inset(area), &left);
    if selected {
        let role = if focused {
            Role::Selected
        } else {
            Role::Marked
        };
        let style = canvas.style(role);
        pen::tint(canvas.buffer, area, style);
        let bar = canvas.style(if focused { Role::Focus } else { Role::Dim });
        canvas.line(
            Rect::new(area.x, area.y, 1, 1),
            &word(glyph::CURSOR_BAR, bar),
        );
    }
    canvas.spot(area, Spot::Session(pane.key_of(line).clone()));
}

/// What the session does, else what it is.
pub fn state_glyph(canvas: &Canvas<'_>, session: &Session) -> (&'static str, Role) {
    let is_child = session.spawned || session.key.is_subagent();
    match canvas.app.sessions.state(session) {
        State::Running => (canvas.spinner(), Role::Running),
        State::Queued => (glyph::MORE, Role::Waiting),
        _ if session.archived => (glyph::ARCHIVED, Role::Dim),
        State::Failed => (glyph::FAILED, Role::Error),
        State::Timeout => (glyph::LATE, Role::Error),
        State::Killed => (glyph::STOPPED, Role::Waiting),
        State::Done if is_child => (glyph::OK, Role::Ok),
        State::Done | State::Idle => (kind_glyph(session.kind), Role::Dim),
    }
}

fn kind_glyph(kind: Kind) -> &'static str {
    match kind {
        Kind::Main => glyph::MAIN,
        Kind::Group => glyph::GROUP,
        Kind::Cron => glyph::CRON,
        Kind::Hook => glyph::HOOK,
        Kind::Node => glyph::NODE,
        Kind::Other => glyph::OTHER,
    }
}
