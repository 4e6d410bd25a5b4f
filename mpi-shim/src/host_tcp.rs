//! This process's connections of TCP to other hosts: what their TCP does, as far as it matters for broadcasts, and
//! pacing, for ways whose queues are shorter than windows.

use crate::pmpi::Comm;
use rustix::net::sockopt::{socket_domain, tcp_congestion};
use rustix::net::{AddressFamily, SocketAddrAny, getpeername};
use std::collections::HashSet;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

const AFTER_IDLE: &str = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";
/// It keeps what it has measured of the way, whatever the setting.
const KEEPS_ITS_WINDOW: &str = "bbr";
/// A least round trip below this is one inside a site, where a window is a few packets.
const FAR_US: u32 = 1000;
/// More than any connection carries, in bytes per second: what limits is TCP's own rate. All ones would mean that
/// nothing is paced.
const NO_LIMIT: u32 = u32::MAX - 1;
const LOOK_AT_LEAST_AFTER: Duration = Duration::from_millis(1);
const LOOKS_PER_DOUBLING: u32 = 8;

/// Whether this process's connections to other hosts begin with a small window again after a pause, as the
/// kernel's defaults say. Asked are the connections themselves: routes may have settings of their own.
pub fn begins_anew() -> bool {
    let setting = std::fs::read_to_string(AFTER_IDLE).unwrap_or_default();
    let keeps_windows = setting.trim() == "0";
    let mut controls = connections().filter_map(|connection| tcp_congestion(connection).ok());
    !keeps_windows && controls.any(|name| name != KEEPS_ITS_WINDOW)
}

/// Packets with data that this process has sent over long ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packets {
    pub sent: u64,
    /// Of these, those that were sent again since they were lost.
    pub again: u64,
}

impl Packets {
    /// The part that was lost of what was sent since `before`.
    pub fn lost_since(self, before: Packets) -> f64 {
        // A connection may have ended in between.
        let sent = self.sent.saturating_sub(before.sent).max(1);
        self.again.saturating_sub(before.again) as f64 / sent as f64
    }
}

/// On all connections over long ways that are open now.
pub fn packets() -> Packets {
    far_connections().fold(Packets::default(), |sum, (_, info)| Packets {
        sent: sum.sent + u64::from(info.tcpi_data_segs_out),
        again: sum.again + u64::from(info.tcpi_total_retrans),
    })
}

/// Has TCP spread over the round trip what it sends on each connection over a long way, for as long as that lives: twice
/// its window in a round trip while it starts, later 1.2 times (net.ipv4.tcp_pacing_ss_ratio, tcp_pacing_ca_ratio).
fn pace() {
    for (connection, _) in far_connections() {
        // SAFETY: the kernel reads one number. Where it refuses, the connection stays as it is.
        let _ = unsafe {
            libc::setsockopt(
                connection.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MAX_PACING_RATE,
                std::ptr::from_ref(&NO_LIMIT).cast(),
                size_of_val(&NO_LIMIT) as libc::socklen_t,
            )
        };
    }
}

/// Paces connections from when they are made: MPIs make them when they are first used, and what their first window
/// loses has TCP begin so small that it takes many broadcasts to recover.
#[derive(Debug, Default)]
pub struct Pacing {
    /// Where connections have been looked for.
    peers: HashSet<(Comm, c_int)>,
    /// When a broadcast to peers that are not among these began, and when to look next.
    looks: Option<(Instant, Instant)>,
}

impl Pacing {
    /// A broadcast that is paced is about to send to this rank.
    pub fn expect(&mut self, peer: (Comm, c_int)) {
        if self.peers.insert(peer) {
            let now = Instant::now();
            self.looks.get_or_insert((now, now));
        }
    }

    /// Looks for connections of this broadcast, the longer it takes the less often: making one takes a round trip or
    /// two, at the end of which there is time for one look before it carries anything.
    pub fn go_on(&mut self) {
        if let Some((began, next)) = &mut self.looks {
            let now = Instant::now();
            if now >= *next {
                pace();
                *next = now + LOOK_AT_LEAST_AFTER.max((now - *began) / LOOKS_PER_DOUBLING);
            }
        }
    }

    /// The broadcast has ended: its connections are there.
    pub fn end(&mut self) {
        if self.looks.take().is_some() {
            pace();
        }
    }
}

fn far_connections() -> impl Iterator<Item = (BorrowedFd<'static>, libc::tcp_info)> {
    let with_info = connections().filter_map(|connection| Some((connection, info(connection)?)));
    with_info.filter(|(_, info)| info.tcpi_min_rtt >= FAR_US)
}

fn info(connection: BorrowedFd<'_>) -> Option<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes `len` bytes at most.
    let code = unsafe {
        let (number, to) = (connection.as_raw_fd(), info.as_mut_ptr().cast());
        libc::getsockopt(number, libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut len)
    };
    // SAFETY: all of it are numbers, and what an old kernel does not know is 0.
    (code == 0).then(|| unsafe { info.assume_init() })
}

/// Those to other hosts.
fn connections() -> impl Iterator<Item = BorrowedFd<'static>> {
    let files = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = files.filter_map(|file| file.file_name().to_str()?.parse::<RawFd>().ok());
    numbers.filter_map(|number| {
        // SAFETY: one that was closed since, or opened anew, answers for itself; nothing is done to it that a
        // connection to another host may not have done to it.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        let family = socket_domain(file).ok()?;
        if family != AddressFamily::INET && family != AddressFamily::INET6 {
            return None;
        }
        let is_elsewhere = |peer: SocketAddrAny| {
            SocketAddr::try_from(peer).is_ok_and(|peer| !peer.ip().to_canonical().is_loopback())
        };
        let is_connected = getpeername(file).ok()?.is_some_and(is_elsewhere);
        is_connected.then_some(file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn connections_inside_the_host_do_not_count() {
        let before = connections().count();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(connections().count(), before);
        assert!(info(std::os::fd::AsFd::as_fd(&connection)).is_some());
    }

    #[test]
    fn what_was_lost_is_told_of_what_was_sent_meanwhile() {
        let (before, after) = (Packets { sent: 100, again: 50 }, Packets { sent: 300, again: 60 });
        assert_eq!(after.lost_since(before), 0.05);
        assert_eq!(before.lost_since(before), 0.0);
        assert_eq!(before.lost_since(after), 0.0);
    }
}
