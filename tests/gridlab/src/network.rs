//! The emulated network as a deterministic discrete-event machine, without I/O and without a clock:
//! the caller hands in packets with the time they were sent, asks when something is due, and takes
//! out packets that arrive. The same machine forwards real packets in the forwarder and is driven
//! with a virtual clock in tests.
//!
//! Every NIC direction, uplink direction and link direction is a server: a rate and a finite
//! first-in-first-out queue that drops at its end. A packet is charged to a server in the order of
//! its arrival *there*, which matters at a receiver's NIC: charged in the order of sending, a packet
//! from far away would hold up one from next door.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::frame::Frame;
use crate::topology::{CrossTraffic, LinkChange, Topology};

/// Nanoseconds since the lab came up.
pub type Nanos = u64;

/// A packet, or segments that travel as one, that reached its destination.
#[derive(Debug)]
pub struct Arrival {
    pub node: usize,
    /// When it was due.
    pub due: Nanos,
    pub frame: Frame,
}

/// A frame and where it is going, or packets of cross traffic, which nobody is to get.
#[derive(Debug, Default)]
struct Packet {
    frame: Frame,
    from: u32,
    to: u32,
    cross_traffic_bytes: u64,
}

impl Packet {
    fn is_cross_traffic(&self) -> bool {
        self.cross_traffic_bytes > 0
    }

    fn wire_bytes(&self) -> u64 {
        if self.is_cross_traffic() { self.cross_traffic_bytes } else { self.frame.wire_bytes() }
    }
}

/// What a server did so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    pub packets: u64,
    pub bytes: u64,
    /// Dropped since the queue was full.
    pub dropped: u64,
    /// Lost by the link's configured loss.
    pub lost: u64,
}

struct Server {
    rate_bytes_per_s: f64,
    limit_bytes: u64,
    queue: VecDeque<u32>,
    queued_bytes: u64,
    /// When the packet at the front will be through.
    front_done: Nanos,
    /// Where the queue is empty: since when.
    empty_since: Nanos,
    /// Events of an earlier generation are void: the rate has changed since.
    generation: u32,
    counters: Counters,
}

impl Server {
    fn new(rate_bytes_per_s: f64, limit_bytes: u64) -> Self {
        Self {
            rate_bytes_per_s,
            limit_bytes,
            queue: VecDeque::new(),
            queued_bytes: 0,
            front_done: 0,
            empty_since: 0,
            generation: 0,
            counters: Counters::default(),
        }
    }

    fn service_ns(&self, bytes: u64) -> Nanos {
        (bytes as f64 / self.rate_bytes_per_s * 1e9).round() as Nanos
    }
}

/// How often what packets wait beyond a link's latency is drawn anew: queues of routers, which others fill and
/// leave again, last for about that long.
const JITTER_LASTS_NS: Nanos = 10_000_000;

/// What packets wait beyond a link's latency.
struct Jitter {
    mean_ns: f64,
    wait_ns: Nanos,
    drawn_anew_at: Nanos,
    /// When the packet before arrives: none overtakes another.
    last_arrival: Nanos,
}

impl Jitter {
    fn new(mean: Duration) -> Self {
        let mean_ns = mean.as_nanos() as f64;
        Jitter { mean_ns, wait_ns: 0, drawn_anew_at: 0, last_arrival: 0 }
    }

    /// When a packet arrives that would, without jitter, at `arrival`; exponentially distributed waits.
    fn later(&mut self, now: Nanos, arrival: Nanos, random: &mut ChaCha8Rng) -> Nanos {
        if self.mean_ns == 0.0 {
            return arrival;
        }
        if now >= self.drawn_anew_at {
            self.wait_ns = (-(1.0 - fraction(random)).ln() * self.mean_ns) as Nanos;
            self.drawn_anew_at = now + JITTER_LASTS_NS;
        }
        self.last_arrival = self.last_arrival.max(arrival + self.wait_ns);
        self.last_arrival
    }
}

