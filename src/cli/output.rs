//! The one way to standard output and standard error.
//!
//! Takes [`Clean`] text alone. JSON is written with every character that is not drawable as `\uXXXX`. Lines are cut to
//! the terminal's width only when standard output is one. A reader that goes away is a success. Absent on purpose:
//! colours, and what is said.

use super::stop::Stop;
use crate::clean_format;
use crate::text::{self, Clean, clip, clip_middle, width};
use serde::Serialize;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// Columns that a key takes at most of a terminal, in percent.
const KEY_SHARE: usize = 45;

/// Standard output in one of its two forms.
pub struct Printer {
    out: Box<dyn Write>,
    /// `--json`.
    pub json: bool,
    /// `--ascii`.
    pub ascii: bool,
    /// Columns of the terminal; `None` when standard output is none.
    columns: Option<usize>,
}

impl Printer {
    /// Standard output.
    pub fn new(json: bool, ascii: bool) -> Self {
        let stdout = io::stdout();
        let columns = stdout
            .is_terminal()
            .then(|| rustix::termios::tcgetwinsize(&stdout).ok())
            .flatten()
            .map(|size| usize::from(size.ws_col))
            .filter(|columns| *columns > 0);
        Self {
            out: Box::new(io::BufWriter::new(stdout)),
            json,
            ascii,
            columns,
        }
    }

    /// Into something else, as if it were no terminal or one of so many columns.
    pub fn into_writer(out: Box<dyn Write>, json: bool, columns: Option<usize>) -> Self {
        Self {
            out,
            json,
            ascii: false,
            columns,
        }
    }

    /// A mark of the program's own, in ASCII when that is asked for.
    pub fn mark(&self, mark: &'static str, ascii: &'static str) -> Clean {
        Clean::fixed(if self.ascii { ascii } else { mark })
    }

    /// A block as it is.
    ///
    /// # Errors
    /// [`Stop::ClosedPipe`]; exit 6 when it cannot be written.
    pub fn block(&mut self, block: &Clean) -> Result<(), Stop> {
        writeln!(self.out, "{block}").map_err(failed)
    }

    /// One line, cut to the terminal.
    ///
    /// # Errors
    /// As [`Printer::block`].
    pub fn line(&mut self, line: &Clean) -> Result<(), Stop> {
        let line = match self.columns {
            Some(columns) => clip(line, columns),
            None => line.clone(),
        };
        writeln!(self.out, "{}", line.as_str().trim_end()).map_err(failed)
    }

    /// A value, indented by two spaces.
    ///
    /// # Errors
    /// As [`Printer::block`].
    pub fn value(&mut self, value: &impl Serialize) -> Result<(), Stop> {
        let json = serde_json::to_string_pretty(value)
            .map_err(|error| Stop::io(format!("cannot write as JSON: {error}")))?;
        self.block(&text::escape_json(&json))
    }

    /// A value on one line, at once.
    ///
    /// # Errors
    /// As [`Printer::block`].
    pub fn json_line(&mut self, value: &impl Serialize) -> Result<(), Stop> {
        let json = serde_json::to_string(value)
            .map_err(|error| Stop::io(format!("cannot write as JSON: {error}")))?;
        self.block(&text::escape_json(&json))?;
        self.flush()
    }

    /// Everything is out.
    ///
    /// # Errors
    /// As [`Printer::block`].
    pub fn flush(&mut self) -> Result<(), Stop> {
        self.out.flush().map_err(failed)
    }

    /// Rows of cells under a heading, in columns as wide as they need; the first one, a key, is cut in its middle on a
    /// terminal that is too narrow, every line at its end.
    ///
    /// # Errors
    /// As [`Printer::block`].
    pub fn table(&mut self, heading: &[&'static str], rows: &[Vec<Clean>]) -> Result<(), Stop> {
        let key_room = self
            .columns
            .map_or(usize::MAX, |columns| columns * KEY_SHARE / 100);
        let cut = |at: usize, cell: &Clean| {
            if at == 0 {
                clip_middle(cell, key_room)
            } else {
                cell.clone()
            }
        };
        let heading: Vec<Clean> = heading.iter().map(|word| Clean::fixed(word)).collect();
        let mut wide: Vec<usize> = heading.iter().map(|word| width(word.as_str())).collect();
        for row in rows {
            for (at, (wide, cell)) in wide.iter_mut().zip(row).enumerate() {
                *wide = (*wide).max(width(cut(at, cell).as_str()));
            }
        }
        for row in std::iter::once(&heading).chain(rows) {
            let mut line = Clean::empty();
            // Blanks are owed until something follows, so that none stand at the end.
            let mut owed = 0;
            for (at, (wide, cell)) in wide.iter().zip(row).enumerate() {
                let cell = cut(at, cell);
                if !cell.as_str().is_empty() {
                    line.push(&clean_format!("{:1$}", "", owed));
                    owed = 0;
                }
                line.push(&cell);
                owed += wide.saturating_sub(width(cell.as_str())) + 2;
            }
            self.line(&line)?;
        }
        Ok(())
    }
}

fn failed(error: io::Error) -> Stop {
    if error.kind() == ErrorKind::BrokenPipe {
        Stop::ClosedPipe
    } else {
        Stop::io(format!("cannot write to standard output: {error}"))
    }
}

/// A remark or an error: one line on standard error. Nothing can be done when that is closed.
pub fn remark(line: &Clean) {
    let line = line.as_str().replace('\n', " ");
    let _ = writeln!(io::stderr(), "crosstalk: {line}");
}
