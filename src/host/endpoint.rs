//! The socket of an owner: where it is, who may use it.

use super::HostError;
use super::lock::{Lock, Record, io};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::net::UnixListener;

const SOCKET: &str = "host.sock";
/// Longest path for a socket: the kernel's limit is 108 bytes here, 104 elsewhere.
const PATH_BYTES: usize = 100;
/// Prefix of the directory that takes the socket when the state directory's path is too long.
const ELSEWHERE: &str = "crosstalk-";

/// A bound socket; its file goes with it.
pub struct Endpoint {
    path: PathBuf,
    /// Where the socket is when the state directory's path is too long.
    _elsewhere: Option<TempDir>,
}

impl Endpoint {
    /// Binds the socket of the directory whose lock is held (0600, in a 0700 directory), removing what a dead owner
    /// left.
    ///
    /// # Errors
    /// [`HostError::Io`].
    pub fn bind(lock: &Lock) -> Result<(Self, UnixListener), HostError> {
        if let Some(stale) = Record::read(lock.dir()).and_then(|record| record.endpoint) {
            remove_stale(&stale);
        }
        let near = lock.dir().join(SOCKET);
        let (path, elsewhere) = if near.as_os_str().len() <= PATH_BYTES {
            remove_stale(&near);
            (near, None)
        } else {
            let dir = tempfile::Builder::new()
                .prefix(ELSEWHERE)
                .permissions(std::fs::Permissions::from_mode(0o700))
                .tempdir()
                .map_err(|error| io("making a directory in", &std::env::temp_dir(), error))?;
            (dir.path().join(SOCKET), Some(dir))
        };
        let listener = UnixListener::bind(&path).map_err(|error| io("binding", &path, error))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .map_err(|error| io("restricting", &path, error))?;
        let endpoint = Self {
            path,
            _elsewhere: elsewhere,
        };
        Ok((endpoint, listener))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes the socket of a dead owner, with the directory that was made for it. Anything but a socket stays.
fn remove_stale(socket: &Path) {
    let is_socket = std::fs::symlink_metadata(socket).is_ok_and(|m| m.file_type().is_socket());
    if !is_socket || std::fs::remove_file(socket).is_err() {
        return;
    }
    if let Some(dir) = socket.parent()
        && dir
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(ELSEWHERE))
        && dir.parent() == Some(std::env::temp_dir().as_path())
    {
        // Only an empty directory goes.
        let _ = std::fs::remove_dir(dir);
    }
}
