//! This process's connections of TCP to other hosts: what their TCP does, as far as it matters for broadcasts, and
//! how they are to start.

use crate::pmpi::Comm;
use rustix::net::sockopt::{set_tcp_congestion, socket_domain, tcp_congestion};
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
const HAS_HYSTART: &str = "cubic";
/// Every kernel has it, and lets everyone choose it.
const WITHOUT_HYSTART: &str = "reno";
/// The kernel's threshold of a slow start that nothing has ended (TCP_INFINITE_SSTHRESH).
const NOT_ENDED: u32 = 0x7fff_ffff;
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

/// What a broadcast asks of TCP on connections over long ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Start {
    /// To spread windows over the round trip, see [`pace`].
    Paced,
    /// To go on with the first slow start until something is lost, as the standard says, and not to end it where
    /// acknowledgements come evenly spread: CUBIC takes that for a queue that fills (HyStart), and what a relay
    /// passes on always comes so, at the rate of the slow start before it. Until the broadcast's end.
    WithoutHyStart,
}

/// Sees to it that connections carry a broadcast as it asks, from when they are made: MPIs make them when they are
/// first used, and what their first window loses has TCP begin so small that it takes many broadcasts to recover.
#[derive(Debug, Default)]
pub struct Starts {
    /// Where connections have been looked for.
    peers: HashSet<(Comm, c_int, Start)>,
    /// What the broadcast under way asks for.
    start: Option<Start>,
    /// Whether it goes to peers that were not among these.
    has_new_peers: bool,
    /// When it began, and when to look next.
    looks: Option<(Instant, Instant)>,
    /// Those in their first slow start that are without HyStart while a broadcast lasts.
    starting: Vec<BorrowedFd<'static>>,
}

impl Starts {
    /// A broadcast is about to send to this rank; it asks the same of all its connections.
    pub fn expect(&mut self, (comm, rank): (Comm, c_int), start: Start) {
        self.start = Some(start);
        self.has_new_peers |= self.peers.insert((comm, rank, start));
        if self.has_new_peers || (start == Start::WithoutHyStart && !self.starting.is_empty()) {
            let now = Instant::now();
            self.looks.get_or_insert((now, now));
        }
    }

    /// Looks for connections of this broadcast, the longer it takes the less often: making one takes a round trip or
    /// two, at the end of which there is time for one look before it carries anything.
    pub fn go_on(&mut self) {
        if let Some((began, next)) = self.looks {
            let now = Instant::now();
            if now >= next {
                self.look();
                let after = LOOK_AT_LEAST_AFTER.max((now - began) / LOOKS_PER_DOUBLING);
                self.looks = Some((began, now + after));
            }
        }
    }

    /// The broadcast has ended: its connections are there.
    pub fn end(&mut self) {
        if self.looks.take().is_some() {
            self.look();
        }
        if self.start.take() == Some(Start::WithoutHyStart) {
            for &connection in &self.starting {
                set_control(connection, WITHOUT_HYSTART, HAS_HYSTART);
            }
        }
        self.has_new_peers = false;
    }

    fn look(&mut self) {
        match self.start {
            Some(Start::Paced) => pace(),
            Some(Start::WithoutHyStart) => {
                let far = self.has_new_peers.then(far_connections).into_iter().flatten();
                let far = far.map(|(connection, _)| connection);
                let starts = |connection: BorrowedFd<'_>| {
                    info(connection).is_some_and(|info| info.tcpi_snd_ssthresh >= NOT_ENDED)
                };
                self.start_without_hystart(far, starts);
            }
            None => {}
        }
    }

    /// Where something was lost meanwhile, CUBIC goes on: it recovers faster.
    fn start_without_hystart(
        &mut self,
        far: impl Iterator<Item = BorrowedFd<'static>>,
        starts: impl Fn(BorrowedFd<'_>) -> bool,
    ) {
        self.starting.retain(|&connection| {
            let starts = starts(connection);
            let (from, to) = if starts {
                (HAS_HYSTART, WITHOUT_HYSTART)
            } else {
                (WITHOUT_HYSTART, HAS_HYSTART)
            };
            set_control(connection, from, to);
            starts
        });
        self.starting.extend(far.filter(|&connection| {
            starts(connection) && set_control(connection, HAS_HYSTART, WITHOUT_HYSTART)
        }));
    }
}

/// Whether the connection's congestion control was this one, and is that one now.
fn set_control(connection: BorrowedFd<'_>, from: &str, to: &str) -> bool {
    tcp_congestion(connection).is_ok_and(|control| control == from)
        && set_tcp_congestion(connection, to).is_ok()
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
    use std::os::fd::AsFd;

    #[test]
    fn connections_inside_the_host_do_not_count() {
        let before = connections().count();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(connections().count(), before);
        assert!(info(connection.as_fd()).is_some());
    }

    #[test]
    fn first_slow_starts_are_without_hystart_until_they_end_or_the_broadcast_does() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = |control| {
            let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let connection: &'static TcpStream = Box::leak(Box::new(connection));
            let connection = connection.as_fd();
            set_tcp_congestion(connection, control).unwrap();
            connection
        };
        let (lossy, quiet, chosen) = (connect("cubic"), connect("cubic"), connect("reno"));
        let controls = || [lossy, quiet, chosen].map(|c| tcp_congestion(c).unwrap());
        let far = || [lossy, quiet, chosen].into_iter();
        let is_quiet = |connection: BorrowedFd<'_>| connection.as_raw_fd() != lossy.as_raw_fd();
        let start = Some(Start::WithoutHyStart);
        let mut starts = Starts { start, ..Starts::default() };
        for _ in 0..2 {
            starts.start_without_hystart(far(), |_| true);
            assert_eq!(controls(), ["reno", "reno", "reno"]);
        }
        starts.start_without_hystart(far(), is_quiet);
        assert_eq!(controls(), ["cubic", "reno", "reno"]);
        starts.end();
        assert_eq!(controls(), ["cubic", "cubic", "reno"], "what the host has chosen stays");
        // The next broadcast, to the same peers.
        starts.start = start;
        starts.start_without_hystart(std::iter::empty(), is_quiet);
        assert_eq!(controls(), ["cubic", "reno", "reno"]);
        starts.end();
        assert_eq!(controls(), ["cubic", "cubic", "reno"]);
    }

    #[test]
    fn what_was_lost_is_told_of_what_was_sent_meanwhile() {
        let (before, after) = (Packets { sent: 100, again: 50 }, Packets { sent: 300, again: 60 });
        assert_eq!(after.lost_since(before), 0.05);
        assert_eq!(before.lost_since(before), 0.0);
        assert_eq!(before.lost_since(after), 0.0);
    }
}
