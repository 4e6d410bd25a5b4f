//! Broadcasts of other languages' bindings, natively and with trees in use: Fortran's module mpi_f08 and
//! Python's mpi4py. C, C++, mpif.h and the module mpi are in `conformance`, `regressions` and
//! `application_payloads`.

mod support;

use arborcast_tests::{Run, compile_c};
use gridlab::Mpi;
use std::path::{Path, PathBuf};
use support::{LIMIT, carried_by_trees, planted_for_every_group};

fn assert_right(mpi: Mpi, program: &Path, arguments: &[&str], last: &str, seed: u64) {
    let grid = planted_for_every_group(seed);
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let run = |managed| {
        let env = vec![("ARBORCAST_REPORT", report.to_str().unwrap())];
        let run = Run { mpi, managed, env, ..Run::default() };
        let said = grid.run(&run, program, arguments, LIMIT).unwrap();
        assert!(said.iter().any(|line| line.ends_with(last)), "{said:?}");
        said
    };
    let native = run(false);
    assert!(!report.exists(), "no library, no report");
    assert_eq!(run(true), native);
    let (processes, along_trees) = carried_by_trees(&report);
    println!("{}: {along_trees} broadcasts went along trees, counted by all ranks", mpi.name());
    assert_eq!(processes, grid.nodes().len(), "a line of the report for each process");
    assert!(along_trees > 0, "no broadcast went along trees");
}

fn fortran_2008(mpi: Mpi, seed: u64) {
    assert_right(mpi, &compile_c("bcast_f08.f90", mpi), &[], "50 rounds are right", seed);
}

#[test]
fn fortran_through_mpi_f08_with_open_mpi() {
    fortran_2008(Mpi::OpenMpi, 5000);
}

#[test]
fn fortran_through_mpi_f08_with_mpich() {
    fortran_2008(Mpi::Mpich, 5100);
}

/// The Python of a wheel's environment, where mpi4py and numpy are in it.
fn python(mpi: Mpi) -> Option<PathBuf> {
    let python = gridlab::mpi::mpi_home(mpi).join("bin/python");
    let mut command = std::process::Command::new(&python);
    let output = command.args(["-c", "import mpi4py, numpy"]).output().ok()?;
    output.status.success().then_some(python)
}

fn mpi4py(mpi: Mpi, seed: u64) {
    let Some(python) = python(mpi) else {
        println!("not run: no mpi4py beside {}", mpi.name());
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/bcast_mpi4py.py");
    assert_right(mpi, &python, &[script.to_str().unwrap()], "values are right", seed);
}

#[test]
#[ignore = "needs make mpi-wheels: make test-lab"]
fn mpi4py_with_open_mpi_5() {
    mpi4py(Mpi::OpenMpi5, 5200);
}

#[test]
#[ignore = "needs make mpi-wheels: make test-lab"]
fn mpi4py_with_mpich_5() {
    mpi4py(Mpi::Mpich5, 5300);
}

#[test]
#[ignore = "needs make mpi-wheels: make test-lab"]
fn mpi4py_with_intel_mpi() {
    mpi4py(Mpi::Intel, 5400);
}
