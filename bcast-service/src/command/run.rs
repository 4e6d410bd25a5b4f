//! `arborcast run`: starts a program with the library of its MPI in LD_PRELOAD.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the library to load, whatever MPI it is.
pub const LIBRARY_VARIABLE: &str = "ARBORCAST_LIBRARY";
const LIBRARY: &str = "libarborcast.so";
const PRELOAD: &str = "LD_PRELOAD";

/// An MPI with its own ABI, and so its own build of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mpi {
    OpenMpi,
    /// And all that share its ABI: Intel MPI, Cray MPICH, MVAPICH.
    Mpich,
}

impl Mpi {
    /// Which launcher has set these variables. `None` outside of any.
    pub fn of_launcher(is_set: impl Fn(&str) -> bool) -> Option<Self> {
        // Open MPI's own first: PMI variables may stand there too, from the batch system.
        let of = |mpi, variables: &[&str]| variables.iter().any(|v| is_set(v)).then_some(mpi);
        of(Mpi::OpenMpi, &["OMPI_COMM_WORLD_SIZE", "PMIX_RANK"])
            .or_else(|| of(Mpi::Mpich, &["PMI_RANK", "PMI_SIZE"]))
    }

    pub fn name(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "openmpi",
            Mpi::Mpich => "mpich",
        }
    }

    /// Where the library may be, seen from the folder of this program: installed, or in the tree
    /// where both were built.
    fn places(self, folder: &Path) -> Vec<PathBuf> {
        let mut places = vec![folder.join("../lib/arborcast").join(self.name())];
        // target/debug, or target/mpich/debug where the MPI is not the default one.
        let profile = folder.file_name().unwrap_or(OsStr::new("debug"));
        let parent = folder.parent().unwrap_or(folder);
        let target = if parent.ends_with("mpich") { parent.parent() } else { Some(parent) };
        if let Some(target) = target {
            places.push(match self {
                Mpi::OpenMpi => target.join(profile),
                Mpi::Mpich => target.join("mpich").join(profile),
            });
        }
        places.into_iter().map(|place| place.join(LIBRARY)).collect()
    }
}

/// Why no library is loaded: the text for the one line on standard error.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLibrary {
    #[error("{0} does not exist")]
    Missing(PathBuf),
    #[error("no library for {mpi} at {places}; build it, or name it with --library")]
    NotFound { mpi: &'static str, places: String },
    #[error("not started by an MPI launcher: put `arborcast run` after mpirun, or use --library")]
    NoLauncher,
}

/// The library to load: the one that is named, or that of the launcher's MPI.
///
/// # Errors
/// Where there is none.
pub fn library(
    named: Option<&Path>,
    folder: &Path,
    mpi: Option<Mpi>,
) -> Result<PathBuf, NoLibrary> {
    if let Some(named) = named {
        return if named.exists() {
            Ok(std::path::absolute(named).unwrap_or(named.into()))
        } else {
            Err(NoLibrary::Missing(named.into()))
        };
    }
    let places = mpi.ok_or(NoLibrary::NoLauncher)?.places(folder);
    places.iter().find_map(|place| place.canonicalize().ok()).ok_or_else(|| NoLibrary::NotFound {
        mpi: mpi.map_or("", Mpi::name),
        places: places.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(" or "),
    })
}

/// LD_PRELOAD with the library in front of what stands there already.
fn preload(library: &Path, existing: Option<OsString>) -> OsString {
    let mut value = library.as_os_str().to_owned();
    if let Some(existing) = existing.filter(|existing| !existing.is_empty()) {
        value.push(":");
        value.push(existing);
    }
    value
}

/// Replaces this process by the program. Returns only where that fails: the exit code, 127 where
/// the program is not found and 126 where it cannot be started, as shells have it.
pub fn run(named: Option<&Path>, program: &OsStr, arguments: &[OsString]) -> u8 {
    let folder = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Into::into));
    let folder: PathBuf = folder.unwrap_or_default();
    let mpi = Mpi::of_launcher(|variable| std::env::var_os(variable).is_some());
    let mut command = Command::new(program);
    command.args(arguments);
    match library(named, &folder, mpi) {
        Ok(library) => {
            command.env(PRELOAD, preload(&library, std::env::var_os(PRELOAD)));
        }
        Err(reason) => eprintln!("arborcast: running without Arborcast: {reason}"),
    }
    let error = command.exec();
    eprintln!("arborcast: {}: {error}", program.to_string_lossy());
    if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_launcher_tells_which_mpi() {
        let of = |set: &[&str]| Mpi::of_launcher(|variable| set.contains(&variable));
        assert_eq!(of(&["OMPI_COMM_WORLD_SIZE", "PMI_RANK"]), Some(Mpi::OpenMpi));
        assert_eq!(of(&["PMIX_RANK"]), Some(Mpi::OpenMpi));
        assert_eq!(of(&["PMI_RANK"]), Some(Mpi::Mpich));
        assert_eq!(of(&["PATH"]), None);
    }

    #[test]
    fn libraries_are_found_where_they_are_installed_or_built() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for place in ["lib/arborcast/mpich", "target/debug", "target/mpich/debug", "bin"] {
            fs::create_dir_all(root.join(place)).unwrap();
            fs::write(root.join(place).join(LIBRARY), "").unwrap();
        }
        let find = |folder: &str, mpi| library(None, &root.join(folder), Some(mpi));
        let at = |place: &str| Ok(root.join(place).join(LIBRARY));
        assert_eq!(find("bin", Mpi::Mpich), at("lib/arborcast/mpich"));
        assert_eq!(find("target/debug", Mpi::OpenMpi), at("target/debug"));
        assert_eq!(find("target/debug", Mpi::Mpich), at("target/mpich/debug"));
        assert_eq!(find("target/mpich/debug", Mpi::OpenMpi), at("target/debug"));
        assert!(matches!(
            find("target/release", Mpi::OpenMpi),
            Err(NoLibrary::NotFound { mpi: "openmpi", .. })
        ));
        assert_eq!(library(None, &root, None), Err(NoLibrary::NoLauncher));
        let named = root.join("none.so");
        assert_eq!(library(Some(&named), &root, None), Err(NoLibrary::Missing(named.clone())));
    }

    #[test]
    fn what_is_preloaded_already_stays() {
        let library = Path::new("/a.so");
        assert_eq!(preload(library, None), "/a.so");
        assert_eq!(preload(library, Some("".into())), "/a.so");
        assert_eq!(preload(library, Some("/b.so /c.so".into())), "/a.so:/b.so /c.so");
    }
}
