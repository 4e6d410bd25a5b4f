//! Whether the daemon can be started with its configuration, and who may use it then.

use super::{Doctor, Finding};
use crate::config::{Config, DEFAULT_CONFIG_PATH};
use std::path::Path;

const CHECK: &str = "configuration";

/// The configuration that other checks go by, where there is one.
pub fn examine(doctor: &Doctor) -> (Vec<Finding>, Option<Config>) {
    let path = doctor.config.as_deref().unwrap_or(Path::new(DEFAULT_CONFIG_PATH));
    let config = Config::load(doctor.config.as_deref())
        .and_then(|config| config.node_name().and(config.gid()).map(|gid| (config, gid)));
    let (config, gid) = match config {
        Ok(config) => config,
        Err(error) => {
            let to_do = format!(
                "mend it; `arborcastd --check-config --config {}` tells when it is",
                path.display()
            );
            return (vec![Finding::fault(CHECK, error.to_string(), to_do)], None);
        }
    };
    let whose = if path.exists() { path.display().to_string() } else { "the default one".into() };
    let mut findings = vec![Finding::ok(CHECK, format!("{whose} can be used"))];
    if config.socket != doctor.socket {
        findings.push(Finding::advice(
            CHECK,
            format!(
                "{whose} has the socket {}, and looked at is {}",
                config.socket.display(),
                doctor.socket.display()
            ),
            format!(
                "set ARBORCAST_SOCKET={} for applications and commands",
                config.socket.display()
            ),
        ));
    }
    if gid.is_none() {
        findings.push(Finding::advice(
            CHECK,
            "no `group` is set: only the daemon's own user and group may use it",
            "name the group of those who run MPI programs in `group`, and restart the daemon",
        ));
    }
    (findings, Some(config))
}
