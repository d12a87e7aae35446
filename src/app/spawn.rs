//! The spawn dialog: a form with every parameter of `sessions_spawn` (chapter 8), kept until a spawn succeeds.

use super::draft::Draft;
use crate::model::key::SessionKey;
use crate::protocol::methods::Choices;
use crate::text::{Clean, Untrusted};

/// The form.
#[derive(Debug, Clone)]
pub struct SpawnForm {
    /// The requester: the child's parent.
    pub parent: SessionKey,
    pub task: Draft,
    pub agent: Choice,
    pub label: Draft,
    pub model: Choice,
    pub thinking: Choice,
    /// Seconds; blank or 0 is none.
    pub run_limit: Draft,
    pub cleanup: Choice,
    pub mode: Choice,
    pub thread: Choice,
    pub sandbox: Choice,
    pub attachments: Vec<Attachment>,
    /// Path being typed for one more attachment.
    pub attach: Draft,
    pub field: Field,
    /// What is wrong, with the field it belongs to where it is known.
    pub errors: Vec<(Option<Field>, Clean)>,
    /// What the backend offers; `None` while it is asked.
    pub offered: Option<Choices>,
    /// Where the report will land.
    pub report_to: Clean,
    /// Sent; the answer is awaited.
    pub busy: bool,
    /// First line on the screen of a dialog that scrolls.
    pub top: usize,
}

/// Fields in the order of the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    Task,
    Agent,
    Label,
    Model,
    Thinking,
    RunLimit,
    Cleanup,
    Mode,
    Thread,
    Sandbox,
    Attach,
}

impl Field {
    /// In order.
    pub const ALL: [Field; 11] = [
        Field::Task,
        Field::Agent,
        Field::Label,
        Field::Model,
        Field::Thinking,
        Field::RunLimit,
        Field::Cleanup,
        Field::Mode,
        Field::Thread,
        Field::Sandbox,
        Field::Attach,
    ];
    /// The label.
    pub const fn words(self) -> &'static str {
        match self {
            Field::Task => "Task",
            Field::Agent => "Agent",
            Field::Label => "Label",
            Field::Model => "Model",
            Field::Thinking => "Thinking",
            Field::RunLimit => "Run limit",
            Field::Cleanup => "Cleanup",
            Field::Mode => "Mode",
            Field::Thread => "Thread",
            Field::Sandbox => "Sandbox",
            Field::Attach => "Attachments",
        }
    }
}

/// One of several values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choice {
    pub options: Vec<Offer>,
    pub chosen: usize,
}

/// A value that can, or cannot, be chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// What is sent; `None` leaves the parameter out.
    pub value: Option<String>,
    pub label: Clean,
    /// Why it cannot be chosen.
    pub blocked: Option<Clean>,
}

/// A file that goes with the task.
#[derive(Debug, Clone, PartialEq)]
pub struct Attachment {
    pub path: String,
    pub name: Clean,
    pub state: AttachmentState,
}

/// How far reading is.
#[derive(Debug, Clone, PartialEq)]
pub enum AttachmentState {
    Reading,
    Read(Vec<u8>),
    Failed(Clean),
}

impl Choice {
    /// The value that is chosen.
    pub fn current(&self) -> Option<&Offer> {
        self.options.get(self.chosen)
    }
    /// What is sent.
    pub fn value(&self) -> Option<&str> {
        self.current()?.value.as_deref()
    }
}

impl SpawnForm {
    /// The choice of a field, when it is one.
    pub fn choice(&self, field: Field) -> Option<&Choice> {
        Some(match field {
            Field::Agent => &self.agent,
            Field::Model => &self.model,
            Field::Thinking => &self.thinking,
            Field::Cleanup => &self.cleanup,
            Field::Mode => &self.mode,
            Field::Thread => &self.thread,
            Field::Sandbox => &self.sandbox,
            Field::Task | Field::Label | Field::RunLimit | Field::Attach => return None,
        })
    }

    /// The text of a field, when it is typed.
    pub fn draft(&self, field: Field) -> Option<&Draft> {
        Some(match field {
            Field::Task => &self.task,
            Field::Label => &self.label,
            Field::RunLimit => &self.run_limit,
            Field::Attach => &self.attach,
            _ => return None,
        })
    }

    /// Texts of a field's errors.
    pub fn errors_of(&self, field: Field) -> impl Iterator<Item = &Clean> {
        self.errors
            .iter()
            .filter(move |(at, _)| *at == Some(field))
            .map(|(_, text)| text)
    }

    /// The task as it will be sent.
    pub fn task_text(&self) -> Untrusted {
        self.task.text()
    }
}
