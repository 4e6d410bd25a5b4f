//! The command line of goptest: options of the original's goptest and mpptest, and ours.

use crate::measure::command_line::{List, at_least};
use crate::measure::report::Format;
use clap::{Args, Parser, ValueEnum};
use std::path::PathBuf;

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
pub struct CommandLine {
    #[command(flatten)]
    pub operation: OperationFlags,
    /// Receive from any source (with -roundtrip and -head; default)
    #[arg(long, conflicts_with = "specified")]
    pub anysource: bool,
    /// Receive from the partner by name (with -roundtrip and -head)
    #[arg(long)]
    pub specified: bool,
    /// Post each receive before the send (with -roundtrip and -head; default: blocking, -sync)
    #[arg(long = "async", conflicts_with = "sync")]
    pub non_blocking: bool,
    /// The broadcasts of -bcast, -bcastalt and -bcastleaf, one after the other: native (MPI_Bcast,
    /// default), arborcast (with the plan of the root's daemon), flat, chain, binomial (that tree,
    /// run by Arborcast's engine without a daemon); both means native,arborcast
    #[arg(long, value_name = "NAME,NAME,...", value_parser = broadcasts)]
    pub bcastwith: Option<Broadcasts>,
    /// Root of -bcastalt and -bcastleaf (default 0), or of every broadcast of -bcast
    #[arg(long, value_name = "RANK", value_parser = clap::value_parser!(i32).range(0..))]
    pub root: Option<i32>,
    /// Take off a whole round of empty messages, as published, and not half of one (with -bcastalt)
    #[arg(long)]
    pub wholeround: bool,
    /// Only the processes from FIRST to LAST take part
    #[arg(long, value_name = "FIRST-LAST", value_parser = process_set)]
    pub pset: Option<ProcessSet>,
    /// Sizes from START to END inclusive, STRIDE apart, in the unit of the operation (default: 0 1024
    /// 256; with -roundtrip and -head 0 1024 32; with -sync 0)
    #[arg(long, num_args = 3, value_names = ["START", "END", "STRIDE"])]
    pub size: Option<Vec<usize>>,
    /// These sizes instead
    #[arg(long, value_name = "N,N,...")]
    pub sizelist: Option<List>,
    /// Sizes that double, from the START to the END of -size (default 4 to 131072); logarithmic axes
    #[arg(long, conflicts_with = "sizelist")]
    pub logscale: bool,
    /// Sizes chosen automatically from START to END: 32 intervals, halved where times leave the
    /// straight line (with -roundtrip and -head, or -format csv or json)
    #[arg(long, conflicts_with_all = ["sizelist", "logscale"])]
    pub auto: bool,
    /// Least difference of two sizes (with -auto; default 4)
    #[arg(long, value_name = "N", requires = "auto")]
    pub autodx: Option<usize>,
    /// Part of the time beyond which it is off the line (with -auto; default 0.02)
    #[arg(long, value_name = "PART", requires = "auto", value_parser = at_least(0.0))]
    pub autorel: Option<f64>,
    /// Repetitions in one sample (default 50); doubled where a sample would be shorter than 100
    /// times the clock's resolution
    #[arg(long, value_name = "N", alias = "n_avg", value_parser = clap::value_parser!(u64).range(1..))]
    pub reps: Option<u64>,
    /// Double the repetitions, from 1, until a sample lasts -tgoal
    #[arg(long)]
    pub autoreps: bool,
    /// As -reps 5; also -quick and -fast
    #[arg(long, aliases = ["quick", "fast"], conflicts_with_all = ["autoreps", "tgoal"])]
    pub autoavg: bool,
    /// Least duration of a sample (default 1.0); implies -autoreps
    #[arg(long, value_name = "SECONDS", value_parser = at_least(0.0))]
    pub tgoal: Option<f64>,
    /// Samples of a size end once 3 after the fourth lie within this part of the least
    #[arg(long, value_name = "PART", default_value = "0.05", value_parser = at_least(0.0))]
    pub rthresh: f64,
    /// Samples of a size, at most
    #[arg(
        long = "sample_reps",
        value_name = "N",
        default_value_t = 30,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub most_samples: u32,
    /// Passes in which sizes more than 10 % off the line between their neighbours are measured
    /// again; 0 for none
    #[arg(long, value_name = "PASSES", default_value_t = 4)]
    pub smooth: usize,
    /// List the time of each process too (with -bcastalt)
    #[arg(long)]
    pub perproc: bool,
    /// Append the results to FILE (default: standard output)
    #[arg(long, value_name = "FILE")]
    pub fname: Option<PathBuf>,
    #[command(flatten)]
    pub graph: GraphFlags,
    /// Results alone: as -nohead and -notail
    #[arg(long)]
    pub noinfo: bool,
    /// Nothing before the results: no commands, comments and names of columns
    #[arg(long)]
    pub nohead: bool,
    /// Nothing after the results: no commands and comments
    #[arg(long)]
    pub notail: bool,
    /// Title of the results
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Format of the results; times in CSV and JSON are in seconds, of the whole round
    #[arg(long, value_enum, default_value_t = Format::Original)]
    pub format: Format,
    /// Draw time against size into FILE (.svg)
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// One of them; -sync may stand beside -roundtrip or -head, where it asks for blocking calls.
#[derive(Debug, Args)]
pub struct OperationFlags {
    /// There and back between the first and the last process; sizes in bytes; half of the round, and
    /// the bytes of both directions a second
    #[arg(long)]
    pub roundtrip: bool,
    /// Head to head: both send, then both receive; sizes in bytes; half of the round, and the bytes
    /// of both directions a second. Above 1024 bytes, where an MPI need not buffer a blocking send,
    /// as with -async
    #[arg(long)]
    pub head: bool,
    /// Broadcast round: each process is root in turn (with -root, always the same); sizes in bytes;
    /// time of one broadcast; also -scatter
    #[arg(long, alias = "scatter")]
    pub bcast: bool,
    /// Broadcast with ACKer (de Supinski and Karonis): for each process, repeated broadcasts each
    /// acknowledged by it, less the latency of an empty message; sizes in integers of 4 bytes; the
    /// result is the slowest process's time
    #[arg(long)]
    pub bcastalt: bool,
    /// Broadcast until the root has the ACK of each leaf of the tree, which is included; not with
    /// native; sizes in integers of 4 bytes
    #[arg(long)]
    pub bcastleaf: bool,
    /// Gather, each process root in turn; sizes in bytes a process; also -colxex
    #[arg(long, alias = "colxex")]
    pub colx: bool,
    /// Scatter (MPI_Scatter) from process 0; sizes in integers of 4 bytes a process
    #[arg(long)]
    pub mpiscatter: bool,
    /// Barrier (default operation)
    #[arg(long)]
    pub sync: bool,
    /// Sum of integers over all processes, result everywhere; sizes in integers of 4 bytes
    #[arg(long)]
    pub isum: bool,
    /// As -isum, sizes in doubles of 8 bytes
    #[arg(long)]
    pub dsum: bool,
}

/// What the original format holds beside times.
#[derive(Debug, Args)]
pub struct GraphFlags {
    /// Commands of the plotting program C.It around the results (default)
    #[arg(long)]
    pub cit: bool,
    /// Commands for gnuplot into the file of -fname (default: standard output), results into that
    /// file's name with the extension .gpl (default: mppout.gpl); both are appended to
    #[arg(long, conflicts_with = "cit")]
    pub gnuplot: bool,
    /// As -gnuplot; gnuplot writes Encapsulated PostScript
    #[arg(long, conflicts_with_all = ["cit", "gnuplotps", "gnuplotgif"])]
    pub gnuploteps: bool,
    /// As -gnuplot; gnuplot writes PostScript
    #[arg(long, conflicts_with_all = ["cit", "gnuplotgif"])]
    pub gnuplotps: bool,
    /// As -gnuplot; gnuplot writes GIF
    #[arg(long, conflicts_with = "cit")]
    pub gnuplotgif: bool,
    /// Columns for the mean, least and greatest time (with -roundtrip and -head)
    #[arg(long)]
    pub givedy: bool,
    /// Draw the rate and not the time (with -roundtrip and -head)
    #[arg(long)]
    pub rate: bool,
    /// Comment lines with the straight line through the times
    #[arg(long)]
    pub fit: bool,
    /// C.It's window I of N across
    #[arg(long, num_args = 2, value_names = ["I", "N"])]
    pub wx: Option<Vec<u32>>,
    /// C.It's window I of N downwards
    #[arg(long, num_args = 2, value_names = ["I", "N"])]
    pub wy: Option<Vec<u32>>,
    /// The last window of C.It's page, which ends it
    #[arg(long)]
    pub lastwindow: bool,
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

#[derive(Debug, Clone)]
pub struct Broadcasts(pub Vec<BroadcastChoice>);

fn broadcasts(text: &str) -> Result<Broadcasts, String> {
    let names = if text == "both" { "native,arborcast" } else { text };
    let chosen: Result<Vec<_>, _> =
        names.split(',').map(|name| BroadcastChoice::from_str(name, false)).collect();
    chosen.map(Broadcasts).map_err(|_| {
        "want a list of native, arborcast, flat, chain and binomial, or both".to_owned()
    })
}

/// Ranks of the job, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessSet {
    pub first: i32,
    pub last: i32,
}

fn process_set(text: &str) -> Result<ProcessSet, String> {
    let ranks = text.split_once('-').and_then(|(first, last)| {
        Some(ProcessSet { first: first.parse().ok()?, last: last.parse().ok()? })
    });
    ranks
        .filter(|set| set.first >= 0 && set.first < set.last)
        .ok_or_else(|| "want two ranks, such as 0-3, the second above the first".to_owned())
}
