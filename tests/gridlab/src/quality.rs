//! Whether a lab was good enough while something was measured on it, and measurements that count only
//! where it was.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::control::Status;
use crate::histogram::Histogram;
use crate::lab::{Lab, LabError};

/// How often a measurement fails its check on a good lab until it is taken to be wrong, or on a busy
/// one until it is given up: what disturbs ranks comes and goes; what is wrong stays.
const ATTEMPTS: usize = 5;
/// Names the file that lists what was given up, a line each. Whoever sets it shows the list.
const REJECTED_LIST: &str = "GRIDLAB_REJECTED";

/// A point in time from which the lab's quality is asked for.
#[derive(Debug, Clone)]
pub struct Mark {
    histogram: Histogram,
    delivered: u64,
    dropped: u64,
    undeliverable: u64,
    processors: Processors,
}

/// How well a lab did between two points in time.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Quality {
    /// Packets handed over.
    pub packets: u64,
    pub late_p50_us: f64,
    pub late_p99_us: f64,
    pub late_max_us: f64,
    /// Packets that found a queue full. Drops are part of the emulated network, not a fault.
    pub dropped: u64,
    pub undeliverable: u64,
    pub real_time: bool,
    /// Share of its processors' time that this machine wanted and its host gave to others.
    pub stolen_share: f64,
}

/// What is good enough: an emulated latency of milliseconds should not be off by more than this.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    pub late_p99_us: f64,
    pub late_max_us: f64,
    pub stolen_share: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { late_p99_us: 200.0, late_max_us: 10_000.0, stolen_share: 0.05 }
    }
}

/// Whether a measurement may be believed.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Good,
    /// The machine was too busy; the text says what was seen.
    Rejected(String),
}

impl Quality {
    /// Compares with what is good enough.
    pub fn verdict(&self, limits: &Limits) -> Verdict {
        if self.late_p99_us <= limits.late_p99_us
            && self.late_max_us <= limits.late_max_us
            && self.stolen_share <= limits.stolen_share
        {
            return Verdict::Good;
        }
        Verdict::Rejected(format!(
            "this machine was too busy: packets were late by {:.0} µs (p99) and {:.0} µs (max), {:.1} % of \
             its processors' time was taken from it; allowed are {:.0} µs, {:.0} µs and {:.1} %{}",
            self.late_p99_us,
            self.late_max_us,
            100.0 * self.stolen_share,
            limits.late_p99_us,
            limits.late_max_us,
            100.0 * limits.stolen_share,
            if self.real_time { "" } else { "; the forwarder has no real-time priority" }
        ))
    }
}

impl Lab {
    /// Starts a measurement.
    pub fn mark(&self) -> Result<Mark, LabError> {
        let status = self.status()?;
        Ok(Mark {
            delivered: status.delivered,
            dropped: dropped(&status),
            undeliverable: status.undeliverable,
            histogram: status.lateness.histogram,
            processors: Processors::now(),
        })
    }

    /// How well the lab did since `mark`.
    pub fn quality_since(&self, mark: &Mark) -> Result<Quality, LabError> {
        let status = self.status()?;
        let late = status.lateness.histogram.since(&mark.histogram);
        let us = |d: Duration| d.as_nanos() as f64 / 1e3;
        Ok(Quality {
            packets: status.delivered - mark.delivered,
            late_p50_us: us(late.quantile(0.5)),
            late_p99_us: us(late.quantile(0.99)),
            late_max_us: us(late.max()),
            dropped: dropped(&status) - mark.dropped,
            undeliverable: status.undeliverable - mark.undeliverable,
            real_time: status.real_time_refused.is_none(),
            stolen_share: Processors::now().stolen_share_since(&mark.processors),
        })
    }

    /// Takes a measurement until it passes its check, and returns it. A check that fails counts where
    /// the lab was good enough meanwhile, and is rejected where it was not. `None`: rejected 5 times,
    /// which the file in `GRIDLAB_REJECTED` tells.
    ///
    /// # Panics
    /// Where it fails its check on a good lab 5 times, with what each was; where it was rejected 5
    /// times and there is no file to tell it, with what the lab saw, so that nobody takes a busy machine
    /// for a wrong program.
    pub fn believed<T>(
        &self,
        limits: &Limits,
        mut measure: impl FnMut() -> T,
        check: impl Fn(&T) -> Result<(), String>,
    ) -> Option<T> {
        believed(limits, || {
            let mark = self.mark().expect("the lab answers");
            let measured = measure();
            let quality = self.quality_since(&mark).expect("the lab answers");
            (quality, check(&measured).map(|()| measured))
        })
    }
}

/// As [`Lab::believed`], where each attempt takes a lab of its own.
///
/// # Panics
/// As [`Lab::believed`].
pub fn believed<T>(
    limits: &Limits,
    attempt: impl FnMut() -> (Quality, Result<T, String>),
) -> Option<T> {
    let given_up = |why: String| match std::env::var_os(REJECTED_LIST) {
        Some(list) => tell(Path::new(&list), &why),
        None => panic!("rejected {ATTEMPTS} times:\n{why}"),
    };
    repeat(limits, attempt).map_err(given_up).ok()
}

