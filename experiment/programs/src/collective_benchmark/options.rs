//! Options of mpi_collective_benchmark: `-key value` on the command line or `key = value` in
//! `options.ini`; the command line wins.

use super::method::{ELEMENT_BYTES, Method};
use crate::measure::failure::Failure;
use crate::measure::option_table::{Given, OptionSpec, help_of};
use crate::measure::plot;
use crate::measure::report::{FORMATS, Format};
use std::path::PathBuf;

/// Read in the working folder of process 0, where it is there.
pub const OPTIONS_FILE: &str = "options.ini";

const fn option(name: &'static str, values: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, values, help }
}

const TABLE: &[OptionSpec] = &[
    option(
        "method",
        "NAME",
        "allreduce (default), barrier, broadcast, gather, allgather or scatter",
    ),
    option("iterations", "N", "iterations of which each time is the mean (default 10000)"),
    option("allMethods", "0|1", "1: all methods, one after the other (default 0)"),
    option(
        "startSize",
        "N",
        "processes of the first communicator, which is then doubled; last comes the whole\n\
        (default: the whole alone)",
    ),
    option("verbose", "0|1", "1: print each step of the search for the overhead (default 0)"),
    option(
        "threshold",
        "FACTOR",
        "the work is long enough when an iteration takes this many times the call without work\n\
        (default 2.0)",
    ),
    option("nohdr", "0|1", "1: no header (default 0)"),
    option(
        "bytes",
        "N,N,...",
        "bytes that each process sends or receives, multiples of 4 (default 4, one integer)",
    ),
    option("format", "original|csv|json", "format of the results; all times are in seconds"),
    option("fname", "FILE", "write the results to FILE (default: standard output)"),
    option("plot", "FILE", "draw the times into FILE (.svg)"),
    option("help", "", "this text"),
    option("version", "", "the version"),
];

const INTRODUCTION: &str =
    "mpi_collective_benchmark: overlap of computation and communication at MPI collective operations

Usage: mpirun -n N mpi_collective_benchmark [-key value ...]

The options may also stand as `key = value` in options.ini. Times are in seconds. NB_sleep and
NB_active are what the call adds to the work (overhead); avail is the part of the call's time that
was left for work.

";

/// What a run is asked to do.
#[derive(Debug, Clone)]
pub struct Options {
    pub methods: Vec<Method>,
    pub iterations: u64,
    /// `None` for the whole communicator alone.
    pub start_size: Option<i32>,
    pub verbose: bool,
    pub threshold: f64,
    pub header: bool,
    pub bytes: Vec<usize>,
    pub format: Format,
    pub file: Option<PathBuf>,
    pub plot: Option<PathBuf>,
}

/// What the command line asks for.
pub enum Parsed {
    Options(Box<Options>),
    Text(String),
}

/// Reads the arguments after the program's name, and the options file that `file` gives.
pub fn parse(
    arguments: &[String],
    file: impl FnOnce() -> Option<String>,
) -> Result<Parsed, Failure> {
    let mut given = Given::parse(TABLE, arguments)?;
    if given.has("help") {
        return Ok(Parsed::Text(format!("{INTRODUCTION}{}", help_of(TABLE))));
    }
    if given.has("version") {
        let version = env!("CARGO_PKG_VERSION");
        return Ok(Parsed::Text(format!("mpi_collective_benchmark {version}")));
    }
    if let Some(text) = file() {
        add_file(&mut given, &text)?;
    }
    options_of(&given).map(|options| Parsed::Options(Box::new(options)))
}

/// Lines `key = value`; `#` starts a comment.
fn add_file(given: &mut Given, text: &str) -> Result<(), Failure> {
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let (key, value) = line.split_once('=').ok_or_else(|| {
            Failure::BadOption(format!("{OPTIONS_FILE}: {line:?} is not of the form key = value"))
        })?;
        let (key, value) = (key.trim(), value.trim().trim_matches('"'));
        let spec = TABLE.iter().find(|spec| spec.name == key && !spec.values.is_empty());
        let spec = spec
            .ok_or_else(|| Failure::BadOption(format!("{OPTIONS_FILE}: unknown option {key}")))?;
        given.add_default(spec, value.to_owned());
    }
    Ok(())
}

fn options_of(given: &Given) -> Result<Options, Failure> {
    let switch = |name| given.choice(name, &[("0", false), ("1", true)]);
    let method = given.choice("method", &Method::ALL)?;
    let methods = match switch("allMethods")? {
        true => Method::ALL.iter().map(|(_, method)| *method).collect(),
        false => vec![method],
    };
    let bytes = given.list("bytes")?.unwrap_or_else(|| vec![ELEMENT_BYTES]);
    if let Some(odd) = bytes.iter().find(|bytes| !bytes.is_multiple_of(ELEMENT_BYTES)) {
        let text = format!("-bytes: {odd} is not a multiple of {ELEMENT_BYTES}");
        return Err(Failure::BadOption(text));
    }
    let options = Options {
        methods,
        iterations: given.number("iterations", 0, 1)?.unwrap_or(10_000),
        start_size: given.number("startSize", 0, 2)?,
        verbose: switch("verbose")?,
        threshold: given.number("threshold", 0, 1.0)?.unwrap_or(2.0),
        header: !switch("nohdr")?,
        bytes,
        format: given.choice("format", FORMATS)?,
        file: given.text("fname").map(PathBuf::from),
        plot: given.text("plot").map(PathBuf::from),
    };
    if let Some(path) = &options.plot {
        plot::check_path("-plot", path)?;
    }
    Ok(options)
}

impl Options {
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
            Parsed::Options(options) => Ok(*options),
            Parsed::Text(text) => panic!("{text}"),
        }
    }

    #[test]
    fn defaults_are_the_originals() {
        let found = options("", None).unwrap();
        assert_eq!(found.methods, [Method::Allreduce]);
        assert_eq!((found.iterations, found.threshold), (10_000, 2.0));
        assert_eq!(found.communicator_sizes(6).unwrap(), [6]);
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let file = "# settings\nmethod = gather\niterations = 5 # few\n";
        let found = options("-method scatter", Some(file)).unwrap();
        assert_eq!(found.methods, [Method::Scatter]);
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
        ] {
            let failure = options(line, file).unwrap_err();
            assert_eq!(failure.exit_code(), 2, "{line}");
            assert!(failure.to_string().contains(name), "{line}: {failure}");
        }
    }
}
