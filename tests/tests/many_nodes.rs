//! Random plans over 2 to 32 nodes with the engine alone, and an ordinary program on all 32.

use arborcast_tests::{Grid, Run, compile_c, grid_file, program};
use gridlab::Mpi;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

#[test]
#[ignore = "long: make test-lab"]
fn every_byte_arrives_along_random_plans_over_two_to_thirty_two_nodes() {
    let grid = Grid::up(&grid_file("thirty-two")).unwrap();
    let engine_check = program("engine-check", Mpi::OpenMpi);
    for (nodes, broadcasts, max_bytes) in
        [(2, "60", "8388608"), (3, "60", "1048576"), (13, "60", "65536"), (32, "80", "65536")]
    {
        let run = Run { ranks: Some(nodes), managed: false, ..Run::default() };
        let lines = grid.run(&run, &engine_check, &["11", broadcasts, max_bytes], LIMIT).unwrap();
        let wanted = format!("{broadcasts} broadcasts over {nodes} nodes are right");
        assert!(lines.iter().any(|line| line.contains(&wanted)), "{lines:?}");
    }
}

#[test]
#[ignore = "long: make test-lab"]
fn a_program_on_thirty_two_nodes_broadcasts_along_a_tree_from_the_first_and_the_last() {
    let mut grid = Grid::up(&grid_file("thirty-two")).unwrap();
    grid.start_daemons(&[]).unwrap();
    let program = compile_c("bcast_times.c", Mpi::OpenMpi);
    let nodes = grid.nodes();
    for root in [0, nodes.len() - 1] {
        let name = nodes[root].as_str();
        let search = ["--once", "--strategy", "magpie", "--pause", "0s"];
        let flags = [&search[..], &["--root", name, "--bytes", "1,65536"]].concat();
        let mut job = grid.experiment(&flags).unwrap();
        assert!(job.wait(LIMIT).success(), "{:?}", job.lines());
        let arguments = ["1,65536", "4", &root.to_string()];
        let lines = grid.run(&Run::default(), &program, &arguments, LIMIT).unwrap();
        let times = lines.iter().filter(|line| line.parse::<f64>().is_ok()).count();
        assert_eq!(times, 4 * 2, "{lines:?}");
        let targets = grid.operator_json(name, &["targets"]).unwrap();
        let used = targets.as_array().unwrap().iter().filter(|target| {
            target["finding"]["plan"]["kind"] == "trees" && target["demand"]["broadcasts"] == 4
        });
        assert!(used.count() >= 1, "no tree was better than native: {targets:#}");
    }
}

/// Tags that repeat with every broadcast: what belongs to which is told by the headers alone.
#[test]
#[ignore = "long: make test-lab"]
fn broadcasts_are_told_apart_where_the_mpi_has_few_tags() {
    let grid = Grid::up(&grid_file("mesh")).unwrap();
    let engine_check = program("engine-check", Mpi::OpenMpi);
    let run = Run { managed: false, ..Run::default() };
    let (broadcasts, max_bytes, largest_tag) = ("150", "3000", "33");
    let arguments = ["12", broadcasts, max_bytes, largest_tag];
    let lines = grid.run(&run, &engine_check, &arguments, LIMIT).unwrap();
    println!("{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("150 broadcasts over 16 nodes are right")));
}
