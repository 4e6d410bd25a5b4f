//! The lab's single long-lived process: it holds the hosts and moves their packets. One real-time
//! thread reads the TUN queues, drives the [`Network`] with the machine's clock and writes packets
//! when they are due; another answers the control socket.
//!
//! Its own lateness is part of every measurement made on the lab, so it is counted packet by packet:
//! the time from when a packet was due to when it was written.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use serde::{Deserialize, Serialize};

use crate::awake::Awake;
use crate::control::{Lateness, LinkStatus, NodeStatus, Reply, Request, SiteStatus, Status, send};
use crate::frame::{self, Frame};
use crate::histogram::Histogram;
use crate::host::{self, Common, Host};
use crate::network::{Nanos, Network};
use crate::state::{LabDir, Record, StateError};
use crate::sys;
use crate::topology::{LinkChange, Topology};

/// Shorter waits are spun: sleeping and waking up would take about as long.
const SPIN_NS: Nanos = 15_000;
/// Packets read from one interface before the others get their turn.
const READ_BURST: usize = 32;
/// Where packets are so dense that one turn moves this many, they are moved in batches, with a rest in
/// between. To wake up for each would keep one processor nearly to itself, and whatever ranks run there
/// would be starved for tenths of a second, as no grid would starve them.
const DENSE: u64 = 3;
const REST: Duration = Duration::from_micros(60);
/// A modest priority of SCHED_FIFO: above every ordinary process, below the kernel's own threads.
const PRIORITY: i32 = 10;
/// Marks the wake-up descriptor among the interfaces.
const WAKE: u64 = u64::MAX;

/// The line by which the owner of a lab leaves it up; see [`run`].
pub const KEEP: &str = "keep\n";

/// What the process that starts a forwarder tells it first, in a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    pub name: String,
    pub topology: Topology,
    /// For the links' losses.
    pub seed: u64,
}

/// Why a lab did not come up.
#[derive(Debug, thiserror::Error)]
pub enum ForwarderError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error("{node}: {source}")]
    Host { node: String, source: host::HostError },
    #[error(transparent)]
    UserNamespace(#[from] host::HostError),
    #[error("{step}: {source}")]
    Io { step: &'static str, source: std::io::Error },
}

fn io_step<E: Into<std::io::Error>>(step: &'static str) -> impl Fn(E) -> ForwarderError {
    move |source| ForwarderError::Io { step, source: source.into() }
}

/// A request on its way to the forwarding thread, with where to send the reply.
type Message = (Request, Sender<Reply>);

/// Builds the lab, calls `ready`, forwards until it is told to stop, and clears everything away. Standard input is
/// the owner's: where it ends without [`KEEP`], as it also does when the owner is killed, the lab goes down.
pub fn run(order: Order, ready: impl FnOnce()) -> Result<(), ForwarderError> {
    let signals = sys::Signals::block(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
        .map_err(io_step("blocking signals"))?;
    raise_descriptor_limit();
    if !rustix::process::geteuid().is_root() {
        host::enter_user_namespace()?;
    }
    let dir = LabDir::create(&order.name)?;
    let result = serve(order, &dir, signals, ready);
    dir.clear()?;
    result
}

fn serve(
    order: Order,
    dir: &LabDir,
    signals: sys::Signals,
    ready: impl FnOnce(),
) -> Result<(), ForwarderError> {
    let topology = order.topology;
    let common = Common {
        mark: dir.mark(),
        state_root: dir.root().to_owned(),
        exe: std::env::current_exe().map_err(io_step("finding my own program"))?,
        hosts_file: host::hosts_file(&topology),
    };
    let mut hosts = Vec::new();
    for (index, node) in topology.nodes.iter().enumerate() {
        let made = host::make(&topology, index, &common);
        hosts
            .push(made.map_err(|source| ForwarderError::Host { node: node.name.clone(), source })?);
    }
    let listener =
        UnixListener::bind(dir.socket()).map_err(io_step("making the control socket"))?;
    dir.write(&Record::new(dir, &topology, &hosts))?;

    let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
        .map_err(io_step("making an eventfd"))?;
    let waker = wake.try_clone().map_err(io_step("making an eventfd"))?;
    let (sender, requests) = channel();
    spawn_control(listener, signals, sender, waker).map_err(io_step("starting a thread"))?;
    let start = Instant::now();
    let awake = Awake::start(start).map_err(io_step("starting a thread"))?;
    let refused = sys::real_time_priority(PRIORITY).err().map(|e| e.to_string());
    let mut forwarder = Forwarder {
        name: order.name,
        network: Network::new(topology, order.seed),
        hosts,
        start,
        awake,
        lateness: Histogram::default(),
        longest_turn_ns: 0,
        delivered: 0,
        undeliverable: 0,
        taken: 0,
        real_time_refused: refused,
        requests,
        wake,
        buffer: Vec::with_capacity(frame::MAX_BYTES),
    };
    ready();
    forwarder.forward().map_err(io_step("forwarding"))
}

/// Each host takes four descriptors; the usual soft limit of 1024 would end at 250 hosts.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Starts the threads that turn signals, requests and the owner's end into messages. They have the forwarding
/// thread's priority: of a normal one they would be last on a busy machine, with the whole process (see
/// [`Awake`]), and a link that was cut for a second would stay so for a minute.
fn spawn_control(
    listener: UnixListener,
    signals: sys::Signals,
    sender: Sender<Message>,
    waker: OwnedFd,
) -> std::io::Result<()> {
    let end = {
        let (sender, waker) = (sender.clone(), Arc::new(waker.try_clone()?));
        move || {
            let (reply, _) = channel();
            let _ = sender.send((Request::Down, reply));
            let _ = rustix::io::write(&*waker, &1u64.to_ne_bytes());
        }
    };
    let end_for_owner = end.clone();
    spawn_urgent("signals", move || {
        while signals.wait(3_600_000).is_none() {}
        end();
    })?;
    spawn_urgent("owner", move || {
        let mut word = String::new();
        let _ = std::io::stdin().read_line(&mut word);
        if word != KEEP {
            end_for_owner();
        }
    })?;
    spawn_urgent("control", move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(stream, &sender, &waker);
        }
    })
}

