//! Ways whose queues are shorter than TCP's windows, where the plan has TCP spread what it sends.

mod support;

use arborcast_tests::{Grid, grid_file};
use support::*;

const BYTES: &str = "8388608";
const BROADCASTS: usize = 6;
const PAUSE_MS: &str = "1000";

/// Packets that links' queues had no room for since the lab is up, and all bytes that passed.
fn dropped(grid: &Grid) -> (u64, u64) {
    let links = grid.lab().status().unwrap().links;
    links.iter().fold((0, 0), |sum, link| (sum.0 + link.dropped, sum.1 + link.bytes))
}

#[test]
#[ignore = "long: make test-lab"]
fn tcp_paces_where_queues_lose_its_bursts() {
    let mut grid = Grid::up(&grid_file("shallow")).unwrap();
    grid.start_daemons(&[]).unwrap();
    let root = grid.nodes()[0].clone();
    let job = grid.experiment(&["--root", &root, "--bytes", BYTES, "--once"]).unwrap();
    finish(job, Vec::new());
    let plan = &targets(&grid, &root)[0]["finding"]["plan"];
    assert_eq!(plan["tcp_paced"], true, "{plan}");

    let arguments = [BYTES, &BROADCASTS.to_string(), "0", PAUSE_MS];
    let mut program = start(&grid, "bcast_times.c", &arguments);
    let (mut before, mut lost) = (dropped(&grid), Vec::new());
    while lost.len() < BROADCASTS {
        let line = program.wait_for_line(".", LIMIT);
        let now = dropped(&grid);
        let packets = (now.1 - before.1) as f64 / 1500.0;
        lost.push((now.0 - before.0) as f64 / packets);
        println!("{line} s, {:.2} % lost", 100.0 * lost[lost.len() - 1]);
        before = now;
    }
    finish(program, Vec::new());
    // The first opens the connections, the second still recovers from what that has lost.
    let later = lost[2..].iter().sum::<f64>() / (BROADCASTS - 2) as f64;
    assert!(later < lost[0] / 10.0, "{lost:?}");
}
