//! The transcript pane: as many messages as the screen holds, laid out from the place the reader keeps.
//!
//! A place is a message and a line in it, so whatever comes above or below, the reader's lines stay where they are.
//! Only what is on the screen, and what is needed to find it, is laid out. Absent on purpose: what a message looks like
//! ([`super::message`]).

use super::cache::{Cache, Lines};
use super::canvas::{Canvas, cells, fit, word};
use super::edit;
use super::glyph;
use super::line::Line;
use super::markdown;
use super::message::{self, Head, Look, Outcome};
use super::pen::{self, Titles};
use super::theme::{Role as Paint, Theme};
use super::when;
use crate::app::action::Action;
use crate::app::geometry::{Spot, TranscriptView};
use crate::app::sessions::{Session, identity};
use crate::app::transcript::{Ending, Load, Scroll, Stream, Transcript};
use crate::app::{App, Focus, Layer, Purpose};
use crate::clean_format;
use crate::model::event::ToolPhase;
use crate::model::key::SessionKey;
use crate::model::message::{Block, Content, Message, Role, Said};
use crate::model::run;
use crate::model::session::SendPolicy;
use crate::strings::ui as words;
use crate::text::{Clean, Untrusted};
use jiff::tz::TimeZone;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::collections::HashMap;
use std::sync::Arc;

/// Draws the pane.
pub fn draw(canvas: &mut Canvas<'_>, cache: &mut Cache, area: Rect) {
    let app = canvas.app;
    let t = &app.transcript;
    let focused = app.focus == Focus::Transcript && app.layers.is_empty();
    canvas.spot(area, Spot::Pane(Focus::Transcript));
    let session = t.key.as_ref().and_then(|key| app.sessions.get(key));
    let titles = titles(
        canvas,
        session,
        focused,
        usize::from(area.width.saturating_sub(4)),
    );
    let inner = canvas.frame(area, &titles, focused);
    if inner.is_empty() {
        return;
    }
    let body = search_line(canvas, inner);
    canvas.view.transcript.rows = body.height;
    if t.items.is_empty() && t.streams.is_empty() && t.endings.is_empty() {
        canvas.view.transcript.at_top = true;
        canvas.view.transcript.at_bottom = true;
        empty(canvas, body);
        return;
    }
    let Some(window) = layout(canvas, cache, session, body) else {
        canvas.say(
            body,
            vec![word(words::ALL_FOLDED, canvas.style(Paint::Dim))],
        );
        return;
    };
    canvas.view.transcript = window.view;
    for (place, drawn) in body.rows().zip(&window.rows) {
        let text = Rect::new(
            place.x + 1,
            place.y,
            place.width.saturating_sub(2),
            place.height,
        );
        canvas.line(text, &drawn.line);
        if let Some(search) = &t.search
            && drawn
                .position
                .is_some_and(|at| search.hits.binary_search(&at).is_ok())
        {
            mark(canvas, text, &drawn.line, &search.text);
        }
        if let Some(position) = drawn.position {
            canvas.spot(place, Spot::Message(position));
            if drawn.marked && t.cursor == Some(position) {
                let paint = if focused { Paint::Focus } else { Paint::Border };
                let bar = word(glyph::CURSOR_BAR, canvas.style(paint));
                canvas.line(Rect::new(place.x, place.y, 1, 1), &bar);
            }
        }
    }
    follow_mark(canvas, area);
}

