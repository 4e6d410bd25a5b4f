//! Whether applications can load the library, and whether it speaks what the daemon speaks.

use super::Finding;
use crate::command::run;
use arborcast_proto::message::PROTOCOL_VERSION;
use arborcast_proto::segment::LAYOUT_VERSION;
use std::ffi::{CStr, c_char};
use std::path::Path;

const CHECK: &str = "library";
const REINSTALL: &str = "install library and daemon of one version, and restart the daemon: systemctl restart arborcastd";

pub fn examine(named: Option<&Path>) -> Finding {
    let found = run::library(named, &run::folder())
        .and_then(|library| Ok((run::try_to_load(&library)?, library)));
    let (handle, library) = match found {
        Ok(found) => found,
        Err(error) => {
            let to_do = "install it on this node, or name it with --library or ARBORCAST_LIBRARY; \
                         `arborcast run` starts no program until then";
            return Finding::fault(CHECK, error.to_string(), to_do);
        }
    };
    // SAFETY: the handle is one of dlopen, and the library stays loaded; its function of that name takes
    // nothing and gives a string that stays.
    let versions = unsafe {
        let function = libc::dlsym(handle, c"arborcast_versions".as_ptr());
        (!function.is_null()).then(|| {
            let function: unsafe extern "C" fn() -> *const c_char = std::mem::transmute(function);
            CStr::from_ptr(function()).to_string_lossy().into_owned()
        })
    };
    compare(&library, versions.as_deref())
}

/// `versions` is what `arborcast_versions()` gives; this program has just spoken with the daemon, so what
/// it speaks is what the daemon speaks.
fn compare(library: &Path, versions: Option<&str>) -> Finding {
    let shown = library.display();
    let Some(versions) = versions else {
        let meaning =
            format!("{shown} does not tell its versions: an older one, or another library");
        return Finding::fault(CHECK, meaning, REINSTALL);
    };
    let words: Vec<&str> = versions.split_whitespace().collect();
    let version = |name: &str| words.chunks(2).find(|pair| pair[0] == name)?.get(1).copied();
    let needed = [("layout", LAYOUT_VERSION), ("protocol", PROTOCOL_VERSION.into())];
    for (name, ours) in needed {
        let theirs = version(name).unwrap_or("none");
        if theirs != ours.to_string() {
            let meaning = format!(
                "{shown} has {name} {theirs}, the daemon {ours}: programs find no plans, and broadcast natively"
            );
            return Finding::fault(CHECK, meaning, REINSTALL);
        }
    }
    let (own, header) = (version("arborcast").unwrap_or("?"), version("header").unwrap_or("?"));
    let meaning = format!("{shown} can be loaded, version {own}, headers {header}");
    match own {
        env!("CARGO_PKG_VERSION") => Finding::ok(CHECK, meaning),
        _ => Finding::advice(CHECK, meaning, REINSTALL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::doctor::Level;

    #[test]
    fn a_library_of_another_version_is_told_from_one_that_fits() {
        let level = |versions: Option<&str>| compare(Path::new("/l.so"), versions).level;
        let of = |version: &str, layout: u32, protocol: u16| {
            format!("arborcast {version} header 4 layout {layout} protocol {protocol}")
        };
        let own = env!("CARGO_PKG_VERSION");
        assert_eq!(level(Some(&of(own, LAYOUT_VERSION, PROTOCOL_VERSION))), Level::Ok);
        assert_eq!(level(Some(&of("0.0.1", LAYOUT_VERSION, PROTOCOL_VERSION))), Level::Advice);
        assert_eq!(level(Some(&of(own, LAYOUT_VERSION + 1, PROTOCOL_VERSION))), Level::Fault);
        assert_eq!(level(Some(&of(own, LAYOUT_VERSION, PROTOCOL_VERSION + 1))), Level::Fault);
        assert_eq!(level(Some("arborcast 0.1.0 header")), Level::Fault);
        assert_eq!(level(None), Level::Fault);
    }
}
