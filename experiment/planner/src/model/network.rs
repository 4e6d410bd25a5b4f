//! The planner's picture of a network: what a message from one node to another passes on its way.
//!
//! A message leaves through the sender's interface; between sites it then passes the sender's site
//! uplink, the link between the two sites, and the receiver's site uplink; at last the receiver's
//! interface. Each of these is a rate that all messages passing it share. A network of which only
//! the links between pairs of nodes are known is one in which every node is a site of its own.

use super::clusters::numbered;
use arborcast_proto::{LinkMatrix, MAX_NODES};
use serde::{Deserialize, Serialize};

/// What a message costs its sender, and again its receiver, whatever its size, in seconds.
pub const DEFAULT_OVERHEAD_S: f64 = 10e-6;

/// One rank a node; rates in bytes per second, infinite where nothing limits them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Index of its site.
    pub site: usize,
    /// Of all it sends together.
    pub send_rate: f64,
    /// Of all it receives together.
    pub receive_rate: f64,
    /// Seconds the processor spends on sending a message, and on receiving one.
    pub overhead_s: f64,
}

/// What the nodes of a site share towards all other sites, in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Site {
    pub egress_rate: f64,
    pub ingress_rate: f64,
}

impl Site {
    /// A site whose nodes share nothing.
    pub const UNLIMITED: Site = Site { egress_rate: f64::INFINITY, ingress_rate: f64::INFINITY };
}

/// From the nodes of one site to those of another one, or among the nodes of one site.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// One way, in seconds.
    pub latency_s: f64,
    /// What one pair of nodes can reach alone, in bytes per second.
    pub pair_rate: f64,
    /// What all pairs reach together, in bytes per second.
    pub shared_rate: f64,
}

/// Why numbers are not a network.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidNetwork {
    #[error("a network has 1 to {MAX_NODES} nodes, not {0}")]
    Size(usize),
    #[error("{0} sites need {0} × {0} links")]
    Shape(usize),
    #[error("node {0}: its site must exist, its rates be positive, its overhead not negative")]
    Node(usize),
    #[error("site {0}: it needs a node, and positive rates")]
    Site(usize),
    #[error("from site {0} to site {1}: a latency is finite and not negative, a rate positive")]
    Link(usize, usize),
}

/// See the module's text. Valid by construction, also where it has been decoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Parts", try_from = "Parts")]
pub struct Network {
    nodes: Vec<Node>,
    sites: Vec<Site>,
    /// Row = sending site, column = receiving site; the diagonal is the inside of a site.
    links: Vec<Link>,
    eager_bytes: u64,
    lost_burst_bytes: u64,
    pause_s: f64,
    /// See [`Network::with_costlier_messages`].
    message_cost: f64,
}

/// A network on its way to others. What a pause has done to its connections and what planning makes of its
/// messages are not part of it.
#[derive(Serialize, Deserialize)]
struct Parts {
    nodes: Vec<Node>,
    sites: Vec<Site>,
    links: Vec<Link>,
    eager_bytes: u64,
    lost_burst_bytes: u64,
}

impl From<Network> for Parts {
    fn from(Network { nodes, sites, links, eager_bytes, lost_burst_bytes, .. }: Network) -> Self {
        Parts { nodes, sites, links, eager_bytes, lost_burst_bytes }
    }
}

impl TryFrom<Parts> for Network {
    type Error = InvalidNetwork;

    fn try_from(parts: Parts) -> Result<Self, Self::Error> {
        let network = Network::new(parts.nodes, parts.sites, parts.links)?;
        Ok(network.with_eager_bytes(parts.eager_bytes).with_lost_bursts(parts.lost_burst_bytes))
    }
}

/// What a connection begins with where nobody has set it otherwise: ten segments (RFC 6928), of Ethernet's
/// packets.
pub const FIRST_WINDOW_BYTES: f64 = 10.0 * PACKET_BYTES as f64;
/// Of a message, in one of Ethernet's packets.
pub const PACKET_BYTES: u32 = 1448;
/// TCP's retransmission time-out is this and a round trip (RFC 6298, with Linux' least variance). A
/// connection that was silent that long has lost half of its window, after twice that long three quarters,
/// down to the first window (RFC 2861).
const TIME_OUT_S: f64 = 0.2;