/// `name · key`, and on the right what is known of the session.
fn titles(canvas: &Canvas<'_>, session: Option<&Session>, focused: bool, columns: usize) -> Titles {
    let app = canvas.app;
    let t = &app.transcript;
    let dim = canvas.style(Paint::Dim);
    let name = canvas.style(if focused { Paint::Focus } else { Paint::Title });
    let Some(key) = &t.key else {
        return Titles {
            left: word(words::TRANSCRIPT, name),
            ..Titles::default()
        };
    };
    let left = word(app.sessions.name(key), name).with(clean_format!(" · {}", key.clean()), dim);
    let mut parts = Vec::new();
    let damaged = t.damaged();
    if damaged > 0 {
        let style = canvas.style(Paint::Error);
        parts.push((
            0,
            word(
                clean_format!("{} {} damaged", glyph::FAILED, damaged),
                style,
            ),
        ));
    }
    if let Some(s) = session {
        parts.push((3, word(Clean::clone(&s.channel), dim)));
        if let Some(model) = &s.model {
            parts.push((2, word(Clean::clone(model), dim)));
        }
        parts.push((4, word(tokens(s), dim)));
    }
    // What holds, by rule or by override; until that is known, the override alone.
    let policy = t.policy.as_ref().map(|(policy, _)| *policy);
    match policy.or_else(|| session.and_then(|s| s.send_policy)) {
        Some(SendPolicy::Deny) => {
            parts.push((1, word("sends off", canvas.style(Paint::Waiting))));
        }
        Some(SendPolicy::Allow) => parts.push((5, word("sends on", dim))),
        None => {}
    }
    for (on, what) in [(t.raw, "raw"), (t.show_secrets, "secrets shown")] {
        if on {
            parts.push((0, word(what, canvas.style(Paint::Waiting))));
        }
    }
    let room = columns.saturating_sub(left.width().min(columns / 2) + 5);
    let right = fit(parts, &Line::of(" · ", dim), room);
    let left_room = columns.saturating_sub(right.width() + 5);
    Titles {
        left: left.cut(left_room.max(columns / 2)),
        right,
        bottom: Line::new(),
    }
}

/// `12.4k/200k 6%`
fn tokens(session: &Session) -> Clean {
    match (session.total_tokens, session.context_tokens) {
        (Some(used), Some(all)) if all > 0 => clean_format!(
            "{}/{} {}%",
            when::count(used),
            when::count(all),
            used.saturating_mul(100) / all
        ),
        (Some(used), _) if used > 0 => clean_format!("{} tok", when::count(used)),
        _ => Clean::empty(),
    }
}

/// The search at the bottom of the pane, typed or kept; gives what is left above it.
fn search_line(canvas: &mut Canvas<'_>, inner: Rect) -> Rect {
    let app = canvas.app;
    let typed = app.layers.iter().find_map(|layer| match layer {
        Layer::Prompt(prompt) if prompt.purpose == Purpose::Search => Some(prompt),
        _ => None,
    });
    if inner.height < 3 || (typed.is_none() && app.transcript.search.is_none()) {
        return inner;
    }
    let row = Rect::new(
        inner.x + 1,
        inner.bottom() - 1,
        inner.width.saturating_sub(2),
        1,
    );
    let room = usize::from(row.width.saturating_sub(2));
    let slash = Line::of("/ ", canvas.style(Paint::Key));
    let found = app
        .transcript
        .search
        .as_ref()
        .map_or_else(Line::new, |search| {
            let hits = search.hits.len();
            let at = app
                .transcript
                .cursor
                .and_then(|cursor| search.hits.binary_search(&cursor).ok());
            let text = match at {
                Some(at) => clean_format!("{} of {}", at + 1, hits),
                None => clean_format!("{} found", hits),
            };
            word(
                text,
                canvas.style(if hits == 0 { Paint::Error } else { Paint::Dim }),
            )
        });
    match (typed, &app.transcript.search) {
        (Some(prompt), _) => {
            let (text, at) = edit::one_line(&prompt.draft, room, canvas.style(Paint::Text));
            canvas.line(row, &slash.and(text));
            canvas.cursor = Some((row.x + 2 + cells(at), row.y).into());
        }
        (None, Some(search)) => {
            let left = slash.with(search.text.clean(), canvas.style(Paint::Match));
            canvas.line(row, &Line::justified(left, found, usize::from(row.width)));
        }
        (None, None) => {}
    }
    Rect::new(inner.x, inner.y, inner.width, inner.height - 1)
}

fn empty(canvas: &mut Canvas<'_>, area: Rect) {
    let t = &canvas.app.transcript;
    let dim = canvas.style(Paint::Dim);
    let plain = canvas.style(Paint::Text);
    let mut lines = Vec::new();
    match &t.load {
        Load::Nothing => {
            lines.push(word(words::NOTHING_OPEN, plain));
            lines.push(word(words::OPEN_HINT, dim));
        }
        Load::Loading => lines.push(word(
            clean_format!("{} {}", canvas.spinner(), words::LOADING),
            dim,
        )),
        Load::Ready => {
            lines.push(word(words::NO_MESSAGES, plain));
            lines.push(Line::new());
            lines.extend(canvas.hint(Action::Compose, words::WRITE_FIRST));
        }
        Load::Absent => lines.push(word(words::ABSENT, plain)),
        Load::Failed(reason) => {
            let bad = canvas.style(Paint::Error);
            lines.push(word(
                clean_format!("{} {}", glyph::FAILED, words::CANNOT_READ),
                bad,
            ));
            lines.push(word(reason.clone(), dim));
        }
    }
    canvas.say(area, lines);
}

