//! The example programs of the C and the Rust interface, which check every number themselves.

mod support;

use arborcast_tests::{Grid, Run, shim};
use gridlab::Mpi;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::*;

const BYTES: &str = "262144";

/// What an example says without a plan, and then with one.
fn assert_says_how_it_went(example: &Path, mpi: Mpi) {
    let mut grid: Grid = four_nodes();
    grid.start_daemons(&[]).unwrap();
    // Not preloaded: it is linked with Arborcast.
    let run = Run { mpi, managed: false, ..Run::default() };
    let said = || grid.run(&run, example, &[], LIMIT).unwrap();
    let count =
        |lines: &[String], start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
    let native = said();
    assert!(native.contains(&"plan: native".into()), "{native:?}");
    assert_eq!(count(&native, "by the native broadcast"), 3, "{native:?}");
    let nodes = grid.nodes();
    plant(&grid, &nodes[0], 5, BYTES, &[nodes.join(",")]);
    let planned = said();
    println!("{}", planned.join("\n"));
    assert_eq!(count(&planned, "along trees in"), 3, "{planned:?}");
    assert!(planned.iter().any(|line| line.contains("segments of")), "{planned:?}");
}

/// Compiles the C example as its first lines tell.
fn c_example(mpi: Mpi) -> PathBuf {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi-shim/examples/timed_broadcast.c");
    let library = shim();
    let folder = library.parent().unwrap();
    let program = folder.join(format!("timed_broadcast-c-{}", mpi.name()));
    let mut command = Command::new(format!("mpicc.{}", mpi.name()));
    command.arg("-Wall").arg("-Werror").arg(&source).arg("-o").arg(&program);
    command.arg("-I").arg(source.parent().unwrap().join("../include"));
    command.arg("-L").arg(folder).arg("-larborcast");
    // Before LD_LIBRARY_PATH, in which cargo puts the folder of the default MPI.
    command.arg(format!("-Wl,--disable-new-dtags,-rpath,{}", folder.display()));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

#[test]
fn the_c_example_with_open_mpi() {
    assert_says_how_it_went(&c_example(Mpi::OpenMpi), Mpi::OpenMpi);
}

#[test]
fn the_c_example_with_mpich() {
    assert_says_how_it_went(&c_example(Mpi::Mpich), Mpi::Mpich);
}

#[test]
fn the_rust_example() {
    let example = shim().parent().unwrap().join("examples/timed_broadcast");
    let hint = "run `cargo build -p arborcast-rsmpi --examples`";
    assert!(example.exists(), "{} is not there: {hint}", example.display());
    assert_says_how_it_went(&example, Mpi::OpenMpi);
}