impl Network {
    /// `links` has `sites × sites` entries, row = sender; the diagonal describes the inside of a
    /// site.
    ///
    /// # Errors
    /// Where a list has the wrong length or a number is out of its range.
    pub fn new(
        nodes: Vec<Node>,
        sites: Vec<Site>,
        links: Vec<Link>,
    ) -> Result<Self, InvalidNetwork> {
        if nodes.is_empty() || nodes.len() > MAX_NODES {
            return Err(InvalidNetwork::Size(nodes.len()));
        }
        if links.len() != sites.len() * sites.len() {
            return Err(InvalidNetwork::Shape(sites.len()));
        }
        let time = |s: f64| s.is_finite() && s >= 0.0;
        let rate = |rate: f64| rate > 0.0;
        let node = |n: &Node| {
            n.site < sites.len() && rate(n.send_rate) && rate(n.receive_rate) && time(n.overhead_s)
        };
        if let Some(bad) = nodes.iter().position(|n| !node(n)) {
            return Err(InvalidNetwork::Node(bad));
        }
        if let Some(bad) = sites.iter().position(|s| !rate(s.egress_rate) || !rate(s.ingress_rate))
        {
            return Err(InvalidNetwork::Site(bad));
        }
        let mut is_empty = vec![true; sites.len()];
        nodes.iter().for_each(|node| is_empty[node.site] = false);
        if let Some(bad) = is_empty.iter().position(|&is_empty| is_empty) {
            return Err(InvalidNetwork::Site(bad));
        }
        let link = |l: &Link| time(l.latency_s) && rate(l.pair_rate) && rate(l.shared_rate);
        if let Some(bad) = links.iter().position(|l| !link(l)) {
            return Err(InvalidNetwork::Link(bad / sites.len(), bad % sites.len()));
        }
        Ok(Network::unlimited(nodes, sites, links))
    }

    fn unlimited(nodes: Vec<Node>, sites: Vec<Site>, links: Vec<Link>) -> Self {
        Network {
            nodes,
            sites,
            links,
            eager_bytes: u64::MAX,
            lost_burst_bytes: u64::MAX,
            pause_s: 0.0,
            message_cost: 1.0,
        }
    }

    /// Every node a site of its own. A node's interface is taken to be as fast as the fastest link
    /// that was measured on it.
    pub fn from_links(matrix: &LinkMatrix) -> Self {
        let n = matrix.nodes();
        let mut links = Vec::with_capacity(n * n);
        let mut nodes: Vec<Node> = (0..n)
            .map(|site| Node {
                site,
                send_rate: 0.0,
                receive_rate: 0.0,
                overhead_s: DEFAULT_OVERHEAD_S,
            })
            .collect();
        for from in 0..n {
            for to in 0..n {
                if from == to {
                    links.push(Link::LOCAL);
                    continue;
                }
                let rate = matrix.rate(from, to);
                nodes[from].send_rate = nodes[from].send_rate.max(rate);
                nodes[to].receive_rate = nodes[to].receive_rate.max(rate);
                let latency_s = matrix.latency_s(from, to);
                links.push(Link { latency_s, pair_rate: rate, shared_rate: f64::INFINITY });
            }
        }
        if n == 1 {
            (nodes[0].send_rate, nodes[0].receive_rate) = (f64::INFINITY, f64::INFINITY);
        }
        let sites = vec![Site::UNLIMITED; n];
        Network::unlimited(nodes, sites, links)
    }

    /// Messages above `bytes` use rendezvous: they wait for clear-to-send before they leave. Without a call
    /// of this none does.
    #[must_use]
    pub fn with_eager_bytes(self, bytes: u64) -> Self {
        Network { eager_bytes: bytes, ..self }
    }

    /// Queues on its ways lose packets of messages of so many `bytes` and more, as long as TCP sends as many at once as its
    /// window has. Without a call of this they don't.
    #[must_use]
    pub fn with_lost_bursts(self, bytes: u64) -> Self {
        Network { lost_burst_bytes: bytes, ..self }
    }

    /// As TCP leaves it after a pause of that long in which nothing was sent: connections begin with what is
    /// left of their windows, which grow by what is acknowledged (slow start, RFC 5681). Without a call of
    /// this nothing limits them.
    #[must_use]
    pub fn after_pause(self, seconds: f64) -> Self {
        Network { pause_s: seconds, ..self }
    }

    /// The same network, where a message of a broadcast costs the processors `factor` times as much; an ACK costs
    /// what it did.
    #[must_use]
    pub fn with_costlier_messages(&self, factor: f64) -> Self {
        Network { message_cost: factor * self.message_cost, ..self.clone() }
    }

    /// What some of its nodes make up, in the order given. What others of their sites shared with them is theirs.
    ///
    /// # Panics
    /// Where there is no node, or one that the network has not.
    #[must_use]
    pub fn subset(&self, nodes: &[usize]) -> Self {
        assert!(!nodes.is_empty(), "a network has a node");
        let (sites, kept) = numbered(nodes.iter().map(|&node| self.site_of(node)));
        let placed = nodes.iter().zip(sites);
        let nodes = placed.map(|(&node, site)| Node { site, ..self.nodes[node] }).collect();
        let sites = kept.iter().map(|&site| self.sites[site]).collect();
        let pairs = kept.iter().flat_map(|&from| kept.iter().map(move |&to| (from, to)));
        let links = pairs.map(|(from, to)| *self.site_link(from, to)).collect();
        Network { nodes, sites, links, ..*self }
    }