/// Marks what was searched for in a line that is drawn.
fn mark(canvas: &mut Canvas<'_>, area: Rect, line: &Line, wanted: &Untrusted) {
    let wanted = wanted.clean().as_str().to_lowercase();
    if wanted.is_empty() {
        return;
    }
    let style = canvas.style(Paint::Match);
    let whole: String = line.0.iter().map(|piece| piece.text.as_str()).collect();
    // Lower case may be longer or shorter: places are counted in symbols, each with its column.
    let mut folded = String::new();
    let mut places = Vec::new();
    let mut column = 0;
    for (symbol, width) in crate::text::graphemes(&whole) {
        let lower = symbol.to_lowercase();
        places.extend(std::iter::repeat_n((column, width), lower.len()));
        folded.push_str(&lower);
        column += width;
    }
    for (at, found) in folded.match_indices(&wanted) {
        let (Some((from, _)), Some((last, width))) =
            (places.get(at), places.get(at + found.len() - 1))
        else {
            continue;
        };
        let x = area.x.saturating_add(cells(*from));
        let place = Rect::new(x, area.y, cells(last + width - from), 1).intersection(area);
        pen::tint(canvas.buffer, place, style);
    }
}

/// `↓ 2 new` or `following` on the lower border.
fn follow_mark(canvas: &mut Canvas<'_>, area: Rect) {
    let t = &canvas.app.transcript;
    let mark = if t.new_below > 0 {
        let text = clean_format!(" {} {} new ", glyph::DOWN, t.new_below);
        word(text, canvas.style(Paint::Running))
    } else if t.is_following() {
        word(
            clean_format!(" {} ", words::FOLLOWING),
            canvas.style(Paint::Dim),
        )
    } else if canvas.view.transcript.at_bottom {
        return;
    } else {
        word(clean_format!(" {} ", glyph::DOWN), canvas.style(Paint::Dim))
    };
    let width = cells(mark.width());
    if area.width < width + 4 || area.height < 2 {
        return;
    }
    let place = Rect::new(area.right() - 2 - width, area.bottom() - 1, width, 1);
    canvas.line(place, &mark);
    canvas.spot(place, Spot::FollowMark);
}

/// One row of the screen.
struct Drawn {
    line: Line,
    /// The message it belongs to.
    position: Option<u64>,
    /// Carries the cursor's bar: the blank line after a message does not.
    marked: bool,
}

struct Window {
    rows: Vec<Drawn>,
    view: TranscriptView,
}

/// What stands in the column of messages.
#[derive(Clone, Copy)]
enum Item {
    /// Before the first message: older ones are coming, runs that ended before any message.
    Top,
    /// Index into the transcript's items.
    Message(usize),
    /// Index into its streams.
    Stream(usize),
}

/// An item laid out.
struct Part {
    before: Vec<Line>,
    body: Lines,
    after: Vec<Line>,
}

impl Part {
    fn height(&self) -> usize {
        self.before.len() + self.body.len() + self.after.len()
    }

    fn line(&self, at: usize) -> Line {
        let mut lines = self
            .before
            .iter()
            .chain(self.body.iter())
            .chain(&self.after);
        lines.nth(at).cloned().unwrap_or_default()
    }
}

/// The column of messages at a width.
struct Column<'a> {
    app: &'a App,
    session: Option<&'a Session>,
    theme: Theme,
    zone: TimeZone,
    spinner: &'static str,
    columns: usize,
    has_top: bool,
    cache: &'a mut Cache,
    parts: HashMap<usize, Part>,
}

