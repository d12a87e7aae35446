//! Attachments of a spawn (specification, chapter 9): checked all before the first is written, kept where only the
//! child's workspace is, named in receipts by size and hash, never by content.

use crate::config::AttachmentLimits;
use crate::model::tools::{Receipt, ReceiptFile};
use crate::text::Untrusted;
use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Replaces attachment content in stored tool calls (T-30).
pub const REDACTED: &str = "__OPENCLAW_REDACTED__";
/// T-3: the argument list itself.
const MAX_LIST: u64 = 50;
const MAX_NAME_BYTES: usize = 255;
const MANIFEST: &str = ".manifest.json";
const PARTS: [&str; 2] = [".openclaw", "attachments"];

/// An attachment that passed every check.
#[derive(Clone, PartialEq, Eq)]
pub struct Checked {
    pub name: String,
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Checked {
    /// Without the content, which must not get into logs (T-30).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Checked({:?}, {} bytes)", self.name, self.bytes.len())
    }
}

/// Attachments on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    pub receipt: Receipt,
    /// The directory of this spawn, absolute.
    pub dir: PathBuf,
    /// What removal must stay inside of (T-31).
    pub root: PathBuf,
}

/// The text of a `forbidden` when attachments are given and switched off (T-2). An empty list is the same as none.
pub fn switched_off(list: Option<&Value>, limits: &AttachmentLimits) -> Option<String> {
    let given = list.is_some_and(|list| !is_nothing(list));
    (given && !limits.enabled).then(|| {
        "attachments are switched off; set tools.sessions_spawn.attachments.enabled=true to allow them".into()
    })
}

fn is_nothing(list: &Value) -> bool {
    list.is_null() || list.as_array().is_some_and(Vec::is_empty)
}

/// Checks the whole list and decodes it (T-1 to T-7). Ask [`switched_off`] first.
///
/// # Errors
/// A text that begins with one of the codes of T-4.
pub fn check(list: &Value, limits: &AttachmentLimits) -> Result<Vec<Checked>, String> {
    if is_nothing(list) {
        return Ok(Vec::new());
    }
    if let Some(text) = switched_off(Some(list), limits) {
        return Err(text);
    }
    let items = list.as_array().ok_or_else(|| {
        "attachments_materialization_failed (attachments must be a list)".to_owned()
    })?;
    let max_files = limits.max_files.min(MAX_LIST);
    if items.len() as u64 > max_files {
        return Err(format!(
            "attachments_file_count_exceeded (files={}, max={max_files})",
            items.len()
        ));
    }
    let mut names = HashSet::new();
    let mut total = 0u64;
    let mut checked = Vec::with_capacity(items.len());
    for item in items {
        let word = |name: &str| item.get(name).and_then(Value::as_str);
        let name = name_of(word("name").unwrap_or_default())?;
        if !names.insert(name.to_lowercase()) {
            return Err(format!("attachments_duplicate_name (name={name})"));
        }
        let content = word("content").ok_or_else(|| {
            format!("attachments_materialization_failed (name={name}: content must be a text)")
        })?;
        let bytes = match encoding_of(item.get("encoding")).as_deref() {
            Ok("utf8") => content.as_bytes().to_vec(),
            Ok(_) => decode(content, limits.max_file_bytes).ok_or_else(|| {
                format!(
                    "attachments_invalid_base64_or_too_large (name={name}, maxFileBytes={})",
                    limits.max_file_bytes
                )
            })?,
            Err(given) => {
                return Err(format!(
                    "attachments_invalid_encoding (name={name}, encoding={given}; utf8 or base64)"
                ));
            }
        };
        let size = bytes.len() as u64;
        if size > limits.max_file_bytes {
            return Err(format!(
                "attachments_file_bytes_exceeded (name={name}, bytes={size}, maxFileBytes={})",
                limits.max_file_bytes
            ));
        }
        total += size;
        if total > limits.max_total_bytes {
            return Err(format!(
                "attachments_total_bytes_exceeded (totalBytes={total}, maxTotalBytes={})",
                limits.max_total_bytes
            ));
        }
        checked.push(Checked { name, bytes });
    }
    Ok(checked)
}

/// T-5. A name that a case-blind file system would take for the manifest is one too.
fn name_of(given: &str) -> Result<String, String> {
    let name = given.trim();
    let refused = name.is_empty()
        || name.len() > MAX_NAME_BYTES
        || name.contains(['/', '\\'])
        || name.chars().any(|c| c < ' ' || c == '\u{7f}')
        || name == "."
        || name == ".."
        || name.eq_ignore_ascii_case(MANIFEST);
    if refused {
        // The name may be anything; shown escaped, and not at any length.
        let shown: String = given.chars().take(64).collect();
        return Err(format!("attachments_invalid_name (name={shown:?})"));
    }
    Ok(name.to_owned())
}

/// `utf8`, `base64`, or what was given instead.
fn encoding_of(given: Option<&Value>) -> Result<String, String> {
    let word = match given {
        None | Some(Value::Null) => return Ok("utf8".into()),
        Some(Value::String(word)) => word.trim().to_lowercase(),
        Some(other) => return Err(other.to_string()),
    };
    match word.as_str() {
        "" | "utf8" | "utf-8" => Ok("utf8".into()),
        "base64" => Ok(word),
        _ => Err(word),
    }
}

/// T-6. What is much too long is not even decoded.
fn decode(content: &str, max_bytes: u64) -> Option<Vec<u8>> {
    const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    const STRICT: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, CONFIG);
    let longest = max_bytes.div_ceil(3).saturating_mul(4).saturating_mul(2);
    if content.len() as u64 > longest.max(8) {
        return None;
    }
    let packed: String = content.split_whitespace().collect();
    if packed.is_empty() {
        return None;
    }
    STRICT.decode(packed).ok()
}

