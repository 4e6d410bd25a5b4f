//! Options of goptest: those of perftest, and ours.

use super::sweep::{Policy, RESOLUTIONS};
use crate::measure::command_line::{self, List, Parsed, at_least, with_two_dashes};
use crate::measure::failure::Failure;
use crate::measure::plot;
use crate::measure::report::Format;
use clap::{ArgAction, Args, Parser, ValueEnum};
use std::path::PathBuf;

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    RoundTrip,
    HeadToHead,
    BroadcastRound,
    Acker,
    LeafAck,
    Scatter,
    Barrier,
    IntegerSum,
    DoubleSum,
}

impl Kind {
    /// Its option.
    pub fn name(self) -> &'static str {
        match self {
            Self::RoundTrip => "roundtrip",
            Self::HeadToHead => "head",
            Self::BroadcastRound => "bcast",
            Self::Acker => "bcastalt",
            Self::LeafAck => "bcastleaf",
            Self::Scatter => "scatter",
            Self::Barrier => "sync",
            Self::IntegerSum => "isum",
            Self::DoubleSum => "dsum",
        }
    }

    /// Bytes of one unit of size.
    pub fn unit_bytes(self) -> usize {
        match self {
            Self::RoundTrip | Self::HeadToHead | Self::Barrier => 1,
            Self::BroadcastRound
            | Self::Acker
            | Self::LeafAck
            | Self::Scatter
            | Self::IntegerSum => 4,
            Self::DoubleSum => 8,
        }
    }

    pub fn is_broadcast(self) -> bool {
        matches!(self, Self::BroadcastRound | Self::Acker | Self::LeafAck)
    }

    pub fn is_between_partners(self) -> bool {
        matches!(self, Self::RoundTrip | Self::HeadToHead)
    }
}

/// Whom a receive names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveFrom {
    Partner,
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    Blocking,
    NonBlocking,
}

/// Which broadcast is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BroadcastChoice {
    Native,
    Arborcast,
    Flat,
    Chain,
    Binomial,
}

/// How long messages and collective operations take, over message sizes.
///
/// Times are in microseconds in the original format. The time of a size is the least of several
/// samples, each the mean of many repetitions. The name of an option may have one dash or two.
#[derive(Debug, Parser)]
#[command(
    name = "goptest",
    version,
    max_term_width = 100,
    args_override_self = true,
    override_usage = "mpirun -n N goptest [-OPERATION] [options]"
)]
struct CommandLine {
    #[command(flatten)]
    operation: OperationFlags,
    /// Receive from any source (with -roundtrip and -head; default: the specified one)
    #[arg(long)]
    anysource: bool,
    /// Non-blocking calls (with -roundtrip and -head; default: blocking)
    #[arg(long = "async")]
    non_blocking: bool,
    /// The broadcasts of -bcast, -bcastalt and -bcastleaf, one after the other: native (MPI_Bcast,
    /// default), arborcast (with the plan of the root's daemon), flat, chain, binomial (that tree,
    /// run by Arborcast's engine without a daemon); both means native,arborcast
    #[arg(long, value_name = "NAME,NAME,...", value_parser = broadcasts)]
    bcastwith: Option<Broadcasts>,
    /// Root of -bcastalt (default 0), or of every broadcast of -bcast
    #[arg(long, value_name = "RANK", value_parser = clap::value_parser!(i32).range(0..))]
    root: Option<i32>,
    /// Sizes from START to END inclusive, STRIDE apart, in the unit of the operation
    #[arg(
        long,
        num_args = 3,
        value_names = ["START", "END", "STRIDE"],
        default_values = ["0", "1024", "256"],
        action = ArgAction::Set
    )]
    size: Vec<usize>,
    /// These sizes instead
    #[arg(long, value_name = "N,N,...")]
    sizelist: Option<List>,
    /// Repetitions in one sample (default 50); doubled where a sample would be shorter than 100
    /// times the clock's resolution
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    reps: Option<u64>,
    /// Double the repetitions, from 1, until a sample lasts -tgoal
    #[arg(long)]
    autoreps: bool,
    /// Least duration of a sample (default 1.0); implies -autoreps
    #[arg(long, value_name = "SECONDS", value_parser = at_least(0.0))]
    tgoal: Option<f64>,
    /// Samples end once 3 lie within this part of the least, at most 30
    #[arg(long, value_name = "PART", default_value = "0.05", value_parser = at_least(0.0))]
    rthresh: f64,
    /// Passes in which sizes more than 10 % off the line between their neighbours are measured
    /// again; 0 for none
    #[arg(long, value_name = "PASSES", default_value_t = 3)]
    smooth: usize,
    /// List the time of each process too (with -bcastalt)
    #[arg(long)]
    perproc: bool,
    /// Append the results to FILE (default: standard output)
    #[arg(long, value_name = "FILE")]
    fname: Option<PathBuf>,
    /// Write commands for gnuplot into FILE.gpl (with -fname and the original format)
    #[arg(long)]
    gnuplot: bool,
    /// No comment lines on how it was measured
    #[arg(long)]
    noinfo: bool,
    /// No header
    #[arg(long)]
    nohead: bool,
    /// No comment lines after the results on what was measured again
    #[arg(long)]
    notail: bool,
    /// Title of the results
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Format of the results; times in CSV and JSON are in seconds
    #[arg(long, value_enum, default_value_t = Format::Original)]
    format: Format,
    /// Draw time against size into FILE (.svg)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
