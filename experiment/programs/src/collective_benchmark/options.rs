//! Options of mpi_collective_benchmark: `-key value` on the command line or `key = value` in
//! `options.ini`; the command line wins.

use super::method::{ELEMENT_BYTES, Method};
use crate::measure::command_line::{self, List, Parsed, at_least, with_two_dashes};
use crate::measure::failure::Failure;
use crate::measure::plot;
use crate::measure::report::Format;
use clap::{ArgAction, Parser, ValueEnum};
use std::path::PathBuf;

/// Read in the working folder of process 0, where it is there.
pub const OPTIONS_FILE: &str = "options.ini";

/// Overlap of computation and communication at MPI collective operations.
///
/// The options may also stand as `key = value` in options.ini; their names may have one dash or two.
/// Times are in seconds. NB_sleep and NB_active are what the call adds to the work (overhead); avail
/// is the part of the call's time that was left for work.
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
    #[arg(long = "allMethods", value_name = "0|1", default_value = "0", value_parser = switch, action = ArgAction::Set)]
    all_methods: bool,
    /// Processes of the first communicator, which is then doubled; last comes the whole (default:
    /// the whole alone)
    #[arg(long = "startSize", value_name = "N", value_parser = clap::value_parser!(i32).range(2..))]
    pub start_size: Option<i32>,
    /// 1: print each step of the search for the overhead
    #[arg(long, value_name = "0|1", default_value = "0", value_parser = switch, action = ArgAction::Set)]
    pub verbose: bool,
    /// The work is long enough when an iteration takes this many times the call without work
    #[arg(long, value_name = "FACTOR", default_value = "2.0", value_parser = at_least(1.0))]
    pub threshold: f64,
    /// 1: no header
    #[arg(long, value_name = "0|1", default_value = "0", value_parser = switch, action = ArgAction::Set)]
    pub nohdr: bool,
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
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("want 0 or 1".to_owned()),
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
        let mut arguments = file_arguments(&text)?;
        if let Err(Failure::BadOption(text)) = command_line::parse::<Options>(arguments.clone()) {
            return Err(Failure::BadOption(format!("{OPTIONS_FILE}: {text}")));
        }
        arguments.extend(line);
        parsed = command_line::parse(arguments)?;
    }
    if let Parsed::Options(Options { plot: Some(path), .. }) = &parsed {
        plot::check_path("-plot", path)?;
    }
    Ok(parsed)
}

/// The lines `key = value` as arguments; `#` starts a comment.
fn file_arguments(text: &str) -> Result<Vec<String>, Failure> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    let argument = |line: &str| match line.split_once('=') {
        Some((key, value)) => Ok(format!("--{}={}", key.trim(), value.trim().trim_matches('"'))),
        None => Err(Failure::BadOption(format!(
            "{OPTIONS_FILE}: {line:?} is not of the form key = value"
        ))),
    };
    lines.filter(|line| !line.is_empty()).map(argument).collect()
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
    pub fn communicator_sizes(&self, processes: i32) -> Result<Vec<i32>, Failure> {
        let start = self.start_size.unwrap_or(processes);
        if start > processes {
            return Err(Failure::BadOption(format!(
                "-startSize: {start} is above the {processes} processes there are"
            )));
        }
        let below = std::iter::successors(Some(start), |size| size.checked_mul(2));
        Ok(below.take_while(|size| *size < processes).chain([processes]).collect())
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
        assert_eq!(found.communicator_sizes(6).unwrap(), [6]);
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let file = "# settings\nmethod = gather\niterations = 5 # few\nallMethods = 1\n";
        let found = options("-method scatter -allMethods 0", Some(file)).unwrap();
        assert_eq!(found.methods(), [Method::Scatter]);
        assert_eq!(found.iterations, 5);
    }

    #[test]
    fn communicators_double_up_to_the_whole() {
        let sizes = |start: i32, all: i32| {
            options(&format!("-startSize {start}"), None).unwrap().communicator_sizes(all)
        };
        assert_eq!(sizes(2, 12).unwrap(), [2, 4, 8, 12]);
        assert_eq!(sizes(4, 8).unwrap(), [4, 8]);
        assert!(sizes(9, 8).is_err());
    }

    #[test]
    fn every_error_names_its_option() {
        for (line, file, name) in [
            ("-bogus 1", None, "-bogus"),
            ("-method", None, "-method"),
            ("-method reduce", None, "-method"),
            ("-iterations 0", None, "-iterations"),
            ("-startSize 1", None, "-startSize"),
            ("-threshold 0.5", None, "-threshold"),
            ("-nohdr yes", None, "-nohdr"),
            ("-bytes 6", None, "-bytes"),
            ("", Some("speed = 1"), "speed"),
            ("", Some("method"), "options.ini"),
            ("", Some("method = reduce"), "options.ini: invalid value 'reduce' for '--method"),
        ] {
            let failure = options(line, file).unwrap_err();
            assert_eq!(failure.exit_code(), 2, "{line}");
            assert!(failure.to_string().contains(name), "{line}: {failure}");
        }
    }
}
