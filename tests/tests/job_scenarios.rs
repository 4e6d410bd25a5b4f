//! The arbiter's two scenarios with real processes: an application stops the experiment, and the
//! experiment goes on when the last hold is gone, with the most recent root first.

mod support;

use arborcast_proto::message::Times;
use arborcast_tests::{Background, Grid};
use support::*;

/// About 8 ms on the link between the sites, so that a trial of several broadcasts is long.
const BYTES: &str = "200000";
/// Seconds of a program that broadcasts more than once: for a single broadcast no communicator is set up.
const BRIEFLY: &str = "0.1";
/// Longer than the pauses of the applications below: a hold lasts as long as they run.
const LINGER: [&str; 4] = ["--linger", "3s", "--hold-wait-max", "5s"];

fn hold_timeouts(grid: &Grid) -> u64 {
    let of = |node: &String| status(grid, node)["hold_timeouts"].as_u64().unwrap();
    grid.nodes().iter().map(of).sum()
}

fn state(grid: &Grid, node: &str) -> String {
    status(grid, node)["experiment"].as_str().unwrap().to_owned()
}

fn trials(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.contains(" trial ")).count()
}

/// The seconds in "tree SECONDS".
fn seconds(line: &str) -> f64 {
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

fn median(values: &[f64]) -> f64 {
    Times::of(values).unwrap().median_s
}

/// Times of an experiment's trials, as it tells them: "… trial N: 200000 B in 0.0123 s …".
fn trial_seconds(lines: &[String]) -> Vec<f64> {
    let time = |line: &String| line.split(" B in ").nth(1)?.split(' ').next()?.parse().ok();
    lines.iter().filter_map(time).collect()
}

/// An experiment that never runs out of trials for what applications asked for.
const ENDLESS: [&str; 4] = ["--strategy", "random-transform", "--rest", "0s"];

/// As [`ENDLESS`], whose trials do not pause before each broadcast as programs are taken to do.
fn experiment(grid: &Grid) -> Background {
    grid.experiment(&[&ENDLESS[..], &["--pause", "0s"]].concat()).unwrap()
}

#[test]
fn an_application_stops_the_experiment_within_one_broadcast_and_it_goes_on_afterwards() {
    let mut grid = four_nodes();
    grid.start_daemons(&["--linger", "200ms", "--hold-wait-max", "5s"]).unwrap();
    let nodes = grid.nodes();
    let mut job = grid.experiment(&ENDLESS).unwrap();
    // The demand, and what a broadcast takes by itself.
    let times = |lines: Vec<String>| -> Vec<f64> {
        let times = lines.iter().filter(|line| line.contains(" 0.")).map(|line| seconds(line));
        // The first one also sets up the communicator.
        times.skip(1).collect()
    };
    // Long enough for several, even where setting up takes a second.
    let alone = start(&grid, "bcast_steady.c", &["0", BYTES, "10", "3"]);
    let alone_s = median(&times(finish(alone, Vec::new())));
    job.wait_for_line(" trial 2:", LIMIT);

    // Each broadcast but the first finds the experiment at work, which goes on in between.
    let mut application = start(&grid, "bcast_steady.c", &["0", BYTES, "900", "8"]);
    application.wait_for_line(" 0.", LIMIT);
    let mut told = job.lines();
    // The first one has been taken already.
    let disturbed = times([vec!["first 0.0".into()], finish(application, Vec::new())].concat());
    let meanwhile = job.lines();
    assert!(trials(&meanwhile) >= 3, "it goes on between broadcasts: {meanwhile:?}");
    told.extend(meanwhile);
    let trial_s = trial_seconds(&told).into_iter().fold(0.0, f64::max);
    assert!(trial_s > 0.0, "{told:?}");
    let (count, disturbed_s) = (disturbed.len(), median(&disturbed));
    let waited = (disturbed_s - alone_s) / trial_s;
    println!(
        "{count} broadcasts: {disturbed_s:.4} s against {alone_s:.4} s alone; \
         waited for {waited:.2} broadcasts of the experiment of {trial_s:.4} s"
    );
    assert!(waited < 2.0, "more than the broadcast that was under way");
    assert_eq!(hold_timeouts(&grid), 0, "nobody gave up waiting");

    // While one broadcast follows the other, the experiment stands still.
    let mut application = start(&grid, "bcast_steady.c", &["0", BYTES, "50", FOREVER]);
    application.wait_for_line(" 0.", LIMIT);
    // What it has still to tell of its last broadcast is under way.
    std::thread::sleep(std::time::Duration::from_millis(300));
    job.lines();
    (0..20).for_each(|_| drop(application.wait_for_line(" 0.", LIMIT)));
    assert_eq!(state(&grid, &nodes[0]), "waiting");
    assert_eq!(trials(&job.lines()), 0, "it stands still");
    end(&grid, application, Vec::new());
    job.wait_for_line(" trial ", LIMIT);
}

#[test]
#[ignore = "long: make test-lab"]
fn the_most_recent_root_comes_first() {
    let mut grid = four_nodes();
    grid.start_daemons(&LINGER).unwrap();
    let nodes = grid.nodes();
    let mut job = experiment(&grid);
    // Each has trials left when the next comes.
    for root in ["2", "1", "0"] {
        finish(start(&grid, "bcast_steady.c", &[root, BYTES, "10", BRIEFLY]), Vec::new());
        job.lines();
        // A trial's line begins with its target: group/root/class.
        let wanted = format!("/{root}/");
        // What was measured as the application came may be told late.
        let mut trial = || job.wait_for_line(" trial ", LIMIT);
        let first = (0..3).map(|_| trial()).find(|line| line.contains(&wanted));
        let first = first.unwrap_or_else(|| panic!("nothing of root {root} in three trials"));
        println!("after root {}: {first}", nodes[root.parse::<usize>().unwrap()]);
        let next: Vec<String> = (0..2).map(|_| trial()).collect();
        assert!(next.iter().all(|line| line.contains(&wanted)), "root {root}: {next:?}");
    }
}

#[test]
#[ignore = "long: make test-lab"]
fn two_applications_hold_the_experiment_until_both_are_quiet() {
    let mut grid = four_nodes();
    grid.start_daemons(&LINGER).unwrap();
    let nodes = grid.nodes();
    let mut job = experiment(&grid);
    finish(start(&grid, "bcast_steady.c", &["0", BYTES, "10", BRIEFLY]), Vec::new());
    job.wait_for_line(" trial ", LIMIT);
    let mut long = start(&grid, "bcast_steady.c", &["0", BYTES, "100", FOREVER]);
    let mut short = start(&grid, "bcast_steady.c", &["0", BYTES, "100", "2"]);
    long.wait_for_line(" 0.", LIMIT);
    short.wait_for_line(" 0.", LIMIT);
    wait_until("both holds", || (status(&grid, &nodes[0])["holds"] == 2).then_some(()));
    job.lines();
    finish(short, Vec::new());
    // The first one's hold is gone, the second one's stands.
    wait_until("one hold", || (status(&grid, &nodes[0])["holds"] == 1).then_some(()));
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(state(&grid, &nodes[0]), "waiting");
    assert_eq!(trials(&job.lines()), 0, "it stands still while one application is left");
    end(&grid, long, Vec::new());
    job.wait_for_line(" trial ", LIMIT);
    wait_until("no hold", || (status(&grid, &nodes[0])["holds"] == 0).then_some(()));
    assert_eq!(hold_timeouts(&grid), 0);
}

#[test]
fn nobody_waits_for_an_experiment_that_does_not_answer() {
    let mut grid = four_nodes();
    grid.start_daemons(&[]).unwrap();
    let nodes = grid.nodes();
    let mut job = experiment(&grid);
    finish(start(&grid, "bcast_steady.c", &["0", BYTES, "10", BRIEFLY]), Vec::new());
    job.wait_for_line(" trial 2:", LIMIT);
    let ranks = experiment_ranks(&grid);
    wait_until("a running experiment", || (state(&grid, &nodes[0]) == "running").then_some(()));
    signal(&ranks, libc::SIGSTOP);
    let said = finish(start(&grid, "bcast_steady.c", &["0", BYTES, "10", "1"]), Vec::new());
    let timeouts = hold_timeouts(&grid);
    println!("{} broadcasts, {timeouts} hold timeouts", said.len());
    assert!(timeouts >= 1, "the daemon counts it");
    signal(&ranks, libc::SIGCONT);
    job.wait_for_line(" trial ", LIMIT);
}
