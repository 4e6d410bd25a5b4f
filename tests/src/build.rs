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

/// Compiles `programs/<name>` with an MPI: C, C++ or Fortran by its ending, a folder of C files as one
/// program.
///
/// # Panics
/// Where it does not compile.
pub fn compile_c(name: &str, mpi: Mpi) -> PathBuf {
    compile(name, mpi, Output::Program)
}

/// As [`compile_c`], a library to be preloaded or opened.
///
/// # Panics
/// Where it does not compile.
pub fn compile_library(name: &str, mpi: Mpi) -> PathBuf {
    compile(name, mpi, Output::Library)
}

/// As [`compile_c`], for the standard binary interface of MPI 5.0. `None` where this MPI has none.
///
/// # Panics
/// Where it does not compile.
pub fn compile_standard_abi(name: &str, mpi: Mpi) -> Option<PathBuf> {
    let library = gridlab::mpi::mpi_home(mpi).join("lib/libmpi_abi.so");
    library.exists().then(|| compile(name, mpi, Output::ProgramOfStandardAbi))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Program,
    /// For the standard binary interface.
    ProgramOfStandardAbi,
    Library,
}

/// Tests run side by side: each compiles into a file of its own and moves it into place.
fn compile(name: &str, mpi: Mpi, output: Output) -> PathBuf {
    let source = sources().join(name);
    let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let ending = match output {
        Output::Program => "",
        Output::ProgramOfStandardAbi => "-abi",
        Output::Library => ".so",
    };
    let to = folder().join("programs");
    std::fs::create_dir_all(&to).expect("the build folder can be written to");
    let program = to.join(format!("{stem}-{}{ending}", mpi.name()));
    let fresh = to.join(format!("{stem}-{}{ending}-{}", mpi.name(), std::process::id()));
    let mut command = compiler(name, mpi, output == Output::ProgramOfStandardAbi);
    if output == Output::Library {
        command.args(["-shared", "-fPIC"]);
    }
    command.args(["-O2", "-Wall", "-o"]).arg(&fresh).args(files(&source));
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi-shim/include");
    command.arg("-I").arg(include).args(["-lpthread", "-ldl"]);
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {messages}");
    std::fs::rename(&fresh, &program).expect("one folder");
    program
}

fn files(source: &Path) -> Vec<PathBuf> {
    if !source.is_dir() {
        return vec![source.into()];
    }
    let entries = std::fs::read_dir(source).expect("a folder that can be read");
    let files = entries.map(|entry| entry.expect("a file").path());
    files.filter(|file| file.extension().is_some_and(|ending| ending == "c")).collect()
}

fn compiler(name: &str, mpi: Mpi, standard_abi: bool) -> Command {
    let language = match Path::new(name).extension().and_then(|ending| ending.to_str()) {
        Some("f90") => "mpifort",
        Some("cc") => "mpicxx",
        _ => "mpicc",
    };
    let home = gridlab::mpi::mpi_home(mpi);
    if standard_abi && mpi == Mpi::Intel {
        // The wheel has the header and the library of the standard interface, but no compiler for it.
        let header = folder().join("programs/intel-abi");
        std::fs::create_dir_all(&header).expect("the build folder can be written to");
        std::fs::write(header.join("mpi.h"), "#include <mpi_abi.h>\n").expect("a new file");
        let mut command = Command::new("cc");
        command.arg("-I").arg(header).arg("-I").arg(home.join("include"));
        let library = home.join("lib/libmpi_abi.so");
        command.arg("-Wl,--no-as-needed").arg(library);
        command.arg(format!("-Wl,-rpath,{}", home.join("lib").display()));
        return command;
    }
    let abi = if standard_abi { "_abi" } else { "" };
    let mut command = match mpi {
        Mpi::OpenMpi | Mpi::Mpich => Command::new(format!("{language}.{}", mpi.name())),
        _ => Command::new(home.join("bin").join(format!("{language}{abi}"))),
    };
    if mpi == Mpi::Intel {
        command.env("I_MPI_ROOT", home);
    }
    command
}
