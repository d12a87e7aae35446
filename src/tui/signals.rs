//! Signals from outside, and going to the background.

use std::io;

/// What a signal wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// To end; the number becomes part of the exit code.
    End(u8),
    /// The process was continued: whoever had the terminal meanwhile left it as they liked.
    Continued,
}

#[cfg(unix)]
pub use unix::{Signals, suspend};

#[cfg(unix)]
mod unix {
    use super::{Signal, io};
    use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

    /// The signals the browser listens to, from the moment this is made.
    pub struct Signals {
        terminate: Stream,
        hang_up: Stream,
        interrupt: Stream,
        continued: Stream,
    }

    impl Signals {
        /// Begins to listen.
        ///
        /// # Errors
        /// When the system refuses a handler.
        pub fn listen() -> io::Result<Self> {
            Ok(Self {
                terminate: signal(SignalKind::terminate())?,
                hang_up: signal(SignalKind::hangup())?,
                interrupt: signal(SignalKind::interrupt())?,
                continued: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
            })
        }

        /// The next one.
        pub async fn next(&mut self) -> Signal {
            tokio::select! {
                _ = self.terminate.recv() => Signal::End(15),
                _ = self.hang_up.recv() => Signal::End(1),
                _ = self.interrupt.recv() => Signal::End(2),
                _ = self.continued.recv() => Signal::Continued,
            }
        }
    }

    /// Stops this process until it is continued. The whole group stops, as with `Ctrl+Z` in any other program: what
    /// started us (a shell's script, `cargo run`) must not go on waiting in the foreground.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn suspend() -> io::Result<()> {
        rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)?;
        Ok(())
    }
}

#[cfg(not(unix))]
pub use other::{Signals, suspend};

#[cfg(not(unix))]
mod other {
    use super::{Signal, io};

    /// `Ctrl+C` arrives as a key; there is nothing else to listen to.
    pub struct Signals;

    impl Signals {
        /// Begins to listen.
        ///
        /// # Errors
        /// Never.
        pub fn listen() -> io::Result<Self> {
            Ok(Self)
        }
        /// Never comes.
        pub async fn next(&mut self) -> Signal {
            std::future::pending().await
        }
    }

    /// There is no background here.
    ///
    /// # Errors
    /// Never.
    pub fn suspend() -> io::Result<()> {
        Ok(())
    }
}
