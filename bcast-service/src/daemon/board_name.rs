//! The name of the board's segment. Everybody may create files in /dev/shm, so no fixed name there can
//! be relied upon: each daemon draws one that nobody can guess, and tells it to its clients. It keeps
//! it in a file beside its socket, so that its successor can remove what a killed daemon left behind.

use arborcast_proto::segment;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tracing::{debug, info};

/// A name, and the file that it is kept in, which disappears with this value.
#[derive(Debug)]
pub struct BoardName {
    name: String,
    kept_in: PathBuf,
}

impl BoardName {
    /// Removes what the last daemon left behind and draws a name. The caller has the lock on the socket.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn draw(prefix: &str, kept_in: PathBuf) -> io::Result<Self> {
        if let Ok(left) = fs::read_to_string(&kept_in)
            && is_board(&left)
        {
            match segment::remove(&left) {
                Ok(()) => info!("removed {left}, which a daemon that was killed left behind"),
                Err(error) => debug!("{left}: {error}"),
            }
        }
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let name = format!("{prefix}-board-{:016x}", u64::from_le_bytes(random));
        // Before there is a segment of that name: none is ever forgotten.
        fs::write(&kept_in, &name)?;
        Ok(BoardName { name, kept_in })
    }

    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Whether the file still keeps the name.
    pub fn is_kept(&self) -> bool {
        fs::read_to_string(&self.kept_in).is_ok_and(|text| text == self.name)
    }

    pub fn kept_in(&self) -> &Path {
        &self.kept_in
    }
}

/// Whether a file's text is a name that a daemon drew.
fn is_board(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    text.len() < 128 && text.contains("-board-") && text.bytes().all(allowed)
}

impl Drop for BoardName {
    fn drop(&mut self) {
        // Another daemon may keep its own there by now.
        if self.is_kept() {
            let _ = fs::remove_file(&self.kept_in);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_only_names_of_boards_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("board");
        let first = BoardName::draw("p", file.clone()).unwrap();
        assert!(is_board(first.as_str()), "{first:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), first.as_str());
        let second = BoardName::draw("p", file.clone()).unwrap();
        assert_ne!(first.as_str(), second.as_str());
        drop((first, second));
        assert!(!file.exists());
        for text in ["", "p-board", "../p-board-1", "p-board-1/x", "sem.other", "p-board-1\n"] {
            assert!(!is_board(text), "{text:?}");
        }
    }
}
