//! `arborcast doctor`: looks at everything that Arborcast needs on a node, and says what to do where
//! something is missing. It changes nothing, and goes on where something cannot be looked at.

mod batch;
mod configuration;
mod daemon;
mod experiment;
mod library;
mod mpi;
mod shared_memory;
mod tcp;
mod wisdom;

use super::{json, print_table, table};
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    /// It works, and could be better.
    Advice,
    /// Something that Arborcast needs is not there.
    Fault,
}

/// What was looked at and what it means: one line of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: &'static str,
    pub level: Level,
    pub meaning: String,
    /// `None` where nothing has to be done.
    pub to_do: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, meaning: impl Into<String>) -> Self {
        Finding { check, level: Level::Ok, meaning: meaning.into(), to_do: None }
    }

    fn advice(check: &'static str, meaning: impl Into<String>, to_do: impl Into<String>) -> Self {
        let (meaning, to_do) = (meaning.into(), Some(to_do.into()));
        Finding { check, level: Level::Advice, meaning, to_do }
    }

    fn fault(check: &'static str, meaning: impl Into<String>, to_do: impl Into<String>) -> Self {
        Finding { level: Level::Fault, ..Self::advice(check, meaning, to_do) }
    }
}

/// What is looked at.
#[derive(Debug, Clone)]
pub struct Doctor {
    pub socket: PathBuf,
    /// The daemon's configuration; `None`: the default one.
    pub config: Option<PathBuf>,
    /// The library for applications; `None`: the one that `arborcast run` takes.
    pub library: Option<PathBuf>,
    /// Below it are looked for /dev/shm, /etc, /proc and /sys.
    pub root: PathBuf,
}

impl Doctor {
    /// Everything that was found, in the order in which it should be mended, and the exit code: 0
    /// without a fault, 3 and 5 for what the daemon is missing, as other commands have it, 1 for any
    /// other fault.
    pub fn examine(&self) -> (Vec<Finding>, u8) {
        let (mut findings, config) = configuration::examine(self);
        let (of_daemon, daemon, exit_code) = daemon::examine(&self.socket);
        findings.extend(of_daemon);
        let daemon = daemon.as_ref();
        findings.extend(shared_memory::examine(&self.root, daemon));
        findings.push(library::examine(self.library.as_deref()));
        findings.push(mpi::examine());
        if let Some(config) = &config {
            findings.extend(
                daemon.map(|daemon| experiment::examine(config, daemon)).unwrap_or_default(),
            );
            findings.extend(wisdom::examine(config));
        }
        findings.push(batch::examine(&self.root, &self.socket));
        findings.extend(tcp::examine(&self.root, daemon));
        let has_fault = findings.iter().any(|finding| finding.level == Level::Fault);
        (findings, exit_code.unwrap_or(u8::from(has_fault)))
    }
}

/// The answer, and the exit code.
pub fn doctor(doctor: &Doctor, as_json: bool) -> (String, u8) {
    let (findings, exit_code) = doctor.examine();
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (faults, advice) = (count(Level::Fault), count(Level::Advice));
    if as_json {
        let value = json!({ "faults": faults, "advice": advice, "findings": findings });
        return (json::print(&value), exit_code);
    }
    let mut table = table(&[]);
    for Finding { check, level, meaning, to_do } in &findings {
        let level = match level {
            Level::Ok => "ok",
            Level::Advice => "advice",
            Level::Fault => "FAULT",
        };
        let to_do = to_do.as_ref().map_or_else(String::new, |to_do| format!(" → {to_do}"));
        table.add_row([level, check, &format!("{meaning}{to_do}")]);
    }
    (format!("{}faults: {faults}, advice: {advice}\n", print_table(&table)), exit_code)
}

/// Bytes that the file system of `path` still has for who is not root.
fn free_bytes(path: &Path) -> rustix::io::Result<u64> {
    let system = rustix::fs::statvfs(path)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}
