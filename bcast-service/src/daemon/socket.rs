//! The socket that clients find the daemon at.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

/// Clients that wait to be accepted; a node's ranks may all come at once. The system may allow fewer.
const BACKLOG: i32 = 4096;

/// A socket with a name, which disappears with this value.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and number of the name's file.
    file: (u64, u64),
}

impl Socket {
    /// Listens at `path`, for the daemon's user and group. The caller has the lock, so that a socket
    /// that is there already belongs to no one.
    ///
    /// # Errors
    /// Where the system does not allow it.
    pub fn listen(path: &Path, gid: Option<u32>) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        rustix::net::listen(&listener, BACKLOG)?;
        if let Some(gid) = gid {
            std::os::unix::fs::chown(path, None, Some(gid))?;
        }
        fs::set_permissions(path, Permissions::from_mode(0o660))?;
        Ok(Socket { listener, path: path.into(), file: file(path)? })
    }

    /// The next client.
    ///
    /// # Errors
    /// Where it cannot be accepted, for want of descriptors most likely.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }

    /// Whether clients find this socket under its name.
    pub fn is_named(&self) -> bool {
        file(&self.path).is_ok_and(|file| file == self.file)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Another daemon may have put its own there.
        if self.is_named() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file(path: &Path) -> io::Result<(u64, u64)> {
    let named = fs::symlink_metadata(path)?;
    Ok((named.dev(), named.ino()))
}
