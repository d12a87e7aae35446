//! The one dialog to choose from: filters, send menu, send policy, questions, palette.

use super::action::Action;
use super::draft::Draft;
use super::effect::Quit;
use crate::model::key::{AgentId, SessionKey};
use crate::text::Clean;

/// A list to choose from, with a question above it.
#[derive(Debug, Clone)]
pub struct Menu {
    pub title: Clean,
    /// Lines above the items: the question, what it means.
    pub note: Vec<Clean>,
    pub items: Vec<Item>,
    /// Index into [`Menu::shown`].
    pub selected: usize,
    /// Typing narrows the items; `None`: typing picks by the letter of an item.
    pub filter: Option<Draft>,
    /// `Ctrl+C` here quits.
    pub is_quit_question: bool,
    /// Indices of the items that match, best first.
    pub shown: Vec<usize>,
}

/// One item.
#[derive(Debug, Clone)]
pub struct Item {
    pub label: Clean,
    /// Said on the right: keys, counts.
    pub detail: Clean,
    /// Chosen now (a mark).
    pub marked: bool,
    /// Why it cannot be chosen.
    pub blocked: Option<Clean>,
    /// Key that picks it where nothing is typed.
    pub letter: Option<char>,
    pub pick: Pick,
}

/// What an item does.
#[derive(Debug, Clone, PartialEq)]
pub enum Pick {
    Close,
    Do(Action),
    Agent(Option<AgentId>),
    Channel(Option<Clean>),
    Sender(super::compose::Sender),
    Wait(super::compose::Wait),
    /// `None` clears the override.
    Policy(SessionKey, Option<&'static str>),
    Delete(SessionKey),
    Abort(SessionKey, bool),
    Reset(SessionKey),
    /// Goes to the session of a send.
    GoTo(SessionKey),
    Quit(Quit),
}

impl Menu {
    /// A menu without a filter.
    pub fn new(title: impl Into<Clean>, items: Vec<Item>) -> Self {
        let selected = items.iter().position(|item| item.marked).unwrap_or(0);
        Self {
            title: title.into(),
            note: Vec::new(),
            shown: (0..items.len()).collect(),
            items,
            selected,
            filter: None,
            is_quit_question: false,
        }
    }

    /// The item under the cursor.
    pub fn current(&self) -> Option<&Item> {
        self.items.get(*self.shown.get(self.selected)?)
    }

    /// Moves the cursor, staying inside.
    pub fn step(&mut self, by: isize) {
        self.selected = self
            .selected
            .saturating_add_signed(by)
            .min(self.shown.len().saturating_sub(1));
    }

    /// Narrows the items to what is typed.
    pub fn narrow(&mut self) {
        let Some(filter) = &self.filter else { return };
        let needle = filter.text();
        let words: Vec<Clean> = self
            .items
            .iter()
            .map(|item| crate::clean_format!("{} {}", &item.label, &item.detail))
            .collect();
        self.shown = super::fuzzy::ranked(&needle, &words);
        self.selected = 0;
    }
}

impl Item {
    /// An item that can be chosen.
    pub fn new(label: impl Into<Clean>, pick: Pick) -> Self {
        Self {
            label: label.into(),
            detail: Clean::empty(),
            marked: false,
            blocked: None,
            letter: None,
            pick,
        }
    }

    /// With words on the right.
    #[must_use]
    pub fn detail(mut self, detail: Clean) -> Self {
        self.detail = detail;
        self
    }

    /// Marked as what holds now.
    #[must_use]
    pub fn marked(mut self, marked: bool) -> Self {
        self.marked = marked;
        self
    }

    /// Picked by a letter.
    #[must_use]
    pub fn letter(mut self, letter: char) -> Self {
        self.letter = Some(letter);
        self
    }
}