/// Attempts until one passes its check; the error is why they were rejected.
fn repeat<T>(
    limits: &Limits,
    mut attempt: impl FnMut() -> (Quality, Result<T, String>),
) -> Result<T, String> {
    let (mut wrong, mut rejected) = (Vec::new(), Vec::new());
    while wrong.len() < ATTEMPTS && rejected.len() < ATTEMPTS {
        let (quality, checked) = attempt();
        let why = match checked {
            Ok(measured) => return Ok(measured),
            Err(why) => why,
        };
        match quality.verdict(limits) {
            Verdict::Good => {
                eprintln!("measured again, on a good lab: {why}");
                wrong.push(format!("{why} ({quality:?})"));
            }
            Verdict::Rejected(busy) => {
                eprintln!("rejected: {why}; {busy}");
                rejected.push(format!("{why}; {busy}"));
            }
        }
    }
    assert!(wrong.len() < ATTEMPTS, "wrong {ATTEMPTS} times on a good lab:\n{}", wrong.join("\n"));
    Err(rejected.join("\n"))
}

/// Adds a test's rejected measurement to the list.
fn tell(list: &Path, why: &str) {
    let last = why.lines().last().unwrap_or_default();
    let line = format!("{}: {last}\n", std::thread::current().name().unwrap_or("measurement"));
    let file = std::fs::File::options().create(true).append(true).open(list);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}; {line}", list.display()));
}

/// Says whether `value` is within `share` of `expected`.
pub fn near(what: &str, value: f64, expected: f64, share: f64) -> Result<(), String> {
    let off = (value / expected - 1.0).abs();
    if off <= share {
        return Ok(());
    }
    Err(format!("{what}: {value:.6}, expected {expected:.6} within {} %", share * 100.0))
}

fn dropped(status: &Status) -> u64 {
    let nodes: u64 = status.nodes.iter().map(|n| n.dropped).sum();
    let sites: u64 = status.sites.iter().map(|s| s.uplink_dropped).sum();
    let links: u64 = status.links.iter().map(|l| l.dropped).sum();
    nodes + sites + links
}

/// Clock ticks of all processors together since the machine started, from the first line of
/// `/proc/stat` (proc_stat(5)); zeros where there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Processors {
    all: u64,
    stolen: u64,
}

impl Processors {
    fn now() -> Self {
        Self::read(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    fn read(stat: &str) -> Self {
        let line = stat.lines().next().unwrap_or_default();
        // user nice system idle iowait irq softirq steal; what follows is part of user and nice.
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        Self { all: ticks.iter().sum(), stolen: ticks.get(7).copied().unwrap_or(0) }
    }

    fn stolen_share_since(self, before: &Self) -> f64 {
        // Steal may go backwards when a virtual machine is moved.
        let of = |now: u64, then: u64| now.saturating_sub(then) as f64;
        of(self.stolen, before.stolen) / of(self.all, before.all).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quality(late_p99_us: f64, stolen_share: f64) -> Quality {
        Quality {
            packets: 1,
            late_p50_us: 1.0,
            late_p99_us,
            late_max_us: late_p99_us,
            dropped: 0,
            undeliverable: 0,
            real_time: true,
            stolen_share,
        }
    }

    #[test]
    fn stolen_time_is_read_from_proc_stat() {
        let before = Processors::read("cpu  100 0 50 800 0 0 0 50 7 0\ncpu0 1 1 1 1\n");
        assert_eq!(before, Processors { all: 1000, stolen: 50 });
        let after = Processors::read("cpu  150 0 50 830 0 0 0 70 9 0\n");
        assert_eq!(after.stolen_share_since(&before), 0.2);
        assert_eq!(Processors::default().stolen_share_since(&before), 0.0);
        let Verdict::Rejected(why) = quality(10.0, 0.2).verdict(&Limits::default()) else {
            panic!("a fifth of the time was taken");
        };
        assert!(why.contains("20.0 % of its processors' time"), "{why}");
    }

    #[test]
    fn what_stays_wrong_is_wrong_and_what_a_busy_machine_did_is_not() {
        let (good, busy) = (quality(10.0, 0.0), quality(900.0, 0.0));
        let run = |attempts: &[(Quality, Result<u32, String>)]| {
            let mut left = attempts.iter().cloned();
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                repeat(&Limits::default(), || left.next().expect("it ends"))
            }))
            .map_err(|panic| *panic.downcast::<String>().unwrap())
        };
        let off = || Err("off".to_owned());
        assert_eq!(run(&[(good, off()), (busy, off()), (good, Ok(2))]), Ok(Ok(2)));
        assert_eq!(run(&[(busy, Ok(1))]), Ok(Ok(1)));
        let mut attempts = vec![(good, off()); ATTEMPTS];
        attempts.insert(1, (busy, off()));
        assert!(run(&attempts).unwrap_err().starts_with("wrong 5 times"));
        let rejected = run(&vec![(busy, off()); ATTEMPTS]).unwrap().unwrap_err();
        assert!(rejected.starts_with("off; this machine was too busy"), "{rejected}");
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("rejected.txt");
        tell(&list, &rejected);
        tell(&list, "busy again");
        let told = std::fs::read_to_string(list).unwrap();
        assert!(told.lines().count() == 2 && told.ends_with(": busy again\n"), "{told}");
    }
}