/// From 0 on, below 1.
fn fraction(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

struct LinkState {
    server: usize,
    latency_ns: Nanos,
    jitter: Jitter,
    loss: f64,
    cross_traffic: Vec<CrossTraffic>,
    /// Until when the server has been charged with it.
    charged_until: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The packet at the front of a server is through.
    Through { server: u32, generation: u32 },
    /// A packet has travelled and arrives at its receiver's side.
    Travelled { packet: u32 },
    /// A timed change of a link is due.
    Change { event: u32 },
}

/// See the module's text.
pub struct Network {
    topology: Topology,
    servers: Vec<Server>,
    links: Vec<LinkState>,
    /// Index of the link of a pair of sites: `from * sites + to`.
    link_of: Vec<usize>,
    packets: Vec<Packet>,
    free_packets: Vec<u32>,
    due: BinaryHeap<Reverse<(Nanos, u64, What)>>,
    sequence: u64,
    random: ChaCha8Rng,
}

/// Servers are numbered: senders' NICs, receivers' NICs, uplinks out, uplinks in, links.
impl Network {
    pub fn new(topology: Topology, seed: u64) -> Self {
        let t = &topology;
        let mut servers = Vec::new();
        servers.extend(t.nodes.iter().map(|n| Server::new(n.rate_bytes_per_s, n.send_queue_bytes)));
        servers
            .extend(t.nodes.iter().map(|n| Server::new(n.rate_bytes_per_s, n.receive_queue_bytes)));
        for _direction in 0..2 {
            servers.extend(t.sites.iter().map(|s| {
                Server::new(s.uplink_bytes_per_s.unwrap_or(f64::INFINITY), s.uplink_queue_bytes)
            }));
        }
        let first_link = servers.len();
        servers.extend(t.links.iter().map(|l| Server::new(l.rate_bytes_per_s, l.queue_bytes)));
        let links = t.links.iter().enumerate().map(|(i, l)| LinkState {
            server: first_link + i,
            latency_ns: l.latency.as_nanos() as Nanos,
            jitter: Jitter::new(l.jitter),
            loss: l.loss,
            cross_traffic: t
                .cross_traffic
                .iter()
                .copied()
                .filter(|c| (c.from, c.to) == (l.from, l.to))
                .collect(),
            charged_until: 0,
        });
        let links: Vec<_> = links.collect();
        let mut link_of = vec![usize::MAX; t.sites.len() * t.sites.len()];
        for (i, l) in t.links.iter().enumerate() {
            link_of[l.from * t.sites.len() + l.to] = i;
        }
        let mut due = BinaryHeap::new();
        for (i, e) in t.events.iter().enumerate() {
            due.push(Reverse((e.at.as_nanos() as Nanos, 0, What::Change { event: i as u32 })));
        }
        Self {
            servers,
            links,
            link_of,
            packets: Vec::new(),
            free_packets: Vec::new(),
            due,
            sequence: 0,
            random: ChaCha8Rng::seed_from_u64(seed),
            topology,
        }
    }

    /// The topology as it is now, with all changes so far.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// When the next thing is due.
    pub fn next_due(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((t, ..))| *t)
    }

    /// Takes a frame that node `from` sends to node `to` at `now`. Everything due by `now` must have
    /// been taken out with [`Network::pop`] before, else the packet would be served too early.
    pub fn send(&mut self, now: Nanos, from: usize, to: usize, frame: Frame) {
        let id =
            self.keep(Packet { frame, from: from as u32, to: to as u32, cross_traffic_bytes: 0 });
        if from == to {
            self.push(now, What::Travelled { packet: id });
        } else {
            self.arrive(now, from, id);
        }
    }

    fn keep(&mut self, packet: Packet) -> u32 {
        match self.free_packets.pop() {
            Some(id) => {
                self.packets[id as usize] = packet;
                id
            }
            None => {
                self.packets.push(packet);
                (self.packets.len() - 1) as u32
            }
        }
    }

    /// Handles what is due until `now`; returns the next packet that has arrived by then.
    pub fn pop(&mut self, now: Nanos) -> Option<Arrival> {
        while let Some(&Reverse((time, _, what))) = self.due.peek() {
            if time > now {
                return None;
            }
            self.due.pop();
            match what {
                What::Through { server, generation } => {
                    if let Some(arrival) = self.through(time, server as usize, generation) {
                        return Some(arrival);
                    }
                }
                What::Travelled { packet } => self.travelled(time, packet),
                What::Change { event } => {
                    let e = self.topology.events[event as usize].clone();
                    self.change(time, e.from, e.to, &e.change);
                }
            }
        }
        None
    }

    /// Changes the link `from → to` (sites) from `now` on. A new rate holds for what waits in the
    /// queue too; a new latency for what enters the line from now on.
    pub fn change(&mut self, now: Nanos, from: usize, to: usize, change: &LinkChange) {
        let index = self.link_of[from * self.topology.sites.len() + to];
        let Some(link) = self.topology.links.get_mut(index) else { return };
        link.apply(change);
        self.links[index].latency_ns = link.latency.as_nanos() as Nanos;
        self.links[index].loss = link.loss;
        let (rate, server_index) = (link.rate_bytes_per_s, self.links[index].server);
        let server = &mut self.servers[server_index];
        let ratio = server.rate_bytes_per_s / rate;
        server.rate_bytes_per_s = rate;
        if ratio != 1.0 && !server.queue.is_empty() {
            let left = server.front_done.saturating_sub(now) as f64 * ratio;
            server.front_done = now + left.round() as Nanos;
            server.generation = server.generation.wrapping_add(1);
            let what = What::Through { server: server_index as u32, generation: server.generation };
            self.push(self.servers[server_index].front_done, what);
        }
    }

    /// What the senders' NICs, receivers' NICs, uplinks out, uplinks in and links did so far.
    pub fn counters(&self) -> [Vec<Counters>; 5] {
        let (n, s) = (self.topology.nodes.len(), self.topology.sites.len());
        let all: Vec<Counters> = self.servers.iter().map(|s| s.counters).collect();
        let mut rest = all.as_slice();
        [n, n, s, s, self.links.len()].map(|count| {
            let (part, tail) = rest.split_at(count);
            rest = tail;
            part.to_vec()
        })
    }

    fn push(&mut self, time: Nanos, what: What) {
        self.sequence += 1;
        self.due.push(Reverse((time, self.sequence, what)));
    }

    fn drop_packet(&mut self, id: u32) {
        self.packets[id as usize] = Packet::default();
        self.free_packets.push(id);
    }

    /// A packet arrives at a server; of segments that travel as one, the queue takes those it has room for.
    fn arrive(&mut self, now: Nanos, server_index: usize, id: u32) {
        let frame = &mut self.packets[id as usize].frame;
        let server = &mut self.servers[server_index];
        let packets = frame.packets();
        let fitting = frame.packets_in(server.limit_bytes.saturating_sub(server.queued_bytes));
        server.counters.dropped += packets - fitting;
        if fitting == 0 {
            return self.drop_packet(id);
        }
        if fitting < packets {
            frame.split_off(fitting);
        }
        self.enqueue(now, server_index, id);
    }

    /// A packet arrives at a link's server, behind the cross traffic that came since the packet before it,
    /// less what of that went through while no packet was there.
    fn arrive_at_link(&mut self, now: Nanos, link: usize, id: u32) {
        let LinkState { server, cross_traffic, charged_until, .. } = &mut self.links[link];
        let (index, since) = (*server, std::mem::replace(charged_until, now));
        if !cross_traffic.is_empty() {
            let sent = |at| {
                let until = |traffic: &CrossTraffic| traffic.bytes_until(Duration::from_nanos(at));
                cross_traffic.iter().map(until).sum::<u64>()
            };
            let came_bytes = sent(now) - sent(since);
            let server = &self.servers[index];
            let idle_ns = if server.queue.is_empty() { now - server.empty_since } else { 0 };
            let through_bytes = (server.rate_bytes_per_s * idle_ns as f64 / 1e9) as u64;
            let room_bytes = server.limit_bytes.saturating_sub(server.queued_bytes);
            let cross_traffic_bytes = came_bytes.saturating_sub(through_bytes).min(room_bytes);
            if cross_traffic_bytes > 0 {
                let others = self.keep(Packet { cross_traffic_bytes, ..Packet::default() });
                self.enqueue(now, index, others);
            }
        }
        self.arrive(now, index, id);
    }

    /// A packet waits in a server's queue, and is served at once where that was empty.
    fn enqueue(&mut self, now: Nanos, server_index: usize, id: u32) {
        let server = &mut self.servers[server_index];
        server.queued_bytes += self.packets[id as usize].wire_bytes();
        server.queue.push_back(id);
        if server.queue.len() == 1 {
            self.start(now, server_index);
        }
    }

    /// The packet at the front of a server's queue begins to be served.
    fn start(&mut self, now: Nanos, server_index: usize) {
        let server = &mut self.servers[server_index];
        let Some(&front) = server.queue.front() else {
            server.empty_since = now;
            return;
        };
        server.front_done = now + server.service_ns(self.packets[front as usize].wire_bytes());
        let what = What::Through { server: server_index as u32, generation: server.generation };
        self.push(self.servers[server_index].front_done, what);
    }

    /// The packet at the front of a server's queue is through: on to its next server, or out.
    fn through(&mut self, now: Nanos, index: usize, generation: u32) -> Option<Arrival> {
        let server = &mut self.servers[index];
        if server.generation != generation {
            return None;
        }
        let id = server.queue.pop_front()?;
        let packet = &self.packets[id as usize];
        let bytes = packet.wire_bytes();
        server.queued_bytes -= bytes;
        if packet.is_cross_traffic() {
            self.drop_packet(id);
            self.start(now, index);
            return None;
        }
        server.counters.packets += packet.frame.packets();
        server.counters.bytes += bytes;
        self.start(now, index);

        let (n, s) = (self.topology.nodes.len(), self.topology.sites.len());
        let (from, to) = {
            let p = &self.packets[id as usize];
            (p.from as usize, p.to as usize)
        };
        let (a, b) = (self.topology.nodes[from].site, self.topology.nodes[to].site);
        let (receivers, out, into, links) = (n, 2 * n, 2 * n + s, 2 * n + 2 * s);
        if index < receivers && a == b {
            let latency = self.topology.sites[a].latency.as_nanos() as Nanos;
            self.push(now + latency, What::Travelled { packet: id });
        } else if index < receivers {
            self.arrive_or_pass(now, out + a, id);
        } else if index < out {
            let packet = std::mem::take(&mut self.packets[id as usize]);
            self.free_packets.push(id);
            return Some(Arrival { node: to, due: now, frame: packet.frame });
        } else if index < into {
            self.arrive_at_link(now, self.link_of[a * s + b], id);
        } else if index < links {
            self.arrive(now, receivers + to, id);
        } else {
            self.leave_link(now, index - links, id);
        }
        None
    }

    /// A packet leaves a link's server for the line, or is lost; of segments that travel as one, each for
    /// itself.
    fn leave_link(&mut self, now: Nanos, link: usize, id: u32) {
        let LinkState { server, latency_ns, ref mut jitter, loss, .. } = self.links[link];
        let arrival = jitter.later(now, now + latency_ns, &mut self.random);
        let packets = self.packets[id as usize].frame.packets();
        let is_lost = |random: &mut ChaCha8Rng| loss > 0.0 && fraction(random) < loss;
        let Some(first) = (0..packets).find(|_| is_lost(&mut self.random)) else {
            return self.push(arrival, What::Travelled { packet: id });
        };
        self.servers[server].counters.lost += 1;
        let Packet { from, to, .. } = self.packets[id as usize];
        let behind = (first + 1 < packets).then(|| {
            let frame = self.packets[id as usize].frame.split_off(first + 1);
            self.keep(Packet { frame, from, to, cross_traffic_bytes: 0 })
        });
        if first > 0 {
            self.packets[id as usize].frame.split_off(first);
            self.push(arrival, What::Travelled { packet: id });
        } else {
            self.drop_packet(id);
        }
        if let Some(behind) = behind {
            self.leave_link(now, link, behind);
        }
    }

    /// A packet has come to its receiver's site.
    fn travelled(&mut self, now: Nanos, id: u32) {
        let (n, s) = (self.topology.nodes.len(), self.topology.sites.len());
        let (from, to) = {
            let p = &self.packets[id as usize];
            (p.from as usize, p.to as usize)
        };
        let (a, b) = (self.topology.nodes[from].site, self.topology.nodes[to].site);
        if a == b {
            self.arrive(now, n + to, id);
        } else {
            self.arrive_or_pass(now, 2 * n + s + b, id);
        }
    }

    /// A packet arrives at an uplink; a site without one has no such server, only what follows it.
    fn arrive_or_pass(&mut self, now: Nanos, uplink: usize, id: u32) {
        if self.servers[uplink].rate_bytes_per_s.is_finite() {
            return self.arrive(now, uplink, id);
        }
        let (n, s) = (self.topology.nodes.len(), self.topology.sites.len());
        let (from, to) = {
            let p = &self.packets[id as usize];
            (p.from as usize, p.to as usize)
        };
        if uplink < 2 * n + s {
            let (a, b) = (self.topology.nodes[from].site, self.topology.nodes[to].site);
            self.arrive_at_link(now, self.link_of[a * s + b], id);
        } else {
            self.arrive(now, n + to, id);
        }
    }
}