struct OperationFlags {
    /// There and back between the first and the last process; sizes in bytes, time of the whole
    /// round
    #[arg(long)]
    roundtrip: bool,
    /// Head to head: both send, then both receive; sizes in bytes. Above 1024 bytes, where an MPI
    /// need not buffer a blocking send, the send is non-blocking
    #[arg(long)]
    head: bool,
    /// Broadcast round: each process is root in turn (with -root, always the same); sizes in
    /// integers of 4 bytes; time of one broadcast
    #[arg(long)]
    bcast: bool,
    /// Broadcast with ACKer (de Supinski and Karonis): for each process, repeated broadcasts each
    /// acknowledged by it, less the latency of an empty message; sizes in integers of 4 bytes; the
    /// result is the slowest process's time
    #[arg(long)]
    bcastalt: bool,
    /// Broadcast until the root has the ACK of each leaf of the tree, which is included; not with
    /// native; sizes in integers of 4 bytes
    #[arg(long)]
    bcastleaf: bool,
    /// Scatter from process 0; sizes in integers of 4 bytes a process
    #[arg(long)]
    scatter: bool,
    /// Barrier
    #[arg(long)]
    sync: bool,
    /// Sum of integers over all processes, result everywhere; sizes in integers of 4 bytes
    #[arg(long)]
    isum: bool,
    /// As -isum, sizes in doubles of 8 bytes (default operation)
    #[arg(long)]
    dsum: bool,
}

impl OperationFlags {
    fn kind(&self) -> Kind {
        let given = [
            (self.roundtrip, Kind::RoundTrip),
            (self.head, Kind::HeadToHead),
            (self.bcast, Kind::BroadcastRound),
            (self.bcastalt, Kind::Acker),
            (self.bcastleaf, Kind::LeafAck),
            (self.scatter, Kind::Scatter),
            (self.sync, Kind::Barrier),
            (self.isum, Kind::IntegerSum),
        ];
        given.iter().find(|(given, _)| *given).map_or(Kind::DoubleSum, |(_, kind)| *kind)
    }
}

#[derive(Debug, Clone)]
struct Broadcasts(Vec<BroadcastChoice>);

fn broadcasts(text: &str) -> Result<Broadcasts, String> {
    let names = if text == "both" { "native,arborcast" } else { text };
    let chosen: Result<Vec<_>, _> =
        names.split(',').map(|name| BroadcastChoice::from_str(name, false)).collect();
    chosen.map(Broadcasts).map_err(|_| {
        "want a list of native, arborcast, flat, chain and binomial, or both".to_owned()
    })
}

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

/// Reads the arguments after the program's name.
pub fn parse(arguments: &[String]) -> Result<Parsed<Options>, Failure> {
    Ok(match command_line::parse(with_two_dashes(arguments))? {
        Parsed::Options(line) => Parsed::Options(Options::checked(line)?),
        Parsed::Text(text) => Parsed::Text(text),
    })
}

fn sizes_of(line: &CommandLine) -> Result<Vec<usize>, Failure> {
    let mut sizes = match (&line.sizelist, &line.size[..]) {
        // A barrier has no size.
        _ if line.operation.sync => vec![0],
        (Some(List(sizes)), _) => sizes.clone(),
        (None, [start, end, stride]) if start <= end && *stride > 0 => {
            (*start..=*end).step_by(*stride).collect()
        }
        (None, size) => {
            let text = format!("-size: {size:?} is not a start, an end above it and a stride");
            return Err(Failure::BadOption(text));
        }
    };
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

impl Options {
    fn checked(line: CommandLine) -> Result<Self, Failure> {
        let kind = line.operation.kind();
        let wrong = |text: &str| Err(Failure::BadOption(text.to_owned()));
        if line.bcastwith.is_some() && !kind.is_broadcast() {
            return wrong("-bcastwith: only with -bcast, -bcastalt and -bcastleaf");
        }
        if line.perproc && kind != Kind::Acker {
            return wrong("-perproc: only with -bcastalt");
        }
        if line.gnuplot && (line.fname.is_none() || line.format != Format::Original) {
            return wrong("-gnuplot: needs -fname and the original format");
        }
        if let Some(path) = &line.plot {
            plot::check_path("-plot", path)?;
        }
        let sizes = sizes_of(&line)?;
        let broadcasts = line.bcastwith.map_or(vec![BroadcastChoice::Native], |chosen| chosen.0);
        if kind == Kind::LeafAck && broadcasts.contains(&BroadcastChoice::Native) {
            return wrong("-bcastleaf: the native broadcast has no leaf ACKs; choose -bcastwith");
        }
        let automatic = line.autoreps || line.tgoal.is_some();
        Ok(Self {
            kind,
            source: if line.anysource { ReceiveFrom::Any } else { ReceiveFrom::Partner },
            calls: if line.non_blocking { Calls::NonBlocking } else { Calls::Blocking },
            broadcasts,
            root: line.root,
            sizes,
            repetitions: line.reps.unwrap_or(if automatic { 1 } else { 50 }),
            sample_seconds: automatic.then_some(line.tgoal.unwrap_or(1.0)),
            threshold: line.rthresh,
            smoothing_passes: line.smooth,
            per_process: line.perproc,
            file: line.fname,
            gnuplot: line.gnuplot,
            info: !line.noinfo,
            head: !line.nohead,
            tail: !line.notail,
            title: line.title,
            format: line.format,
            plot: line.plot,
        })
    }

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
            Parsed::Options(options) => Ok(options),
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