/// Starts a thread of real-time priority, where that is allowed.
fn spawn_urgent(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let urgent = move || {
        let _ = sys::real_time_priority(PRIORITY);
        work();
    };
    thread::Builder::new().name(name.into()).spawn(urgent).map(drop)
}

/// Answers one client; a client that says nothing is dropped after a second.
fn answer(
    mut stream: UnixStream,
    sender: &Sender<Message>,
    waker: &OwnedFd,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    let mut line = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut line)?;
    let reply = match serde_json::from_str::<Request>(&line) {
        Err(e) => Reply::Error(format!("not a request: {e}")),
        Ok(request) => {
            let (reply_to, reply) = channel();
            let _ = sender.send((request, reply_to));
            rustix::io::write(waker, &1u64.to_ne_bytes())?;
            reply
                .recv_timeout(Duration::from_secs(5))
                .unwrap_or_else(|e| Reply::Error(e.to_string()))
        }
    };
    send(&mut stream, &reply)
}

struct Forwarder {
    name: String,
    network: Network,
    hosts: Vec<Host>,
    start: Instant,
    awake: Awake,
    lateness: Histogram,
    longest_turn_ns: Nanos,
    delivered: u64,
    undeliverable: u64,
    /// Packets read.
    taken: u64,
    real_time_refused: Option<String>,
    requests: Receiver<Message>,
    wake: OwnedFd,
    /// What was read last, with room for the longest frame.
    buffer: Vec<u8>,
}

impl Forwarder {
    fn now(&self) -> Nanos {
        self.start.elapsed().as_nanos() as Nanos
    }

    /// Packets read or written.
    fn moved(&self) -> u64 {
        self.taken + self.delivered
    }