/// Writes checked attachments to `<workspace>/.openclaw/attachments/<id>/` with a manifest (T-10 to T-13): directories
/// 0700, files 0600, created exclusively. `id` is new for each spawn. Blocks.
///
/// # Errors
/// A text that begins with `attachments_materialization_failed`; then the directory is gone again.
pub fn write(workspace: &Path, id: &str, checked: &[Checked]) -> Result<Written, String> {
    let root = attachments_root(workspace).map_err(|error| failed(workspace, &error))?;
    let dir = root.join(id);
    make_dir(&dir).map_err(|error| failed(&dir, &error))?;
    let receipt = receipt(id, checked);
    let fill = || -> Result<(), String> {
        for file in checked {
            write_new(&dir.join(&file.name), &file.bytes)?;
        }
        let manifest = serde_json::json!({
            "relDir": receipt.rel_dir,
            "count": receipt.count,
            "totalBytes": receipt.total_bytes,
            "files": receipt.files,
        });
        write_new(&dir.join(MANIFEST), format!("{manifest:#}\n").as_bytes())
    };
    if let Err(error) = fill() {
        // The first failure is the one to tell.
        let _ = fs::remove_dir_all(&dir);
        return Err(error);
    }
    Ok(Written { receipt, dir, root })
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!(
        "attachments_materialization_failed ({}: {error})",
        path.display()
    )
}

/// The directory that holds all attachments of a workspace, made when missing; a link that leads out of the workspace
/// is an error, and nothing is made behind it (T-11).
fn attachments_root(workspace: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(workspace)?;
    let home = workspace.canonicalize()?;
    let mut path = home.clone();
    for part in PARTS {
        path.push(part);
        if path.symlink_metadata().is_err() {
            make_dir(&path)?;
        }
        path = path.canonicalize()?;
        if !path.starts_with(&home) {
            return Err(io::Error::other(format!(
                "{part} leads out of the workspace"
            )));
        }
        if !path.is_dir() {
            return Err(io::Error::other(format!("{part} is not a directory")));
        }
    }
    Ok(path)
}

fn make_dir(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(|error| failed(path, &error))
}

/// T-20: in the given order, with hashes of the decoded bytes.
fn receipt(id: &str, checked: &[Checked]) -> Receipt {
    let files: Vec<ReceiptFile> = checked
        .iter()
        .map(|file| ReceiptFile {
            name: Untrusted::from(file.name.as_str()),
            bytes: file.bytes.len() as u64,
            sha256: Sha256::digest(&file.bytes)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        })
        .collect();
    Receipt {
        count: files.len(),
        total_bytes: files.iter().map(|file| file.bytes).sum(),
        files,
        rel_dir: format!("{}/{}/{id}", PARTS[0], PARTS[1]),
    }
}

/// Removes a spawn's attachments (T-31): links are resolved first, and nothing outside of the recorded root is
/// touched. What is gone already is fine. Blocks.
///
/// # Errors
/// The reason, with the path.
pub fn remove(dir: &Path, root: &Path) -> Result<(), String> {
    let fail = |error: &io::Error| format!("cannot remove attachments {}: {error}", dir.display());
    let (dir, root) = match (dir.canonicalize(), root.canonicalize()) {
        (Ok(dir), Ok(root)) => (dir, root),
        (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(());
        }
        (Err(error), _) | (_, Err(error)) => return Err(fail(&error)),
    };
    if dir == root || !dir.starts_with(&root) {
        return Err(fail(&io::Error::other("it lies outside of its root")));
    }
    fs::remove_dir_all(&dir).map_err(|error| fail(&error))
}

/// T-25: the hint of `attachAs.mountPath`, when it consists of harmless characters.
pub fn mount_path(attach_as: Option<&Value>) -> Option<String> {
    let path = attach_as?.get("mountPath")?.as_str()?.trim();
    let harmless = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    (!path.is_empty() && path.chars().all(harmless)).then(|| path.to_owned())
}

/// Takes attachment content out of the arguments of a `sessions_spawn` call (T-30); other members stay. True when
/// there was any.
pub fn redact(arguments: &mut Value) -> bool {
    // Some models hand their arguments over as text.
    if let Value::String(text) = arguments {
        let Ok(mut parsed) = serde_json::from_str::<Value>(text) else {
            return false;
        };
        let found = redact(&mut parsed);
        if found {
            *text = parsed.to_string();
        }
        return found;
    }
    let Some(Value::Array(list)) = arguments.get_mut("attachments") else {
        return false;
    };
    let mut found = false;
    for content in list.iter_mut().filter_map(|item| item.get_mut("content")) {
        *content = REDACTED.into();
        found = true;
    }
    found
}

/// As [`redact`], for every `sessions_spawn` call of a message that is to be stored or shown (T-30, H-36).
pub fn redact_message(message: &mut Value) -> bool {
    let Some(Value::Array(blocks)) = message.get_mut("content") else {
        return false;
    };
    let mut found = false;
    for block in blocks.iter_mut().filter_map(Value::as_object_mut) {
        if is_spawn_call(block) {
            // Half-received arguments cannot be redacted member by member.
            found |= block.shift_remove("partialJson").is_some();
            for name in ["arguments", "input"] {
                found |= block.get_mut(name).is_some_and(redact);
            }
        }
    }
    found
}

fn is_spawn_call(block: &Map<String, Value>) -> bool {
    let name = block.get("name").and_then(Value::as_str);
    name.is_some_and(|name| name.trim().eq_ignore_ascii_case("sessions_spawn"))
}
