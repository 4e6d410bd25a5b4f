//! Every strategy and every MPI's native broadcast, side by side on emulated grids: `make bench`.
//!
//! A figure is the median time of single broadcasts, each until the root has an answer from every
//! rank, in an ordinary MPI program (under the preloaded library where a strategy is named) that checks
//! every byte and pauses for a second before each. Writes `target/bench/bench.json` and `target/bench/report.html`
//! after each row, so that a run that is interrupted leaves what it has. `--page` makes `docs/figures.md`:
//! `make figures`.

mod page;
mod prediction;
mod report;
mod row;

use arborcast_tests::{Grid, GridError, Run, compile_c, grid_file, limit};
use clap::Parser;
use gridlab::{Limits, Mpi, Signals, Verdict};
use prediction::Prediction;
use row::Row;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// One program run must end within this; a native broadcast of 32 MiB may take two minutes.
const RUN_LIMIT: Duration = Duration::from_secs(600);
/// The first broadcast of a run makes connections and is left out, of short ones the first five: the library
/// carries them once there were a few.
const WARM_UP: usize = 1;
const WARM_UP_OF_SHORT: usize = 5;
const SHORT_BYTES: u64 = 64 << 10;
/// The root's pause before each broadcast, milliseconds: programs compute in between, and TCP forgets. All ranks
/// are there when it ends, on whatever grid. An experiment that no program has told otherwise plans for as long.
const PAUSE_MS: &str = "1000";
/// Broadcasts of a run: as many as take about `RUN_S`, within these limits. One that takes longer than `LONG_S`
/// is made once.
const REPETITIONS: std::ops::RangeInclusive<usize> = 5..=15;
const RUN_S: f64 = 5.0;
const LONG_S: f64 = 10.0;

