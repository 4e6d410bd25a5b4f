//! The events of a simulation: messages pass one server after the other, and free what waits for them.

use super::{Finish, Flow, segment_count};
use crate::measurement::{Arrival, Seconds};
use crate::model::network::{Network, PACKET_BYTES};
use arborcast_proto::pacing_delay;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

const HEADER_BYTES: u64 = arborcast_proto::HEADER_BYTES as u64;
const HEADER_BYTES_PER_NODE: u64 = arborcast_proto::HEADER_BYTES_PER_NODE as u64;
/// The most messages above the eager limit that are in rendezvous on one edge at any one time.
const RENDEZVOUS_IN_FLIGHT: u32 = 4;

/// A rate that messages share in the order in which their first bytes arrive.
struct Server {
    seconds_per_byte: f64,
    /// When all that has arrived so far will be through.
    busy_until: Seconds,
}

/// First and last byte of a message, somewhere on its way.
#[derive(Clone, Copy)]
struct Passage {
    head: Seconds,
    tail: Seconds,
}

impl Server {
    fn pass(&mut self, at: Passage, bytes: u64) -> Passage {
        let head = at.head.max(self.busy_until);
        self.busy_until = head + bytes as f64 * self.seconds_per_byte;
        Passage { head, tail: at.tail.max(self.busy_until) }
    }
}

/// A node of a flow's tree other than its root, with the way from its parent.
struct Edge {
    flow: u32,
    from: u16,
    to: u16,
    /// Nodes below and at `to`.
    subtree: u16,
    latency_s: Seconds,
    /// Servers between the two interfaces, before and after the latency.
    way_out: [u32; 3],
    way_in: u32,
    /// Segments the sender has, those it has begun to send, and those under way.
    available: u32,
    begun: u32,
    under_way: u32,
    delivered: u32,
    /// Its place in `connections`.
    connection: u32,
    /// Of each message under way, in their order: what of it the window let through last.
    last_parts: VecDeque<u32>,
    /// When the first segment was there, and the last.
    began_s: Seconds,
    delivered_s: Seconds,
}

/// What all messages from one node to another share, whatever tree they follow.
#[derive(Default)]
struct Connection {
    /// What it carries in all.
    bytes: f64,
    /// What it may have under way, and has, in bytes.
    window_bytes: f64,
    in_flight_bytes: f64,
    /// Edges and segments that wait for the window, in the order in which MPI gave them to TCP.
    waiting: VecDeque<(u32, u32)>,
    /// What of the first of them has gone already.
    begun_bytes: u32,
    /// Bytes that have arrived, in the order in which the sender's TCP knows it.
    acknowledged: VecDeque<(Seconds, u32)>,
    /// When the next event is due that lets what waits go on.
    wakes_s: Option<Seconds>,
}

impl Connection {
    /// What the sender's TCP knows of by `now` has made the window wider.
    fn grow(&mut self, now: Seconds) {
        while let Some(&(known_s, bytes)) = self.acknowledged.front()
            && known_s <= now
        {
            self.acknowledged.pop_front();
            self.window_bytes += f64::from(bytes);
            self.in_flight_bytes -= f64::from(bytes);
        }
    }

    /// The sender's TCP will know at `known_s` that as many bytes have arrived.
    fn acknowledge(&mut self, known_s: Seconds, bytes: u32) {
        let later = self.acknowledged.iter().rev().take_while(|other| other.0 > known_s).count();
        self.acknowledged.insert(self.acknowledged.len() - later, (known_s, bytes));
    }

    /// When what waits may go on, where no event is due by then.
    fn wake_s(&mut self) -> Option<Seconds> {
        let &(known_s, _) = self.acknowledged.front()?;
        if self.waiting.is_empty() || self.wakes_s.is_some_and(|wakes_s| wakes_s <= known_s) {
            return None;
        }
        self.wakes_s = Some(known_s);
        self.wakes_s
    }
}

const NO_SERVER: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The root may send one more segment of a flow.
    Release { flow: u32 },
    /// The sender's interface is free for the next message.
    Free { node: u16 },
    /// The receiver's clear-to-send has come: the message may go.
    ClearToSend { edge: u32, segment: u32 },
    /// The sender's TCP knows of more bytes that have arrived, and something waits for its window.
    WindowGrows { connection: u32 },
    /// The first byte is at the receiver's site; the last is as many (bits of) seconds behind.
    Arrive { edge: u32, segment: u32, tail_bits: u64 },
    /// A segment is there whole.
    Deliver { edge: u32 },
    /// An ACK arrives at the root of a flow.
    Ack { flow: u32 },
}