    #[allow(clippy::len_without_is_empty)] // a network is never empty
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    pub fn eager_bytes(&self) -> u64 {
        self.eager_bytes
    }

    /// See [`Network::with_lost_bursts`].
    pub fn loses_bursts(&self, bytes: u64) -> bool {
        bytes >= self.lost_burst_bytes
    }

    /// Seconds that a message of a broadcast costs the node's processor.
    pub fn message_s(&self, node: usize) -> f64 {
        self.nodes[node].overhead_s * self.message_cost
    }

    /// Seconds that a message of `bytes` keeps a node from sending the next one: its processor, then its interface.
    pub fn send_s(&self, node: usize, bytes: f64) -> f64 {
        self.message_s(node) + bytes / self.nodes[node].send_rate
    }

    /// See [`Network::after_pause`].
    pub fn pause_s(&self) -> f64 {
        self.pause_s
    }

    /// What the connection between two nodes may send before anything is acknowledged, where a pause
    /// follows each `bytes` sent over it; infinite where nothing limits it.
    pub fn window_bytes(&self, from: usize, to: usize, bytes: f64) -> f64 {
        let round_trip_s = self.latency_s(from, to) + self.latency_s(to, from);
        // A pause begins when the last ACK is there, a round trip after the connection sent its last, and
        // another one passes until all ranks know that it is over. To take a window for wider than it is costs
        // a round trip, the contrary some messages.
        let silent_s = if self.pause_s > 0.0 { self.pause_s + 2.0 * round_trip_s } else { 0.0 };
        let time_outs = (silent_s / (TIME_OUT_S + round_trip_s)).floor();
        if time_outs < 1.0 {
            return f64::INFINITY;
        }
        // It grows by what is sent, at most to what fills the way: w = (w + bytes) / 2^t.
        let fills_the_way = self.rate(from, to) * round_trip_s / time_outs.exp2();
        let grown = bytes / (time_outs.exp2() - 1.0);
        grown.min(fills_the_way).max(FIRST_WINDOW_BYTES)
    }

    pub fn site_of(&self, node: usize) -> usize {
        self.nodes[node].site
    }

    /// Between two sites, or inside one.
    pub fn site_link(&self, from: usize, to: usize) -> &Link {
        &self.links[from * self.sites.len() + to]
    }

    pub(super) fn site_link_mut(&mut self, from: usize, to: usize) -> &mut Link {
        let sites = self.sites.len();
        &mut self.links[from * sites + to]
    }

    pub(super) fn site_mut(&mut self, site: usize) -> &mut Site {
        &mut self.sites[site]
    }

    pub(super) fn node_mut(&mut self, node: usize) -> &mut Node {
        &mut self.nodes[node]
    }

    /// Pairs of nodes of the two sites that can send at the same time.
    pub(super) fn sites_pairs(&self, from: usize, to: usize) -> usize {
        let members = |site| self.nodes.iter().filter(|node| node.site == site).count();
        members(from).min(members(to))
    }

    /// Between two nodes.
    pub fn link(&self, from: usize, to: usize) -> &Link {
        self.site_link(self.site_of(from), self.site_of(to))
    }

    /// Seconds from `from` to `to`, one way.
    pub fn latency_s(&self, from: usize, to: usize) -> f64 {
        self.link(from, to).latency_s
    }

    /// Between the two sites that are farthest apart.
    pub fn longest_round_trip_s(&self) -> f64 {
        let sites = 0..self.sites.len();
        let pairs = sites.clone().flat_map(|from| sites.clone().map(move |to| (from, to)));
        let there_and_back =
            |(from, to)| self.site_link(from, to).latency_s + self.site_link(to, from).latency_s;
        pairs.map(there_and_back).fold(0.0, f64::max)
    }

    /// Bytes per second from `from` to `to` when nothing else is sent.
    pub fn rate(&self, from: usize, to: usize) -> f64 {
        let (a, b) = (&self.nodes[from], &self.nodes[to]);
        let link = self.link(from, to);
        let mut rate = link.pair_rate.min(link.shared_rate).min(a.send_rate).min(b.receive_rate);
        if a.site != b.site {
            rate = rate.min(self.sites[a.site].egress_rate).min(self.sites[b.site].ingress_rate);
        }
        rate
    }

    /// The nodes of each site, in increasing order.
    pub fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.sites.len()];
        for (node, description) in self.nodes.iter().enumerate() {
            members[description.site].push(node);
        }
        members
    }

    /// What each pair of nodes sees when nothing else is sent: `len()²` entries, so for small
    /// networks only.
    pub fn to_links(&self) -> LinkMatrix {
        let n = self.len();
        let cells = || (0..n).flat_map(move |from| (0..n).map(move |to| (from, to)));
        let latencies = cells().map(|(from, to)| self.latency_s(from, to)).collect();
        let rates = cells().map(|(from, to)| self.rate(from, to)).collect();
        LinkMatrix::new(n, latencies, rates).expect("a network's numbers are those of a matrix")
    }
}

