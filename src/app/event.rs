//! What happened. Time comes in with every event; nothing here asks a clock.

use super::geometry::{Size, Viewport};
use super::key::KeyPress;
use crate::model::event as backend;
use crate::protocol::methods::{Failure, Reply};
use crate::store::client::LedgerEntry;
use crate::text::{Clean, Untrusted};

/// Ties an answer to its request. Never used twice, so an answer that nobody waits for is known as late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// An event with its time.
#[derive(Debug, Clone)]
pub struct Event {
    /// Milliseconds since 1970.
    pub now_ms: i64,
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum What {
    /// The browser begins: asks for what it shows first.
    Started,
    Key(KeyPress),
    Paste(Untrusted),
    Mouse(Mouse),
    Resize(Size),
    /// The time of [`super::App::next_wake`] has come.
    Tick,
    /// A frame was drawn; sent only when this changed.
    Drawn(Box<Viewport>),
    Replied {
        ticket: Ticket,
        result: Result<Box<Reply>, Failure>,
    },
    Backend(Box<backend::Event>),
    /// The stream of events ended for good.
    BackendGone,
    /// Drafts by session key, as kept.
    Drafts(Vec<(Untrusted, Untrusted)>),
    /// Sends as kept, newest first.
    Ledger(Vec<LedgerEntry>),
    /// `$EDITOR` came back.
    Edited(Result<Untrusted, Clean>),
    /// A file for an attachment.
    FileRead {
        path: String,
        result: Result<Vec<u8>, Clean>,
    },
    /// Something of the runtime failed and nobody waits for it (a draft could not be kept).
    Trouble(Clean),
    Resumed,
    /// The program ends, by a signal: what is typed is kept.
    Leaving,
}

/// What the mouse did, in cells from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mouse {
    pub column: u16,
    pub row: u16,
    pub did: MouseDid,
}

/// Kinds of mouse events that mean something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MouseDid {
    Press,
    Drag,
    Release,
    WheelUp,
    WheelDown,
}
