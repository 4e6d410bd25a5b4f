//! One daemon a socket, and one a pair of segments: a file that a living daemon keeps locked.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A locked file, which disappears with this value; the kernel unlocks it whatever ends the process.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// `None`: another process has locked it.
    ///
    /// # Errors
    /// Where the file cannot be created.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        loop {
            // Never through a link that somebody else put there.
            let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .custom_flags(no_follow)
                .open(path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                result => result?,
            }
            // Its last owner may have removed the name between our opening and locking it.
            let lock = Lock { path: path.into(), file };
            if lock.is_named()? {
                return Ok(Some(lock));
            }
        }
    }

    /// Whether others find the locked file under its name. Where somebody has removed it, another
    /// process may have locked a file of that name, too.
    ///
    /// # Errors
    /// Where the system does not tell.
    pub fn is_named(&self) -> io::Result<bool> {
        let ours = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(named) => Ok((named.dev(), named.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_named().unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_can_have_it_and_nothing_stays_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = Lock::take(&path).unwrap().unwrap();
        assert!(Lock::take(&path).unwrap().is_none());
        drop(first);
        assert!(!path.exists());
        // A file that a killed process left behind is not locked.
        fs::write(&path, "").unwrap();
        assert!(Lock::take(&path).unwrap().is_some());
    }

    #[test]
    fn the_file_of_another_owner_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = Lock::take(&path).unwrap().unwrap();
        fs::remove_file(&path).unwrap();
        assert!(!first.is_named().unwrap());
        let second = Lock::take(&path).unwrap().unwrap();
        assert!(!first.is_named().unwrap());
        drop(first);
        assert!(second.is_named().unwrap());
    }
}