impl Link {
    /// Where nothing is known to take time.
    pub const LOCAL: Link =
        Link { latency_s: 0.0, pair_rate: f64::INFINITY, shared_rate: f64::INFINITY };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grids;
    use arborcast_proto::codec;

    #[test]
    fn a_network_survives_its_way_to_others_and_what_is_none_does_not() {
        let regions = grids::five_regions().with_eager_bytes(1 << 16);
        let bytes = codec::encode(&regions).unwrap();
        assert_eq!(codec::decode::<Network>(&bytes).unwrap(), regions);
        // The first node's site.
        let elsewhere = [&bytes[..8], &[0xff], &bytes[9..]].concat();
        assert!(codec::decode::<Network>(&elsewhere).is_err());
    }

    #[test]
    fn a_matrix_survives_the_way_through_a_network() {
        let matrix = grids::four_site_mesh().to_links();
        let again = Network::from_links(&matrix).to_links();
        for from in 0..16 {
            for to in (0..16).filter(|&to| to != from) {
                assert_eq!(matrix.latency_s(from, to), again.latency_s(from, to));
                assert_eq!(matrix.rate(from, to), again.rate(from, to));
            }
        }
    }

    #[test]
    fn what_some_nodes_see_of_each_other_does_not_depend_on_the_others() {
        let whole = grids::random(6, 4, 1);
        let nodes: Vec<usize> = (0..whole.len()).rev().step_by(3).collect();
        let part = whole.subset(&nodes);
        assert_eq!(part.len(), nodes.len());
        for (a, &of_a) in nodes.iter().enumerate() {
            for (b, &of_b) in nodes.iter().enumerate() {
                assert_eq!(part.link(a, b), whole.link(of_a, of_b));
                assert_eq!(part.rate(a, b), whole.rate(of_a, of_b));
            }
        }
        let Network { nodes, sites, links, .. } = part;
        assert!(Network::new(nodes, sites, links).is_ok(), "no site is empty");
        let all: Vec<usize> = (0..whole.len()).collect();
        assert_eq!(whole.subset(&all), whole);
    }

    #[test]
    fn a_window_is_halved_with_each_time_out_down_to_the_first() {
        // 20 ms there and back, 1 MB/s.
        let link = Link { latency_s: 10e-3, pair_rate: 1e6, shared_rate: f64::INFINITY };
        let node = Node { site: 0, send_rate: 1e9, receive_rate: 1e9, overhead_s: 0.0 };
        let nodes = vec![node, Node { site: 1, ..node }];
        let fast = Link { pair_rate: 100e6, ..link };
        let links = vec![Link::LOCAL, link, fast, Link::LOCAL];
        let network = Network::new(nodes, vec![Site::UNLIMITED; 2], links).unwrap();
        let window = |pause_s: f64, bytes: f64| {
            let network = network.clone().after_pause(pause_s);
            (network.window_bytes(0, 1, bytes), network.window_bytes(1, 0, bytes))
        };
        assert_eq!(window(0.17, 1e9), (f64::INFINITY, f64::INFINITY));
        assert_eq!(window(0.19, 1e9), (FIRST_WINDOW_BYTES, 1e6));
        assert_eq!(window(0.41, 1e9), (FIRST_WINDOW_BYTES, 0.5e6));
        assert_eq!(window(0.41, 90e3), (FIRST_WINDOW_BYTES, 30e3), "it never was wider");
        assert_eq!(window(f64::INFINITY, 1e9), (FIRST_WINDOW_BYTES, FIRST_WINDOW_BYTES));
    }

    #[test]
    fn nonsense_is_refused() {
        let node =
            Node { site: 0, send_rate: 1.0, receive_rate: 1.0, overhead_s: DEFAULT_OVERHEAD_S };
        let new = |node, link| Network::new(vec![node], vec![Site::UNLIMITED], vec![link]);
        assert!(new(node, Link::LOCAL).is_ok());
        assert_eq!(new(Node { site: 1, ..node }, Link::LOCAL), Err(InvalidNetwork::Node(0)));
        assert_eq!(new(Node { send_rate: 0.0, ..node }, Link::LOCAL), Err(InvalidNetwork::Node(0)));
        let nan = Link { latency_s: f64::NAN, ..Link::LOCAL };
        assert_eq!(new(node, nan), Err(InvalidNetwork::Link(0, 0)));
        assert_eq!(Network::new(vec![], vec![], vec![]), Err(InvalidNetwork::Size(0)));
    }
}
