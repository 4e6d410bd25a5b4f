//! Whether a lab was good enough while something was measured on it, and measurements that count only
//! where it was.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::control::Status;
use crate::histogram::Histogram;
use crate::lab::{Lab, LabError};

/// A measurement that has once failed its check on a good lab is taken to be right, or wrong, once that
/// many attempts say so: the majority of five. What disturbs ranks comes and goes; what is wrong stays.
const MAJORITY: usize = 3;
/// How often it is off on a busy lab until it is given up.
const REJECTIONS: usize = 5;
/// Name the files that list what was given up, and what failed at first and was believed later, a line
/// each. Whoever sets them shows the lists.
const REJECTED_LIST: &str = "GRIDLAB_REJECTED";
const RETRIED_LIST: &str = "GRIDLAB_RETRIED";

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

    /// Takes a measurement and returns it where it passes its check. One that fails on a good lab is
    /// taken again until three attempts have passed, which the file in `GRIDLAB_RETRIED` tells, or
    /// three have failed. One that fails where the lab was too busy is rejected and taken again.
    /// `None`: rejected 5 times, which the file in `GRIDLAB_REJECTED` tells.
    ///
    /// # Panics
    /// Where it fails its check on a good lab 3 times, with what each was; where it was rejected 5
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
    match repeat(limits, attempt) {
        Outcome::Believed(measured, failures) => {
            if let Some(last) = failures.last() {
                tell(RETRIED_LIST, &format!("failed {} times, the last: {last}", failures.len()));
            }
            Some(measured)
        }
        Outcome::Rejected(whys) => {
            let told = tell(REJECTED_LIST, &whys[REJECTIONS - 1]);
            assert!(told, "rejected {REJECTIONS} times:\n{}", whys.join("\n"));
            None
        }
        Outcome::Wrong(whys) => {
            // A runner may try the whole test again, and it may pass then.
            tell(
                RETRIED_LIST,
                &format!("wrong {MAJORITY} times, the last: {}", whys[MAJORITY - 1]),
            );
            panic!("wrong {MAJORITY} times on a good lab:\n{}", whys.join("\n"));
        }
    }
}

/// What came of a measurement's attempts, with why some of them failed.
#[derive(Debug, PartialEq)]
enum Outcome<T> {
    Believed(T, Vec<String>),
    Wrong(Vec<String>),
    Rejected(Vec<String>),
}

/// Attempts until one of the three is certain.
fn repeat<T>(
    limits: &Limits,
    mut attempt: impl FnMut() -> (Quality, Result<T, String>),
) -> Outcome<T> {
    let (mut passed, mut wrong, mut rejected) = (0, Vec::new(), Vec::new());
    loop {
        let (quality, checked) = attempt();
        match (checked, quality.verdict(limits)) {
            (Ok(measured), _) => {
                passed += 1;
                if wrong.is_empty() || passed == MAJORITY {
                    return Outcome::Believed(measured, [wrong, rejected].concat());
                }
            }
            (Err(why), Verdict::Good) => {
                eprintln!("measured again, on a good lab: {why}");
                wrong.push(format!("{why} ({quality:?})"));
            }
            (Err(why), Verdict::Rejected(busy)) => {
                eprintln!("rejected: {why}; {busy}");
                rejected.push(format!("{why}; {busy}"));
            }
        }
        if wrong.len() == MAJORITY {
            return Outcome::Wrong(wrong);
        }
        if rejected.len() == REJECTIONS {
            return Outcome::Rejected(rejected);
        }
    }
}

/// Adds a test's measurement to the list whose file a variable names; whether there is one.
fn tell(variable: &str, why: &str) -> bool {
    let Some(list) = std::env::var_os(variable) else { return false };
    add_line(Path::new(&list), why);
    true
}

fn add_line(list: &Path, why: &str) {
    let line = format!("{}: {why}\n", std::thread::current().name().unwrap_or("measurement"));
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

    /// What comes of attempts that pass or not: the number of the one that is believed.
    fn outcome(attempts: &[(Quality, bool)]) -> Outcome<usize> {
        let mut left = attempts.iter().enumerate();
        repeat(&Limits::default(), || {
            let (number, (quality, passes)) = left.next().expect("it ends");
            (*quality, if *passes { Ok(number) } else { Err("off".to_owned()) })
        })
    }

    fn believed_with_failures(attempts: &[(Quality, bool)]) -> (usize, usize) {
        match outcome(attempts) {
            Outcome::Believed(number, failures) => (number, failures.len()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_failed_on_a_good_lab_needs_the_majority() {
        let good = |passes| (quality(10.0, 0.0), passes);
        assert_eq!(believed_with_failures(&[good(true)]), (0, 0));
        let attempts = [good(false), good(true), good(true), good(false), good(true)];
        assert_eq!(believed_with_failures(&attempts), (4, 2));
        let attempts = [good(false), good(true), good(false), good(true), good(false)];
        let Outcome::Wrong(whys) = outcome(&attempts) else { panic!("three of five failed") };
        assert!(whys.len() == 3 && whys[0].starts_with("off"), "{whys:?}");
    }

    #[test]
    fn a_busy_machine_is_no_reason_to_call_a_measurement_wrong() {
        let busy = |passes| (quality(900.0, 0.0), passes);
        assert_eq!(believed_with_failures(&[busy(true)]), (0, 0));
        assert_eq!(believed_with_failures(&[busy(false), busy(false), busy(true)]), (2, 2));
        let Outcome::Rejected(whys) = outcome(&[busy(false); REJECTIONS]) else { panic!("busy") };
        assert!(whys[0].starts_with("off; this machine was too busy"), "{whys:?}");
    }

    #[test]
    fn lists_grow_by_a_line_with_the_tests_name() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("list.txt");
        add_line(&list, "busy");
        add_line(&list, "busy again");
        let told = std::fs::read_to_string(list).unwrap();
        assert!(told.lines().count() == 2 && told.ends_with("_name: busy again\n"), "{told}");
    }
}