/// All messages of some flows over a network.
pub(super) struct Simulation<'a> {
    network: &'a Network,
    flows: &'a [Flow<'a>],
    segments: Vec<u32>,
    edges: Vec<Edge>,
    connections: Vec<Connection>,
    /// The first edge of each flow: the edge into position `p` of its tree is `first_edge + p - 1`.
    first_edge: Vec<u32>,
    /// Senders' interfaces, receivers' interfaces, then all that is shared in between.
    servers: Vec<Server>,
    queues: Vec<VecDeque<(u32, u32)>>,
    /// When each node's processor is done with the messages received so far.
    receiving_until: Vec<Seconds>,
    due: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    now: Seconds,
    /// Of each flow, once it is over.
    pub finish: Vec<Finish>,
    /// What of each flow had come when; of none unless [`Simulation::with_arrivals`] asks.
    pub arrivals: Vec<Vec<Arrival>>,
}

impl<'a> Simulation<'a> {
    pub fn new(network: &'a Network, flows: &'a [Flow<'a>]) -> Self {
        let n = network.len();
        let server = |rate: f64| Server { seconds_per_byte: 1.0 / rate, busy_until: 0.0 };
        let mut servers: Vec<Server> =
            network.nodes().iter().map(|node| server(node.send_rate)).collect();
        servers.extend(network.nodes().iter().map(|node| server(node.receive_rate)));
        let mut shared = Shared { servers, index: HashMap::new() };
        let mut edges = Vec::new();
        let mut connections: Vec<Connection> = Vec::new();
        let mut connection_of: HashMap<(usize, usize), u32> = HashMap::new();
        let mut first_edge = Vec::new();
        for (f, flow) in flows.iter().enumerate() {
            first_edge.push(edges.len() as u32);
            let (nodes, sizes) = flow.tree.parts();
            let mut path: Vec<usize> = vec![0];
            for position in 1..nodes.len() {
                while path.last().is_some_and(|&p| p + sizes[p] as usize <= position) {
                    path.pop();
                }
                let parent = path.last().map_or(0, |&p| p);
                path.push(position);
                let (from, to) = (nodes[parent] as usize, nodes[position] as usize);
                let (way_out, way_in) = shared.way(network, from, to);
                let connection = *connection_of.entry((from, to)).or_insert_with(|| {
                    connections.push(Connection::default());
                    connections.len() as u32 - 1
                });
                let carrier = &mut connections[connection as usize];
                carrier.bytes += flow.of_bytes as f64;
                carrier.window_bytes = network.window_bytes(from, to, carrier.bytes);
                edges.push(Edge {
                    flow: f as u32,
                    from: from as u16,
                    to: to as u16,
                    subtree: sizes[position],
                    latency_s: network.latency_s(from, to),
                    way_out,
                    way_in,
                    available: 0,
                    begun: 0,
                    under_way: 0,
                    delivered: 0,
                    connection,
                    last_parts: VecDeque::new(),
                    began_s: 0.0,
                    delivered_s: 0.0,
                });
            }
        }
        Simulation {
            network,
            flows,
            segments: flows.iter().map(|flow| segment_count(flow) as u32).collect(),
            edges,
            connections,
            first_edge,
            servers: shared.servers,
            queues: vec![VecDeque::new(); n],
            receiving_until: vec![0.0; n],
            due: BinaryHeap::new(),
            sequence: 0,
            now: 0.0,
            finish: vec![Finish::default(); flows.len()],
            arrivals: Vec::new(),
        }
    }

    /// Notes what comes when, in flows between two nodes.
    pub fn with_arrivals(self) -> Self {
        Simulation { arrivals: vec![Vec::new(); self.flows.len()], ..self }
    }

    pub fn simulated(mut self) -> Self {
        self.start_roots();
        while let Some(Reverse((time_bits, _, event))) = self.due.pop() {
            self.now = f64::from_bits(time_bits);
            match event {
                Event::Release { flow } => self.offer_to_children(flow as usize, 0),
                Event::Free { node } => self.send_next(node as usize),
                Event::ClearToSend { edge, segment } => self.give_to_tcp(edge, segment),
                Event::WindowGrows { connection } => self.send_later(connection),
                Event::Arrive { edge, segment, tail_bits } => {
                    self.arrive(edge, segment, f64::from_bits(tail_bits));
                }
                Event::Deliver { edge } => self.deliver(edge),
                Event::Ack { flow } => self.acknowledge(flow as usize),
            }
        }
        self
    }

    /// When a flow would be over if what happened since `before` happened `times` more. Each node
    /// goes on at its own rate: the last one now need not be the last one in the end.
    pub fn go_on(&self, before: &Simulation, flow: usize, times: f64) -> Finish {
        let first = self.first_edge[flow] as usize;
        let range = first..first + self.flows[flow].tree.len() - 1;
        let mut finish = Finish::default();
        // The last straight ACK of a leaf, now and in the end; the root may take longer to hear all.
        let (mut leaf_now_s, mut leaf_s) = (0.0f64, 0.0f64);
        for (old, new) in before.edges[range.clone()].iter().zip(&self.edges[range]) {
            let delivered_s = new.delivered_s + (new.delivered_s - old.delivered_s) * times;
            let ack_s = self.straight_ack_s(new);
            finish.delivered_s = finish.delivered_s.max(delivered_s);
            finish.every_ack_s = finish.every_ack_s.max(delivered_s + ack_s);
            if new.subtree == 1 {
                leaf_now_s = leaf_now_s.max(new.delivered_s + ack_s);
                leaf_s = leaf_s.max(delivered_s + ack_s);
            }
        }
        finish.acknowledged_s = leaf_s + self.finish[flow].acknowledged_s - leaf_now_s;
        finish.ordered()
    }

    /// From a delivery until the root has the node's ACK, if it goes straight and nothing is before
    /// it.
    fn straight_ack_s(&self, edge: &Edge) -> Seconds {
        let root = self.flows[edge.flow as usize].tree.root();
        let node = edge.to as usize;
        let nodes = self.network.nodes();
        nodes[node].overhead_s + self.network.latency_s(node, root) + nodes[root].overhead_s
    }

    /// A non-negative time's bits sort like the time itself.
    fn push(&mut self, time: Seconds, event: Event) {
        self.sequence += 1;
        self.due.push(Reverse((time.to_bits(), self.sequence, event)));
    }

    /// Segments that need not wait are there at the start; flows advance in step with their lengths.
    fn start_roots(&mut self) {
        let mut order: Vec<(Seconds, f64, u32)> = Vec::new();
        for (index, (flow, &count)) in self.flows.iter().zip(&self.segments).enumerate() {
            let place = |i: u32| (f64::from(i) + 0.5) / f64::from(count);
            let release_s = |i: u32| {
                let after = pacing_delay(flow.bytes_per_s, i as usize, flow.segment_bytes);
                flow.start_s + after.as_secs_f64()
            };
            order.extend((0..count).map(|i| (release_s(i), place(i), index as u32)));
        }
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        for (release_s, _, flow) in order {
            if release_s > 0.0 {
                self.push(release_s, Event::Release { flow });
            } else {
                self.offer_to_children(flow as usize, 0);
            }
        }
    }

    /// The node at `position` of a flow's tree has one more segment.
    fn offer_to_children(&mut self, flow: usize, position: usize) {
        let (_, sizes) = self.flows[flow].tree.parts();
        let end = position + sizes[position] as usize;
        let mut child = position + 1;
        while child < end {
            let edge = self.first_edge[flow] + child as u32 - 1;
            self.edges[edge as usize].available += 1;
            self.pump(edge);
            child += sizes[child] as usize;
        }
    }

    fn payload_bytes(&self, edge: &Edge, segment: u32) -> u64 {
        let flow = &self.flows[edge.flow as usize];
        let start = u64::from(segment) * u64::from(flow.segment_bytes);
        (flow.bytes - start.min(flow.bytes)).min(u64::from(flow.segment_bytes))
    }

    fn message_bytes(&self, edge: &Edge, segment: u32) -> u64 {
        let payload = self.payload_bytes(edge, segment);
        if segment > 0 {
            return payload;
        }
        payload + HEADER_BYTES + HEADER_BYTES_PER_NODE * u64::from(edge.subtree)
    }

    /// Begins to send what an edge's sender has.
    fn pump(&mut self, index: u32) {
        loop {
            let edge = &self.edges[index as usize];
            if edge.begun == edge.available {
                return;
            }
            let segment = edge.begun;
            // The MPI's header counts too: a segment as large as the limit is above it.
            let bytes = self.payload_bytes(edge, segment) + HEADER_BYTES;
            let eager = bytes <= self.network.eager_bytes();
            if !eager && edge.under_way >= RENDEZVOUS_IN_FLIGHT {
                return;
            }
            let ready_s = self.now + 2.0 * edge.latency_s;
            let edge = &mut self.edges[index as usize];
            edge.begun += 1;
            edge.under_way += 1;
            if eager {
                self.give_to_tcp(index, segment);
            } else {
                self.push(ready_s, Event::ClearToSend { edge: index, segment });
            }
        }
    }

    fn give_to_tcp(&mut self, index: u32, segment: u32) {
        let connection = self.edges[index as usize].connection;
        let carrier = &mut self.connections[connection as usize];
        if carrier.window_bytes.is_infinite() {
            return self.enqueue(index, segment);
        }
        carrier.waiting.push_back((index, segment));
        self.send_waiting(connection);
    }

    fn wake(&mut self, connection: u32) {
        if let Some(known_s) = self.connections[connection as usize].wake_s() {
            self.push(known_s, Event::WindowGrows { connection });
        }
    }

    /// As the window has grown, unless an earlier event was pushed since then.
    fn send_later(&mut self, connection: u32) {
        let (carrier, now) = (&mut self.connections[connection as usize], self.now);
        if carrier.wakes_s.take_if(|wakes_s| *wakes_s <= now).is_some() {
            self.send_waiting(connection);
        }
    }

    /// What the window of a connection lets through, which counts packets in Linux: a message that goes at once has
    /// packets of its own, the last of which may be short. What waits TCP puts together: it knows no messages then.
    /// Of what does not fit, a part goes.
    fn send_waiting(&mut self, connection: u32) {
        self.connections[connection as usize].grow(self.now);
        while let Some(&(index, segment)) = self.connections[connection as usize].waiting.front() {
            let edge = &self.edges[index as usize];
            let known_s = self.now + 2.0 * edge.latency_s;
            let all = self.message_bytes(edge, segment) as u32;
            let carrier = &mut self.connections[connection as usize];
            let room = (carrier.window_bytes - carrier.in_flight_bytes).max(0.0) as u32;
            let goes_at_once = carrier.begun_bytes == 0 && carrier.waiting.len() == 1;
            let (left, room) = match goes_at_once {
                true => (all.next_multiple_of(PACKET_BYTES), room / PACKET_BYTES * PACKET_BYTES),
                false => (all - carrier.begun_bytes, room),
            };
            let part = left.min(room);
            carrier.in_flight_bytes += f64::from(part);
            if part < left {
                carrier.begun_bytes += part;
                if part > 0 {
                    carrier.acknowledge(known_s, part);
                }
                return self.wake(connection);
            }
            carrier.begun_bytes = 0;
            carrier.waiting.pop_front();
            self.edges[index as usize].last_parts.push_back(part);
            self.enqueue(index, segment);
        }
    }

    /// Flow, parent, child, and when the first and the last segment were there, of each edge.
    pub fn edge_times(&self) -> impl Iterator<Item = (usize, usize, usize, Seconds, Seconds)> + '_ {
        self.edges.iter().map(|edge| {
            let Edge { flow, from, to, began_s, delivered_s, .. } = *edge;
            (flow as usize, from.into(), to.into(), began_s, delivered_s)
        })
    }

