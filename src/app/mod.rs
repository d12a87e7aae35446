//! The browser as pure state: events in, effects out.
//!
//! [`update::update`] is total and pure: no I/O, no await, no clock, no panic. Time comes in with each event.
//! Selection and scroll are kept by identity (session key, message position), requests carry tickets, and an answer to
//! a ticket nobody waits for is dropped. Absent on purpose: widths, colours, files, tokio.

mod act;
pub mod action;
pub mod ages;
pub mod compose;
pub mod details;
pub mod draft;
pub mod effect;
pub mod event;
mod fuzzy;
pub mod geometry;
pub mod help;
pub mod key;
pub mod keymap;
pub mod menu;
pub mod sessions;
pub mod spawn;
pub mod transcript;
pub mod update;

use crate::model::key::SessionKey;
use crate::protocol::methods::Info;
use crate::text::mask::Masker;
use crate::text::{Clean, Untrusted};
use compose::Compose;
use details::Pager;
use draft::Draft;
use effect::Effect;
use event::Ticket;
use geometry::{Size, Viewport};
use key::KeyPress;
use keymap::Keymap;
use menu::Menu;
use sessions::SessionsPane;
use spawn::SpawnForm;
use std::collections::BTreeMap;
use transcript::Transcript;
use update::Wanted;

/// The whole browser.
#[derive(Debug)]
pub struct App {
    pub now_ms: i64,
    pub size: Size,
    pub focus: Focus,
    /// What lies above the panes, innermost last.
    pub layers: Vec<Layer>,
    pub sessions: SessionsPane,
    pub transcript: Transcript,
    pub compose: Compose,
    /// Kept through cancel and refusal; drawn while [`Layer::Spawn`] is there.
    pub spawn: Option<SpawnForm>,
    pub header: Header,
    /// The line that says what happened last.
    pub toast: Option<Toast>,
    /// Columns of the list pane.
    pub list_width: u16,
    /// What was drawn last.
    pub view: Viewport,
    /// Masks secrets in transcripts unless they are shown.
    pub masker: Masker,
    /// Nothing that changes anything can be done.
    pub observe: bool,
    pub keymap: Keymap,
    /// Keys of a sequence that is not complete.
    keys: Vec<KeyPress>,
    /// Nobody has chosen a session yet: the first that moves is shown.
    untouched: bool,
    /// When the session under the cursor is shown.
    open_due_at: Option<i64>,
    pending: BTreeMap<Ticket, Wanted>,
    next_ticket: u64,
    ids: u128,
    /// The divider is being dragged.
    drags: bool,
    last_title: Clean,
    out: Vec<Effect>,
}

/// Which pane keys go to when no layer is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Focus {
    #[default]
    List,
    Transcript,
    Compose,
}

/// Something above the panes.
#[derive(Debug, Clone)]
pub enum Layer {
    /// First line of the help on the screen.
    Help {
        top: usize,
    },
    /// [`App::spawn`] is drawn.
    Spawn,
    Details(Pager),
    /// JSON of a session.
    Json(Pager),
    /// What is hidden and why.
    Hidden(Pager),
    /// Filters, send menu, send policy, questions, sends.
    Menu(Menu),
    Palette(Menu),
    Prompt(Prompt),
}

/// A one-line question.
#[derive(Debug, Clone)]
pub struct Prompt {
    pub title: Clean,
    pub draft: Draft,
    pub purpose: Purpose,
    pub error: Option<Clean>,
}

/// What the answer of a prompt is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    Rename(SessionKey),
    /// Search in the transcript; drawn in its bottom line.
    Search,
}

/// Facts of the header.
#[derive(Debug, Clone, Default)]
pub struct Header {
    /// Name of the source until it tells itself.
    pub source: Clean,
    pub info: Option<Info>,
    pub link: Link,
}

/// Liveness of the source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Link {
    /// Nothing has come yet.
    #[default]
    Connecting,
    Live,
    Reconnecting {
        attempt: u32,
        next_try_at: Option<i64>,
        reason: Option<Untrusted>,
    },
    /// Showing what was known at that time.
    Offline {
        since: i64,
        reason: Option<Untrusted>,
    },
}

/// A passing line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toast {
    pub text: Clean,
    pub tone: Tone,
    pub until: i64,
}

/// What a line means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Info,
    Good,
    Bad,
}

/// What the browser is begun with.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Name of the source, until it tells itself.
    pub source: Clean,
    pub masker: Masker,
    pub observe: bool,
    pub size: Size,
    pub now_ms: i64,
    pub tree: Option<bool>,
    pub sort: Option<sessions::Sort>,
    pub list_width: Option<u16>,
    pub wait: Option<compose::Wait>,
    /// `None`: the built-in keys.
    pub keymap: Option<Keymap>,
    /// Randomness that ids of sends are made from.
    pub seed: u128,
}

impl App {
    /// A browser that has seen nothing yet.
    pub fn new(setup: Setup) -> Self {
        Self {
            now_ms: setup.now_ms,
            size: setup.size,
            focus: Focus::List,
            layers: Vec::new(),
            sessions: SessionsPane::new(setup.tree.unwrap_or(true), setup.sort.unwrap_or_default()),
            transcript: Transcript::default(),
            compose: Compose {
                wait: setup.wait.unwrap_or_default(),
                ..Compose::default()
            },
            spawn: None,
            header: Header {
                source: setup.source,
                ..Header::default()
            },
            toast: None,
            list_width: setup.list_width.unwrap_or(44),
            view: Viewport::default(),
            masker: setup.masker,
            observe: setup.observe,
            keymap: setup.keymap.unwrap_or_else(Keymap::builtin),
            keys: Vec::new(),
            untouched: true,
            open_due_at: None,
            pending: BTreeMap::new(),
            next_ticket: 0,
            ids: setup.seed,
            drags: false,
            last_title: Clean::empty(),
            out: Vec::new(),
        }
    }

    /// A new id of a send or call, which makes it repeatable (E-5).
    fn new_id(&mut self) -> String {
        self.ids = self.ids.wrapping_add(1);
        uuid::Builder::from_random_bytes(self.ids.to_be_bytes())
            .into_uuid()
            .to_string()
    }

    /// The topmost layer.
    pub fn layer(&self) -> Option<&Layer> {
        self.layers.last()
    }
}
