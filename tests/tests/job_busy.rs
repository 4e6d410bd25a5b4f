//! A program that broadcasts all the time and leaves the experiment no room: what its own broadcasts tell of the
//! links is all there is to plan by.

mod support;

use arborcast_proto::message::Times;
use arborcast_tests::{Background, Grid, grid_file, limit};
use std::time::{Duration, Instant};
use support::*;

const BYTES: u64 = 1 << 20;
/// Too short for any transfer of a survey on these links; and such that a survey takes minutes.
const NO_PAUSE_MS: &str = "50";
const SHORT_PAUSE_MS: &str = "500";
/// In which what is found is found.
const LONG: Duration = Duration::from_secs(40);
const SHORT: Duration = Duration::from_secs(15);
/// So many of the last broadcasts tell what was found.
const LAST: usize = 15;
/// Native takes about 30 × the limit, a plan by sites alone about 4.
const GOOD: f64 = 1.8;
/// With short pauses windows begin small, and the nodes' processors, which are this machine's, count for more: the plan
/// of a whole survey takes 1.7 to 1.8 × the limit on two cores.
const GOOD_AFTER_PAUSES: f64 = 2.5;
/// Of what the same program takes on the same machine once the links are surveyed.
const NEARLY: f64 = 1.5;

/// What one broadcast took, and when.
type Broadcast = (Duration, f64);

fn watch(program: &mut Background, job: &mut Background, watched: Duration) -> Vec<Broadcast> {
    let began = Instant::now();
    let mut broadcasts = Vec::new();
    while began.elapsed() < watched {
        let lines = program.lines();
        let times = lines.iter().filter_map(|line| line.split(' ').nth(1)?.parse().ok());
        let now = began.elapsed();
        broadcasts.extend(times.map(|seconds: f64| (now, seconds)));
        for line in job.lines() {
            println!("{:6.1} s  {line}", now.as_secs_f64());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    broadcasts
}

fn median_s(broadcasts: &[Broadcast]) -> f64 {
    let seconds: Vec<f64> = broadcasts.iter().map(|(_, seconds)| *seconds).collect();
    Times::of(&seconds).unwrap().median_s
}

/// What the last broadcasts of a program take that broadcasts for a while, × the limit.
fn broadcasts(grid: &Grid, job: &mut Background, pause_ms: &str, watched: Duration) -> f64 {
    let limit_s = limit::limit(grid.lab().topology(), 0, BYTES);
    let seconds = watched.as_secs().to_string();
    let arguments = ["0", &BYTES.to_string(), pause_ms, &seconds];
    let mut program = start(grid, "bcast_steady.c", &arguments);
    let broadcasts = watch(&mut program, job, watched);
    finish(program, Vec::new());
    for ten in broadcasts.chunks(10) {
        let (at, _) = ten[0];
        println!("{:6.1} s  {:.3} s a broadcast", at.as_secs_f64(), median_s(ten));
    }
    let natives = broadcasts.iter().take_while(|(_, seconds)| *seconds > 10.0 * limit_s).count();
    let last_s = median_s(&broadcasts[broadcasts.len().saturating_sub(LAST)..]);
    let of_limit = last_s / limit_s;
    println!("{natives} native ones, at last {last_s:.3} s = {of_limit:.2} × the limit");
    println!("waited too long: {}", status(grid, &grid.nodes()[0])["hold_timeouts"]);
    assert!(natives <= 10, "{natives}");
    of_limit
}

fn mesh_with_job() -> (Grid, Background) {
    let mut grid = Grid::up(&grid_file("mesh")).unwrap();
    grid.start_daemons(&[]).unwrap();
    let job = grid.experiment(&[]).unwrap();
    (grid, job)
}

fn wait_for_survey(grid: &Grid) {
    wait_until("the links to be known", || knows_links(grid).then_some(()));
}

#[test]
#[ignore = "long: make test-lab"]
fn a_program_that_leaves_no_room_has_a_plan_by_what_was_surveyed_before_it_came() {
    let (grid, mut job) = mesh_with_job();
    wait_for_survey(&grid);
    let of_limit = broadcasts(&grid, &mut job, NO_PAUSE_MS, SHORT);
    assert!(of_limit < GOOD, "{of_limit:.2} × the limit");
}

#[test]
#[ignore = "long: make test-lab"]
fn a_program_that_leaves_no_room_teaches_by_its_own_broadcasts() {
    let (grid, mut job) = mesh_with_job();
    let of_limit = broadcasts(&grid, &mut job, NO_PAUSE_MS, LONG);
    assert!(of_limit < GOOD, "{of_limit:.2} × the limit");
}

#[test]
#[ignore = "long: make test-lab"]
fn a_program_that_leaves_little_room_need_not_wait_for_the_survey() {
    let (grid, mut job) = mesh_with_job();
    let taught = broadcasts(&grid, &mut job, SHORT_PAUSE_MS, LONG);
    assert!(taught < GOOD_AFTER_PAUSES, "{taught:.2} × the limit");
    wait_for_survey(&grid);
    let surveyed = broadcasts(&grid, &mut job, SHORT_PAUSE_MS, SHORT);
    assert!(
        taught < NEARLY * surveyed,
        "{taught:.2} × the limit, and {surveyed:.2} once the links are surveyed"
    );
}
