//! What a run is asked to do, checked.

use super::command::{BroadcastChoice, CommandLine, OperationFlags, ProcessSet};
use super::graph::{Graph, Program};
use super::kind::{Calls, Kind, ReceiveFrom};
use super::refinement::{Refinement, first_sizes};
use super::refused;
use super::sweep::{Policy, RESOLUTIONS};
use crate::measure::command_line::{self, List, Parsed, with_two_dashes};
use crate::measure::failure::Failure;
use crate::measure::plot;
use crate::measure::report::Format;
use std::path::PathBuf;

#[derive(Debug, Clone)]
pub struct Options {
    pub kind: Kind,
    pub source: ReceiveFrom,
    pub calls: Calls,
    /// One after the other.
    pub broadcasts: Vec<BroadcastChoice>,
    pub root: Option<i32>,
    /// Rounds of empty messages that the ACKer method takes off.
    pub subtracted_rounds: f64,
    pub process_set: Option<ProcessSet>,
    /// In the unit of the operation, increasing; with a refinement, those to begin with.
    pub sizes: Vec<usize>,
    pub refinement: Option<Refinement>,
    pub repetitions: u64,
    /// Least seconds of a sample, where the user set one.
    pub sample_seconds: Option<f64>,
    pub threshold: f64,
    pub most_samples: usize,
    pub smoothing_passes: usize,
    pub per_process: bool,
    pub file: Option<PathBuf>,
    pub graph: Graph,
    pub head: bool,
    pub tail: bool,
    pub title: Option<String>,
    pub format: Format,
    pub plot: Option<PathBuf>,
}

/// Reads the arguments after the program's name.
pub fn parse(arguments: &[String]) -> Result<Parsed<Options>, Failure> {
    let arguments = with_two_dashes(arguments);
    refused::check(&arguments)?;
    Ok(match command_line::parse(arguments)? {
        Parsed::Options(line) => Parsed::Options(Options::checked(line)?),
        Parsed::Text(text) => Parsed::Text(text),
    })
}

fn wrong<T>(text: &str) -> Result<T, Failure> {
    Err(Failure::BadOption(text.to_owned()))
}

fn kind_of(flags: &OperationFlags) -> Result<Kind, Failure> {
    let partners = flags.roundtrip || flags.head;
    let given: Vec<Kind> = [
        (flags.roundtrip, Kind::RoundTrip),
        (flags.head, Kind::HeadToHead),
        (flags.bcast, Kind::BroadcastRound),
        (flags.bcastalt, Kind::Acker),
        (flags.bcastleaf, Kind::LeafAck),
        (flags.colx, Kind::Gather),
        (flags.mpiscatter, Kind::Scatter),
        (flags.sync && !partners, Kind::Barrier),
        (flags.isum, Kind::IntegerSum),
        (flags.dsum, Kind::DoubleSum),
    ]
    .into_iter()
    .filter_map(|(given, kind)| given.then_some(kind))
    .collect();
    match given[..] {
        [] => Ok(Kind::Barrier),
        [kind] => Ok(kind),
        [one, other, ..] => {
            wrong(&format!("-{} and -{}: one operation at a time", one.name(), other.name()))
        }
    }
}

/// Start, end and stride.
fn range_of(line: &CommandLine, kind: Kind) -> Result<[usize; 3], Failure> {
    let default = match kind {
        _ if line.logscale => [4, 128 << 10, 1],
        Kind::RoundTrip | Kind::HeadToHead => [0, 1024, 32],
        Kind::Barrier if line.operation.sync => [0, 0, 1],
        _ => [0, 1024, 256],
    };
    match line.size.as_deref() {
        None => Ok(default),
        Some(&[start, end, stride]) if start <= end && stride > 0 => Ok([start, end, stride]),
        Some(size) => {
            wrong(&format!("-size: {size:?} is not a start, an end not below it and a stride"))
        }
    }
}

