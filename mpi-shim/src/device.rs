//! Whether buffers may lie in the memory of a GPU.

/// Whether a GPU runtime is in this process. A short message travels inside its header, for which
/// the processor copies it: it must not touch memory of a device.
pub fn runtime_is_loaded() -> bool {
    [c"cuPointerGetAttribute", c"hipPointerGetAttributes", c"zeMemGetAllocProperties"]
        .iter()
        // SAFETY: looks a name up among the libraries that are loaded already.
        .any(|name| unsafe { !libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()).is_null() })
}