    fn enqueue(&mut self, edge: u32, segment: u32) {
        let node = self.edges[edge as usize].from as usize;
        if self.queues[node].is_empty() && self.servers[node].busy_until <= self.now {
            return self.send(node, edge, segment);
        }
        self.queues[node].push_back((edge, segment));
        if self.queues[node].len() == 1 {
            self.push(self.servers[node].busy_until, Event::Free { node: node as u16 });
        }
    }

    /// The next message of a node's queue leaves.
    fn send_next(&mut self, node: usize) {
        if let Some((edge, segment)) = self.queues[node].pop_front() {
            self.send(node, edge, segment);
        }
        if !self.queues[node].is_empty() {
            self.push(self.servers[node].busy_until, Event::Free { node: node as u16 });
        }
    }

    /// A message leaves through its node's interface and over the link.
    fn send(&mut self, node: usize, index: u32, segment: u32) {
        let edge = &self.edges[index as usize];
        let bytes = self.message_bytes(edge, segment);
        let (way_out, latency_s) = (edge.way_out, edge.latency_s);
        let head = self.now + self.network.message_s(node);
        let mut at = self.servers[node].pass(Passage { head, tail: head }, bytes);
        for server in way_out.into_iter().filter(|&server| server != NO_SERVER) {
            at = self.servers[server as usize].pass(at, bytes);
        }
        let tail_bits = (at.tail - at.head).to_bits();
        self.push(at.head + latency_s, Event::Arrive { edge: index, segment, tail_bits });
    }

