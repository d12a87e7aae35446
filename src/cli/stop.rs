//! How a command ends early: an exit code, and one line for standard error.

use crate::backend::SharedBackend;
use crate::error::Exit;
use crate::host::HostError;
use crate::protocol::methods::{Call, Code, Failure, Reply};
use crate::store::StoreError;
use crate::text::Untrusted;

/// The end of a command that did not do all it was asked to.
#[derive(Debug)]
pub enum Stop {
    /// The reader of standard output went away: a success.
    ClosedPipe,
    /// Everything was said already; only the code is left.
    With(Exit),
    /// A code and one line.
    Because(Exit, Untrusted),
}

impl Stop {
    /// A code with its line.
    pub fn because(exit: Exit, message: impl Into<Untrusted>) -> Self {
        Self::Because(exit, message.into())
    }

    /// Wrong usage (exit 2).
    pub fn usage(message: impl Into<Untrusted>) -> Self {
        Self::because(Exit::Usage, message)
    }

    /// Local I/O (exit 6).
    pub fn io(message: impl Into<Untrusted>) -> Self {
        Self::because(Exit::Io, message)
    }

    /// The code.
    pub const fn exit(&self) -> Exit {
        match self {
            Self::ClosedPipe => Exit::Done,
            Self::With(exit) | Self::Because(exit, _) => *exit,
        }
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        let exit = match failure.code {
            Code::InvalidRequest | Code::NotFound | Code::Refused | Code::UnknownMethod => {
                Exit::ToolError
            }
            Code::Forbidden => Exit::Forbidden,
            Code::Unavailable => Exit::NoOwner,
            Code::Io => Exit::Io,
        };
        Self::Because(exit, failure.message)
    }
}

impl From<HostError> for Stop {
    fn from(error: HostError) -> Self {
        Self::because(error.exit(), error.to_string())
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        HostError::from(error).into()
    }
}

/// An answer that does not belong to the question: another version at the other end.
pub fn unexpected() -> Stop {
    Stop::because(
        Exit::NoOwner,
        "the owner answered something else than was asked; end it and try again",
    )
}

/// Asks, and takes the one kind of answer that fits.
///
/// # Errors
/// [`Stop`] for failures and for answers that do not fit.
pub async fn ask<T>(
    backend: &SharedBackend,
    call: Call,
    fitting: impl FnOnce(Reply) -> Option<T>,
) -> Result<T, Stop> {
    fitting(backend.call(call).await?).ok_or_else(unexpected)
}
