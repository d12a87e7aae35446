//! What the runtime must do. Data, so that it can be logged and tested.

use super::event::Ticket;
use crate::model::key::SessionKey;
use crate::protocol::methods::Call;
use crate::store::client::LedgerEntry;
use crate::text::{Clean, Untrusted};

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the backend; the answer comes back with the ticket.
    Call { ticket: Ticket, call: Box<Call> },
    /// The answer is not wanted any more: drop the task.
    Cancel { ticket: Ticket },
    /// Keep a draft; blank text removes it.
    SaveDraft { key: SessionKey, text: Untrusted },
    /// Keep a ledger entry.
    SaveSend(Box<LedgerEntry>),
    /// Keep a preference.
    SetPreference { name: &'static str, value: String },
    /// Put text on the clipboard.
    Copy(Clean),
    /// Let the person edit a text in `$EDITOR`; comes back as `Edited`.
    EditExternally(Untrusted),
    /// Read files for attachments; comes back as `FileRead` each.
    ReadFile { path: String },
    /// The window title.
    Title(Clean),
    /// Clear the terminal and draw everything.
    Redraw,
    /// Go to the background (`Ctrl+Z`).
    Suspend,
    /// Leave.
    Quit(Quit),
}

/// How the browser is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quit {
    /// Nothing runs, or what runs goes on in the background.
    Keep,
    /// Runs were asked to stop.
    Stop,
}
