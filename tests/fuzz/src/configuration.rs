//! The daemon's configuration.

use arborcast_service::config::Config;
use std::path::Path;

/// A file's text; what is no UTF-8 in it is replaced.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Config::parse(&text, Path::new("arborcastd.toml")) {
        Ok(config) => {
            assert!(config.check().is_ok());
            assert!(config.wisdom_path().file_name().is_some());
            assert!(!config.hold_wait_max.is_zero() && !config.hold_max.is_zero());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