fn layout(
    canvas: &Canvas<'_>,
    cache: &mut Cache,
    session: Option<&Session>,
    body: Rect,
) -> Option<Window> {
    let app = canvas.app;
    let t = &app.transcript;
    cache.begin(t.generation);
    cache.keep_streams(|run| t.streams.iter().any(|stream| stream.run_id == run));
    let has_top = t.loading_older || t.endings.iter().any(|e| shown_before(t, e).is_none());
    let mut column = Column {
        app,
        session,
        theme: canvas.theme.clone(),
        zone: canvas.zone.clone(),
        spinner: canvas.spinner(),
        columns: usize::from(body.width.saturating_sub(2)).max(1),
        has_top,
        cache,
        parts: HashMap::new(),
    };
    column.window(usize::from(body.height))
}

/// Index of the last shown message at or before the place of an ending.
fn shown_before(t: &Transcript, ending: &Ending) -> Option<usize> {
    let after = ending.after?;
    let end = t.items.partition_point(|message| message.position <= after);
    (0..end).rev().find(|at| t.is_shown(&t.items[*at]))
}

impl Column<'_> {
    /// Everything that could stand here, numbered: the top, messages, streams.
    fn item(&self, at: usize) -> Option<Item> {
        let t = &self.app.transcript;
        let Some(at) = at.checked_sub(1) else {
            return Some(Item::Top);
        };
        match at.checked_sub(t.items.len()) {
            None => Some(Item::Message(at)),
            Some(at) => (at < t.streams.len()).then_some(Item::Stream(at)),
        }
    }

    /// Whether it does stand here. Nothing asks this of all items: a frame costs as much as it shows.
    fn is_shown(&self, at: usize) -> bool {
        let t = &self.app.transcript;
        match self.item(at) {
            Some(Item::Top) => self.has_top,
            Some(Item::Message(at)) => t.is_shown(&t.items[at]),
            Some(Item::Stream(_)) => true,
            None => false,
        }
    }

    fn count(&self) -> usize {
        1 + self.app.transcript.items.len() + self.app.transcript.streams.len()
    }

    /// The first item that stands at or after a number.
    fn at_or_after(&self, at: usize) -> Option<usize> {
        (at..self.count()).find(|at| self.is_shown(*at))
    }

    fn after(&self, item: usize) -> Option<usize> {
        self.at_or_after(item + 1)
    }

    /// The last item that stands before a number.
    fn before(&self, at: usize) -> Option<usize> {
        (0..at).rev().find(|at| self.is_shown(*at))
    }

    /// None when nothing is shown.
    fn window(&mut self, rows: usize) -> Option<Window> {
        self.at_or_after(0)?;
        let t = &self.app.transcript;
        let mut top = match t.scroll {
            Scroll::Follow => self.end(rows),
            Scroll::At { position, line } => {
                let anchor = self.index_at(position);
                let from = self.normal(anchor, line);
                self.not_beyond(from, rows)
            }
        };
        if t.reveal
            && let Some(cursor) = t.cursor
        {
            top = self.revealing(top, self.index_at(cursor), rows);
        }
        Some(self.draw(top, rows))
    }

    /// Index of the message at a position, else of what follows it, else the last.
    fn index_at(&self, position: u64) -> usize {
        let items = &self.app.transcript.items;
        let at = 1 + items.partition_point(|message| message.position < position);
        let found = self.at_or_after(at).or_else(|| self.before(at));
        found.unwrap_or(0)
    }

    /// A place whose line lies within its item, whatever line was given.
    fn normal(&mut self, mut item: usize, line: isize) -> (usize, usize) {
        let mut line = line;
        while line < 0 {
            let Some(before) = self.before(item) else {
                return (item, 0);
            };
            item = before;
            line += self.height(item).cast_signed();
        }
        let mut line = line.unsigned_abs();
        loop {
            let height = self.height(item);
            let next = self.after(item).filter(|_| line >= height);
            let Some(next) = next else {
                return (item, line.min(height.saturating_sub(1)));
            };
            line -= height;
            item = next;
        }
    }

    /// The first line of the last screen.
    fn end(&mut self, rows: usize) -> (usize, usize) {
        let mut left = rows;
        let mut first = 0;
        let mut at = self.before(self.count());
        while let Some(item) = at {
            let height = self.height(item);
            if height >= left {
                return (item, height - left);
            }
            left -= height;
            first = item;
            at = self.before(item);
        }
        (first, 0)
    }

    /// The place itself, or the last screen's when it lies beyond.
    fn not_beyond(&mut self, place: (usize, usize), rows: usize) -> (usize, usize) {
        let mut below = 0;
        let mut at = Some(place.0);
        while let Some(item) = at {
            below += self.height(item);
            if below >= rows + place.1 {
                return place;
            }
            at = self.after(item);
        }
        place.min(self.end(rows))
    }

    /// Moves as little as brings an item into the window.
    fn revealing(&mut self, top: (usize, usize), item: usize, rows: usize) -> (usize, usize) {
        // The blank line at its end need not be seen.
        let height = self.height(item).saturating_sub(1).max(1);
        if item < top.0 {
            return (item, 0);
        }
        if item == top.0 {
            // A message longer than the window may be read from its middle.
            let seen = height.saturating_sub(top.1);
            let fits = height <= rows;
            return if top.1 == 0 || (!fits && seen > 0) {
                top
            } else {
                (item, 0)
            };
        }
        let mut above = 0;
        let mut at = Some(top.0);
        while let Some(passed) = at.filter(|at| *at < item) {
            above += self.height(passed);
            if above >= top.1 + rows + height {
                break;
            }
            at = self.after(passed);
        }
        let starts = above.saturating_sub(top.1);
        if starts + height <= rows {
            return top;
        }
        if height >= rows {
            return (item, 0);
        }
        self.normal(item, height.cast_signed() - rows.cast_signed())
    }

    fn draw(&mut self, top: (usize, usize), rows: usize) -> Window {
        let mut drawn = Vec::with_capacity(rows);
        let mut view = TranscriptView {
            rows: cells(rows),
            at_top: top.1 == 0 && self.before(top.0).is_none() && self.app.transcript.at_start,
            ..TranscriptView::default()
        };
        let (mut at, mut line) = (Some(top.0), top.1);
        view.first_cut = line > 0;
        while let Some(item) = at.filter(|_| drawn.len() < rows) {
            let position = self.position(item);
            let height = self.height(item);
            let part = &self.parts[&item];
            let content = part.before.len() + part.body.len();
            // The blank line at the end is nothing that could be missed.
            let blank = usize::from(part.after.last().is_some_and(Line::is_empty));
            while line < height && drawn.len() < rows {
                drawn.push(Drawn {
                    line: part.line(line),
                    position,
                    marked: line < content,
                });
                line += 1;
            }
            if let Some(position) = position {
                view.first.get_or_insert(position);
                view.last = Some(position);
                view.last_cut = line + blank < height;
            }
            if line >= height {
                at = self.after(item);
                line = 0;
            }
        }
        view.at_bottom = at.is_none();
        view.top = self.told(top);
        Window { rows: drawn, view }
    }

    /// A place in terms of messages, which is all that is known outside.
    fn told(&mut self, top: (usize, usize)) -> Option<(u64, usize)> {
        if let Some(position) = self.position(top.0) {
            return Some((position, top.1));
        }
        if matches!(self.item(top.0), Some(Item::Top)) {
            let next = self.after(top.0)?;
            return Some((self.position(next)?, 0));
        }
        // In a stream: so many lines beyond the last message.
        let mut between = top.1;
        let mut last = self.before(top.0)?;
        loop {
            between += self.height(last);
            if let Some(position) = self.position(last) {
                return Some((position, between));
            }
            last = self.before(last)?;
        }
    }

    fn position(&self, item: usize) -> Option<u64> {
        match self.item(item)? {
            Item::Message(at) => Some(self.app.transcript.items[at].position),
            Item::Top | Item::Stream(_) => None,
        }
    }

    fn height(&mut self, item: usize) -> usize {
        if let Some(part) = self.parts.get(&item) {
            return part.height();
        }
        let part = match self.item(item) {
            Some(Item::Message(at)) => self.message(item, at),
            Some(Item::Stream(at)) => self.stream(at),
            Some(Item::Top) | None => self.top(),
        };
        let height = part.height();
        self.parts.insert(item, part);
        height
    }

    fn style(&self, paint: Paint) -> Style {
        self.theme.style(paint)
    }

    fn top(&self) -> Part {
        let t = &self.app.transcript;
        let mut lines = Vec::new();
        if t.loading_older {
            let text = clean_format!("{} {}", self.spinner, words::OLDER);
            lines.push(word(text, self.style(Paint::Dim)));
        }
        for ending in &t.endings {
            if shown_before(t, ending).is_none() {
                lines.extend(self.ending(ending));
            }
        }
        lines.push(Line::new());
        Part {
            before: lines,
            body: Lines::default(),
            after: Vec::new(),
        }
    }

    fn message(&mut self, item: usize, at: usize) -> Part {
        let app = self.app;
        let t = &app.transcript;
        let message = &t.items[at];
        let open = t.toggled.contains(&message.position);
        let look = Look {
            columns: self.columns,
            tools: t.show_tools,
            reasoning: t.show_reasoning,
            raw: t.raw,
            secrets: t.show_secrets,
            open,
            outcomes: outcomes(t, at, open && !t.show_tools && !t.raw),
        };
        let is_peer = message.said().is_some_and(Said::is_inter_session);
        let body = if is_peer {
            // The accent runs along the whole message.
            let narrower = Look {
                columns: self.columns.saturating_sub(2).max(1),
                ..look
            };
            let bar = Line::of(glyph::PEER_BAR, self.style(Paint::Peer)).with(" ", Style::new());
            let lines = self.cache.body(message, narrower, &app.masker);
            Arc::new(
                lines
                    .iter()
                    .map(|line| bar.clone().and(line.clone()))
                    .collect(),
            )
        } else {
            self.cache.body(message, look, &app.masker)
        };
        let mut before = Vec::new();
        if let Some(day) = self.new_day(at) {
            before.push(message::rule(&day, self.columns, &self.theme));
            before.push(Line::new());
        }
        let own = t
            .key
            .as_ref()
            .map_or_else(Clean::empty, |key| who(app, key));
        let head = Head {
            theme: &self.theme,
            zone: &self.zone,
            columns: self.columns,
            own,
            model: self.session.and_then(|s| s.model.as_deref()),
            who: &|key: &Untrusted| who(app, &identity(key)),
        };
        before.extend(message::head(message, &head));
        let mut after = Vec::new();
        for ending in &t.endings {
            if shown_before(t, ending) == Some(at) {
                after.extend(self.ending(ending));
            }
        }
        let next = self.after(item).and_then(|next| self.item(next));
        if !matches!(next, Some(Item::Message(next)) if is_result(&t.items[next])) {
            after.push(Line::new());
        }
        Part {
            before,
            body,
            after,
        }
    }

    /// The day of a message that is the first of its day.
    fn new_day(&self, at: usize) -> Option<Clean> {
        let t = &self.app.transcript;
        let here = when::day(t.items[at].at?, &self.zone);
        let earlier = t.items[..at].iter().rev().find_map(|message| message.at);
        let changes = match earlier {
            Some(at) => when::day(at, &self.zone) != here,
            None => t.at_start,
        };
        changes.then_some(here)
    }

    fn ending(&self, ending: &Ending) -> Vec<Line> {
        let (mark, what, paint) = match ending.outcome {
            run::Outcome::Ok => return Vec::new(),
            run::Outcome::Error => (glyph::FAILED, "run failed", Paint::Error),
            run::Outcome::Timeout => (glyph::LATE, "run took too long", Paint::Error),
            run::Outcome::Aborted => (glyph::STOPPED, "run aborted", Paint::Waiting),
            run::Outcome::Interrupted => {
                (glyph::STOPPED, "run cut off by a restart", Paint::Waiting)
            }
        };
        let mut line = Line::of(when::time(ending.at, &self.zone), self.style(Paint::Dim))
            .with(clean_format!(" {} {}", mark, what), self.style(paint));
        if let Some(error) = &ending.error {
            line.push(clean_format!(": {}", error.clean()), self.style(paint));
        }
        line.wrap(self.columns)
    }

    fn stream(&mut self, at: usize) -> Part {
        let app = self.app;
        let stream = &app.transcript.streams[at];
        let own = app
            .transcript
            .key
            .as_ref()
            .map_or_else(Clean::empty, |key| who(app, key));
        let doing = if !stream.text.is_blank() {
            words::WRITING
        } else if stream
            .thinking
            .as_ref()
            .is_some_and(|text| !text.is_blank())
        {
            words::THINKING_NOW
        } else {
            words::STARTING
        };
        let left = Line::of(
            when::time(stream.started_at, &self.zone),
            self.style(Paint::Dim),
        )
        .with(" ", Style::new())
        .with(own, self.style(Paint::Title))
        .with(
            clean_format!(" {} {}…", self.spinner, doing),
            self.style(Paint::Running),
        );
        let elapsed = app.now_ms.saturating_sub(stream.started_at) / 1000 * 1000;
        let right = if elapsed >= 1000 {
            word(when::span(elapsed), self.style(Paint::Dim))
        } else {
            Line::new()
        };
        let look = Look {
            columns: self.columns,
            tools: app.transcript.show_tools,
            reasoning: app.transcript.show_reasoning,
            raw: app.transcript.raw,
            secrets: app.transcript.show_secrets,
            open: false,
            outcomes: Vec::new(),
        };
        let masker = &app.masker;
        let body = self
            .cache
            .stream(&stream.run_id, stream.revision, look, |theme, look| {
                stream_body(stream, look, theme, masker)
            });
        Part {
            before: vec![Line::justified(left, right, self.columns)],
            body,
            after: vec![Line::new()],
        }
    }
}

