//! Markdown as lines of the screen, at a width.
//!
//! The parser needs the text as it was written, and it *decodes*: `&#27;` comes out of it as an escape character, even
//! if what went in was clean. So nothing is cleaned before and every piece is cleaned after parsing, before it becomes
//! part of a [`Line`]. What Markdown has no drawing for (HTML, images) is shown as its source: nothing is hidden.
//! Line breaks inside a paragraph are kept, as people and agents write messages, not books. Absent on purpose:
//! highlighting of code, following links.

use super::glyph;
use super::line::{Line, column, repeat, spaces};
use super::theme::{Role, Theme};
use crate::clean_format;
use crate::text::{self, Clean, Untrusted};
use pulldown_cmark::{Alignment, CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};

/// The lines of a text, none wider than `columns` (a few characters of any text always fit).
pub fn render(text: &str, columns: usize, theme: &Theme) -> Vec<Line> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = Page {
        theme,
        columns: columns.max(1),
        out: Vec::new(),
        holders: Vec::new(),
        inline: Line::new(),
        styles: vec![theme.style(Role::Text)],
        lists: Vec::new(),
        links: Vec::new(),
        code: None,
        table: None,
        gap: false,
    };
    for event in Parser::new_ext(text, options) {
        page.take(event);
    }
    page.flush();
    page.out
}

/// What a block stands in: a quote, or an item of a list.
struct Holder {
    /// Before the first line; then it is taken.
    first: Option<Line>,
    /// Before the others.
    rest: Line,
}

struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Line>>,
}

struct Page<'a> {
    theme: &'a Theme,
    columns: usize,
    out: Vec<Line>,
    holders: Vec<Holder>,
    inline: Line,
    styles: Vec<Style>,
    /// The number of the next item, where they are numbered.
    lists: Vec<Option<u64>>,
    /// Target of each open link or image, and where its text begins.
    links: Vec<(Clean, usize)>,
    code: Option<String>,
    table: Option<Table>,
    /// A blank line is due before the next block.
    gap: bool,
}

/// The choke point between the parser and the screen.
fn clean(text: &str) -> Clean {
    Untrusted::new(text).clean_block()
}

fn one_line(text: &str) -> Clean {
    Untrusted::new(text).clean()
}

