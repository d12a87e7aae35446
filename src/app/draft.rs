//! Text being typed: the only file of `app` that names the text area. Its built-in shortcuts are not used; every key
//! comes through our keymap as an [`Edit`]. Absent on purpose: drawing, and what the text is for.

use crate::text::Untrusted;
use ratatui_textarea::{CursorMove, DataCursor, TextArea};

/// A text with a cursor and its undo history.
#[derive(Clone, Default)]
pub struct Draft {
    area: TextArea<'static>,
    single_line: bool,
    revision: u64,
}

/// One change of a draft or of its cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    Insert(char),
    NewLine,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    Start,
    End,
    DeleteWord,
    DeleteWordRight,
    DeleteToStart,
    DeleteToEnd,
    Undo,
    Redo,
    /// Everything away; [`Edit::Undo`] brings it back.
    Clear,
}

impl Draft {
    /// Several lines.
    pub fn new(text: &Untrusted) -> Self {
        let mut draft = Self::default();
        draft.paste(text);
        draft.area.move_cursor(CursorMove::Bottom);
        draft.area.move_cursor(CursorMove::End);
        draft
    }

    /// One line: line breaks become spaces.
    pub fn line(text: &Untrusted) -> Self {
        let mut draft = Self {
            single_line: true,
            ..Self::default()
        };
        draft.paste(text);
        draft
    }

    /// The whole text as typed.
    pub fn text(&self) -> Untrusted {
        Untrusted::new(self.area.lines().join("\n"))
    }

    /// Its lines as typed; at least one.
    pub fn lines(&self) -> Vec<Untrusted> {
        self.area
            .lines()
            .iter()
            .map(|line| Untrusted::new(line.as_str()))
            .collect()
    }

    /// Line and character (not column, not byte) of the cursor, from 0. What it takes on a screen is the width of the
    /// cleaned text before it.
    pub fn cursor(&self) -> (usize, usize) {
        let DataCursor(line, character) = self.area.cursor();
        (line, character)
    }

    /// Line of the cursor, cut at the cursor: before and after it.
    pub fn around_cursor(&self) -> (Untrusted, Untrusted) {
        let (line, character) = self.cursor();
        let text = self.area.lines().get(line).map_or("", String::as_str);
        let at = text
            .char_indices()
            .nth(character)
            .map_or(text.len(), |(at, _)| at);
        (Untrusted::new(&text[..at]), Untrusted::new(&text[at..]))
    }

    /// Nothing but white space.
    pub fn is_blank(&self) -> bool {
        self.area.lines().iter().all(|line| line.trim().is_empty())
    }

    /// No text at all.
    pub fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// Rises with every change of the text.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Puts text in at the cursor, in one undo step. Carriage returns become line breaks; nothing else is changed.
    pub fn paste(&mut self, text: &Untrusted) {
        let text = text.raw().replace("\r\n", "\n").replace('\r', "\n");
        let text = if self.single_line {
            text.replace('\n', " ")
        } else {
            text
        };
        if !text.is_empty() {
            self.area.insert_str(text);
            self.revision += 1;
        }
    }

    /// Replaces everything, in a way that undo can take back.
    pub fn set(&mut self, text: &Untrusted) {
        self.edit(Edit::Clear);
        self.paste(text);
    }

    /// Does one edit; true when the text changed.
    pub fn edit(&mut self, edit: Edit) -> bool {
        let mut step = |movement| {
            self.area.move_cursor(movement);
            false
        };
        let changed = match edit {
            Edit::Left => step(CursorMove::Back),
            Edit::Right => step(CursorMove::Forward),
            Edit::Up => step(CursorMove::Up),
            Edit::Down => step(CursorMove::Down),
            Edit::WordLeft => step(CursorMove::WordBack),
            Edit::WordRight => step(CursorMove::WordForward),
            Edit::LineStart => step(CursorMove::Head),
            Edit::LineEnd => step(CursorMove::End),
            Edit::Start => {
                step(CursorMove::Top);
                step(CursorMove::Head)
            }
            Edit::End => {
                step(CursorMove::Bottom);
                step(CursorMove::End)
            }
            Edit::Insert(c) => {
                self.area.insert_char(c);
                true
            }
            Edit::NewLine => {
                if !self.single_line {
                    self.area.insert_newline();
                }
                !self.single_line
            }
            Edit::Backspace => self.area.delete_char(),
            Edit::Delete => self.area.delete_next_char(),
            Edit::DeleteWord => self.area.delete_word(),
            Edit::DeleteWordRight => self.area.delete_next_word(),
            Edit::DeleteToStart => self.area.delete_line_by_head(),
            Edit::DeleteToEnd => self.area.delete_line_by_end(),
            Edit::Undo => self.area.undo(),
            Edit::Redo => self.area.redo(),
            Edit::Clear => {
                self.area.select_all();
                let cut = self.area.cut();
                self.area.cancel_selection();
                cut
            }
        };
        self.revision += u64::from(changed);
        changed
    }

    /// The cursor stands on the first line.
    pub fn at_first_line(&self) -> bool {
        self.cursor().0 == 0
    }
}

impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Draft({:?} at {:?})", self.text(), self.cursor())
    }
}
