//! Files that are replaced atomically: the new one is written beside the old one and renamed over it. Whoever
//! reads finds one of them whole, whatever died when.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Puts what `write` writes in place of the file at `path`.
///
/// # Errors
/// Where it cannot be written or renamed; the old file then stands, and nothing else is left.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let staged = staged_path(path);
    let written = File::create(&staged).and_then(|mut file| write(&mut file));
    written.and_then(|()| fs::rename(&staged, path)).inspect_err(|_| {
        // What is left of a failed attempt only takes up room.
        let _ = fs::remove_file(&staged);
    })
}

pub(crate) fn staged_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}
