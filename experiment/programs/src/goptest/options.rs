//! Options of goptest: those of perftest, and ours.

use super::operation::{BroadcastChoice, Calls, Kind, ReceiveFrom};
use super::sweep::{Policy, RESOLUTIONS};
use crate::measure::failure::Failure;
use crate::measure::option_table::{Given, OptionSpec, help_of};
use crate::measure::plot;
use crate::measure::report::{FORMATS, Format};
use std::path::PathBuf;

macro_rules! option {
    ($name:literal, $values:literal, $help:literal) => {
        OptionSpec { name: $name, values: $values, help: $help }
    };
}

const TABLE: &[OptionSpec] = &[
    option!(
        "roundtrip",
        "",
        "there and back between the first and the last process; sizes in bytes, time of the\n\
        whole round"
    ),
    option!(
        "head",
        "",
        "head to head: both send, then both receive; sizes in bytes. Above 1024 bytes, where an MPI\n\
        need not buffer a blocking send, the send is non-blocking"
    ),
    option!(
        "anysource",
        "",
        "receive from any source (with -roundtrip and -head; default: the specified one)"
    ),
    option!("async", "", "non-blocking calls (with -roundtrip and -head; default: blocking)"),
    option!(
        "bcast",
        "",
        "broadcast round: each process is root in turn (with -root, always the same); sizes\n\
        in integers of 4 bytes; time of one broadcast"
    ),
    option!(
        "bcastalt",
        "",
        "broadcast with ACKer (de Supinski and Karonis): for each process, repeated broadcasts\n\
        each acknowledged by it, less the latency of an empty message; sizes in integers of 4 bytes; the result\n\
        is the slowest process's time"
    ),
    option!(
        "bcastleaf",
        "",
        "broadcast until the root has the ACK of each leaf of the tree, which is included; not with\n\
        native; sizes in integers of 4 bytes"
    ),
    option!(
        "bcastwith",
        "NAME,NAME,...",
        "the broadcasts of -bcast, -bcastalt and -bcastleaf, one after the other: native (MPI_Bcast,\n\
        default), arborcast (with the plan of the root's daemon), flat, chain, binomial (that tree, run by\n\
        Arborcast's engine without a daemon); both means native,arborcast"
    ),
    option!("root", "RANK", "root of -bcastalt (default 0), or of every broadcast of -bcast"),
    option!("scatter", "", "scatter from process 0; sizes in integers of 4 bytes a process"),
    option!("sync", "", "barrier"),
    option!(
        "isum",
        "",
        "sum of integers over all processes, result everywhere; sizes in integers of 4 bytes"
    ),
    option!("dsum", "", "as -isum, sizes in doubles of 8 bytes (default operation)"),
    option!(
        "size",
        "START END STRIDE",
        "sizes from START to END inclusive, STRIDE apart, in the unit of the operation\n\
        (default 0 1024 256)"
    ),
    option!("sizelist", "N,N,...", "these sizes instead"),
    option!(
        "reps",
        "N",
        "repetitions in one sample (default 50); doubled where a sample would be shorter than\n\
        100 times the clock's resolution"
    ),
    option!("autoreps", "", "double the repetitions, from 1, until a sample lasts -tgoal"),
    option!("tgoal", "SECONDS", "least duration of a sample (default 1.0); implies -autoreps"),
    option!(
        "rthresh",
        "PART",
        "samples end once 3 lie within this part of the least, at most 30 (default 0.05)"
    ),
    option!(
        "smooth",
        "PASSES",
        "passes in which sizes more than 10 % off the line between their neighbours are\n\
        measured again (default 3; 0 for none)"
    ),
    option!("perproc", "", "list the time of each process too (with -bcastalt)"),
    option!("fname", "FILE", "append the results to FILE (default: standard output)"),
    option!(
        "gnuplot",
        "",
        "write commands for gnuplot into FILE.gpl (with -fname and the original format)"
    ),
    option!("noinfo", "", "no comment lines on how it was measured"),
    option!("nohead", "", "no header"),
    option!("notail", "", "no comment lines after the results on what was measured again"),
    option!("title", "TEXT", "title of the results"),
    option!(
        "format",
        "original|csv|json",
        "format of the results; times in CSV and JSON are in seconds"
    ),
    option!("plot", "FILE", "draw time against size into FILE (.svg)"),
    option!("help", "", "this text"),
    option!("version", "", "the version"),
];

const INTRODUCTION: &str = "goptest: how long messages and collective operations take, over message sizes

Usage: mpirun -n N goptest [-OPERATION] [options]