impl Page<'_> {
    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push_style(&mut self, role: Role) {
        let style = self.style().patch(self.theme.style(role));
        self.styles.push(style);
    }

    fn pop_style(&mut self) {
        if self.styles.len() > 1 {
            self.styles.pop();
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.write(&text, self.style()),
            },
            Event::Code(text) => {
                let style = self.style().patch(self.theme.style(Role::Code));
                self.write(&text, style);
            }
            Event::Html(text) | Event::InlineHtml(text) => {
                let style = self.style().patch(self.theme.style(Role::Dim));
                self.write(&text, style);
            }
            Event::SoftBreak | Event::HardBreak => {
                if self.table.is_some() {
                    self.inline.push(" ", Style::new());
                } else {
                    self.flush();
                }
            }
            Event::Rule => {
                self.begin_block();
                let columns = self.room();
                let style = self.theme.style(Role::Border);
                self.emit(vec![Line::of(repeat(glyph::RULE, columns), style)]);
                self.gap = true;
            }
            Event::TaskListMarker(done) => {
                let (mark, role) = if done {
                    (glyph::DONE, Role::Ok)
                } else {
                    (glyph::TODO, Role::Dim)
                };
                self.inline.push(mark, self.theme.style(role));
                self.inline.push(" ", Style::new());
            }
            // Not asked of the parser; if it gives them they are text.
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.write(&text, self.style());
            }
        }
    }

    /// Adds inline text; a line break in it (HTML has them) ends the line.
    fn write(&mut self, text: &str, style: Style) {
        let text = clean(text);
        for (at, line) in text.lines().enumerate() {
            if at > 0 {
                if self.table.is_some() {
                    self.inline.push(" ", style);
                } else {
                    self.flush();
                }
            }
            self.inline.push(line, style);
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                self.push_style(Role::Heading);
                if level as usize > 1 {
                    let style = self.theme.style(Role::Dim);
                    self.inline.push(repeat("#", level as usize), style);
                    self.inline.push(" ", style);
                }
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                let bar = Line::of(glyph::QUOTE_BAR, self.theme.style(Role::Border))
                    .with(" ", Style::new());
                self.holders.push(Holder {
                    first: None,
                    rest: bar,
                });
                self.push_style(Role::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                self.code = Some(String::new());
                if let CodeBlockKind::Fenced(language) = kind
                    && !language.trim().is_empty()
                {
                    let bar = self.code_bar();
                    let name = Line::of(one_line(&language), self.theme.style(Role::Dim));
                    let room = self.room().saturating_sub(2).max(1);
                    let lines = name.wrap(room);
                    self.emit(lines.into_iter().map(|l| bar.clone().and(l)).collect());
                }
            }
            Tag::List(first) => {
                if self.lists.is_empty() {
                    self.begin_block();
                } else {
                    self.flush();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                if std::mem::take(&mut self.gap) {
                    self.blank();
                }
                let (mark, width) = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let mark = clean_format!("{}. ", *number);
                        *number = number.saturating_add(1);
                        let width = text::width(mark.as_str());
                        (mark, width)
                    }
                    _ => {
                        let mut mark = Clean::fixed(glyph::BULLET);
                        mark.push(&Clean::fixed(" "));
                        (mark, 2)
                    }
                };
                self.holders.push(Holder {
                    first: Some(Line::of(mark, self.theme.style(Role::Dim))),
                    rest: Line::of(spaces(width), Style::new()),
                });
            }
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(Table {
                    alignments,
                    rows: Vec::new(),
                });
            }
            Tag::TableHead => {
                self.push_style(Role::Strong);
                self.new_row();
            }
            Tag::TableRow => self.new_row(),
            Tag::TableCell => self.inline = Line::new(),
            Tag::Emphasis => self.push_style(Role::Emphasis),
            Tag::Strong => self.push_style(Role::Strong),
            Tag::Strikethrough => {
                let style = self.style().add_modifier(Modifier::CROSSED_OUT);
                self.styles.push(style);
            }
            Tag::Link { dest_url, .. } => {
                self.links.push((one_line(&dest_url), self.inline.0.len()));
                self.push_style(Role::Link);
            }
            Tag::Image { dest_url, .. } => {
                let style = self.theme.style(Role::Dim);
                self.inline.push("[image] ", style);
                self.links.push((one_line(&dest_url), self.inline.0.len()));
                self.push_style(Role::Link);
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.flush();
                self.gap = true;
            }
            TagEnd::Heading(_) => {
                self.flush();
                self.pop_style();
                self.gap = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.holders.pop();
                self.pop_style();
                self.gap = true;
            }
            TagEnd::CodeBlock => {
                let code = self.code.take().unwrap_or_default();
                self.emit_code(&code);
                self.gap = true;
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                self.gap = self.lists.is_empty() || self.gap;
            }
            TagEnd::Item => {
                self.flush();
                // An item without any text still shows its mark.
                if self.holders.last().is_some_and(|h| h.first.is_some()) {
                    self.emit(vec![Line::new()]);
                }
                self.holders.pop();
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let lines = lay_table(&table, self.room(), self.theme);
                    self.emit(lines);
                }
                self.gap = true;
            }
            TagEnd::TableHead => self.pop_style(),
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.inline);
                if let Some(row) = self.table.as_mut().and_then(|t| t.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => self.pop_style(),
            TagEnd::Link | TagEnd::Image => {
                self.pop_style();
                if let Some((target, from)) = self.links.pop() {
                    let shown: String = self
                        .inline
                        .0
                        .get(from..)
                        .unwrap_or_default()
                        .iter()
                        .map(|piece| piece.text.as_str())
                        .collect();
                    let same = shown == target.as_str()
                        || target.as_str().strip_prefix("mailto:") == Some(shown.as_str());
                    if !same && !target.as_str().is_empty() {
                        let style = self.theme.style(Role::Dim);
                        self.inline.push(clean_format!(" ({})", target), style);
                    }
                }
            }
            _ => {}
        }
    }

    fn new_row(&mut self) {
        if let Some(table) = &mut self.table {
            table.rows.push(Vec::new());
        }
    }

    /// Ends what stands before and leaves the blank line that is due.
    fn begin_block(&mut self) {
        self.flush();
        if std::mem::take(&mut self.gap) {
            self.blank();
        }
    }

    fn blank(&mut self) {
        if !self.out.is_empty() {
            let depth = self.shown_holders();
            let mut line = Line::new();
            for holder in &self.holders[..depth] {
                if holder.first.is_none() {
                    line = line.and(holder.rest.clone());
                }
            }
            self.out.push(line);
        }
    }

    /// How many holders show their prefix: deeper ones would leave no room for words.
    fn shown_holders(&self) -> usize {
        let mut used = 0;
        for (at, holder) in self.holders.iter().enumerate() {
            used += holder.rest.width();
            if used * 2 > self.columns {
                return at;
            }
        }
        self.holders.len()
    }

    /// Columns left beside the prefixes.
    fn room(&self) -> usize {
        let used: usize = self.holders[..self.shown_holders()]
            .iter()
            .map(|holder| holder.rest.width())
            .sum();
        self.columns.saturating_sub(used).max(1)
    }

    /// Ends the line of inline text, if there is one.
    fn flush(&mut self) {
        let line = std::mem::take(&mut self.inline);
        // A link that runs over a line break goes on at the start of the next line.
        for link in &mut self.links {
            link.1 = 0;
        }
        if !line.is_empty() {
            let lines = line.wrap(self.room());
            self.emit(lines);
        }
    }

    fn emit(&mut self, lines: Vec<Line>) {
        let shown = self.shown_holders();
        for line in lines {
            let mut prefix = Line::new();
            for (at, holder) in self.holders.iter_mut().enumerate() {
                let first = holder.first.take();
                if at < shown {
                    prefix = prefix.and(first.unwrap_or_else(|| holder.rest.clone()));
                }
            }
            self.out.push(prefix.and(line));
        }
    }

    fn code_bar(&self) -> Line {
        Line::of(glyph::CODE_BAR, self.theme.style(Role::CodeBar)).with(" ", Style::new())
    }

    fn emit_code(&mut self, code: &str) {
        let bar = self.code_bar();
        let style = self.theme.style(Role::Code);
        let room = self.room().saturating_sub(2).max(1);
        let code = clean(code.strip_suffix('\n').unwrap_or(code));
        let mut lines = Vec::new();
        for line in code.lines() {
            for part in Line::of(line, style).wrap(room) {
                lines.push(bar.clone().and(part));
            }
        }
        self.emit(lines);
    }
}

