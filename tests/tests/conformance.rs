//! What the MPI standard allows around MPI_Bcast, row by row: natively and with trees in use, equal to
//! the byte, the error class and the number of calls of a handler, on every MPI that is there.

mod support;

use arborcast_tests::conformance::{Table, compare, table};
use arborcast_tests::{Grid, Run, compile_c, compile_standard_abi};
use gridlab::{Mpi, Topology};
use std::path::Path;
use support::{plant_for_every_group, planted_for_every_group};

const SOURCE: &str = "conformance";

/// How the rows are run.
#[derive(Default, Clone, Copy)]
struct Way<'a> {
    ranks_per_node: usize,
    flags: &'a [&'a str],
    names: &'a [&'a str],
    /// The native run has all ranks on one node: what arrives is the same, and sooner.
    is_native_on_one_node: bool,
}

const ONE_A_NODE: Way<'_> =
    Way { ranks_per_node: 1, flags: &[], names: &[], is_native_on_one_node: false };

fn beside_native(grid: &Grid, mpi: Mpi, application: &Path, way: Way<'_>) -> (Table, Vec<String>) {
    let Way { ranks_per_node, flags, names, is_native_on_one_node } = way;
    let ranks = grid.nodes().len() * ranks_per_node;
    let run = |managed, ranks_per_node| Run {
        mpi,
        ranks: Some(ranks),
        ranks_per_node,
        managed,
        ..Run::default()
    };
    let natively_per_node = if is_native_on_one_node { ranks } else { ranks_per_node };
    let named: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let native = table(grid, &run(false, natively_per_node), application, flags, &named).unwrap();
    assert!(native.wrong().is_empty(), "natively: {:?}", native.wrong());
    assert!(!native.rows.is_empty());
    // By name, so that a job can go on behind a row that ended it.
    let named: Vec<String> = native.rows.iter().map(|row| row.name.clone()).collect();
    let managed = table(grid, &run(true, ranks_per_node), application, flags, &named).unwrap();
    let differ = compare(&native, &managed);
    (managed, differ)
}

fn assert_the_same(grid: &Grid, mpi: Mpi, application: &Path, way: Way<'_>) {
    let (managed, differ) = beside_native(grid, mpi, application, way);
    assert!(differ.is_empty(), "{} rows differ:\n{}", differ.len(), differ.join("\n"));
    assert!(managed.along_trees > 0, "no broadcast went along trees");
}

fn every_row(mpi: Mpi, way: Way<'_>, seed: u64) {
    assert_the_same(&planted_for_every_group(seed), mpi, &compile_c(SOURCE, mpi), way);
}

/// An MPI from a wheel is there where `make mpi-wheels` has put it.
fn every_row_of_wheel(mpi: Mpi, way: Way<'_>, seed: u64) {
    match mpi.launcher() {
        Ok(_) => every_row(mpi, way, seed),
        Err(missing) => println!("not run: {missing}"),
    }
}

fn every_row_of_standard_abi(mpi: Mpi, seed: u64) {
    match compile_standard_abi(SOURCE, mpi) {
        Some(application) => {
            assert_the_same(&planted_for_every_group(seed), mpi, &application, ONE_A_NODE);
        }
        None => println!("not run: {} has no standard binary interface here", mpi.name()),
    }
}

#[test]
fn every_row_is_as_natively_with_open_mpi() {
    every_row(Mpi::OpenMpi, ONE_A_NODE, 1000);
}

#[test]
#[ignore = "long: make test-lab"]
fn every_row_is_as_natively_with_mpich() {
    every_row(Mpi::Mpich, ONE_A_NODE, 1100);
}

#[test]
#[ignore = "needs make mpi-wheels: make test-lab"]
fn every_row_is_as_natively_with_open_mpi_5() {
    every_row_of_wheel(Mpi::OpenMpi5, ONE_A_NODE, 1200);
}

#[test]
#[ignore = "needs make mpi-wheels: make test-lab"]
fn every_row_is_as_natively_with_mpich_5() {
    every_row_of_wheel(Mpi::Mpich5, ONE_A_NODE, 1300);
}

#[test]
#[ignore = "needs make mpi-wheels: make test-lab"]
fn every_row_is_as_natively_with_intel_mpi() {
    every_row_of_wheel(Mpi::Intel, ONE_A_NODE, 1400);
}

#[test]
#[ignore = "needs make mpi-wheels: make test-lab"]
fn every_row_is_as_natively_with_the_standard_abi_of_mpich_5() {
    every_row_of_standard_abi(Mpi::Mpich5, 1500);
}

#[test]
#[ignore = "needs make mpi-wheels: make test-lab"]
fn every_row_is_as_natively_with_the_standard_abi_of_intel_mpi() {
    every_row_of_standard_abi(Mpi::Intel, 1600);
}

#[test]
#[ignore = "more ranks than processors: minutes"]
fn every_row_is_as_natively_with_open_mpi_and_three_ranks_a_node() {
    every_row(Mpi::OpenMpi, Way { ranks_per_node: 3, ..ONE_A_NODE }, 1700);
}

#[test]
#[ignore = "more ranks than processors: minutes"]
fn every_row_is_as_natively_with_mpich_and_two_ranks_a_node() {
    every_row(Mpi::Mpich, Way { ranks_per_node: 2, ..ONE_A_NODE }, 1800);
}

/// Rows of threads, and those where an MPI may hold a lock when it calls the program back.
const OF_THREADS: &[&str] = &[
    "threads_at_once",
    "threads_make_and_free",
    "threads_beside_messages",
    "threads_hand_on_a_communicator",
    "world",
    "errors_handled",
    "broadcast_in_copy_callback",
    "broadcast_in_delete_callback",
    "broadcast_in_copy_callback_of_a_type",
];
const THREADS: Way<'_> = Way { flags: &["--level", "multiple"], names: OF_THREADS, ..ONE_A_NODE };

#[test]
#[ignore = "long: make test-lab"]
fn threads_are_as_natively_with_open_mpi() {
    // MPICH 4.0.2 ends the job natively where a handler broadcasts at this level of threads.
    let names = [OF_THREADS, &["handler_that_broadcasts"]].concat();
    every_row(Mpi::OpenMpi, Way { names: &names, ..THREADS }, 1900);
}

#[test]
#[ignore = "long: make test-lab"]
fn threads_are_as_natively_with_mpich() {
    every_row(Mpi::Mpich, THREADS, 2000);
}

#[test]
#[ignore = "needs make mpi-wheels: make test-lab"]
fn threads_are_as_natively_with_intel_mpi() {
    every_row_of_wheel(Mpi::Intel, THREADS, 2100);
}

/// As fast as the emulated network gets.
const TWO_FAST_NODES: &str = r#"
    [hosts]
    tcp = "tuned"
    mtu = 9000
    [[site]]
    name = "a"
    nodes = 2
    node_rate = "10gbit"
    latency = "20us"
"#;

#[test]
#[ignore = "2 GiB a rank, and many seconds for each over the emulated network"]
fn two_gib_are_as_natively() {
    let large = Way { flags: &["--large"], is_native_on_one_node: true, ..ONE_A_NODE };
    // Seeds of plans that the network takes longer for than their pacing: fourteen trees and more, and two.
    for (mpi, seed) in [(Mpi::Mpich, 2400), (Mpi::OpenMpi, 3900)] {
        let grid = Grid::of(Topology::parse(TWO_FAST_NODES).unwrap()).unwrap();
        let grid = plant_for_every_group(grid, seed);
        assert_the_same(&grid, mpi, &compile_c(SOURCE, mpi), large);
    }
}
