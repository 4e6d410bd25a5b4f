//! `arborcast run`: starts a program with Arborcast's library in LD_PRELOAD; `arborcast env`: tells what
//! that sets, to batch systems, which start programs themselves.
//!
//! One library serves every MPI, and finds at run time which one the program has. Where it cannot be
//! loaded the program is not started: ranks on other nodes, which have it, would wait for this one.

use super::json;
use serde_json::json;
use std::ffi::{CStr, CString, OsStr, OsString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the library to load.
pub const LIBRARY_VARIABLE: &str = "ARBORCAST_LIBRARY";
const LIBRARY: &str = "libarborcast.so";
const PRELOAD: &str = "LD_PRELOAD";

/// Exit code where the library cannot be loaded: the program was not started.
pub const NO_LIBRARY: u8 = 125;

/// Why no library can be loaded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLibrary {
    #[error("{0} does not exist")]
    Missing(PathBuf),
    #[error("no library at {0}; install or build it, or name it with --library")]
    NotFound(String),
    #[error("{0}")]
    NotLoadable(String),
    #[error(
        "{0}: LD_PRELOAD cannot hold a path with a blank or a colon; name another with --library"
    )]
    Unnameable(PathBuf),
    #[error("LD_PRELOAD={0:?} is no line of text")]
    Unprintable(OsString),
}

/// The library to load: the one that is named, or the one beside this program, which lies in `folder`:
/// installed, or in the tree where both were built.
///
/// # Errors
/// Where there is none.
pub fn library(named: Option<&Path>, folder: &Path) -> Result<PathBuf, NoLibrary> {
    let found = match named {
        Some(named) if named.exists() => std::path::absolute(named).unwrap_or(named.into()),
        Some(named) => return Err(NoLibrary::Missing(named.into())),
        None => {
            let places = ["../lib/arborcast", "."].map(|place| folder.join(place).join(LIBRARY));
            places.iter().find_map(|place| place.canonicalize().ok()).ok_or_else(|| {
                let [installed, built] = places.map(|place| place.display().to_string());
                NoLibrary::NotFound(format!("{installed} or {built}"))
            })?
        }
    };
    let is_separator = |byte: &u8| b" :\n\t".contains(byte);
    match found.as_os_str().as_bytes().iter().any(is_separator) {
        true => Err(NoLibrary::Unnameable(found)),
        false => Ok(found),
    }
}

/// Loads the library here, as the program's own start will. What comes is dlopen's handle; it stays loaded.
///
/// # Errors
/// What the dynamic linker says.
pub fn try_to_load(library: &Path) -> Result<*mut c_void, NoLibrary> {
    let name = CString::new(library.as_os_str().as_bytes())
        .map_err(|error| NoLibrary::NotLoadable(error.to_string()))?;
    // SAFETY: the library's initialiser sets a variable of the environment, which no other thread reads
    // here; the linker's message is a string that stays until the next call.
    unsafe {
        let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if !handle.is_null() {
            return Ok(handle);
        }
        let message = libc::dlerror();
        let message = match message.is_null() {
            true => format!("{} cannot be loaded", library.display()),
            false => CStr::from_ptr(message).to_string_lossy().into_owned(),
        };
        Err(NoLibrary::NotLoadable(message))
    }
}

/// LD_PRELOAD with the library behind what stands there already: a PMPI tool in front of it sees the
/// program's calls before they become messages along a tree.
fn preload(library: &Path, existing: Option<OsString>) -> OsString {
    let mut value = existing.filter(|existing| !existing.is_empty()).unwrap_or_default();
    if !value.is_empty() {
        value.push(":");
    }
    value.push(library);
    value
}

/// What LD_PRELOAD must be for a program that is started from here, once the library has been loaded.
///
/// # Errors
/// Where there is no library, or it cannot be loaded.
fn value(named: Option<&Path>) -> Result<OsString, NoLibrary> {
    let library = library(named, &folder())?;
    try_to_load(&library)?;
    Ok(preload(&library, std::env::var_os(PRELOAD)))
}

/// What `run` would set, a variable a line as env(1) has it: neither quoted nor escaped.
///
/// # Errors
/// Where `run` would start no program.
pub fn env(named: Option<&Path>, as_json: bool) -> Result<String, NoLibrary> {
    let value = value(named)?.into_string().map_err(NoLibrary::Unprintable)?;
    if value.contains('\n') {
        return Err(NoLibrary::Unprintable(value.into()));
    }
    Ok(match as_json {
        true => json::print(&json!({ PRELOAD: value })),
        false => format!("{PRELOAD}={value}\n"),
    })
}

/// Where this program lies.
pub fn folder() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    exe.parent().map_or_else(PathBuf::new, Into::into)
}

/// Replaces this process by the program. Returns only where that fails: the exit code, 125 where the
/// library cannot be loaded, 127 where the program is not found and 126 where it cannot be started, as
/// shells have it.
pub fn run(named: Option<&Path>, program: &OsStr, arguments: &[OsString]) -> u8 {
    let preload = match value(named) {
        Ok(preload) => preload,
        Err(reason) => {
            eprintln!(
                "arborcast: {} is not started: {reason}. Ranks that have the library would wait for \
                 those that lack it.",
                program.to_string_lossy()
            );
            return NO_LIBRARY;
        }
    };
    let mut command = Command::new(program);
    command.args(arguments).env(PRELOAD, preload);
    let error = command.exec();
    eprintln!("arborcast: {}: {error}", program.to_string_lossy());
    if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_library_is_found_where_it_is_installed_or_built() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for place in ["lib/arborcast", "target/debug", "bin"] {
            fs::create_dir_all(root.join(place)).unwrap();
        }
        for place in ["lib/arborcast", "target/debug"] {
            fs::write(root.join(place).join(LIBRARY), "").unwrap();
        }
        let find = |folder: &str| library(None, &root.join(folder));
        let at = |place: &str| Ok(root.join(place).join(LIBRARY));
        assert_eq!(find("bin"), at("lib/arborcast"));
        assert_eq!(find("target/debug"), at("target/debug"));
        assert!(matches!(find("target/release"), Err(NoLibrary::NotFound(_))));
        let named = root.join("none.so");
        assert_eq!(library(Some(&named), &root), Err(NoLibrary::Missing(named.clone())));
        let blank = root.join("a b.so");
        fs::write(&blank, "").unwrap();
        assert_eq!(library(Some(&blank), &root), Err(NoLibrary::Unnameable(blank.clone())));
    }

    #[test]
    fn what_is_no_library_is_told_before_the_program_starts() {
        let directory = tempfile::tempdir().unwrap();
        let text = directory.path().join(LIBRARY);
        fs::write(&text, "no library").unwrap();
        let Err(NoLibrary::NotLoadable(message)) = try_to_load(&text) else { panic!() };
        assert!(message.contains(LIBRARY), "{message}");
    }

    #[test]
    fn what_is_preloaded_already_stays_in_front() {
        let library = Path::new("/a.so");
        assert_eq!(preload(library, None), "/a.so");
        assert_eq!(preload(library, Some("".into())), "/a.so");
        assert_eq!(preload(library, Some("/b.so /c.so".into())), "/b.so /c.so:/a.so");
    }
}