/// Measures every strategy and every MPI's native broadcast on emulated grids.
#[derive(Parser)]
struct Options {
    /// Names of ready-made grids, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "even,two-sites,mesh,regions,asymmetric")]
    grid: Vec<String>,
    /// Message sizes in bytes, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1,1024,65536,1048576,8388608,33554432")]
    sizes: Vec<u64>,
    /// Strategies, separated by commas; nothing leaves all out
    #[arg(
        long,
        num_args = 0..,
        value_delimiter = ',',
        default_value = "guided,multilevel,magpie,annealing,random-transform"
    )]
    strategies: Vec<String>,
    /// The longest search of one strategy for all sizes of a grid, in seconds; most end sooner
    #[arg(long, default_value_t = 600)]
    search: u64,
    /// MPIs whose native broadcasts are measured, separated by commas: all that are installed if not said,
    /// nothing leaves all out
    #[arg(long, num_args = 0.., value_delimiter = ',')]
    natives: Option<Vec<Mpi>>,
    /// What TCP itself reaches from the first site to each other one over these numbers of connections at once,
    /// separated by commas (tests/programs/bare_connections.c)
    #[arg(long, value_delimiter = ',')]
    connections: Vec<usize>,
    /// Measures nothing: writes docs/figures.md from docs/figures.json
    #[arg(long)]
    page: bool,
    /// With --page: first takes the rows of this bench.json into docs/figures.json
    #[arg(long, value_name = "FILE", requires_all = ["page", "measured"])]
    rows: Option<PathBuf>,
    /// With --rows: a sentence for the page that names the build and the day
    #[arg(long, value_name = "TEXT", requires = "rows")]
    measured: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum BenchError {
    #[error(transparent)]
    Grid(#[from] GridError),
    #[error("{0} printed no times")]
    NoTimes(String),
    #[error("interrupted")]
    Interrupted,
    #[error("target/bench: {0}")]
    Write(#[from] std::io::Error),
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.page {
        return match page::write(options.rows.as_deref().zip(options.measured.as_deref())) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("bench: docs/figures: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let outcome = Signals::block(&[libc::SIGINT, libc::SIGTERM])
        .map_err(BenchError::from)
        .and_then(|signals| bench(&options, &signals));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(BenchError::Interrupted) => {
            eprintln!("bench: interrupted; target/bench has what was measured");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(options: &Options, signals: &Signals) -> Result<(), BenchError> {
    let installed = || Mpi::ALL.into_iter().filter(|mpi| mpi.launcher().is_ok()).collect();
    let natives: Vec<Mpi> = options.natives.clone().unwrap_or_else(installed);
    let mut figures = Figures::default();
    println!("{}", Row::heading());
    for grid_name in &options.grid {
        let mut grid = Grid::up(&grid_file(grid_name))?;
        grid.start_daemons(&[])?;
        let bench = Bench { grid: &grid, grid_name, options, signals };
        for &mpi in &natives {
            bench.native(mpi, &mut figures)?;
        }
        for strategy in &options.strategies {
            bench.strategy(strategy, &mut figures)?;
        }
        for &connections in &options.connections {
            bench.bare_connections(connections, &mut figures)?;
        }
    }
    println!("\n{}", prediction::summary(&figures.predictions));
    println!("All figures: target/bench/bench.json, drawn: target/bench/report.html");
    Ok(())
}

/// What has been measured.
#[derive(Default)]
struct Figures {
    rows: Vec<Row>,
    predictions: Vec<Prediction>,
}

impl Figures {
    fn write(&self) -> std::io::Result<()> {
        let folder = Path::new("target/bench");
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("bench.json"), row::json(&self.rows))?;
        std::fs::write(folder.join("predictions.json"), prediction::json(&self.predictions))?;
        let said = prediction::summary(&self.predictions);
        std::fs::write(folder.join("report.html"), report::html(&self.rows, &said))
    }
}

struct Bench<'a> {
    grid: &'a Grid,
    grid_name: &'a str,
    options: &'a Options,
    signals: &'a Signals,
}

/// How a search went for one size.
#[derive(Default, Clone, Copy)]
struct Search {
    trials: u64,
    /// Until the best plan was within 10 % of what it was in the end.
    seconds: f64,
}

impl Search {
    fn of(trials: &[serde_json::Value]) -> Self {
        let last = trials.iter().rev().find_map(|trial| trial["best_s"].as_f64());
        let near = |trial: &&serde_json::Value| {
            trial["best_s"].as_f64().zip(last).is_some_and(|(best, last)| best <= 1.1 * last)
        };
        let found = trials.iter().find(near);
        Search {
            trials: found.and_then(|trial| trial["number"].as_u64()).unwrap_or_default(),
            seconds: found.and_then(|trial| trial["search_s"].as_f64()).unwrap_or_default(),
        }
    }
}

impl Bench<'_> {
    fn native(&self, mpi: Mpi, figures: &mut Figures) -> Result<(), BenchError> {
        let run = Run { mpi, managed: false, ..Run::default() };
        for &bytes in &self.options.sizes {
            self.measure(&run, "native", bytes, Search::default(), figures)?;
        }
        Ok(())
    }

    fn bare_connections(
        &self,
        connections: usize,
        figures: &mut Figures,
    ) -> Result<(), BenchError> {
        let run = Run { managed: false, ..Run::default() };
        let topology = self.grid.lab().topology();
        let sites = (0..topology.sites.len()).map(|site| topology.nodes_of(site).len());
        let words: Vec<String> =
            std::iter::once(connections).chain(sites).map(|n| n.to_string()).collect();
        let program = compile_c("bare_connections.c", run.mpi);
        let arguments = |bytes: u64, repeats: usize| {
            let first = [bytes.to_string(), repeats.to_string(), PAUSE_MS.into()];
            first.into_iter().chain(words.clone()).collect()
        };
        for &bytes in &self.options.sizes {
            let strategy = format!("{connections} connections");
            let timed = (&run, &*program, &arguments as &dyn Fn(u64, usize) -> Vec<String>);
            self.measure_program(timed, &strategy, bytes, Search::default(), figures)?;
        }
        Ok(())
    }

    fn strategy(&self, strategy: &str, figures: &mut Figures) -> Result<(), BenchError> {
        let root = &self.grid.nodes()[0];
        for node in self.grid.nodes() {
            self.grid.operator(&node, &["forget", "--all"])?;
        }
        let sizes: Vec<_> = self.options.sizes.iter().map(u64::to_string).collect();
        let (sizes, time) = (sizes.join(","), format!("{}s", self.options.search));
        let job = self.grid.experiment(&[
            "--root",
            root,
            "--bytes",
            &sizes,
            "--strategy",
            strategy,
            "--for",
            &time,
            "--once",
        ])?;
        self.wait_for(job)?;
        for &bytes in &self.options.sizes {
            let trials = self.trials_of(root, bytes);
            let predicted = trials.iter().filter_map(|trial| Prediction::of(self.grid_name, trial));
            figures.predictions.extend(predicted);
            self.measure(&Run::default(), strategy, bytes, Search::of(&trials), figures)?;
        }
        Ok(())
    }

    fn wait_for(&self, mut job: arborcast_tests::Background) -> Result<(), BenchError> {
        while job.ended().is_none() {
            if self.signals.wait(100).is_some() {
                return Err(BenchError::Interrupted);
            }
        }
        Ok(())
    }

    /// The daemon's history of the search for a size.
    fn trials_of(&self, root: &str, bytes: u64) -> Vec<serde_json::Value> {
        let target = format!("{root}/{bytes}");
        let history = self.grid.operator_json(root, &["history", &target]).unwrap_or_default();
        history.as_array().cloned().unwrap_or_default()
    }

    fn measure(
        &self,
        run: &Run<'_>,
        strategy: &str,
        bytes: u64,
        search: Search,
        figures: &mut Figures,
    ) -> Result<(), BenchError> {
        let program = compile_c("bcast_times.c", run.mpi);
        let arguments = |bytes: u64, repeats: usize| {
            [&*bytes.to_string(), &*repeats.to_string(), "0", PAUSE_MS].map(String::from).to_vec()
        };
        self.measure_program((run, &*program, &arguments), strategy, bytes, search, figures)
    }

    /// A program, and its arguments for a size and a number of repetitions, that prints a line of seconds for each.
    fn measure_program(
        &self,
        (run, program, arguments): (&Run<'_>, &Path, &dyn Fn(u64, usize) -> Vec<String>),
        strategy: &str,
        bytes: u64,
        search: Search,
        figures: &mut Figures,
    ) -> Result<(), BenchError> {
        if self.signals.wait(1).is_some() {
            return Err(BenchError::Interrupted);
        }
        let warm_up = if bytes < SHORT_BYTES { WARM_UP_OF_SHORT } else { WARM_UP };
        let times = |repetitions: usize| -> Result<(Vec<f64>, f64, bool), BenchError> {
            let mark = self.grid.lab().mark().map_err(GridError::from)?;
            let arguments = arguments(bytes, warm_up + repetitions);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let lines = self.grid.run(run, program, &arguments, RUN_LIMIT)?;
            let quality = self.grid.lab().quality_since(&mark).map_err(GridError::from)?;
            let good = quality.verdict(&Limits::default()) == Verdict::Good;
            let times: Vec<f64> = lines.iter().filter_map(|l| l.trim().parse().ok()).collect();
            match times.len() > warm_up {
                true => Ok((times[warm_up..].to_vec(), quality.late_p99_us / 1e6, good)),
                false => Err(BenchError::NoTimes(lines.join("\n"))),
            }
        };
        let mut measured = times(1)?;
        let first_s = measured.0[0];
        if first_s < LONG_S {
            let repetitions = (RUN_S / first_s) as usize;
            measured = times(repetitions.clamp(*REPETITIONS.start(), *REPETITIONS.end()))?;
        }
        let (times_s, late_p99_s, lab_was_good) = measured;
        let limit_s = limit::limit(self.grid.lab().topology(), 0, bytes);
        let row = Row {
            grid: self.grid_name.into(),
            mpi: run.mpi.name().into(),
            strategy: strategy.into(),
            bytes,
            times_s,
            limit_s,
            trials: search.trials,
            search_s: search.seconds,
            lab_late_p99_s: late_p99_s,
            lab_was_good,
        };
        println!("{row}");
        figures.rows.push(row);
        figures.write()?;
        Ok(())
    }
}
