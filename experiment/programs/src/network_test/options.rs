//! Options of network_test: those of PARUS, of its successor network-tests2, and ours.

use crate::measure::command_line::{self, Parsed};
use crate::measure::failure::Failure;
use crate::measure::plot;
use clap::{Parser, ValueEnum};
use std::path::PathBuf;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum TestType {
    /// One blocking message at a time from one process to one other, all else silent; the
    /// receiver's MPI_Recv is timed
    OneToOne,
    /// Two processes send to each other at once (MPI_Isend, MPI_Irecv, MPI_Waitany); twice the time
    /// of one_to_one tells a half-duplex link
    AsyncOneToOne,
    /// A blocking message there and back at once, half of that time
    SendRecvAndRecvSend,
    /// Everybody sends to everybody at once; from each MPI_Irecv to its MPI_Waitany
    AllToAll,
    /// Two processes send to each other at once, timed until one has sent and received, while other
    /// processes send each other messages (-l, -m, -p)
    Noise,
    /// one_to_one while other processes send each other messages (-l, -m, -p)
    NoiseBlocking,
    /// MPI_Bcast from each process in turn, timed on each receiver from a common start
    Bcast,
    /// MPI_Put until it is complete at the target, timed by the sender
    Put,
    /// MPI_Get until it is complete, timed by the process that gets
    Get,
}

impl TestType {
    /// As on the command line and in the text format.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneToOne => "one_to_one",
            Self::AsyncOneToOne => "async_one_to_one",
            Self::SendRecvAndRecvSend => "send_recv_and_recv_send",
            Self::AllToAll => "all_to_all",
            Self::Noise => "noise",
            Self::NoiseBlocking => "noise_blocking",
            Self::Bcast => "bcast",
            Self::Put => "put",
            Self::Get => "get",
        }
    }

    /// `test_type` in NetCDF files.
    pub fn code(self) -> i32 {
        match self {
            Self::OneToOne => 1,
            Self::AllToAll => 2,
            Self::AsyncOneToOne => 3,
            Self::SendRecvAndRecvSend => 4,
            Self::Noise => 5,
            Self::NoiseBlocking => 6,
            Self::Bcast => 7,
            Self::Put => 8,
            Self::Get => 9,
        }
    }

    pub fn has_noise(self) -> bool {
        matches!(self, Self::Noise | Self::NoiseBlocking)
    }

    fn is_in_pairs(self) -> bool {
        !matches!(self, Self::AllToAll | Self::Bcast)
    }
}

/// How the matrices are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// FILE (averages), and FILE with _median, _deviation and _min behind PREFIX
    Text,
    /// PREFIX_average.nc, PREFIX_median.nc, PREFIX_deviation.nc, PREFIX_min.nc and
    /// PREFIX_hosts.txt, where PREFIX is FILE without .mtr, .txt, .nc, .csv or .json at its end
    Netcdf,
    /// PREFIX.csv, a line for each cell and length
    Csv,
    /// PREFIX.json
    Json,
}

