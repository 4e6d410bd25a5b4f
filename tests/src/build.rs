//! Where the programs under test are, and building the C programs beside them.

use gridlab::Mpi;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the programs that were built with this one: `ARBORCAST_BIN_DIR`, or the folder
/// that this program, or the `deps` folder this test, lies in.
fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("ARBORCAST_BIN_DIR") {
        return folder.into();
    }
    let own = std::env::current_exe().unwrap_or_default();
    let folder = own.parent().unwrap_or(Path::new("."));
    match folder.ends_with("deps") {
        true => folder.parent().unwrap_or(folder).into(),
        false => folder.into(),
    }
}

/// The folder of what was built for an MPI: the distribution's MPICH has a build of its own below
/// `mpich`, all others run what was built first.
fn folder_for(mpi: Mpi) -> PathBuf {
    let folder = folder();
    match (mpi, folder.file_name(), folder.parent()) {
        (Mpi::Mpich, Some(profile), Some(target)) => target.join("mpich").join(profile),
        _ => folder,
    }
}

/// A program of this project, built for an MPI.
///
/// # Panics
/// Where it has not been built: a test cannot go on without.
pub fn program(name: &str, mpi: Mpi) -> PathBuf {
    let path = folder_for(mpi).join(name);
    assert!(path.exists(), "{} is not there: run `make build` first", path.display());
    path
}

/// The library that applications are started with, whatever their MPI.
pub fn shim() -> PathBuf {
    program("libarborcast.so", Mpi::OpenMpi)
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// A ready-made grid, by its name.
pub fn grid_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("gridlab/grids").join(name).with_extension("toml")
}

/// Compiles `programs/<name>` (C, or Fortran by its ending) with an MPI.
///
/// # Panics
/// Where it does not compile.
pub fn compile_c(name: &str, mpi: Mpi) -> PathBuf {
    let source = sources().join(name);
    let language = if name.ends_with(".c") { "mpicc" } else { "mpifort" };
    let compiler = match mpi {
        Mpi::OpenMpi | Mpi::Mpich => format!("{language}.{}", mpi.name()),
        _ => gridlab::mpi::mpi_home(mpi).join("bin").join(language).display().to_string(),
    };
    let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let to = folder().join("programs");
    std::fs::create_dir_all(&to).expect("the build folder can be written to");
    // Tests run side by side: each writes a file of its own and moves it into place.
    let program = to.join(format!("{stem}-{}", mpi.name()));
    let fresh = to.join(format!("{stem}-{}-{}", mpi.name(), std::process::id()));
    let mut command = Command::new(&compiler);
    command.args(["-O2", "-Wall", "-o"]).arg(&fresh).arg(&source);
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi-shim/include");
    command.arg("-I").arg(include);
    if mpi == Mpi::Intel {
        command.env("I_MPI_ROOT", gridlab::mpi::mpi_home(mpi));
    }
    let output = command.output().unwrap_or_else(|error| panic!("{compiler}: {error}"));
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} {}: {messages}", source.display());
    std::fs::rename(&fresh, &program).expect("one folder");
    program
}
