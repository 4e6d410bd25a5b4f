//! What is said over a lab's control socket: one JSON request a line, one JSON reply a line.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::topology::{LinkChange, Topology};

/// How long a client waits for the forwarder's answer.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    Status,
    /// Changes the link between two sites (by name), one direction or both.
    Link {
        from: String,
        to: String,
        both: bool,
        change: LinkChange,
    },
    /// Ends the forwarder.
    Down,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Reply {
    Status(Box<Status>),
    Done,
    Error(String),
}

/// A lab as its forwarder sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    pub name: String,
    /// Process id of the forwarder.
    pub pid: u32,
    pub up_s: f64,
    /// Why the forwarder has no real-time priority; `None` where it has.
    pub real_time_refused: Option<String>,
    /// The congestion control of the hosts' TCP.
    pub tcp: String,
    /// As it is now, with all changes so far.
    pub topology: Topology,
    pub lateness: Lateness,
    /// Packets written to their receivers.
    pub delivered: u64,
    /// Packets that an interface would not take or that were addressed to nobody.
    pub undeliverable: u64,
    pub nodes: Vec<NodeStatus>,
    pub sites: Vec<SiteStatus>,
    pub links: Vec<LinkStatus>,
}

/// How late packets were handed over, compared with the time they were due, since `up`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Lateness {
    pub packets: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
    /// The longest time the forwarder was too busy to look for new packets.
    pub longest_turn_us: f64,
    #[serde(default)]
    pub histogram: Histogram,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeStatus {
    pub name: String,
    pub address: String,
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub received_packets: u64,
    pub received_bytes: u64,
    pub dropped: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SiteStatus {
    pub name: String,
    pub uplink_out_bytes: u64,
    pub uplink_in_bytes: u64,
    pub uplink_dropped: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkStatus {
    pub from: String,
    pub to: String,
    pub latency_s: f64,
    pub rate_bytes_per_s: f64,
    pub loss: f64,
    pub bytes: u64,
    pub dropped: u64,
    pub lost: u64,
}

/// Sends one request to the forwarder behind `socket` and returns its reply.
pub fn ask(socket: &Path, request: &Request) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    send(&mut stream, request)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

/// Writes one message as a line.
pub fn send(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    stream.write_all(&line)
}
