//! What this host's TCP does, as far as it matters for what is measured.

use rustix::net::sockopt::{socket_domain, tcp_congestion};
use rustix::net::{AddressFamily, SocketAddrAny, getpeername};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

const AFTER_IDLE: &str = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";
/// It keeps what it has measured of the way, whatever the setting.
const KEEPS_ITS_WINDOW: &str = "bbr";

/// Whether this process's connections to other hosts begin with a small window again after a pause, as the
/// kernel's defaults say. Asked are the connections themselves: routes may have settings of their own.
pub fn begins_anew() -> bool {
    let setting = std::fs::read_to_string(AFTER_IDLE).unwrap_or_default();
    let keeps_windows = setting.trim() == "0";
    !keeps_windows && congestion_controls().any(|name| name != KEEPS_ITS_WINDOW)
}

/// Of each connection to another host.
fn congestion_controls() -> impl Iterator<Item = String> {
    let files = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = files.filter_map(|file| file.file_name().to_str()?.parse::<RawFd>().ok());
    numbers.filter_map(|number| {
        // SAFETY: it is only asked about; one that was closed since, or opened anew, answers for itself.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        let family = socket_domain(file).ok()?;
        if family != AddressFamily::INET && family != AddressFamily::INET6 {
            return None;
        }
        let is_far = |peer: SocketAddrAny| {
            SocketAddr::try_from(peer).is_ok_and(|peer| !peer.ip().to_canonical().is_loopback())
        };
        getpeername(file).ok()?.filter(|peer| is_far(peer.clone()))?;
        tcp_congestion(file).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn connections_inside_the_host_do_not_count() {
        let before = congestion_controls().count();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(congestion_controls().count(), before);
    }
}
