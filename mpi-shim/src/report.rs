//! `ARBORCAST_REPORT=FILE`: what became of a process's broadcasts, one line of JSON a process, appended
//! to the file when the process ends.
//!
//! The time gained is an estimate: for each broadcast along trees that started here, what native took in
//! the experiment that found the plan, less what the plan took there (medians until the ACKs of all
//! leaves). Nothing is estimated for a plan without a native time.

use crate::pmpi::{Comm, world_is_usable};
use crate::settings::tell;
use arborcast_proto::SizeClass;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Names the file.
pub const REPORT_VARIABLE: &str = "ARBORCAST_REPORT";

/// What carried broadcasts, and why it did.
pub const TREES: &str = "trees";
pub const PLAN_IS_NATIVE: &str = "native: no plan, or it is native";
pub const NOT_SET_UP: &str = "native: first short broadcasts of a communicator";
pub const DOUBTFUL: &str = "native: empty, or arguments for the MPI to judge";
pub const AFTER_ERROR: &str = "native: after an error";

#[derive(Default)]
struct Report {
    rank: Option<usize>,
    /// Number and bytes of broadcasts, by what carried them and size class.
    carried: BTreeMap<(&'static str, SizeClass), (u64, u64)>,
    gained_s: f64,
    holds: u64,
    waited: Duration,
}

struct Wanted {
    path: PathBuf,
    report: Mutex<Report>,
}

fn wanted() -> Option<&'static Wanted> {
    static WANTED: OnceLock<Option<Wanted>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| {
        let path = std::env::var_os(REPORT_VARIABLE).filter(|path| !path.is_empty())?;
        // SAFETY: the function lives as long as the process, in which this library stays.
        unsafe { libc::atexit(write_out) };
        Some(Wanted { path: path.into(), report: Mutex::default() })
    });
    wanted.as_ref()
}

fn with_report(change: impl FnOnce(&mut Report)) {
    if let Some(Wanted { report, .. }) = wanted() {
        change(&mut report.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Whether a report is wanted: what it alone needs is found out only then.
pub fn is_wanted() -> bool {
    wanted().is_some()
}

/// Counts a broadcast of `bytes`.
pub fn note(carrier: &'static str, bytes: u64) {
    with_report(|report| {
        if report.rank.is_none() && world_is_usable() == Ok(true) {
            report.rank = Comm::world().rank().ok();
        }
        let (number, sum) = report.carried.entry((carrier, SizeClass::of(bytes))).or_default();
        *number += 1;
        *sum = sum.saturating_add(bytes);
    });
}

/// Counts what a broadcast along trees has gained at its root.
pub fn note_gain(native_s: Option<f64>, plan_s: f64) {
    let gained_s = native_s.map_or(0.0, |native_s| native_s - plan_s);
    with_report(|report| report.gained_s += gained_s);
}

/// Counts a claim on the network, which took `waited`.
pub fn note_hold(waited: Duration) {
    with_report(|report| {
        report.holds += 1;
        report.waited += waited;
    });
}

impl Report {
    fn line(&self) -> String {
        let mut line = String::from("{");
        if let Some(rank) = self.rank {
            let _ = write!(line, "\"rank\": {rank}, ");
        }
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host: String =
            host.chars().filter(|c| !c.is_control() && !"\"\\".contains(*c)).collect();
        let _ = write!(
            line,
            "\"host\": \"{host}\", \"pid\": {}, \"broadcasts\": [",
            std::process::id()
        );
        for (i, ((carrier, class), (number, bytes))) in self.carried.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            let _ = write!(
                line,
                "{comma}{{\"carried_by\": \"{carrier}\", \"class\": \"{class}\", \
                 \"number\": {number}, \"bytes\": {bytes}}}"
            );
        }
        let Report { gained_s, holds, waited, .. } = self;
        let _ = writeln!(
            line,
            "], \"gained_s\": {gained_s:.6}, \"gained_is\": \"estimated at roots from the experiment's \
             medians\", \"holds\": {holds}, \"waited_s\": {:.6}}}",
            waited.as_secs_f64()
        );
        line
    }
}

extern "C" fn write_out() {
    let Some(Wanted { path, report }) = wanted() else { return };
    let line = report.lock().unwrap_or_else(PoisonError::into_inner).line();
    // One write: the lines of several processes stay whole.
    let file = std::fs::File::options().create(true).append(true).open(path);
    if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        tell(&format!("{REPORT_VARIABLE}={}: {error}", path.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_a_line_of_json() {
        let mut report = Report { rank: Some(3), gained_s: 1.5, holds: 2, ..Report::default() };
        report.carried.insert((TREES, SizeClass::of(1 << 20)), (2, 2 << 20));
        report.carried.insert((PLAN_IS_NATIVE, SizeClass::of(8)), (1, 8));
        let line = report.line();
        assert!(line.ends_with("}\n") && line.starts_with("{\"rank\": 3, "), "{line}");
        let trees =
            "{\"carried_by\": \"trees\", \"class\": \"≤1MiB\", \"number\": 2, \"bytes\": 2097152}";
        assert!(line.contains(trees), "{line}");
        assert_eq!(line.matches(['{', '[']).count(), line.matches(['}', ']']).count());
    }
}
