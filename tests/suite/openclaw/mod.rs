//! OpenClaw directories: indexes, paths, the captured directory, following, and that nothing in them is changed.

mod captured;
mod damage;
mod databases;
mod envelopes;
mod follow;
mod indexes;
mod paths;
mod untouched;

use crosstalk::store::openclaw::files::FilesStore;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tempfile::TempDir;

/// The captured directory, where it stands. For reading only.
fn captured() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/openclaw-2026.3.28")
}

/// A copy of the captured state, to be changed at will.
fn captured_copy() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy(&captured().join("state"), dir.path());
    dir
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for item in fs::read_dir(from).unwrap() {
        let item = item.unwrap();
        let target = to.join(item.file_name());
        if item.file_type().unwrap().is_dir() {
            copy(&item.path(), &target);
        } else {
            fs::copy(item.path(), target).unwrap();
        }
    }
}

/// Agent `main` with this index.
fn with_index(index: &str) -> (TempDir, FilesStore) {
    let dir = tempfile::tempdir().unwrap();
    write_index(dir.path(), "main", index);
    let store = FilesStore::open(dir.path(), None).unwrap();
    (dir, store)
}

fn sessions_dir(dir: &Path, agent: &str) -> PathBuf {
    let sessions = dir.join("agents").join(agent).join("sessions");
    fs::create_dir_all(&sessions).unwrap();
    sessions
}

/// As OpenClaw does it: a new file, renamed over the old one.
fn write_index(dir: &Path, agent: &str, index: impl AsRef<[u8]>) {
    let sessions = sessions_dir(dir, agent);
    let new = sessions.join("sessions.json.tmp");
    fs::write(&new, index).unwrap();
    fs::rename(new, sessions.join("sessions.json")).unwrap();
}

/// Everything about a tree that a reader must not change.
#[derive(Debug, PartialEq)]
struct Item {
    content: Option<Vec<u8>>,
    modified: SystemTime,
    mode: u32,
}

fn tree(dir: &Path) -> BTreeMap<PathBuf, Item> {
    let mut items = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(path) = open.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|item| item.unwrap().path()),
            );
        }
        #[cfg(unix)]
        let mode = std::os::unix::fs::PermissionsExt::mode(&about.permissions());
        #[cfg(not(unix))]
        let mode = u32::from(about.permissions().readonly());
        let item = Item {
            content: about.is_file().then(|| fs::read(&path).unwrap()),
            modified: about.modified().unwrap(),
            mode,
        };
        items.insert(path, item);
    }
    items
}