fn stream_body(
    stream: &Stream,
    look: &Look,
    theme: &Theme,
    masker: &crate::text::mask::Masker,
) -> Vec<Line> {
    let mut out = Vec::new();
    let shown = |text: &Untrusted| {
        if look.secrets {
            return text.clone();
        }
        masker
            .mask(text.raw())
            .map_or_else(|| text.clone(), Untrusted::new)
    };
    if let Some(thinking) = stream.thinking.as_ref().filter(|text| !text.is_blank()) {
        let style = theme.style(Paint::Tool);
        let count = thinking.raw().split_whitespace().count();
        out.push(word(
            clean_format!(
                "{} {} · {} {}",
                glyph::REASONING,
                words::REASONING,
                count,
                words::WORDS
            ),
            style,
        ));
        if look.reasoning {
            out.extend(markdown::plain(
                &shown(thinking),
                look.columns,
                theme.style(Paint::Quote),
            ));
        }
    }
    for (name, _, phase) in &stream.tools {
        let (mark, paint) = match phase {
            ToolPhase::Start => (glyph::MORE, Paint::Running),
            ToolPhase::Result => (words::OK, Paint::Ok),
            ToolPhase::Error => (words::FAILED, Paint::Error),
        };
        let left = Line::of(clean_format!("{} ", glyph::TOOL), theme.style(Paint::Tool))
            .with(name.clean(), theme.style(Paint::Strong));
        out.push(Line::justified(
            left,
            word(mark, theme.style(paint)),
            look.columns,
        ));
    }
    if !stream.text.is_blank() {
        if !out.is_empty() {
            out.push(Line::new());
        }
        let text = shown(&stream.text);
        if look.raw {
            out.extend(markdown::plain(
                &text,
                look.columns,
                theme.style(Paint::Text),
            ));
        } else {
            out.extend(markdown::render(text.raw(), look.columns, theme));
        }
    }
    out
}

