//! What whoever asks has to know where the page is not for this host alone.

use crate::config::{ConfigError, PageConfig};
use std::fs;
use std::hint::black_box;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Shorter ones are guessed.
const MIN_BYTES: usize = 16;
const FOR_OTHERS: u32 = 0o007;

pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// The configured one, if any.
    ///
    /// # Errors
    /// Where its file cannot be read, is readable for everybody, or has no token.
    pub fn configured(config: &PageConfig) -> Result<Option<Self>, ConfigError> {
        config.token_file.as_deref().map(Self::read).transpose()
    }

    fn read(path: &Path) -> Result<Self, ConfigError> {
        let value = |reason: String| {
            ConfigError::Value(format!("page.token_file: {} {reason}", path.display()))
        };
        let error = |error: std::io::Error| value(format!("cannot be read: {error}"));
        let mode = fs::metadata(path).map_err(error)?.permissions().mode();
        if mode & FOR_OTHERS != 0 {
            return Err(value("is open to other users; `chmod o= ` it".into()));
        }
        let token = fs::read_to_string(path).map_err(error)?.trim().to_owned();
        if token.len() < MIN_BYTES || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(value(format!(
                "has to have one word of at least {MIN_BYTES} characters, as `openssl rand -hex 16` writes"
            )));
        }
        Ok(Token(token))
    }

    /// In a time that tells nothing of where they differ.
    pub fn is(&self, given: &[u8]) -> bool {
        let token = self.0.as_bytes();
        let differ = token.iter().zip(given).fold(0, |differ, (a, b)| black_box(differ | (a ^ b)));
        given.len() == token.len() && differ == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Token("0123456789abcdef".into());
        assert!(token.is(b"0123456789abcdef"));
        for other in
            ["", "0123456789abcde", "0123456789abcdef0", "1123456789abcdef", "0123456789abcdeg"]
        {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_file_that_protects_nothing_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let read = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Token::read(&path).map_err(|error| error.to_string())
        };
        assert!(read("0123456789abcdef\n", 0o600).unwrap().is(b"0123456789abcdef"));
        assert!(read("0123456789abcdef\n", 0o644).unwrap_err().contains("chmod"));
        assert!(read("short\n", 0o600).unwrap_err().contains("16"));
        assert!(read("0123456789 abcdef\n", 0o600).unwrap_err().contains("one word"));
        fs::remove_file(&path).unwrap();
        assert!(Token::read(&path).unwrap_err().to_string().contains("cannot be read"));
    }
}