    fn arrive(&mut self, index: u32, segment: u32, tail_behind: Seconds) {
        let edge = &self.edges[index as usize];
        let bytes = self.message_bytes(edge, segment);
        let (node, way_in) = (edge.to as usize, edge.way_in);
        let mut at = Passage { head: self.now, tail: self.now + tail_behind };
        if way_in != NO_SERVER {
            at = self.servers[way_in as usize].pass(at, bytes);
        }
        at = self.servers[self.network.len() + node].pass(at, bytes);
        let done = self.receive(node, at.tail, self.network.message_s(node));
        self.push(done, Event::Deliver { edge: index });
    }

    /// The processor's share of receiving; returns when it is done.
    fn receive(&mut self, node: usize, tail: Seconds, overhead_s: Seconds) -> Seconds {
        let done = tail.max(self.receiving_until[node]) + overhead_s;
        self.receiving_until[node] = done;
        done
    }

    fn deliver(&mut self, index: u32) {
        let edge = &mut self.edges[index as usize];
        edge.under_way -= 1;
        edge.delivered += 1;
        if edge.delivered == 1 {
            edge.began_s = self.now;
        }
        let (flow, is_leaf) = (edge.flow as usize, edge.subtree == 1);
        let known_s = self.now + edge.latency_s;
        let complete = edge.delivered == self.segments[flow];
        if let Some(arrivals) = self.arrivals.get_mut(flow) {
            let Flow { bytes, segment_bytes, .. } = self.flows[flow];
            let bytes = bytes.min(u64::from(edge.delivered) * u64::from(segment_bytes));
            arrivals.push(Arrival { bytes, seconds: self.now });
        }
        let connection = self.edges[index as usize].connection;
        if let Some(bytes) = self.edges[index as usize].last_parts.pop_front() {
            self.connections[connection as usize].acknowledge(known_s, bytes);
            self.wake(connection);
        }
        self.pump(index);
        if complete {
            self.edges[index as usize].delivered_s = self.now;
            let ack_s = self.straight_ack_s(&self.edges[index as usize]);
            let finish = &mut self.finish[flow];
            finish.delivered_s = finish.delivered_s.max(self.now);
            finish.every_ack_s = finish.every_ack_s.max(self.now + ack_s);
            if is_leaf {
                let root = self.flows[flow].tree.root();
                let at_root_s = self.now + ack_s - self.network.nodes()[root].overhead_s;
                self.push(at_root_s, Event::Ack { flow: flow as u32 });
            }
        }
        if !is_leaf {
            let position = (index - self.first_edge[flow] + 1) as usize;
            self.offer_to_children(flow, position);
        }
    }