Times are in microseconds in the original format. The time of a size is the least of several samples,
each the mean of many repetitions.

";

/// What a run is asked to do.
#[derive(Debug, Clone)]
pub struct Options {
    pub kind: Kind,
    pub source: ReceiveFrom,
    pub calls: Calls,
    /// One after the other.
    pub broadcasts: Vec<BroadcastChoice>,
    pub root: Option<i32>,
    /// In the unit of the operation, increasing.
    pub sizes: Vec<usize>,
    pub repetitions: u64,
    /// Least seconds of a sample, where the user set one.
    pub sample_seconds: Option<f64>,
    pub threshold: f64,
    pub smoothing_passes: usize,
    pub per_process: bool,
    pub file: Option<PathBuf>,
    pub gnuplot: bool,
    pub info: bool,
    pub head: bool,
    pub tail: bool,
    pub title: Option<String>,
    pub format: Format,
    pub plot: Option<PathBuf>,
}

/// What the command line asks for.
pub enum Parsed {
    Options(Box<Options>),
    Text(String),
}

/// Reads the arguments after the program's name.
pub fn parse(arguments: &[String]) -> Result<Parsed, Failure> {
    let given = Given::parse(TABLE, arguments)?;
    if given.has("help") {
        return Ok(Parsed::Text(format!("{INTRODUCTION}{}", help_of(TABLE))));
    }
    if given.has("version") {
        return Ok(Parsed::Text(format!("goptest {}", env!("CARGO_PKG_VERSION"))));
    }
    options_of(&given).map(|options| Parsed::Options(Box::new(options)))
}

fn options_of(given: &Given) -> Result<Options, Failure> {
    let kind = kind_of(given)?;
    let wrong = |text: &str| Err(Failure::BadOption(text.to_owned()));
    if given.has("bcastwith") && !kind.is_broadcast() {
        return wrong("-bcastwith: only with -bcast, -bcastalt and -bcastleaf");
    }
    if given.has("perproc") && kind != Kind::Acker {
        return wrong("-perproc: only with -bcastalt");
    }
    let automatic = given.has("autoreps") || given.has("tgoal");
    let threshold = given.number("rthresh", 0, 0.0)?.unwrap_or(0.05);
    let goal: f64 = given.number("tgoal", 0, 0.0)?.unwrap_or(1.0);
    let options = Options {
        kind,
        source: if given.has("anysource") { ReceiveFrom::Any } else { ReceiveFrom::Partner },
        calls: if given.has("async") { Calls::NonBlocking } else { Calls::Blocking },
        broadcasts: broadcasts_of(given, kind)?,
        root: given.number("root", 0, 0)?,
        sizes: sizes_of(given, kind)?,
        repetitions: match given.number("reps", 0, 1)? {
            Some(repetitions) => repetitions,
            None if automatic => 1,
            None => 50,
        },
        sample_seconds: automatic.then_some(goal),
        threshold,
        smoothing_passes: given.number("smooth", 0, 0)?.unwrap_or(3),
        per_process: given.has("perproc"),
        file: given.text("fname").map(PathBuf::from),
        gnuplot: given.has("gnuplot"),
        info: !given.has("noinfo"),
        head: !given.has("nohead"),
        tail: !given.has("notail"),
        title: given.text("title").map(str::to_owned),
        format: given.choice("format", FORMATS)?,
        plot: given.text("plot").map(PathBuf::from),
    };
    if options.gnuplot && (options.file.is_none() || options.format != Format::Original) {
        return wrong("-gnuplot: needs -fname and the original format");
    }
    if let Some(path) = &options.plot {
        plot::check_path("-plot", path)?;
    }
    Ok(options)
}

fn broadcasts_of(given: &Given, kind: Kind) -> Result<Vec<BroadcastChoice>, Failure> {
    let names = match given.text("bcastwith") {
        None => "native",
        Some("both") => "native,arborcast",
        Some(names) => names,
    };
    let known = BroadcastChoice::ALL;
    let one =
        |name: &str| known.iter().find(|(known, _)| *known == name).map(|(_, choice)| *choice);
    let chosen: Option<Vec<BroadcastChoice>> = names.split(',').map(one).collect();
    let chosen = chosen.ok_or_else(|| {
        let all: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let text = format!("-bcastwith: {names:?} is not a list of {}, nor both", all.join(", "));
        Failure::BadOption(text)
    })?;
    if kind == Kind::LeafAck && chosen.contains(&BroadcastChoice::Native) {
        let text = "-bcastleaf: the native broadcast has no leaf ACKs; choose -bcastwith";
        return Err(Failure::BadOption(text.to_owned()));
    }
    Ok(chosen)
}