/// Measure how long messages take from each process to each other.
///
/// Times are in seconds, lengths in bytes. Each matrix has a row for each receiving and a column
/// for each sending process. The files are complete after each message length, also when the run
/// is interrupted.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "network_test",
    disable_version_flag = true,
    infer_long_args = true,
    max_term_width = 100
)]
pub struct Options {
    /// File to write; the names of the others begin like it [default: $PARUS_INSTALL_DIR/etc/network.mtr,
    /// or network.mtr in the working folder where that variable is not set]
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// What to measure
    #[arg(
        short = 't',
        long = "type",
        value_enum,
        default_value = "one_to_one",
        value_name = "TYPE"
    )]
    pub test_type: TestType,
    /// First message length in bytes
    #[arg(short, long, default_value_t = 0, value_name = "BYTES")]
    pub begin: usize,
    /// Message length in bytes before which to end (lengths are below it)
    #[arg(short, long, default_value_t = 1_000_000, value_name = "BYTES")]
    pub end: usize,
    /// From one message length to the next, in bytes
    #[arg(short, long, default_value_t = 100, value_name = "BYTES")]
    pub step: usize,
    /// Samples of each cell and length
    #[arg(
        short,
        long = "num_repeats",
        alias = "num_iterations",
        default_value_t = 100,
        value_name = "N"
    )]
    pub num_repeats: usize,
    /// Length of a noise message in bytes (noise, noise_blocking)
    #[arg(
        short = 'l',
        long = "noise_length",
        alias = "length_noise_message",
        default_value_t = 0,
        value_name = "BYTES"
    )]
    pub noise_length: usize,
    /// Messages that each noise process sends to each other during one transfer
    #[arg(
        short = 'm',
        long = "noise_messages",
        alias = "num_noise_message",
        default_value_t = 1,
        value_name = "N"
    )]
    pub noise_messages: usize,
    /// Processes that make noise, at least 2; each sends to each other
    #[arg(
        short = 'p',
        long = "noise_processes",
        alias = "procs_noise",
        default_value_t = 0,
        value_name = "N"
    )]
    pub noise_processes: usize,
    /// Files to write
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "text,netcdf",
        value_name = "LIST"
    )]
    pub format: Vec<FileFormat>,
    /// Write over files that are there; without it they are refused
    #[arg(long)]
    pub overwrite: bool,
    /// Measure disjoint pairs at once, which takes time that grows like the number of processes
    /// and not like its square. The figures then include what the pairs take from each other: on
    /// links that several pairs share, rates come out lower than one pair alone would get
    #[arg(long)]
    pub parallel_pairs: bool,
    /// Draw the medians: a heat map of the longest messages into FILE (.svg) and time
    /// against message length into FILE with _lengths before its extension
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Cell to draw against message length, may be repeated [default: the fastest, the median and
    /// the slowest cell of each length]
    #[arg(long, value_name = "SENDER,RECEIVER", value_parser = parse_cell)]
    pub plot_cell: Vec<(usize, usize)>,
    /// Print the version of the options and files, as the original does, and that of the program
    #[arg(short, long)]
    version: bool,
    /// Of the original; refused with a word.
    #[arg(short, long, hide = true)]
    resume: bool,
    /// Of the original; refused with a word.
    #[arg(short, long, hide = true)]
    ignore: bool,
}

/// The release of network-tests2 whose options and files these are.
const ORIGINAL_VERSION: &str = "2.0.1";

