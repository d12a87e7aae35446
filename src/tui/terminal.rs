//! The terminal: entered, left, and put back on every way out.
//!
//! Invariant: whoever leaves (quit, error, panic, signal, suspend, `$EDITOR`) goes through [`restore`].

use super::TuiError;
use crate::app::App;
use crate::app::geometry::{Size, Viewport};
use crate::text::Clean;
use crate::ui;
use base64::Engine as _;
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    SetTitle, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use std::io::{BufWriter, IsTerminal, Stdout, Write, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

/// The screen is ours; read by the panic hook, which cannot be handed anything.
static ENTERED: AtomicBool = AtomicBool::new(false);

type Out = BufWriter<Stdout>;

/// The screen while it is ours. Dropping it restores the terminal.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Out>>,
    mouse: bool,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// [`TuiError::NoTerminal`], [`TuiError::Io`].
    pub fn enter(mouse: bool) -> Result<Self, TuiError> {
        if !(stdin().is_terminal() && stdout().is_terminal()) {
            return Err(TuiError::NoTerminal);
        }
        take(mouse)?;
        // A frame in one piece: the buffer is flushed by drawing, never by a line break.
        let out = BufWriter::with_capacity(1 << 16, stdout());
        let terminal = Terminal::new(CrosstermBackend::new(out));
        let terminal = terminal.inspect_err(|_| restore())?;
        Ok(Self { terminal, mouse })
    }

    /// Takes it back after [`restore`]; everything is drawn anew.
    ///
    /// # Errors
    /// [`TuiError::Io`].
    pub fn enter_again(&mut self) -> Result<(), TuiError> {
        // Whoever continued us may have changed the terminal's mode without our knowing.
        let _ = disable_raw_mode();
        take(self.mouse)?;
        self.clear()
    }

    /// Forgets what is on the screen.
    ///
    /// # Errors
    /// [`TuiError::Io`].
    pub fn clear(&mut self) -> Result<(), TuiError> {
        // Not `Terminal::clear`: that asks the terminal where its cursor is, and the answer is read by the keys' thread.
        let size = self.terminal.size()?;
        Ok(self.terminal.resize(size.into())?)
    }

    /// Columns and rows.
    pub fn size(&self) -> Size {
        let size = self.terminal.size().unwrap_or_default();
        Size {
            columns: size.width,
            rows: size.height,
        }
    }

    /// Draws a frame.
    ///
    /// # Errors
    /// [`TuiError::Io`] when the terminal is gone.
    pub fn draw(&mut self, app: &App, cache: &mut ui::Cache) -> Result<Viewport, TuiError> {
        let mut view = Viewport::default();
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal
            .draw(|frame| view = ui::draw(app, cache, frame))?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        Ok(view)
    }

    /// The window title.
    ///
    /// # Errors
    /// [`TuiError::Io`].
    pub fn title(&mut self, title: &Clean) -> Result<(), TuiError> {
        Ok(execute!(
            self.terminal.backend_mut(),
            SetTitle(title.as_str())
        )?)
    }

    /// Puts text on the clipboard, by the terminal (OSC 52), so that it works over ssh.
    ///
    /// # Errors
    /// [`TuiError::Io`].
    pub fn copy(&mut self, text: &Clean) -> Result<(), TuiError> {
        let coded = base64::engine::general_purpose::STANDARD.encode(text.as_str());
        let out = self.terminal.backend_mut();
        write!(out, "\x1b]52;c;{coded}\x07")?;
        Ok(Write::flush(out)?)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn take(mouse: bool) -> Result<(), TuiError> {
    enable_raw_mode()?;
    ENTERED.store(true, Ordering::SeqCst);
    let taken = execute!(
        stdout(),
        EnterAlternateScreen,
        EnableBracketedPaste,
        cursor::Hide
    );
    let taken = taken.and_then(|()| {
        if mouse {
            execute!(stdout(), EnableMouseCapture)
        } else {
            Ok(())
        }
    });
    taken.inspect_err(|_| restore())?;
    Ok(())
}

/// Gives the terminal back, as it was. Does nothing when it is not ours; never fails: there is nothing left to do.
pub fn restore() {
    if !ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    let _ = execute!(
        stdout(),
        EndSynchronizedUpdate,
        DisableMouseCapture,
        DisableBracketedPaste,
        SetTitle(""),
        LeaveAlternateScreen,
        cursor::Show
    );
    let _ = disable_raw_mode();
}

/// Puts a panic on a restored terminal. A panic elsewhere than in the loop is only logged: the browser goes on, and a
/// text in the middle of its screen would help nobody.
pub fn install_panic_hook() {
    let loop_thread = std::thread::current().id();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let is_ours = ENTERED.load(Ordering::SeqCst);
        if is_ours && std::thread::current().id() != loop_thread {
            tracing::error!("{}", crate::text::clean_str(&panic.to_string()));
            return;
        }
        restore();
        before(panic);
    }));
}
