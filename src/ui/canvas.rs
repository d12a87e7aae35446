//! What every view draws with: the state, the theme, the cells, and what is told back.

use super::line::Line;
use super::pen;
use super::theme::{Role, Theme};
use crate::app::App;
use crate::app::geometry::{Area, Spot, Viewport};
use crate::text::Clean;
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;

/// See the module.
pub struct Canvas<'a> {
    pub app: &'a App,
    pub theme: &'a Theme,
    pub zone: &'a TimeZone,
    pub buffer: &'a mut Buffer,
    pub view: Viewport,
    /// Where the terminal's cursor goes; the last one wins.
    pub cursor: Option<Position>,
}

impl Canvas<'_> {
    /// The style of a role.
    pub fn style(&self, role: Role) -> Style {
        self.theme.style(role)
    }

    /// Draws a line on the first row of `area`.
    pub fn line(&mut self, area: Rect, line: &Line) -> u16 {
        pen::put_line(self.buffer, area, line)
    }

    /// Draws a frame and gives what is inside.
    pub fn frame(&mut self, area: Rect, titles: &pen::Titles, focused: bool) -> Rect {
        pen::frame(self.buffer, area, titles, focused, self.theme)
    }

    /// Tells what stands in an area.
    pub fn spot(&mut self, area: Rect, spot: Spot) {
        if area.width > 0 && area.height > 0 {
            let area = Area {
                x: area.x,
                y: area.y,
                width: area.width,
                height: area.height,
            };
            self.view.spots.push((area, spot));
        }
    }

    /// A frame of the spinner: moves with the time of the last event.
    pub fn spinner(&self) -> &'static str {
        super::glyph::spinner(self.app.spin())
    }

    /// The key of an action that works here, with what it does: `c compose`.
    pub fn hint(&self, action: crate::app::action::Action, words: &'static str) -> Option<Line> {
        let hint = crate::app::help::sections(self.app)
            .into_iter()
            .flat_map(|section| section.hints)
            .find(|hint| hint.action == action && !hint.keys.as_str().is_empty())?;
        Some(
            Line::of(hint.keys, self.style(Role::Key))
                .with("  ", Style::new())
                .with(words, self.style(Role::Dim)),
        )
    }

    /// A few centred lines where there is nothing else.
    pub fn say(&mut self, area: Rect, lines: Vec<Line>) {
        let columns = usize::from(area.width.saturating_sub(2)).max(1);
        let lines: Vec<Line> = lines.iter().flat_map(|line| line.wrap(columns)).collect();
        let height = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        let top = area.y + area.height.saturating_sub(height) / 3;
        for (row, line) in (top..area.bottom()).zip(&lines) {
            let free = usize::from(area.width).saturating_sub(line.width()) / 2;
            let free = u16::try_from(free).unwrap_or(0);
            let place = Rect::new(area.x + free, row, area.width.saturating_sub(free), 1);
            self.line(place, line);
        }
    }
}

/// Parts side by side, the less important ones (higher number) left out until the rest fits.
pub fn fit(mut parts: Vec<(u8, Line)>, between: &Line, columns: usize) -> Line {
    parts.retain(|(_, line)| !line.is_empty());
    let width = |parts: &[(u8, Line)]| {
        let sum: usize = parts.iter().map(|(_, line)| line.width()).sum();
        sum + between.width() * parts.len().saturating_sub(1)
    };
    while width(&parts) > columns {
        let Some(at) = (0..parts.len()).max_by_key(|at| (parts[*at].0, *at)) else {
            break;
        };
        if parts.len() == 1 {
            break;
        }
        parts.remove(at);
    }
    let mut out = Line::new();
    for (at, (_, line)) in parts.into_iter().enumerate() {
        if at > 0 {
            out = out.and(between.clone());
        }
        out = out.and(line);
    }
    out.cut(columns)
}

/// As [`fit`], with a mark at the end when something was left out.
pub fn fit_or_more(parts: Vec<(u8, Line)>, between: &Line, columns: usize, mark: Style) -> Line {
    let all: Vec<&Line> = parts
        .iter()
        .map(|(_, line)| line)
        .filter(|l| !l.is_empty())
        .collect();
    let whole = all.iter().map(|line| line.width()).sum::<usize>()
        + between.width() * all.len().saturating_sub(1);
    if whole <= columns {
        return fit(parts, between, columns);
    }
    let line = fit(parts, between, columns.saturating_sub(2));
    line.with(" ", mark).with(super::glyph::MORE, mark)
}

/// A `usize` of columns or rows as cells.
pub fn cells(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// One line of clean text in a style.
pub fn word(text: impl Into<Clean>, style: Style) -> Line {
    Line::of(text, style)
}
