//! Programs with several ranks a node: many more ranks than processors, whose broadcasts go along trees between nodes
//! and among each node's ranks, between other messages. None may hang.
//!
//! `ARBORCAST_RANKS=3` has more ranks on each node, `ARBORCAST_RUNS=200` makes more runs.

mod support;

use arborcast_tests::{Grid, Run, compile_c, grid_file};
use gridlab::Mpi;
use std::time::Duration;
use support::{carried_by_trees, plant};

const SIZES: &str = "1,65536,1048576,8388608";
/// Above all that a run takes on two processors, so that it only ends what hangs.
const LIMIT: Duration = Duration::from_secs(600);
/// As a rank first sends to another one, Open MPI asks its node's daemon for the address and blocks; that daemon has
/// no processor where many ranks poll. So it asks while they start.
const ALL_ADDRESSES_FIRST: (&str, &str) = ("OMPI_MCA_mpi_add_procs_cutoff", "4096");

fn runs(ranks_per_node: usize, runs: usize) {
    let topology = grid_file("mesh");
    let mut grid = Grid::up(&topology).unwrap();
    grid.start_daemons(&[]).unwrap();
    let nodes = grid.nodes();
    let planted = plant(&grid, &nodes[0], topology.display(), SIZES, &[nodes.join(",")]);
    assert_eq!(planted, SIZES.split(',').count());
    let program = compile_c("bcast_among_others.c", Mpi::OpenMpi);
    let folder = tempfile::tempdir().unwrap();
    for number in 0..runs {
        let report = folder.path().join(number.to_string());
        let run = Run {
            ranks_per_node,
            env: vec![("ARBORCAST_REPORT", report.to_str().unwrap()), ALL_ADDRESSES_FIRST],
            ..Run::default()
        };
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

#[test]
#[ignore = "long: make test-lab"]
fn no_run_of_many_ranks_hangs() {
    let number = |name, usual| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    runs(number("ARBORCAST_RANKS", 2), number("ARBORCAST_RUNS", 1));
}
