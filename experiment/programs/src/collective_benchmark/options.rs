//! Options of mpi_collective_benchmark: `-key value` on the command line or `key = value` in
//! `options.ini`; the command line wins.

use super::ini;
use super::method::{ELEMENT_BYTES, Method, Start};
use crate::measure::command_line::{self, List, Parsed, with_two_dashes};
use crate::measure::failure::Failure;
use crate::measure::plot;
use crate::measure::report::Format;
use clap::{ArgAction, CommandFactory, Parser, ValueEnum};
use std::path::PathBuf;

/// Read in the working folder of process 0, where it is there.
pub const OPTIONS_FILE: &str = "options.ini";

/// Overlap of computation and communication at MPI collective operations.
///
/// The options may also stand as `key = value` in options.ini; their names may have one dash or two.
/// Times are in seconds. NB_sleep and NB_active are the times of the call without work between its
/// start and its completion; avail is the part of them that was left for work.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "mpi_collective_benchmark",
    version,
    max_term_width = 100,
    args_override_self = true,
    override_usage = "mpirun -n N mpi_collective_benchmark [-key value ...]"
)]
pub struct Options {
    /// The operation
    #[arg(long, value_enum, default_value_t = Method::Allreduce)]
    method: Method,
    /// Iterations of which each time is the mean
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: u64,
    /// 1: all methods, one after the other
    #[arg(long = "allMethods", value_name = "0|1", default_value = "0", value_parser = is_one, action = ArgAction::Set)]
    all_methods: bool,
    /// Processes of the first communicator, which is then doubled; last comes the whole (default:
    /// the whole alone)
    #[arg(long = "startSize", value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub start_size: Option<i32>,
    /// Not 0: print each step of the search for the overhead
    #[arg(long, value_name = "0|1", default_value = "0", value_parser = is_not_zero, action = ArgAction::Set)]
    pub verbose: bool,
    /// The work is long enough when an iteration takes this many times the call without work
    #[arg(long, value_name = "FACTOR", default_value = "2.0", value_parser = above_zero)]
    pub threshold: f64,
    /// Not 0: no header
    #[arg(long, value_name = "0|1", default_value = "0", value_parser = is_not_zero, action = ArgAction::Set)]
    pub nohdr: bool,
    /// Not 0: two more columns of the original's format, the seconds that the call adds to the work
    #[arg(long, value_name = "0|1", default_value = "0", value_parser = is_not_zero, action = ArgAction::Set)]
    pub overhead: bool,
    /// From when an iteration is timed
    #[arg(long, value_enum, default_value_t = Start::Barrier)]
    pub start: Start,
    /// Bytes that each process sends or receives, multiples of 4: one integer
    #[arg(long, value_name = "N,N,...", default_value = "4", value_parser = whole_elements)]
    bytes: List,
    /// Format of the results; all times are in seconds
    #[arg(long, value_enum, default_value_t = Format::Original)]
    pub format: Format,
    /// Write the results to FILE (default: standard output)
    #[arg(long = "fname", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Draw the times into FILE (.svg)
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// What the options file holds and no option takes.
    #[arg(skip)]
    file_warnings: Vec<String>,
}

fn whole_number(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "want 0 or 1".to_owned())
}

fn is_one(text: &str) -> Result<bool, String> {
    whole_number(text).map(|number| number == 1)
}

fn is_not_zero(text: &str) -> Result<bool, String> {
    whole_number(text).map(|number| number != 0)
}

/// At 0 the search would end before anything was measured.
fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("want a number above 0".to_owned()),
    }
}

fn whole_elements(text: &str) -> Result<List, String> {
    let List(sizes) = text.parse()?;
    match sizes.iter().find(|bytes| !bytes.is_multiple_of(ELEMENT_BYTES)) {
        Some(odd) => Err(format!("{odd} is not a multiple of {ELEMENT_BYTES}")),
        None => Ok(List(sizes)),
    }
}

/// Reads the arguments after the program's name, and the options file that `file` gives.
pub fn parse(
    arguments: &[String],
    file: impl FnOnce() -> Option<String>,
) -> Result<Parsed<Options>, Failure> {
    let line = with_two_dashes(arguments);
    let mut parsed = command_line::parse::<Options>(line.clone())?;
    if let (Parsed::Options(_), Some(text)) = (&parsed, file()) {
        let (mut arguments, warnings) = file_arguments(&text)?;
        if let Err(Failure::BadOption(text)) = command_line::parse::<Options>(arguments.clone()) {
            return Err(Failure::BadOption(format!("{OPTIONS_FILE}: {text}")));
        }
        arguments.extend(line);
        parsed = command_line::parse(arguments)?;
        if let Parsed::Options(options) = &mut parsed {
            options.file_warnings = warnings;
        }
    }
    if let Parsed::Options(Options { plot: Some(path), .. }) = &parsed {
        plot::check_path("-plot", path)?;
    }
    Ok(parsed)
}