fn kind_of(given: &Given) -> Result<Kind, Failure> {
    let chosen: Vec<Kind> =
        Kind::ALL.iter().copied().filter(|kind| given.has(kind.name())).collect();
    match chosen[..] {
        [] => Ok(Kind::DoubleSum),
        [kind] => Ok(kind),
        [first, second, ..] => Err(Failure::BadOption(format!(
            "-{}: cannot be measured together with -{}",
            second.name(),
            first.name()
        ))),
    }
}

fn sizes_of(given: &Given, kind: Kind) -> Result<Vec<usize>, Failure> {
    let mut sizes = match given.list("sizelist")? {
        Some(sizes) => sizes,
        None => {
            let start = given.number("size", 0, 0)?.unwrap_or(0);
            let end: usize = given.number("size", 1, 0)?.unwrap_or(1024);
            let stride = given.number("size", 2, 1)?.unwrap_or(256);
            if end < start {
                return Err(Failure::BadOption(format!("-size: {end} is below {start}")));
            }
            (start..=end).step_by(stride).collect()
        }
    };
    sizes.sort_unstable();
    sizes.dedup();
    // A barrier has no size.
    Ok(if kind == Kind::Barrier { vec![0] } else { sizes })
}

impl Options {
    pub fn check_processes(&self, processes: i32) -> Result<(), Failure> {
        match self.root {
            Some(root) if root >= processes => Err(Failure::BadOption(format!(
                "-root: there is no process {root} among {processes}"
            ))),
            _ => Ok(()),
        }
    }

    /// `resolution_seconds` is the clock's.
    pub fn policy(&self, resolution_seconds: f64) -> Policy {
        let least = RESOLUTIONS * resolution_seconds;
        Policy {
            repetitions: self.repetitions,
            sample_seconds: self.sample_seconds.unwrap_or(0.0).max(least),
            threshold: self.threshold,
            smoothing_passes: self.smoothing_passes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<Options, Failure> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&arguments)? {
            Parsed::Options(options) => Ok(*options),
            Parsed::Text(text) => panic!("{text}"),
        }
    }

    #[test]
    fn defaults_are_the_originals() {
        let found = options("").unwrap();
        assert_eq!(found.sizes, [0, 256, 512, 768, 1024]);
        assert_eq!((found.repetitions, found.threshold), (50, 0.05));
        assert!((found.policy(1e-6).sample_seconds - 1e-4).abs() < 1e-12);
    }

    #[test]
    fn automatic_repetitions_grow_from_one_to_the_goal() {
        let found = options("-autoreps").unwrap();
        assert_eq!((found.repetitions, found.policy(1e-9).sample_seconds), (1, 1.0));
        assert_eq!(options("-tgoal 0.1").unwrap().policy(1e-9).sample_seconds, 0.1);
    }

    #[test]
    fn sizes_are_sorted_and_a_barrier_has_none() {
        assert_eq!(options("-sizelist 9,1,9,3").unwrap().sizes, [1, 3, 9]);
        assert_eq!(options("-size 10 30 10").unwrap().sizes, [10, 20, 30]);
        assert_eq!(options("-sync").unwrap().sizes, [0]);
    }

    #[test]
    fn every_error_names_its_option() {
        for (line, name) in [
            ("-bogus", "-bogus"),
            ("-size 1 2", "-size"),
            ("-size 5 2 1", "-size"),
            ("-size 0 2 0", "-size"),
            ("-sizelist a", "-sizelist"),
            ("-reps 0", "-reps"),
            ("-rthresh x", "-rthresh"),
            ("-head -bcast", "-bcast"),
            ("-bcastwith native", "-bcastwith"),
            ("-bcast -bcastwith magic", "-bcastwith"),
            ("-bcast -perproc", "-perproc"),
            ("-bcastleaf", "-bcastleaf"),
            ("-gnuplot", "-gnuplot"),
            ("-plot x.pdf", "-plot"),
            ("-format xml", "-format"),
        ] {
            let failure = options(line).unwrap_err();
            assert_eq!(failure.exit_code(), 2, "{line}");
            assert!(failure.to_string().contains(name), "{line}: {failure}");
        }
        let both = options("-bcast -bcastwith both").unwrap().broadcasts;
        assert_eq!(both, [BroadcastChoice::Native, BroadcastChoice::Arborcast]);
        assert!(options("-bcast -root 4").unwrap().check_processes(4).is_err());
    }
}
