//! A directory that this process may not write to, read by somebody who is not root.

#![cfg(unix)]

use super::{captured_copy, tree};
use crosstalk::store::openclaw::files::FilesStore;
use crosstalk::store::{Query, Sessions, Span};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Where the reader of the next test finds its directory.
const DIR: &str = "CROSSTALK_TEST_READ_ONLY_DIR";
/// Nobody's numbers nearly everywhere; that they are not root's is what matters.
const NOBODY: u32 = 65_534;

/// Reads everything; run by [`ac_36_a_directory_without_write_permission`] in a process of its own.
#[test]
#[ignore = "run by another test, as another user"]
fn the_reader() {
    let dir = std::env::var(DIR).unwrap();
    let dir = Path::new(&dir);
    let denied = fs::write(dir.join("agents/probe"), b"").unwrap_err();
    assert_eq!(
        denied.kind(),
        std::io::ErrorKind::PermissionDenied,
        "the directory can be written to"
    );
    let store = FilesStore::open(dir, None).unwrap();
    let page = store.list(&Query::default(), None).unwrap();
    assert_eq!(page.total, 10);
    let lines: usize = page
        .entries
        .iter()
        .map(|entry| {
            store
                .transcript(entry, Span::Whole, usize::MAX)
                .unwrap()
                .lines
                .len()
        })
        .sum();
    assert!(lines > 145, "{lines}");
    assert_eq!(store.warnings(), Vec::<String>::new());
}

fn set_modes(dir: &Path, directories: u32, files: u32) {
    let mode = if dir.is_dir() { directories } else { files };
    if dir.is_dir() {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).unwrap();
        for item in fs::read_dir(dir).unwrap() {
            set_modes(&item.unwrap().path(), directories, files);
        }
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn ac_36_a_directory_without_write_permission() {
    let dir = captured_copy();
    // The test program may stand where another user cannot reach it.
    let program = tempfile::tempdir().unwrap();
    let binary = program.path().join("suite");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(program.path(), fs::Permissions::from_mode(0o755)).unwrap();
    set_modes(dir.path(), 0o555, 0o444);
    let before = tree(dir.path());
    let mut reader = Command::new(&binary);
    reader
        .args(["--ignored", "--exact", "openclaw::untouched::the_reader"])
        .env(DIR, dir.path())
        .current_dir("/");
    if rustix::process::geteuid().is_root() {
        reader.uid(NOBODY).gid(NOBODY);
    }
    let output = reader.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(said.contains("1 passed"), "{said}");
    assert_eq!(tree(dir.path()), before);
    set_modes(dir.path(), 0o755, 0o644);
}