/// The first line is the original's; scripts read it.
fn version() -> String {
    format!(
        "Version: {ORIGINAL_VERSION}\nnetwork_test of Arborcast {}, with the options and files of PARUS \
         network-tests2 {ORIGINAL_VERSION}\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn parse_cell(text: &str) -> Result<(usize, usize), String> {
    let cell = text.split_once(',').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    cell.ok_or_else(|| "want two ranks as SENDER,RECEIVER".to_owned())
}

/// Reads the arguments after the program's name.
pub fn parse(arguments: &[String]) -> Result<Parsed<Options>, Failure> {
    Ok(match command_line::parse::<Options>(arguments.to_vec())? {
        Parsed::Options(options) if options.version => Parsed::Text(version()),
        Parsed::Options(options) => Parsed::Options(options.checked()?),
        text => text,
    })
}

impl Options {
    fn checked(self) -> Result<Self, Failure> {
        let wrong = |text: String| Err(Failure::BadOption(text));
        if self.resume {
            return wrong(
                "--resume: every file is whole after each length; measure the rest with --begin into \
                 a file of another name"
                    .to_owned(),
            );
        }
        if self.ignore {
            return wrong("--ignore: belongs to --resume, which is not here".to_owned());
        }
        if self.step == 0 {
            return wrong("--step: must be at least 1 byte".to_owned());
        }
        if self.begin >= self.end {
            return wrong(format!("--end: no length from {} and below {}", self.begin, self.end));
        }
        if self.num_repeats == 0 {
            return wrong("--num_repeats: must be at least 1".to_owned());
        }
        // NetCDF scalars are 32 bits wide, as are MPI's counts.
        let numbers = [
            ("--end", self.end),
            ("--step", self.step),
            ("--num_repeats", self.num_repeats),
            ("--noise_length", self.noise_length),
            ("--noise_messages", self.noise_messages),
        ];
        for (name, number) in numbers {
            if i32::try_from(number).is_err() {
                return wrong(format!("{name}: {number} is above {}", i32::MAX));
            }
        }
        if self.test_type.has_noise() && self.noise_processes < 2 {
            return wrong("--noise_processes: noise needs at least 2 processes".to_owned());
        }
        let cannot_pair = self.test_type.has_noise() || !self.test_type.is_in_pairs();
        if self.parallel_pairs && cannot_pair {
            let name = self.test_type.name();
            return wrong(format!("--parallel-pairs: {name} has no disjoint pairs"));
        }
        if let Some(path) = &self.plot {
            plot::check_path("--plot", path)?;
        }
        Ok(self)
    }

    /// Checks what depends on the number of processes.
    pub fn check_processes(&self, processes: usize) -> Result<(), Failure> {
        if self.test_type.has_noise() && self.noise_processes + 2 > processes {
            return Err(Failure::TooFewProcesses {
                what: format!("noise of {} processes beside a pair", self.noise_processes),
                needed: self.noise_processes as i32 + 2,
                found: processes as i32,
            });
        }
        match self.plot_cell.iter().find(|(a, b)| *a.max(b) >= processes) {
            Some((a, b)) => Err(Failure::BadOption(format!(
                "--plot-cell: {a},{b} is outside of the {processes} processes"
            ))),
            None => Ok(()),
        }
    }

    /// Message lengths in bytes, in the order of measuring.
    pub fn lengths(&self) -> impl Iterator<Item = usize> + use<> {
        (self.begin..self.end).step_by(self.step)
    }

    pub fn longest(&self) -> usize {
        self.lengths().last().unwrap_or(self.begin)
    }

    /// Where averages go in the text format.
    pub fn path(&self) -> PathBuf {
        let default = || match std::env::var_os("PARUS_INSTALL_DIR") {
            Some(folder) => PathBuf::from(folder).join("etc/network.mtr"),
            None => PathBuf::from("network.mtr"),
        };
        self.file.clone().unwrap_or_else(default)
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
    fn defaults_are_those_of_parus() {
        let found = options("").unwrap();
        assert_eq!(found.test_type, TestType::OneToOne);
        let numbers = (found.begin, found.end, found.step, found.num_repeats);
        assert_eq!(numbers, (0, 1_000_000, 100, 100));
        assert_eq!(found.lengths().count(), 10_000);
        assert_eq!(found.longest(), 999_900);
    }

    #[test]
    fn every_error_names_its_option_on_one_line() {
        for (line, name) in [
            ("--bogus 1", "--bogus"),
            ("-t nonsense", "--type"),
            ("-b x", "--begin"),
            ("-b 5 -e 5", "--end"),
            ("-s 0", "--step"),
            ("-n 0", "--num_repeats"),
            ("-n", "--num_repeats"),
            ("-e 3000000000", "--end"),
            ("-t noise", "--noise_processes"),
            ("-t bcast --parallel-pairs", "--parallel-pairs"),
            ("--plot x.pdf", "--plot"),
            ("--plot-cell 1", "--plot-cell"),
            ("--format xml", "--format"),
            ("--resume", "--resume"),
            ("-i", "--ignore"),
        ] {
            let failure = options(line).unwrap_err();
            assert_eq!(failure.exit_code(), 2, "{line}");
            let text = failure.to_string();
            assert!(text.contains(name) && !text.contains('\n'), "{line}: {text}");
        }
    }

    #[test]
    fn the_later_versions_names_are_taken_and_may_be_shortened() {
        for line in [
            "-t noise -n 7 -l 10 -m 2 -p 3",
            "-t noise --num_repeats 7 --noise_length 10 --noise_messages 2 --noise_processes 3",
            "-t noise --num_iterations 7 --length_noise_message 10 --num_noise_message 2 --procs_noise 3",
            "-t noise --num_it 7 --length 10 --num_noise 2 --procs 3",
        ] {
            let found = options(line).unwrap();
            let noise = (found.noise_length, found.noise_messages, found.noise_processes);
            assert_eq!((found.num_repeats, noise), (7, (10, 2, 3)), "{line}");
        }
    }

    #[test]
    fn the_version_begins_as_the_originals() {
        for option in ["-v", "--version"] {
            let Ok(Parsed::Text(text)) = parse(&[option.to_owned()]) else { panic!("{option}") };
            assert_eq!(text.lines().next(), Some("Version: 2.0.1"));
            assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
        }
    }

    #[test]
    fn help_gives_units_and_every_type() {
        let Ok(Parsed::Text(text)) = parse(&["--help".to_owned()]) else { panic!("no help") };
        for word in ["bytes", "seconds", "send_recv_and_recv_send", "noise_blocking", "--plot"] {
            assert!(text.contains(word), "{word} is not in\n{text}");
        }
    }

    #[test]
    fn noise_needs_processes_beside_the_pair() {
        let found = options("-t noise -p 3").unwrap();
        assert!(found.check_processes(5).is_ok());
        assert_eq!(found.check_processes(4).unwrap_err().exit_code(), 3);
    }
}
