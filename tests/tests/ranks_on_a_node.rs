//! Programs with several ranks a node: many more ranks than processors, whose broadcasts go along trees between nodes
//! and among each node's ranks, between other messages. None may hang.
//!
//! `ARBORCAST_RUNS=67` makes more runs of each.

mod support;

use arborcast_tests::{Grid, Run, compile_c, grid_file};
use gridlab::Mpi;
use std::fs;
use std::time::Duration;
use support::{carried_by_trees, plant};

const SIZES: &str = "1,65536,1048576,8388608";
/// Above all that a run takes on two processors, so that it only ends what hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// Whether hosts take turns as on processors of their own: see "What a packet meets" in gridlab's README.
fn is_one_group(grid: &Grid, node: &str) -> bool {
    let is_grouped = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    let groups = grid.lab().exec(node, "cat").unwrap().arg("/proc/self/cgroup").output().unwrap();
    let groups = String::from_utf8(groups.stdout).unwrap();
    !is_grouped.is_ok_and(|text| text.trim() == "1")
        || groups.lines().any(|line| line.ends_with(":/gridlab"))
}

/// Runs with each of these numbers of ranks a node.
fn runs(ranks_per_node: &[usize], runs: usize) {
    let topology = grid_file("mesh");
    let mut grid = Grid::up(&topology).unwrap();
    let is_one_group = is_one_group(&grid, &grid.nodes()[0]);
    let ranks_per_node = if is_one_group { ranks_per_node } else { &ranks_per_node[..1] };
    println!(
        "with {ranks_per_node:?} ranks a node: hosts are one group of the scheduler: {is_one_group}"
    );
    grid.start_daemons(&[]).unwrap();
    let nodes = grid.nodes();
    let planted = plant(&grid, &nodes[0], topology.display(), SIZES, &[nodes.join(",")]);
    assert_eq!(planted, SIZES.split(',').count());
    let program = compile_c("bcast_among_others.c", Mpi::OpenMpi);
    let folder = tempfile::tempdir().unwrap();
    for number in 0..runs {
        for &ranks_per_node in ranks_per_node {
            let report = folder.path().join(format!("{number}.{ranks_per_node}"));
            let env = vec![("ARBORCAST_REPORT", report.to_str().unwrap())];
            let run = Run { ranks_per_node, env, ..Run::default() };
            let started = std::time::Instant::now();
            let lines = grid.run(&run, &program, &[&number.to_string(), SIZES], LIMIT).unwrap();
            let times = lines.iter().filter(|line| line.contains(" median, "));
            assert_eq!(times.count(), planted, "{lines:?}");
            let (ranks, along_trees) = carried_by_trees(&report);
            assert_eq!(ranks, ranks_per_node * nodes.len());
            assert!(along_trees > 0);
            println!(
                "{ranks_per_node} a node, run {number}: {:.1} s, {along_trees} along trees: {}",
                started.elapsed().as_secs_f64(),
                lines.join("; ")
            );
        }
    }
}

#[test]
#[ignore = "long: make test-lab"]
fn no_run_of_many_ranks_hangs() {
    let number = std::env::var("ARBORCAST_RUNS").map_or(1, |text| text.parse().unwrap());
    runs(&[2, 5], number);
}
