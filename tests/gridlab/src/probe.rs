//! What a network path really does, measured from inside the nodes: round trips (ICMP echo, answered
//! by the kernel) and what one TCP stream gets. Behind `gridlab ping` and `gridlab stream`, with
//! which anyone can check a lab against its topology.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::host::INTERFACE;
use crate::sys;

/// The next echo request is sent when the reply is there, as by `ping -A`: hosts that work without
/// a pause have what they work with in their caches. It does not wait for a reply longer than this.
const PING_INTERVAL: Duration = Duration::from_millis(5);
/// A reply that takes longer counts as lost.
const PING_PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of an echo request as a packet, with the headers of IPv4 and ICMP, as `ping` sends it.
pub const PING_PACKET_BYTES: u64 = 84;
/// A stream's bytes are counted in time slots of this length.
const SLOT: Duration = Duration::from_millis(10);

/// Round trips to one node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ping {
    pub sent: usize,
    /// Seconds, of the replies that came, with when they were sent ([`monotonic_s`]).
    pub round_trips_s: Vec<(f64, f64)>,
}

impl Ping {
    /// The median round trip in seconds; `None` without any reply.
    pub fn median_s(&self) -> Option<f64> {
        let mut times: Vec<f64> = self.round_trips_s.iter().map(|(_, time)| *time).collect();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    }
}

/// Seconds of the machine's monotonic clock, the same in all processes and nodes.
pub fn monotonic_s() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Sends `count` echo requests, from the node this process is in. As with ping(8), a reply has come when
/// the kernel took it from the interface, however late this process then gets a processor.
pub fn ping(to: Ipv4Addr, count: usize) -> io::Result<Ping> {
    let icmp = Some(rustix::net::ipproto::ICMP);
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        icmp,
    )?;
    rustix::net::connect(&socket, &SocketAddrV4::new(to, 0))?;
    sys::keep_arrival_times(&socket);
    let start = Instant::now();
    let mut sent: Vec<(f64, SystemTime)> = Vec::new();
    let mut next = start;
    let mut round_trips_s = Vec::new();
    while round_trips_s.len() < count
        && start.elapsed() < PING_PATIENCE + PING_INTERVAL * count as u32
    {
        let under_way = round_trips_s.len() < sent.len();
        if sent.len() < count && (!under_way || Instant::now() >= next) {
            // Echo request; the kernel fills in identifier and checksum.
            let mut packet = [0u8; PING_PACKET_BYTES as usize - 20];
            packet[0] = 8;
            packet[6..8].copy_from_slice(&(sent.len() as u16).to_be_bytes());
            next = Instant::now() + PING_INTERVAL;
            sent.push((monotonic_s(), SystemTime::now()));
            rustix::net::send(&socket, &packet, SendFlags::empty())?;
            continue;
        }
        let until = if sent.len() < count { next } else { Instant::now() + PING_INTERVAL };
        let wait = until.saturating_duration_since(Instant::now());
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&wait))?;
        let mut reply = [0u8; 128];
        while let Ok((length, _)) = rustix::net::recv(&socket, &mut reply, RecvFlags::empty()) {
            let sequence = usize::from(u16::from_be_bytes([reply[6], reply[7]]));
            if length >= 8
                && reply[0] == 0
                && let Some((at_s, at)) = sent.get(sequence)
            {
                let time = sys::arrival_time(&socket)?.duration_since(*at);
                round_trips_s.push((*at_s, time.unwrap_or_default().as_secs_f64()));
            }
        }
    }
    Ok(Ping { sent: sent.len(), round_trips_s })
}

/// What one TCP stream delivered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stream {
    /// Start of a slot ([`monotonic_s`]) and the payload bytes that arrived in it. What arrived behind a
    /// lost packet counts then, not when TCP may hand it over at last, which can be tenths of a second
    /// later and megabytes at once.
    pub slots: Vec<(f64, u64)>,
    pub slot_s: f64,
    /// The connection's congestion control.
    pub tcp: String,
}

