//! What descriptors the daemon has: none of its caller's, and as many as the system allows.

use super::budget::MAX_CONNECTIONS;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::BorrowedFd;

/// A connection has a socket and an eye on the client's process.
const PER_CONNECTION: u64 = 2;
/// For everything that is not a connection.
const RESERVED: u64 = 64;

/// Closes whatever the caller left open beyond standard input, output and error, so that nobody waits
/// for the end of a pipe that only the daemon or its experiment job still has.
///
/// # Safety
/// To be called first of all in a program, while nothing in it owns a descriptor.
pub unsafe fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let number = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.ok()?.file_name().to_str()?.parse::<i32>().ok()
    };
    let listed: Vec<i32> = entries.filter_map(number).filter(|&fd| fd > 2).collect();
    for fd in listed {
        // SAFETY: only asks for a flag, and an error says that there is no such descriptor: the one that
        // the directory was read with is in the list, and closed by now.
        let is_open = rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) }).is_ok();
        if is_open {
            // SAFETY: by the caller, nothing in this process owns it.
            unsafe { rustix::io::close(fd) };
        }
    }
}

/// Raises the soft limit to what the daemon can use. Gives the old limit, which is what a child should
/// have (programs that use `select` fail beyond 1024), and the connections that there can be.
pub fn raise_limit() -> (Rlimit, usize) {
    let before = getrlimit(Resource::Nofile);
    let wanted = PER_CONNECTION * MAX_CONNECTIONS as u64 + RESERVED;
    let allowed = wanted.min(before.maximum.unwrap_or(u64::MAX));
    if before.current.is_some_and(|current| current < allowed) {
        // Fails nowhere below the hard limit; what counts is read again.
        let _ =
            setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), maximum: before.maximum });
    }
    let current = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = current.saturating_sub(RESERVED) / PER_CONNECTION;
    (before, usize::try_from(connections).unwrap_or(usize::MAX).clamp(1, MAX_CONNECTIONS))
}
