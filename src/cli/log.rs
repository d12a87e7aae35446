//! The log: a file of ours, limited in size, never the terminal.
//!
//! It is made at the first line that is written to it. When it has grown too big it becomes `crosstalk.log.1`, in place
//! of the one before. A log that cannot be written is no reason to stop.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Bytes after which a new file is begun.
const LIMIT_BYTES: u64 = 5 << 20;

/// Sends what is traced to the log. `CROSSTALK_LOG` is a filter and wins over `-v`.
pub fn install(file: &Path, verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "crosstalk=info,warn",
        2 => "crosstalk=debug,info",
        _ => "trace",
    };
    let filter = std::env::var("CROSSTALK_LOG")
        .ok()
        .filter(|filter| !filter.trim().is_empty())
        .and_then(|filter| EnvFilter::try_new(filter).ok())
        .unwrap_or_else(|| EnvFilter::new(level));
    // Only a second subscriber in one process is refused, and that one is as good.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(LogFile::new(file, LIMIT_BYTES))
        .try_init();
}

/// A file that is opened when something is written.
pub struct LogFile {
    path: PathBuf,
    limit: u64,
    open: Mutex<Option<Opened>>,
}

struct Opened {
    file: File,
    /// As far as this process knows: others append to the same file.
    bytes: u64,
}

impl LogFile {
    /// A log at `path` of about `limit` bytes.
    pub fn new(path: &Path, limit: u64) -> Self {
        Self {
            path: path.into(),
            limit,
            open: Mutex::new(None),
        }
    }

    fn open(&self) -> io::Result<Opened> {
        if let Some(dir) = self.path.parent() {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(dir)?;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.path)?;
        let bytes = file.metadata()?.len();
        Ok(Opened { file, bytes })
    }

    fn append(&self, line: &[u8]) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut opened = match open.take() {
            Some(opened) => opened,
            None => self.open()?,
        };
        if opened.bytes > self.limit {
            let mut old = self.path.clone().into_os_string();
            old.push(".1");
            // Another process may have done it already: then a new file stands there, and is small.
            if std::fs::metadata(&self.path)?.len() > self.limit {
                std::fs::rename(&self.path, old)?;
            }
            opened = self.open()?;
        }
        opened.file.write_all(line)?;
        opened.bytes += line.len() as u64;
        *open = Some(opened);
        Ok(())
    }
}

/// Writes one line.
pub struct Line<'a>(&'a LogFile);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A full disk must not end up as noise on the terminal.
        let _ = self.0.append(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}