impl Stream {
    /// Payload bytes per second from `from_s` to `to_s` on the monotonic clock.
    pub fn rate_between(&self, from_s: f64, to_s: f64) -> f64 {
        let inside = self.slots.iter().filter(|(at, _)| (from_s..to_s).contains(at));
        inside.map(|(_, bytes)| *bytes).sum::<u64>() as f64 / (to_s - from_s)
    }

    /// When the first byte came.
    pub fn start_s(&self) -> f64 {
        self.slots.first().map_or(0.0, |(at, _)| *at)
    }

    /// Payload bytes per second after the first `skip`, which TCP needs to find the path's rate.
    pub fn rate_after(&self, skip: Duration) -> f64 {
        let end = self.slots.last().map_or(0.0, |(at, _)| *at);
        let from = self.start_s() + skip.as_secs_f64();
        if end > from { self.rate_between(from, end) } else { 0.0 }
    }
}

/// Waits for one connection on the node this process is in, after telling `ready` the port, and
/// counts what arrives until the sender is done: by the node's interface, which also sees what lies behind a
/// lost packet. Each byte there is taken for an equal share of the payload, so nothing else of weight may
/// come to the node meanwhile.
pub fn receive(ready: impl FnOnce(u16) -> io::Result<()>) -> io::Result<Stream> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    ready(listener.local_addr()?.port())?;
    let (mut stream, _) = listener.accept()?;
    let tcp = rustix::net::sockopt::tcp_congestion(&stream)?;
    let mut buffer = vec![0; 1 << 18];
    let mut arrived: Vec<(f64, u64)> = Vec::new();
    let first = interface_bytes()?;
    let (mut bytes, mut seen, mut open) = (0, first, true);
    let slot = Timespec { tv_sec: 0, tv_nsec: SLOT.subsec_nanos().into() };
    while open {
        // Behind a lost packet there is nothing to read, but more arrives.
        if poll(&mut [PollFd::new(&stream, PollFlags::IN)], Some(&slot))? > 0 {
            let length = stream.read(&mut buffer)?;
            bytes += length as u64;
            open = length > 0;
        }
        let (now, received) = (monotonic_s(), interface_bytes()?);
        let more = received - std::mem::replace(&mut seen, received);
        match arrived.last_mut() {
            Some((start, count)) if now - *start < SLOT.as_secs_f64() => *count += more,
            _ if more > 0 => arrived.push((now, more)),
            _ => {}
        }
    }
    let share = bytes as f64 / (seen - first).max(1) as f64;
    let slots = arrived.iter().map(|(at, count)| (*at, (*count as f64 * share).round() as u64));
    Ok(Stream { slots: slots.collect(), slot_s: SLOT.as_secs_f64(), tcp })
}

/// Bytes that have come to the node's interface so far, from the IPv4 headers on; segments that come as one
/// have one header.
fn interface_bytes() -> io::Result<u64> {
    let table = std::fs::read_to_string("/proc/self/net/dev")?;
    let row = table.lines().find_map(|line| line.trim_start().strip_prefix(INTERFACE));
    let count = row.and_then(|row| row.strip_prefix(':')?.split_whitespace().next()?.parse().ok());
    let missing = || format!("/proc/self/net/dev has no {INTERFACE}");
    count.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, missing()))
}

/// Sends as much as TCP takes for `time`, from the node this process is in.
pub fn send(to: Ipv4Addr, port: u16, time: Duration) -> io::Result<()> {
    let mut stream = TcpStream::connect((to, port))?;
    stream.set_write_timeout(Some(Duration::from_millis(100)))?;
    let buffer = vec![0x5a; 1 << 16];
    let start = Instant::now();
    while start.elapsed() < time {
        match stream.write(&buffer) {
            Ok(_) => {}
            // The path is slow or its queue is full: look at the clock and go on.
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