    fn acknowledge(&mut self, flow: usize) {
        let root = self.flows[flow].tree.root();
        let done = self.receive(root, self.now, self.network.nodes()[root].overhead_s);
        let finish = &mut self.finish[flow];
        finish.acknowledged_s = finish.acknowledged_s.max(done);
        finish.every_ack_s = finish.every_ack_s.max(done);
    }
}

/// The servers, with those between the interfaces made when the first edge needs them.
struct Shared {
    servers: Vec<Server>,
    index: HashMap<(u8, u32, u32), u32>,
}

impl Shared {
    fn way(&mut self, network: &Network, from: usize, to: usize) -> ([u32; 3], u32) {
        let (a, b) = (network.site_of(from), network.site_of(to));
        let link = network.link(from, to);
        let pair = self.server(0, from, to, link.pair_rate);
        let shared = self.server(1, a, b, link.shared_rate);
        if a == b {
            return ([NO_SERVER, shared, pair], NO_SERVER);
        }
        let egress = self.server(2, a, 0, network.sites()[a].egress_rate);
        let ingress = self.server(3, b, 0, network.sites()[b].ingress_rate);
        ([egress, shared, pair], ingress)
    }

    fn server(&mut self, kind: u8, a: usize, b: usize, rate: f64) -> u32 {
        if rate.is_infinite() {
            return NO_SERVER;
        }
        *self.index.entry((kind, a as u32, b as u32)).or_insert_with(|| {
            self.servers.push(Server { seconds_per_byte: 1.0 / rate, busy_until: 0.0 });
            self.servers.len() as u32 - 1
        })
    }
}
