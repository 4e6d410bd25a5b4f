//! Programs that are not recompiled, over random plans: every byte on every rank, every root, many
//! sizes and shapes, several ranks a node, several communicators, errors as without Arborcast.

mod support;

use arborcast_tests::{Grid, Run, compile_c};
use gridlab::Mpi;
use support::{LIMIT, near_nodes, plant, targets};

const BIG_BYTES: usize = 8 << 20;
/// One size of each class that the programs use.
const CLASSES: &str = "1,1025,4000,5000,12000,70000,8388608";

/// A grid whose daemons know random plans for the groups that the programs make, each its own.
fn planted_grid(seed: u64) -> Grid {
    println!("seed {seed}");
    let mut grid = near_nodes();
    grid.start_daemons(&[]).unwrap();
    let nodes = grid.nodes();
    let groups: [&[usize]; 4] = [&[0, 1, 2, 3], &[0, 1, 2], &[0, 3], &[1, 2]];
    let names = |group: &[usize]| group.iter().map(|&i| &*nodes[i]).collect::<Vec<_>>().join(",");
    let names = groups.map(names);
    let expected = CLASSES.split(',').count() * groups.map(<[usize]>::len).iter().sum::<usize>();
    for (number, node) in (0..).zip(&nodes) {
        assert_eq!(plant(&grid, node, seed + number, CLASSES, &names), expected);
    }
    grid
}

fn payloads(mpi: Mpi, ranks_per_node: usize, seed: u64) {
    let grid = planted_grid(seed);
    let application = compile_c("bcast_payloads.c", mpi);
    let (ranks_per_node_text, big_bytes) = (ranks_per_node.to_string(), BIG_BYTES.to_string());
    let run = |managed| {
        // Open MPI 4.1's own broadcast, which also serves the ranks of a node, takes its segments
        // from each rank's datatype, and sends empty messages only where the count is not 0.
        let mixed = match (mpi, managed && ranks_per_node == 1) {
            (Mpi::OpenMpi, false) => "0",
            (Mpi::OpenMpi, true) => "1",
            _ => "2",
        };
        let arguments = [&*ranks_per_node_text, &*big_bytes, mixed];
        let run = Run { mpi, ranks_per_node, managed, ..Run::default() };
        grid.run(&run, &application, &arguments, LIMIT).unwrap()
    };
    let (native, managed) = (run(false), run(true));
    let errors = |lines: &[String]| -> Vec<String> {
        lines.iter().filter(|line| line.starts_with("error")).cloned().collect()
    };
    assert_eq!(errors(&native).len(), 5, "{native:?}");
    assert_eq!(errors(&managed), errors(&native));
    let counts = |lines: &[String]| -> Vec<u64> {
        let line = lines.iter().find(|line| line.contains("along trees")).expect("the last line");
        println!("{} {ranks_per_node} a node: {line}", mpi.name());
        line.split(' ').filter_map(|word| word.parse().ok()).collect()
    };
    let (native, managed) = (counts(&native), counts(&managed));
    assert_eq!(native[1..], [0, 0], "no library, nobody to ask");
    assert_eq!(managed[0], native[0]);
    assert!(managed[1] > managed[0] / 3, "{managed:?}");
    assert_eq!(managed[1], managed[2], "every broadcast between nodes goes along trees");
}

#[test]
fn every_payload_arrives_with_open_mpi() {
    payloads(Mpi::OpenMpi, 1, 100);
}

#[test]
#[ignore = "long: make test-lab"]
fn every_payload_arrives_with_open_mpi_and_two_ranks_a_node() {
    payloads(Mpi::OpenMpi, 2, 200);
}

#[test]
#[ignore = "long: make test-lab"]
fn every_payload_arrives_with_open_mpi_and_three_ranks_a_node() {
    payloads(Mpi::OpenMpi, 3, 300);
}

#[test]
fn every_payload_arrives_with_mpich() {
    payloads(Mpi::Mpich, 1, 400);
}

#[test]
#[ignore = "long: make test-lab"]
fn every_payload_arrives_with_mpich_and_three_ranks_a_node() {
    payloads(Mpi::Mpich, 3, 500);
}

/// A sampled time of the library is one until the ACKs of all leaves were in: natively there are none.
fn sampled_roots(grid: &Grid) -> usize {
    let is_sampled = |target: serde_json::Value| target["in_use"]["repetitions"].as_u64() > Some(0);
    let sampled = |node: &str| targets(grid, node).into_iter().any(is_sampled);
    grid.nodes().iter().filter(|node| sampled(node)).count()
}

fn fortran(mpi: Mpi, source: &str, seed: u64) {
    let grid = planted_grid(seed);
    let application = compile_c(source, mpi);
    let run = Run { mpi, ..Run::default() };
    assert_eq!(sampled_roots(&grid), 0);
    let lines = grid.run(&run, &application, &[], LIMIT).unwrap();
    assert!(lines.contains(&"100 rounds are right".to_owned()), "{lines:?}");
    let sampled = sampled_roots(&grid);
    println!("{source} with {}: {sampled} roots were timed along trees", mpi.name());
    assert!(sampled >= 1, "no broadcast went along trees");
}

#[test]
fn fortran_through_mpif_h_with_open_mpi() {
    fortran(Mpi::OpenMpi, "bcast_mpif.f90", 600);
}

#[test]
fn fortran_through_the_module_with_open_mpi() {
    fortran(Mpi::OpenMpi, "bcast_use.f90", 700);
}

#[test]
fn fortran_through_mpif_h_with_mpich() {
    fortran(Mpi::Mpich, "bcast_mpif.f90", 800);
}

#[test]
fn fortran_through_the_module_with_mpich() {
    fortran(Mpi::Mpich, "bcast_use.f90", 900);
}
