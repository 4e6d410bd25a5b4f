//! Whether buffers may lie in the memory of a GPU, which the processor must not touch.

use crate::library;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Libraries through which programs get memory of a GPU. A program may open them at any time and out
/// of the global scope's sight, as CUDA's own runtime does; so the files that are mapped count.
const RUNTIMES: [&str; 3] = ["libcuda.so", "libamdhip64.so", "libze_loader.so"];

fn is_runtime(file: &[u8]) -> bool {
    let name = file.rsplit(|&byte| byte == b'/').next().unwrap_or(file);
    RUNTIMES.iter().any(|runtime| name.starts_with(runtime.as_bytes()))
}

/// Whether a GPU runtime is in this process now. Cheap while no library is added.
pub fn runtime_is_loaded() -> bool {
    static LOADS: AtomicU64 = AtomicU64::new(u64::MAX);
    static LOADED: AtomicBool = AtomicBool::new(false);
    // A runtime stays once it is there.
    if LOADED.load(Ordering::Relaxed) {
        return true;
    }
    let loads = library::loads();
    if LOADS.load(Ordering::Relaxed) == loads {
        return false;
    }
    let loaded = library::loaded_files().iter().any(|file| is_runtime(file.as_bytes()));
    LOADED.store(loaded, Ordering::Relaxed);
    // After the files were read: a library that is added meanwhile is found the next time.
    LOADS.store(loads, Ordering::Relaxed);
    loaded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_told_by_their_files() {
        assert!(is_runtime(b"/usr/lib/x86_64-linux-gnu/libcuda.so.1"));
        assert!(is_runtime(b"libamdhip64.so.6"));
        assert!(!is_runtime(b"/opt/libcuda.so.d/libm.so.6"));
        assert!(!is_runtime(b"/usr/lib/libcudart_static_notes.so"));
    }
}