/// Columns between two columns of a table.
const GUTTER: usize = 2;

/// A table: even columns, cells wrapped where it is too wide; where even that leaves no room, each row as a list.
fn lay_table(table: &Table, room: usize, theme: &Theme) -> Vec<Line> {
    let count = table.rows.iter().map(Vec::len).max().unwrap_or(0);
    if count == 0 {
        return Vec::new();
    }
    let natural: Vec<usize> = (0..count)
        .map(|c| {
            let cells = table.rows.iter().filter_map(|row| row.get(c));
            cells.map(Line::width).max().unwrap_or(0).max(1)
        })
        .collect();
    let Some(widths) = fit(&natural, room.saturating_sub(GUTTER * (count - 1))) else {
        return table_as_list(table, room, theme);
    };
    let mut out = Vec::new();
    for (at, row) in table.rows.iter().enumerate() {
        let cells: Vec<Vec<Line>> = (0..count)
            .map(|c| {
                row.get(c)
                    .map_or_else(Vec::new, |cell| cell.wrap(widths[c]))
            })
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for y in 0..height {
            let mut line = Line::new();
            for (c, cell) in cells.iter().enumerate() {
                if c > 0 {
                    line.push(spaces(GUTTER), Style::new());
                }
                let part = cell.get(y).cloned().unwrap_or_default();
                let free = widths[c].saturating_sub(part.width());
                let before = match table.alignments.get(c) {
                    Some(Alignment::Right) => free,
                    Some(Alignment::Center) => free / 2,
                    _ => 0,
                };
                line.push(spaces(before), Style::new());
                line = line.and(part);
                if c + 1 < count {
                    line.push(spaces(free - before), Style::new());
                }
            }
            out.push(line);
        }
        if at == 0 {
            let style = theme.style(Role::Border);
            let mut rule = Line::new();
            for (c, width) in widths.iter().enumerate() {
                if c > 0 {
                    rule.push(spaces(GUTTER), Style::new());
                }
                rule.push(repeat(glyph::RULE, *width), style);
            }
            out.push(rule);
        }
    }
    out
}

