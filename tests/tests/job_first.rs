//! The first broadcasts from roots, and of a communicator, that nobody has measured anything of, where the links are
//! known.

mod support;

use arborcast_tests::{Background, Grid, Run, compile_c, grid_file};
use gridlab::Mpi;
use std::time::Duration;
use support::*;

const BYTES: &str = "1048576";
const REPEATS: u64 = 5;
const PAUSE_MS: &str = "200";
/// That the program broadcasts from in turn: three over all nodes, two over half of them.
const ROOTS: usize = 5;
const LIMIT: Duration = Duration::from_secs(120);

/// What the first broadcast took and the median of those after it, in seconds.
fn read(line: &str) -> Option<(&str, f64, f64)> {
    let (what, times) = line.split_once(": ")?;
    let (first, then) = times.strip_suffix(" then")?.split_once(" first, ")?;
    Some((what, first.parse().ok()?, then.parse().ok()?))
}

#[test]
#[ignore = "long: make test-lab"]
fn what_is_known_of_the_links_serves_every_root_and_every_group_at_once() {
    let mut grid = Grid::up(&grid_file("mesh")).unwrap();
    grid.start_daemons(&[]).unwrap();
    let _job = grid.experiment(&[]).unwrap();
    wait_until("the links to be known", || knows_links(&grid).then_some(()));
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let env = vec![("ARBORCAST_REPORT", report.to_str().unwrap())];
    let application = compile_c("bcast_first.c", Mpi::OpenMpi);
    let arguments = [BYTES, &REPEATS.to_string(), PAUSE_MS];
    let run = Run { env, ..Run::default() };
    let command = grid.application(&run, &application, &arguments).unwrap();
    let mut program = Background::start(command, "bcast_first").unwrap();
    assert!(program.wait(LIMIT).success());
    let lines = program.lines();
    let times: Vec<_> = lines.iter().filter_map(|line| read(line)).collect();
    for (what, first_s, then_s) in &times {
        println!("{what}: {first_s:.3} s first, {then_s:.3} s then: {:.2} ×", first_s / then_s);
    }
    assert_eq!(times.len(), ROOTS, "{lines:?}");
    let nodes = grid.nodes().len() as u64;
    let broadcasts = REPEATS * (3 * nodes + 2 * nodes / 2);
    assert_eq!(carried_by_trees(&report), (grid.nodes().len(), broadcasts), "none is native");
}