fn sizes_of(line: &CommandLine, kind: Kind) -> Result<Vec<usize>, Failure> {
    let [start, end, stride] = range_of(line, kind)?;
    let mut sizes = match &line.sizelist {
        Some(List(sizes)) => sizes.clone(),
        None if line.auto => first_sizes(start, end),
        None if line.logscale => {
            let doubled = std::iter::successors(Some(if start == 0 { 4 } else { start }), |size| {
                size.checked_mul(2)
            });
            let zero = (start == 0).then_some(0);
            zero.into_iter().chain(doubled.take_while(|size| *size <= end)).collect()
        }
        None => (start..=end).step_by(stride).collect(),
    };
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

impl Options {
    fn checked(line: CommandLine) -> Result<Self, Failure> {
        let kind = kind_of(&line.operation)?;
        let partners = kind.is_between_partners();
        for (given, allowed, text) in [
            (
                line.bcastwith.is_some(),
                kind.is_broadcast(),
                "-bcastwith: only with -bcast, -bcastalt and -bcastleaf",
            ),
            (
                line.root.is_some(),
                kind.is_broadcast(),
                "-root: only with -bcast, -bcastalt and -bcastleaf",
            ),
            (line.perproc, kind == Kind::Acker, "-perproc: only with -bcastalt"),
            (line.wholeround, kind == Kind::Acker, "-wholeround: only with -bcastalt"),
            (line.anysource, partners, "-anysource: only with -roundtrip and -head"),
            (line.specified, partners, "-specified: only with -roundtrip and -head"),
            (line.non_blocking, partners, "-async: only with -roundtrip and -head"),
            (
                line.auto,
                partners || line.format != Format::Original,
                "-auto: only with -roundtrip and -head, whose results name their sizes, or with \
                 -format csv or json",
            ),
        ] {
            if given && !allowed {
                return wrong(text);
            }
        }
        if let Some(path) = &line.plot {
            plot::check_path("-plot", path)?;
        }
        let graph = Graph::checked(&line, kind)?;
        let (sizes, refinement) = (sizes_of(&line, kind)?, refinement_of(&line));
        let broadcasts = line.bcastwith.map_or(vec![BroadcastChoice::Native], |chosen| chosen.0);
        if kind == Kind::LeafAck && broadcasts.contains(&BroadcastChoice::Native) {
            return wrong("-bcastleaf: the native broadcast has no leaf ACKs; choose -bcastwith");
        }
        let automatic = line.autoreps || line.tgoal.is_some();
        let repetitions = match (automatic, line.autoavg) {
            (true, _) => 1,
            (_, true) => 5,
            _ => 50,
        };
        Ok(Self {
            kind,
            source: if line.specified { ReceiveFrom::Partner } else { ReceiveFrom::Any },
            calls: if line.non_blocking { Calls::NonBlocking } else { Calls::Blocking },
            broadcasts,
            root: line.root,
            subtracted_rounds: if line.wholeround { 1.0 } else { 0.5 },
            process_set: line.pset,
            sizes,
            refinement,
            repetitions: line.reps.unwrap_or(repetitions),
            sample_seconds: automatic.then_some(line.tgoal.unwrap_or(1.0)),
            threshold: line.rthresh,
            most_samples: line.most_samples as usize,
            smoothing_passes: line.smooth,
            per_process: line.perproc,
            file: line.fname,
            graph,
            head: !line.nohead && !line.noinfo,
            tail: !line.notail && !line.noinfo,
            title: line.title,
            format: line.format,
            plot: line.plot,
        })
    }

    pub fn check_processes(&self, processes: i32) -> Result<(), Failure> {
        let taking_part = match self.process_set {
            Some(set) if set.last >= processes => {
                return wrong(&format!("-pset: there is no process {} of {processes}", set.last));
            }
            Some(set) => set.last - set.first + 1,
            None => processes,
        };
        match self.root {
            Some(root) if root >= taking_part => {
                wrong(&format!("-root: there is no process {root} among {taking_part}"))
            }
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
            most_samples: self.most_samples,
            refinement: self.refinement.clone(),
            smoothing_passes: self.smoothing_passes,
        }
    }

    /// Where results go that gnuplot is to read.
    pub fn gnuplot_results(&self) -> Option<PathBuf> {
        (self.graph.program == Program::Gnuplot).then(|| match &self.file {
            Some(path) => path.with_extension("gpl"),
            None => PathBuf::from("mppout.gpl"),
        })
    }

    /// How partners exchange a message of this size.
    pub fn calls_at(&self, size: usize) -> Option<Calls> {
        self.kind.is_between_partners().then(|| self.calls.at(self.kind, size))
    }
}

fn refinement_of(line: &CommandLine) -> Option<Refinement> {
    line.auto.then(|| Refinement {
        least_step: line.autodx.unwrap_or(4).max(1),
        tolerance: line.autorel.unwrap_or(0.02),
    })
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
        assert_eq!((found.kind, found.source), (Kind::Barrier, ReceiveFrom::Any));
        assert_eq!(found.sizes, [0, 256, 512, 768, 1024]);
        assert_eq!((found.repetitions, found.threshold, found.most_samples), (50, 0.05, 30));
        assert!((found.policy(1e-6).sample_seconds - 1e-4).abs() < 1e-12);
        let pair = options("-roundtrip").unwrap();
        assert_eq!((pair.sizes.len(), pair.sizes[1]), (33, 32));
        let auto = options("-roundtrip -auto").unwrap().refinement;
        assert_eq!(auto, Some(Refinement { least_step: 4, tolerance: 0.02 }));
        assert_eq!(options("-bcastalt").unwrap().subtracted_rounds, 0.5);
    }

    #[test]
    fn automatic_repetitions_grow_from_one_to_the_goal() {
        let found = options("-autoreps").unwrap();
        assert_eq!((found.repetitions, found.policy(1e-9).sample_seconds), (1, 1.0));
        assert_eq!(options("-tgoal 0.1").unwrap().policy(1e-9).sample_seconds, 0.1);
        assert_eq!(options("-head -quick").unwrap().repetitions, 5);
        assert_eq!(options("-head -n_avg 7").unwrap().repetitions, 7);
    }

    #[test]
    fn sizes_are_sorted_and_begin_as_the_originals() {
        let sizes = |line: &str| options(line).unwrap().sizes;
        assert_eq!(sizes("-sizelist 9,1,9,3"), [1, 3, 9]);
        assert_eq!(sizes("-size 10 30 10"), [10, 20, 30]);
        assert_eq!(sizes("-sync"), [0]);
        assert_eq!(sizes("-sync -sizelist 1,2"), [1, 2]);
        assert_eq!(sizes("-logscale -head").len(), 16);
        assert_eq!(sizes("-logscale -head -size 0 40 1"), [0, 4, 8, 16, 32]);
        assert_eq!(sizes("-auto -head -size 0 64 1").len(), 33);
    }

    #[test]
    fn sync_beside_partners_asks_for_blocking_calls() {
        let found = options("-head -sync").unwrap();
        assert_eq!((found.kind, found.calls), (Kind::HeadToHead, Calls::Blocking));
        assert_eq!(options("-scatter").unwrap().kind, Kind::BroadcastRound);
        assert_eq!(options("-colxex").unwrap().kind, Kind::Gather);
    }

    #[test]
    fn gnuplot_finds_the_results_beside_the_commands() {
        let results = |line: &str| options(line).unwrap().gnuplot_results();
        assert_eq!(results("-dsum -fname x"), None);
        assert_eq!(results("-gnuplot"), Some("mppout.gpl".into()));
        assert_eq!(results("-gnuplot -fname a.b/run"), Some("a.b/run.gpl".into()));
        assert_eq!(results("-gnuploteps -fname run.mpl"), Some("run.gpl".into()));
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
            ("-roundtrip -head", "-head"),
            ("-head -async -sync", "-sync"),
            ("-dsum -async", "-async"),
            ("-head -anysource -specified", "-specified"),
            ("-bcastwith native", "-bcastwith"),
            ("-bcast -bcastwith magic", "-bcastwith"),
            ("-dsum -root 1", "-root"),
            ("-bcast -perproc", "-perproc"),
            ("-bcast -wholeround", "-wholeround"),
            ("-bcastleaf", "-bcastleaf"),
            ("-bcast -auto", "-auto"),
            ("-autodx 8", "-auto"),
            ("-pset 3-1", "-pset"),
            ("-pset 2", "-pset"),
            ("-gnuplot -cit", "-cit"),
            ("-gnuplot -fname x.gpl", "-fname"),
            ("-gnuplot -format csv", "-gnuplot"),
            ("-gnuplot -wx 1 2", "-wx"),
            ("-wx 3 2", "-wx"),
            ("-givedy", "-givedy"),
            ("-bcast -rate", "-rate"),
            ("-plot x.pdf", "-plot"),
            ("-format xml", "-format"),
            ("-halo", "-halo"),
        ] {
            let failure = options(line).unwrap_err();
            assert_eq!(failure.exit_code(), 2, "{line}");
            assert!(failure.to_string().contains(name), "{line}: {failure}");
        }
        let both = options("-bcast -bcastwith both").unwrap().broadcasts;
        assert_eq!(both, [BroadcastChoice::Native, BroadcastChoice::Arborcast]);
        assert!(options("-bcast -root 4").unwrap().check_processes(4).is_err());
        assert!(options("-bcast -root 2 -pset 1-2").unwrap().check_processes(4).is_err());
        assert!(options("-pset 1-4").unwrap().check_processes(4).is_err());
        assert!(options("-pset 1-3").unwrap().check_processes(4).is_ok());
    }
}