    /// The forwarding loop; ends when told to.
    fn forward(&mut self) -> std::io::Result<()> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (node, host) in self.hosts.iter().enumerate() {
            let token = epoll::EventData::new_u64(node as u64);
            epoll::add(&epoll, &host.tun, token, epoll::EventFlags::IN)?;
        }
        epoll::add(&epoll, &self.wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        let addresses = AddressTable::new(self.network.topology());
        let mut ready = Vec::with_capacity(self.hosts.len() + 1);
        loop {
            ready.clear();
            let wait = self.wait();
            let events =
                epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut ready), wait.as_ref());
            match events {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            let (turn_start, moved_before) = (self.now(), self.moved());
            self.deliver();
            let mut told = false;
            for event in &ready {
                match event.data.u64() {
                    WAKE => told = true,
                    node => self.read(node as usize, &addresses),
                }
            }
            if told && !self.obey() {
                return Ok(());
            }
            self.deliver();
            self.longest_turn_ns = self.longest_turn_ns.max(self.now() - turn_start);
            if self.moved() - moved_before >= DENSE {
                thread::sleep(REST);
            }
        }
    }

    /// How long to sleep: until shortly before the next packet is due.
    fn wait(&self) -> Option<Timespec> {
        let left = self.network.next_due()?.saturating_sub(self.now());
        let sleep = left.saturating_sub(SPIN_NS);
        Some(Timespec {
            tv_sec: (sleep / 1_000_000_000) as i64,
            tv_nsec: (sleep % 1_000_000_000) as i64,
        })
    }

    /// Writes every packet that is due.
    fn deliver(&mut self) {
        while self.network.next_due().is_some_and(|due| due <= self.now()) {
            self.deliver_until(self.now());
        }
    }

    /// Writes every packet that was due by `now`.
    fn deliver_until(&mut self, now: Nanos) {
        while let Some(arrival) = self.network.pop(now) {
            match rustix::io::write(&self.hosts[arrival.node].tun, arrival.frame.bytes()) {
                Ok(_) => {
                    self.delivered += 1;
                    self.lateness.record(self.now().saturating_sub(arrival.due));
                }
                Err(_) => self.undeliverable += 1,
            }
        }
    }

    /// Takes packets from a node's interface.
    fn read(&mut self, node: usize, addresses: &AddressTable) {
        for _ in 0..READ_BURST {
            self.buffer.clear();
            let tun = &self.hosts[node].tun;
            let read = rustix::io::read(tun, rustix::buffer::spare_capacity(&mut self.buffer));
            let now = self.now();
            self.deliver_until(now);
            if read.is_err() {
                return;
            }
            let frame = Frame::new(&self.buffer);
            let sent =
                frame.and_then(|frame| Some((addresses.destination(frame.packet())?, frame)));
            match sent {
                Some((to, frame)) => {
                    self.awake.packet(now);
                    self.taken += 1;
                    self.network.send(now, node, to, frame);
                }
                None => self.undeliverable += 1,
            }
        }
    }

    /// Carries out what came over the control socket; false when the lab is to end.
    fn obey(&mut self) -> bool {
        let mut counter = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut counter);
        while let Ok((request, reply)) = self.requests.try_recv() {
            let answer = match request {
                Request::Status => Reply::Status(Box::new(self.status())),
                Request::Link { from, to, both, change } => self.link(&from, &to, both, &change),
                Request::Down => {
                    let _ = reply.send(Reply::Done);
                    return false;
                }
            };
            let _ = reply.send(answer);
        }
        true
    }

    fn link(&mut self, from: &str, to: &str, both: bool, change: &LinkChange) -> Reply {
        let topology = self.network.topology();
        let (Some(a), Some(b)) = (topology.site(from), topology.site(to)) else {
            let names: Vec<_> = topology.sites.iter().map(|s| s.name.as_str()).collect();
            return Reply::Error(format!(
                "no link between {from} and {to}; the sites are {}",
                names.join(", ")
            ));
        };
        if a == b {
            return Reply::Error(format!("{from} is one site: a link joins two"));
        }
        let now = self.now();
        self.network.change(now, a, b, change);
        if both {
            self.network.change(now, b, a, change);
        }
        Reply::Done
    }

    fn status(&self) -> Status {
        let topology = self.network.topology();
        let [send, receive, out, into, links] = self.network.counters();
        let us = |d: Duration| d.as_nanos() as f64 / 1e3;
        let nodes = topology.nodes.iter().enumerate().map(|(i, n)| NodeStatus {
            name: n.name.clone(),
            address: host::address(topology, i).to_string(),
            sent_packets: send[i].packets,
            sent_bytes: send[i].bytes,
            received_packets: receive[i].packets,
            received_bytes: receive[i].bytes,
            dropped: send[i].dropped + receive[i].dropped,
        });
        let sites = topology.sites.iter().enumerate().map(|(i, s)| SiteStatus {
            name: s.name.clone(),
            uplink_out_bytes: out[i].bytes,
            uplink_in_bytes: into[i].bytes,
            uplink_dropped: out[i].dropped + into[i].dropped,
        });
        let link_states = topology.links.iter().zip(&links).map(|(l, c)| LinkStatus {
            from: topology.sites[l.from].name.clone(),
            to: topology.sites[l.to].name.clone(),
            latency_s: l.latency.as_secs_f64(),
            rate_bytes_per_s: l.rate_bytes_per_s,
            loss: l.loss,
            bytes: c.bytes,
            dropped: c.dropped,
            lost: c.lost,
        });
        Status {
            name: self.name.clone(),
            pid: std::process::id(),
            up_s: self.start.elapsed().as_secs_f64(),
            real_time_refused: self.real_time_refused.clone(),
            lateness: Lateness {
                packets: self.lateness.count(),
                p50_us: us(self.lateness.quantile(0.5)),
                p99_us: us(self.lateness.quantile(0.99)),
                max_us: us(self.lateness.max()),
                longest_turn_us: self.longest_turn_ns as f64 / 1e3,
                histogram: self.lateness.clone(),
            },
            delivered: self.delivered,
            undeliverable: self.undeliverable,
            nodes: nodes.collect(),
            sites: sites.collect(),
            links: link_states.collect(),
            tcp: self.hosts.first().map(|host| host.tcp.clone()).unwrap_or_default(),
            topology: topology.clone(),
        }
    }
}

/// Finds the node an IPv4 packet is for.
struct AddressTable {
    /// By site byte, then place within the site.
    sites: Vec<Vec<usize>>,
}

impl AddressTable {
    fn new(topology: &Topology) -> Self {
        Self { sites: (0..topology.sites.len()).map(|s| topology.nodes_of(s)).collect() }
    }

    fn destination(&self, packet: &[u8]) -> Option<usize> {
        if packet.first()? >> 4 != 4 {
            return None;
        }
        let bytes: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
        let [network, site, high, low] = Ipv4Addr::from(bytes).octets();
        let place = usize::from(high) * 250 + usize::from(low).checked_sub(1)?;
        let site = self.sites.get(usize::from(site).checked_sub(1)?)?;
        (network == 10).then(|| site.get(place).copied()).flatten()
    }
}