/// The file's values as arguments, and what in it is no option.
fn file_arguments(text: &str) -> Result<(Vec<String>, Vec<String>), Failure> {
    let found =
        ini::parse(text).map_err(|twice| Failure::BadOption(format!("{OPTIONS_FILE}: {twice}")))?;
    let command = Options::command();
    let is_known = |key: &str| command.get_arguments().any(|known| known.get_long() == Some(key));
    let (known, unknown): (Vec<_>, Vec<_>) =
        found.values.into_iter().partition(|(key, _)| is_known(key));
    let arguments = known.iter().map(|(key, value)| format!("--{key}={value}")).collect();
    let keys = unknown.into_iter().map(|(key, _)| format!("{key} is no option"));
    let lines = found.meaningless.into_iter().map(|line| format!("{line:?} is not key = value"));
    let warnings = keys.chain(lines).map(|what| format!("{OPTIONS_FILE}: {what}; left out"));
    Ok((arguments, warnings.collect()))
}

impl Options {
    pub fn methods(&self) -> &[Method] {
        if self.all_methods { Method::value_variants() } else { std::slice::from_ref(&self.method) }
    }

    /// Bytes of each process, one measurement after the other.
    pub fn bytes(&self) -> &[usize] {
        &self.bytes.0
    }

    /// From the start size, doubled, up to and with all `processes`.
    pub fn communicator_sizes(&self, processes: i32) -> Vec<i32> {
        let start = self.start_size.unwrap_or(processes);
        let below = std::iter::successors(Some(start), |size| size.checked_mul(2));
        below.take_while(|size| *size < processes).chain([processes]).collect()
    }

    /// What was asked for and is not done, to be told once.
    pub fn warnings(&self, processes: i32) -> Vec<String> {
        let above = self.start_size.filter(|start| *start > processes).map(|start| {
            format!("-startSize {start} is above the {processes} processes there are: these alone")
        });
        self.file_warnings.iter().cloned().chain(above).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str, file: Option<&str>) -> Result<Options, Failure> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&arguments, || file.map(str::to_owned))? {
            Parsed::Options(options) => Ok(options),
            Parsed::Text(text) => panic!("{text}"),
        }
    }

    #[test]
    fn defaults_are_the_originals() {
        let found = options("", None).unwrap();
        assert_eq!(found.methods(), [Method::Allreduce]);
        assert_eq!((found.iterations, found.threshold), (10_000, 2.0));
        assert_eq!(found.communicator_sizes(6), [6]);
        assert_eq!((found.verbose, found.nohdr, found.start), (false, false, Start::Barrier));
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let file = "# settings\nmethod = gather\niterations = 5 # few\nallMethods = 1\n";
        let found = options("-method scatter -allMethods 0", Some(file)).unwrap();
        assert_eq!(found.methods(), [Method::Scatter]);
        assert_eq!(found.iterations, 5);
    }

    #[test]
    fn what_the_file_holds_beside_the_options_is_told_and_left_out() {
        let file = "method = \"gather\"\nspeed = 1\nnonsense\n[deep]\niterations = 3\n";
        let found = options("", Some(file)).unwrap();
        assert_eq!((found.methods(), found.iterations), (&[Method::Gather][..], 10_000));
        let told = found.warnings(4);
        for (warning, part) in told.iter().zip(["speed is", "deep.iterations is", "nonsense"]) {
            assert!(warning.starts_with("options.ini: ") && warning.contains(part), "{told:?}");
        }
        assert_eq!(told.len(), 3);
    }

    #[test]
    fn numbers_that_the_original_takes_are_taken() {
        let found = options("-verbose 2 -nohdr 2 -allMethods 2 -threshold 0.5", None).unwrap();
        assert_eq!((found.verbose, found.nohdr, found.threshold), (true, true, 0.5));
        // There as here 1 alone means all.
        assert_eq!(found.methods().len(), 1);
    }

    #[test]
    fn communicators_double_up_to_the_whole() {
        let of = |start: i32| options(&format!("-startSize {start}"), None).unwrap();
        assert_eq!(of(1).communicator_sizes(1), [1]);
        assert_eq!(of(1).communicator_sizes(6), [1, 2, 4, 6]);
        assert_eq!(of(2).communicator_sizes(12), [2, 4, 8, 12]);
        assert_eq!(of(4).communicator_sizes(8), [4, 8]);
        assert!(of(4).warnings(8).is_empty());
        assert_eq!(of(9).communicator_sizes(8), [8]);
        assert!(of(9).warnings(8)[0].contains("-startSize 9"));
    }

    #[test]
    fn every_error_names_its_option() {
        for (line, file, name) in [
            ("-bogus 1", None, "-bogus"),
            ("-method", None, "-method"),
            ("-method reduce", None, "-method"),
            ("-iterations 0", None, "-iterations"),
            ("-startSize 0", None, "-startSize"),
            ("-threshold 0", None, "-threshold"),
            ("-threshold NaN", None, "-threshold"),
            ("-start late", None, "-start"),
            ("-nohdr yes", None, "-nohdr"),
            ("-bytes 6", None, "-bytes"),
            ("", Some("method = barrier\nmethod = gather"), "options.ini: method"),
            ("", Some("method ="), "options.ini"),
            ("", Some("method = reduce"), "options.ini: invalid value 'reduce' for '--method"),
        ] {
            let failure = options(line, file).unwrap_err();
            assert_eq!(failure.exit_code(), 2, "{line}");
            assert!(failure.to_string().contains(name), "{line}: {failure}");
        }
    }
}