/// Widths that sum to at most `room`: the widest give way first; `None` when a column would get under four.
fn fit(natural: &[usize], room: usize) -> Option<Vec<usize>> {
    const LEAST: usize = 4;
    if natural.iter().sum::<usize>() <= room {
        return Some(natural.to_vec());
    }
    if natural.iter().map(|w| (*w).min(LEAST)).sum::<usize>() > room {
        return None;
    }
    // The greatest cap under which they fit; then the few columns that are left go to the first capped ones.
    let sum = |cap: usize| natural.iter().map(|w| (*w).min(cap)).sum::<usize>();
    let (mut low, mut high) = (LEAST, room.max(LEAST));
    while low < high {
        let middle = (low + high).div_ceil(2);
        if sum(middle) <= room {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    let mut left = room - sum(low);
    let widths = natural.iter().map(|w| {
        let extra = usize::from(*w > low && left > 0);
        left -= extra;
        (*w).min(low) + extra
    });
    Some(widths.collect())
}

fn table_as_list(table: &Table, room: usize, theme: &Theme) -> Vec<Line> {
    let Some((head, rows)) = table.rows.split_first() else {
        return Vec::new();
    };
    let mut out = Vec::new();
    if rows.is_empty() {
        for cell in head {
            out.extend(cell.wrap(room));
        }
    }
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            out.push(Line::of(
                repeat(glyph::RULE, room.min(3)),
                theme.style(Role::Border),
            ));
        }
        for (c, cell) in row.iter().enumerate() {
            let name = head.get(c).cloned().unwrap_or_default();
            let line = name.with(": ", theme.style(Role::Dim)).and(cell.clone());
            out.extend(line.wrap(room));
        }
    }
    out
}

/// A text that is no Markdown: each line as it is, wrapped. A line break at its end begins no line.
pub fn plain(text: &Untrusted, columns: usize, style: Style) -> Vec<Line> {
    let text = text.clean_block();
    let end = text.as_str().trim_end_matches('\n').len();
    text.slice(0..end)
        .lines()
        .flat_map(|line| Line::of(line, style).wrap(columns))
        .collect()
}

/// `name` in a column of its own, then the value wrapped beside it.
pub fn field(
    name: &Clean,
    value: Line,
    name_columns: usize,
    columns: usize,
    theme: &Theme,
) -> Vec<Line> {
    let style = theme.style(Role::Dim);
    let room = columns.saturating_sub(name_columns).max(1);
    value
        .wrap(room)
        .into_iter()
        .enumerate()
        .map(|(at, part)| {
            let head = if at == 0 {
                column(name, name_columns)
            } else {
                spaces(name_columns)
            };
            Line::of(head, style).and(part)
        })
        .collect()
}
