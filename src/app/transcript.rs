//! The transcript pane: messages of one session, growing at the end and, on demand, at the start.
//!
//! Invariant: cursor and scroll are positions of messages, never indices or screen rows; heights are not known here.

use crate::model::event::ToolPhase;
use crate::model::key::SessionKey;
use crate::model::message::{Block, Content, Message, Role};
use crate::model::run::{Outcome, RunId};
use crate::text::{Clean, Untrusted};
use std::collections::HashSet;

/// The pane.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    /// Whose messages; `None`: nothing is open.
    pub key: Option<SessionKey>,
    pub load: Load,
    /// In file order, positions rising.
    pub items: Vec<Message>,
    /// Where older messages begin; where growth goes on.
    pub start: u64,
    pub end: u64,
    pub at_start: bool,
    pub loading_older: bool,
    /// Position of the message under the cursor.
    pub cursor: Option<u64>,
    pub scroll: Scroll,
    /// Bring the cursor's message into view at the next frame, moving as little as possible.
    pub reveal: bool,
    /// Messages that came while the reader was elsewhere.
    pub new_below: usize,
    pub show_tools: bool,
    pub show_reasoning: bool,
    pub raw: bool,
    pub show_secrets: bool,
    /// Messages whose folding differs from what the toggles say.
    pub toggled: HashSet<u64>,
    /// Answers that are being written, in order of their start.
    pub streams: Vec<Stream>,
    /// Runs that did not end well, by where they ended.
    pub endings: Vec<Ending>,
    pub search: Option<Search>,
    /// Changes whenever older drawings of this transcript are worthless (another session, a reset).
    pub generation: u64,
    /// Where the wire was followed from, innermost last: session and message.
    pub wire: Vec<(SessionKey, Option<u64>)>,
}

/// How far loading is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Load {
    #[default]
    Nothing,
    /// Asked for the end.
    Loading,
    Ready,
    /// There is no such session (H-12).
    Absent,
    Failed(Clean),
}

/// What of the transcript is on the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scroll {
    /// The end, whatever comes.
    #[default]
    Follow,
    /// `line` of the message at `position` is the first on the screen. Lines may be negative or beyond the message's
    /// height: the drawing goes on into its neighbours and tells where it came out.
    At { position: u64, line: isize },
}

/// An answer that is being written.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    pub run_id: RunId,
    /// The whole text so far.
    pub text: Untrusted,
    pub thinking: Option<Untrusted>,
    /// Tools this run has called, with where each stands.
    pub tools: Vec<(Untrusted, Untrusted, ToolPhase)>,
    pub started_at: i64,
    /// Rises with every change.
    pub revision: u64,
}

/// A run that failed, was aborted, was cut off or ran out of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    pub run_id: RunId,
    /// Drawn after the message at this position; `None`: at the start.
    pub after: Option<u64>,
    pub outcome: Outcome,
    pub error: Option<Untrusted>,
    pub at: i64,
}

/// A search in what is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    pub text: Untrusted,
    /// Positions of messages that hold it, rising.
    pub hits: Vec<u64>,
}

impl Transcript {
    /// The message is shown under the toggles.
    pub fn is_shown(&self, message: &Message) -> bool {
        if self.raw || self.show_tools || self.toggled.contains(&message.position) {
            return true;
        }
        match &message.content {
            Content::Said(said) if said.role == Role::ToolResult => false,
            Content::Said(said) => {
                self.show_reasoning
                    || said.blocks.is_empty()
                    || said.error.is_some()
                    || said
                        .blocks
                        .iter()
                        .any(|block| !matches!(block, Block::Thinking(_)))
            }
            _ => true,
        }
    }

    /// What is shown, in order.
    pub fn shown(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.items.iter().filter(|message| self.is_shown(message))
    }

    /// Index of a position in `items`.
    pub fn index_of(&self, position: u64) -> Option<usize> {
        self.items
            .binary_search_by_key(&position, |message| message.position)
            .ok()
    }

    /// The message under the cursor.
    pub fn current(&self) -> Option<&Message> {
        self.items.get(self.index_of(self.cursor?)?)
    }

    /// Lines that could not be read.
    pub fn damaged(&self) -> usize {
        self.items
            .iter()
            .filter(|message| matches!(message.content, Content::Damage { .. }))
            .count()
    }

    /// The reader stays at the end.
    pub fn is_following(&self) -> bool {
        self.scroll == Scroll::Follow
    }
}
