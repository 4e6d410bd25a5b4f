//! The main job, end to end, on an emulated grid of four sites: an unmodified MPI program broadcasts
//! natively, and then again and again under `arborcast run` while an experiment works in the gaps; at last
//! a link falls while the program runs. Ends with a table, the trees before and after, and `target/demo/report.html`. Leaves nothing
//! behind, also after Ctrl-C.

mod change;
mod report;
mod serve;

use arborcast_tests::{Background, Grid, GridError, Run, compile_c, grid_file, limit};
use clap::Parser;
use gridlab::{Mpi, Quality, Signals};
use report::{Report, RunRow};
use serve::Served;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const BYTES: u64 = 1 << 20;
/// Broadcasts of one run of the program; a run's time is their median.
const BROADCASTS: &str = "5";
/// How long the runs under Arborcast go on, and what the program leaves to the experiment between two.
const RUNS_FOR: Duration = Duration::from_secs(75);
const GAP: Duration = Duration::from_secs(5);
const RUN_LIMIT: Duration = Duration::from_secs(120);

/// The main job, end to end, on an emulated grid; draws target/demo/report.html.
#[derive(Parser)]
#[command(name = "demo")]
struct Options {
    /// Shows the page of the root's daemon on loopback of this host from the first run on, and goes on with the
    /// experiment at the end, until Ctrl-C.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "8430")]
    serve: Option<u16>,
    /// What is inside a node.
    #[arg(long = "join", hide = true)]
    joins: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.joins {
        return match serve::join_standard_input() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("demo: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let signals = match Signals::block(&[libc::SIGINT, libc::SIGTERM]) {
        Ok(signals) => signals,
        Err(error) => {
            eprintln!("demo: {error}");
            return ExitCode::FAILURE;
        }
    };
    match demo(&signals, &options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(DemoError::Interrupted) => {
            eprintln!("demo: interrupted; everything it started has been ended");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Grid(#[from] GridError),
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
    #[error("the program printed no times:\n{0}")]
    NoTimes(String),
    #[error("the experiment job ended:\n{0}")]
    Experiment(String),
}

fn demo(signals: &Signals, options: &Options) -> Result<(), DemoError> {
    let started = Instant::now();
    let say = |text: &str| println!("[{:5.1} s] {text}", started.elapsed().as_secs_f64());
    let program = compile_c("bcast_times.c", Mpi::OpenMpi);
    say("bringing up a grid of 4 sites with 4 nodes each (tests/gridlab/grids/mesh.toml)");
    let mut grid = Grid::up(&grid_file("mesh"))?;
    let root = grid.nodes()[0].clone();
    let served = start_daemons(&mut grid, &root, options)?;
    if let Some(served) = &served {
        say(&format!("the page of {root}'s daemon is at http://{}/", served.address));
    }
    let limit_s = limit::limit(grid.lab().topology(), 0, BYTES);
    let mark = grid.lab().mark().map_err(GridError::from)?;

    say("an ordinary MPI program broadcasts 1 MiB to 16 nodes, with Open MPI alone");
    let native = run(&grid, signals, &program, false)?;
    say(&format!(
        "native: {:.3} s a broadcast; the network allows {limit_s:.3} s",
        median(&native)
    ));

    say("the experiment starts; the same program runs again and again under `arborcast run`");
    let mut experiment = grid.experiment(&[])?;
    let runs_started = Instant::now();
    let mut rows = Vec::new();
    loop {
        let times = run(&grid, signals, &program, true)?;
        let row =
            RunRow { number: rows.len() + 1, plan: plan_in_use(&grid, &root)?, times_s: times };
        say(&format!(
            "run {:2}: {:.3} s a broadcast, {:.2} × the limit, {}",
            row.number,
            row.median_s(),
            row.median_s() / limit_s,
            row.plan
        ));
        rows.push(row);
        if runs_started.elapsed() > RUNS_FOR {
            break;
        }
        pause(signals, GAP)?;
        check_on(&mut experiment)?;
    }
    say("one more run of the program, which broadcasts five times a second at most");
    let change = change::run(&grid, signals, &program, &say)?;
    say(&change.summary());
    let log = experiment.lines();
    let quality = grid.lab().quality_since(&mark).map_err(GridError::from)?;
    let operator = |arguments: &[&str]| -> Result<String, DemoError> {
        let output = grid.operator(&root, arguments)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let target = target_name(&grid, &root)?;
    let report = Report {
        nodes: grid.nodes(),
        limit_s,
        native_s: native,
        rows,
        change,
        tree_text: operator(&["trees", &target])?,
        tree_svg: operator(&["trees", &target, "--svg"])?,
        history_svg: operator(&["history", &target, "--svg"])?,
        lab: quality_line(&quality),
        log,
    };
    print!("{}", report.table());
    let path = write_report(&report)?;
    println!("\nThe report: {}", path.display());
    if let Some(served) = &served {
        println!("The page: http://{}/; Ctrl-C ends it, and the experiment", served.address);
        while pause(signals, GAP).is_ok() {
            check_on(&mut experiment)?;
        }
    }
    Ok(())
}

/// On every node; that of the root with its page, where that is wanted.
fn start_daemons(
    grid: &mut Grid,
    root: &str,
    options: &Options,
) -> Result<Option<Served>, DemoError> {
    let Some(port) = options.serve else {
        grid.start_daemons(&[])?;
        return Ok(None);
    };
    for node in grid.nodes() {
        let page: &[&str] = if node == root { &["--page-listen", serve::INSIDE] } else { &[] };
        grid.start_daemon(&node, page)?;
    }
    for node in grid.nodes() {
        grid.wait_for_daemon(&node)?;
    }
    Ok(Some(Served::start(grid, root, port)?))
}

/// Runs the program to its end and returns its times.
fn run(
    grid: &Grid,
    signals: &Signals,
    program: &Path,
    managed: bool,
) -> Result<Vec<f64>, DemoError> {
    let run = Run { managed, ..Run::default() };
    let command = grid.application(&run, program, &[&BYTES.to_string(), BROADCASTS])?;
    let what = "the MPI program";
    let io = |source| DemoError::Io { what: what.into(), source };
    let mut running = Background::start(command, what).map_err(io)?;
    let give_up = Instant::now() + RUN_LIMIT;
    let mut lines = Vec::new();
    while running.ended().is_none() {
        lines.extend(running.lines());
        if Instant::now() > give_up {
            return Err(DemoError::NoTimes(format!("{}\n(ended by force)", lines.join("\n"))));
        }
        pause(signals, Duration::from_millis(20))?;
    }
    pause(signals, Duration::from_millis(50))?;
    lines.extend(running.lines());
    let times: Vec<f64> = lines.iter().filter_map(|line| line.trim().parse().ok()).collect();
    match running.ended() {
        Some(status) if status.success() && !times.is_empty() => Ok(times),
        _ => Err(DemoError::NoTimes(lines.join("\n"))),
    }
}

fn pause(signals: &Signals, time: Duration) -> Result<(), DemoError> {
    match signals.wait(time.as_millis() as u64) {
        Some(_) => Err(DemoError::Interrupted),
        None => Ok(()),
    }
}

fn check_on(experiment: &mut Background) -> Result<(), DemoError> {
    match experiment.ended() {
        Some(_) => Err(DemoError::Experiment(experiment.lines().join("\n"))),
        None => Ok(()),
    }
}

/// The daemon's word for the target that the program has used.
fn target_name(grid: &Grid, root: &str) -> Result<String, DemoError> {
    let targets = grid.operator_json(root, &["targets"])?;
    Ok(targets[0]["target"].as_str().unwrap_or_default().to_owned())
}

/// What the root's daemon would let the next broadcast do.
fn plan_in_use(grid: &Grid, root: &str) -> Result<String, DemoError> {
    let targets = grid.operator_json(root, &["targets"])?;
    let finding = &targets[0]["finding"];
    let strategy = finding["strategy"].as_str().unwrap_or("no plan yet");
    let plural = |is_one| if is_one { "" } else { "s" };
    Ok(match finding["plan"]["trees"].as_array() {
        Some(trees) => format!(
            "{} tree{} found by {strategy} in {} trial{}",
            trees.len(),
            plural(trees.len() == 1),
            finding["trials"],
            plural(finding["trials"] == 1)
        ),
        None if finding.is_null() => "native (no plan yet)".into(),
        None => "native".into(),
    })
}

fn quality_line(quality: &Quality) -> String {
    format!(
        "packets were late by {:.0} µs (p99), {:.0} µs at most; real-time priority: {}",
        quality.late_p99_us,
        quality.late_max_us,
        if quality.real_time { "yes" } else { "no" }
    )
}

fn write_report(report: &Report) -> Result<PathBuf, DemoError> {
    let folder = Path::new("target/demo");
    let path = folder.join("report.html");
    let io = |source| DemoError::Io { what: path.display().to_string(), source };
    std::fs::create_dir_all(folder).map_err(io)?;
    std::fs::write(&path, report.html()).map_err(io)?;
    Ok(path)
}

fn median(samples_s: &[f64]) -> f64 {
    arborcast_proto::message::Times::of(samples_s).map_or(f64::NAN, |times| times.median_s)
}