fn is_result(message: &Message) -> bool {
    message
        .said()
        .is_some_and(|said| said.role == Role::ToolResult)
}

/// What is known of each tool call of a message: its result stands behind it, before the next word of a person.
fn outcomes(t: &Transcript, at: usize, with_text: bool) -> Vec<Option<Outcome>> {
    let message = &t.items[at];
    let Some(said) = message.said() else {
        return Vec::new();
    };
    let calls = said.blocks.iter().filter_map(|block| match block {
        Block::ToolCall { id, .. } => Some(id),
        _ => None,
    });
    calls
        .map(|id| {
            let result = t.items[at + 1..]
                .iter()
                .take_while(
                    |later| !matches!(&later.content, Content::Said(s) if s.role == Role::User),
                )
                .find(|later| {
                    later
                        .said()
                        .is_some_and(|s| s.tool_call_id.as_ref() == Some(id))
                })?;
            let said = result.said()?;
            let text = said.text();
            Some(Outcome {
                failed: said.is_error,
                ms: result
                    .at
                    .zip(message.at)
                    .map(|(end, start)| end - start)
                    .filter(|ms| *ms > 0),
                bytes: text.len() as u64,
                text: with_text.then(|| text.into()),
            })
        })
        .collect()
}

/// Who speaks in a session: the agent for its main session, else the session's name.
fn who(app: &App, key: &SessionKey) -> Clean {
    app.sessions.speaker(key)
}
