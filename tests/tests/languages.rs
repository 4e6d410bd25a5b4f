//! Broadcasts of other languages' bindings, natively and with trees in use: Fortran's module mpi_f08 and
//! Python's mpi4py. C, C++, mpif.h and the module mpi are in `conformance`, `regressions` and
//! `application_payloads`.

mod support;

use arborcast_tests::{Grid, Run, compile_c};
use gridlab::Mpi;
use std::path::{Path, PathBuf};
use support::{LIMIT, planted_for_every_group, targets};

/// Roots that have sampled a time until the ACKs of all leaves were in: natively there are none.
fn timed_roots(grid: &Grid) -> usize {
    let is_timed = |target: &serde_json::Value| target["in_use"]["repetitions"].as_u64() > Some(0);
    grid.nodes().iter().filter(|node| targets(grid, node).iter().any(is_timed)).count()
}

fn assert_right(mpi: Mpi, program: &Path, arguments: &[&str], last: &str, seed: u64) {
    let grid = planted_for_every_group(seed);
    let run = |managed| {
        let run = Run { mpi, managed, ..Run::default() };
        let said = grid.run(&run, program, arguments, LIMIT).unwrap();
        assert!(said.iter().any(|line| line.ends_with(last)), "{said:?}");
        said
    };
    let native = run(false);
    assert_eq!(timed_roots(&grid), 0);
    assert_eq!(run(true), native);
    assert!(timed_roots(&grid) > 0, "no broadcast went along trees");
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
fn mpi4py_with_open_mpi_5() {
    mpi4py(Mpi::OpenMpi5, 5200);
}

#[test]
fn mpi4py_with_mpich_5() {
    mpi4py(Mpi::Mpich5, 5300);
}

#[test]
fn mpi4py_with_intel_mpi() {
    mpi4py(Mpi::Intel, 5400);
}
