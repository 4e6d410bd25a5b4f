//! The grid to emulate: sites, their nodes, the links between sites and what changes when.
//! [`Topology`] is the full description of latencies and capacities, plain and public, so that
//! limits (shortest paths, flows) can be worked out from it by others.
//!
//! The path of a packet, each step a serialisation server with a finite queue: the sender's NIC;
//! then, between sites, the sender's site uplink, the link (its rate, then its latency and loss) and
//! the receiver's site uplink; inside a site the site's latency; at last the receiver's NIC.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::Spanned;

mod file;

/// Each node is a network namespace of the kernel and a few descriptors of the forwarder.
pub const MAX_NODES: usize = 512;
/// Node addresses carry the site in one byte.
pub const MAX_SITES: usize = 250;
/// The MTU of Ethernet, which hosts have unless the file says otherwise.
const USUAL_MTU_BYTES: u64 = 1500;
/// IPv4 asks for no less of a host (RFC 791), and a TUN device takes no more than its packets may have.
const MTU_BYTES: std::ops::RangeInclusive<u64> = 576..=65_535;
/// No queue holds less than this, so that a burst of a TCP sender's first windows fits.
const MIN_QUEUE_BYTES: u64 = 576_000;
/// The period of cross traffic that never pauses; any will do.
const ALWAYS_ON: Duration = Duration::from_secs(1);
/// A host doesn't drop its own packets before they leave it; this bounds the forwarder's memory.
const SENDER_QUEUE_BYTES: u64 = 64 << 20;

/// A grid: what `gridlab up` builds. Nodes and links refer to sites by index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    pub hosts: Hosts,
    pub sites: Vec<Site>,
    /// In the order of the file: all nodes of the first site first.
    pub nodes: Vec<Node>,
    /// One entry per direction, exactly one for each ordered pair of sites.
    pub links: Vec<Link>,
    /// Sorted by time.
    pub events: Vec<Event>,
    pub cross_traffic: Vec<CrossTraffic>,
}

/// What the kernels of all nodes are set to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    pub tcp: TcpSettings,
    /// `None`: CUBIC where it can be had, else the machine's.
    pub congestion_control: Option<String>,
    /// The size of the largest packet, of every node's interface.
    pub mtu_bytes: u64,
}

impl Hosts {
    /// Hosts whose TCP fills any path, for measurements of the paths themselves.
    pub fn tuned() -> Self {
        Hosts { tcp: TcpSettings::Tuned, congestion_control: None, mtu_bytes: 9000 }
    }
}

/// Windows of TCP and what it does after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TcpSettings {
    /// As the kernel comes: receive windows from 64 KiB to 6 MiB, slow start after a pause.
    #[default]
    Default,
    /// As for long fast links: windows up to 32 MiB from the start, kept through pauses.
    Tuned,
}

/// Nodes that are close to each other, behind an optional shared uplink.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Site {
    pub name: String,
    /// One way, between two nodes of the site.
    pub latency: Duration,
    /// What all nodes of the site share towards other sites, each direction, in bytes per second.
    pub uplink_bytes_per_s: Option<f64>,
    pub uplink_queue_bytes: u64,
}

/// A host with one network interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub name: String,
    pub site: usize,
    /// Of the network interface, each direction, in bytes per second.
    pub rate_bytes_per_s: f64,
    /// What may wait in front of the receiving interface.
    pub receive_queue_bytes: u64,
    /// What may wait behind the sending interface.
    pub send_queue_bytes: u64,
}

/// One direction of a link between two sites.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    pub from: usize,
    pub to: usize,
    /// One way, from a node of one site to a node of the other.
    pub latency: Duration,
    pub rate_bytes_per_s: f64,
    /// Probability that a packet is lost, 0 to 1.
    pub loss: f64,
    /// By how much longer than `latency` a packet is on its way on average. Packets keep their order.
    pub jitter: Duration,
    pub queue_bytes: u64,
}

/// A change of one direction of a link; what is `None` stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkChange {
    pub latency: Option<Duration>,
    pub rate_bytes_per_s: Option<f64>,
    pub loss: Option<f64>,
}

/// A change of the link `from → to` (indices of sites) `at` this time after `up`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub at: Duration,
    pub from: usize,
    pub to: usize,
    pub change: LinkChange,
}

/// What others send over the link `from → to` (indices of sites): a constant rate that gives way to nobody,
/// on and off in turns from `up` on. `off` is zero where it never ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CrossTraffic {
    pub from: usize,
    pub to: usize,
    pub rate_bytes_per_s: f64,
    pub on: Duration,
    pub off: Duration,
}

impl CrossTraffic {
    /// What has been sent until a time after `up`.
    pub fn bytes_until(&self, at: Duration) -> u64 {
        let [on_ns, off_ns, at_ns] = [self.on, self.off, at].map(|time| time.as_nanos());
        let cycle_ns = on_ns + off_ns;
        let on_until_ns = at_ns / cycle_ns * on_ns + (at_ns % cycle_ns).min(on_ns);
        (on_until_ns as f64 * self.rate_bytes_per_s / 1e9).round() as u64
    }
}

/// Why a topology can't be used; the display names line, key and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    #[error("line {line}: {message}\n  {line:>4} | {text}")]
    Meaning { line: usize, text: String, message: String },
}

impl Topology {
    /// Reads a topology file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, TopologyError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|source| TopologyError::Read { path: path.display().to_string(), source })?;
        Self::parse(&text)
    }

    /// Reads the text of a topology file.
    pub fn parse(text: &str) -> Result<Self, TopologyError> {
        let file: file::File = toml::from_str(text)?;
        Reader { text }.topology(file)
    }

    /// The index of a node's name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|n| n.name == name)
    }

    /// The index of a site's name.
    pub fn site(&self, name: &str) -> Option<usize> {
        self.sites.iter().position(|s| s.name == name)
    }

    /// The indices of the nodes of a site.
    pub fn nodes_of(&self, site: usize) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&n| self.nodes[n].site == site).collect()
    }

    /// The direction of a link that leads from one site to another one.
    pub fn link(&self, from: usize, to: usize) -> Option<&Link> {
        self.links.iter().find(|l| l.from == from && l.to == to)
    }

    /// The propagation time of the direct way between two nodes, without serialisation; zero from a
    /// node to itself.
    pub fn one_way_latency(&self, from: usize, to: usize) -> Duration {
        let (a, b) = (self.nodes[from].site, self.nodes[to].site);
        if from == to {
            Duration::ZERO
        } else if a == b {
            self.sites[a].latency
        } else {
            self.link(a, b).map_or(Duration::ZERO, |l| l.latency)
        }
    }

    /// The rates of the serialisation servers on the direct way between two nodes, in order, in
    /// bytes per second.
    pub fn path_servers(&self, from: usize, to: usize) -> Vec<f64> {
        let (a, b) = (self.nodes[from].site, self.nodes[to].site);
        let mut rates = vec![self.nodes[from].rate_bytes_per_s];
        if a != b {
            rates.extend(self.sites[a].uplink_bytes_per_s);
            rates.extend(self.link(a, b).map(|l| l.rate_bytes_per_s));
            rates.extend(self.sites[b].uplink_bytes_per_s);
        }
        rates.push(self.nodes[to].rate_bytes_per_s);
        rates
    }

    /// The rate of the direct way between two nodes when nothing else is sent, in bytes per second.
    pub fn path_rate_bytes_per_s(&self, from: usize, to: usize) -> f64 {
        self.path_servers(from, to).into_iter().fold(f64::INFINITY, f64::min)
    }

    /// How long a single packet of `bytes` takes over an idle path: latency and every server's
    /// serialisation.
    pub fn packet_time(&self, from: usize, to: usize, bytes: u64) -> Duration {
        let serialisation: f64 =
            self.path_servers(from, to).iter().map(|rate| bytes as f64 / rate).sum();
        self.one_way_latency(from, to) + Duration::from_secs_f64(serialisation)
    }
}

impl Link {
    /// Overwrites what the change names.
    pub fn apply(&mut self, change: &LinkChange) {
        self.latency = change.latency.unwrap_or(self.latency);
        self.rate_bytes_per_s = change.rate_bytes_per_s.unwrap_or(self.rate_bytes_per_s);
        self.loss = change.loss.unwrap_or(self.loss);
    }
}

/// Room for a TCP stream to fill the path: what passes in `time`, at least [`MIN_QUEUE_BYTES`].
fn default_queue(rate_bytes_per_s: f64, time: Duration) -> u64 {
    ((rate_bytes_per_s * time.as_secs_f64()) as u64).clamp(MIN_QUEUE_BYTES, SENDER_QUEUE_BYTES)
}

/// Turns the written file into a topology, knowing the text so that errors can name the line.
struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn error(&self, span: Range<usize>, message: impl Into<String>) -> TopologyError {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let text = self.text.lines().nth(line - 1).unwrap_or("").trim_end().to_owned();
        TopologyError::Meaning { line, text, message: message.into() }
    }

    fn topology(&self, file: file::File) -> Result<Topology, TopologyError> {
        let hosts = self.hosts(&file.hosts)?;
        let (sites, nodes) = self.sites_and_nodes(&file.site, hosts.mtu_bytes)?;
        let index: HashMap<String, usize> =
            sites.iter().enumerate().map(|(i, s)| (s.name.clone(), i)).collect();
        let links = self.links(&file, &index, &sites, hosts.mtu_bytes)?;
        let mut events = Vec::new();
        for event in &file.event {
            let change = LinkChange {
                latency: event.latency.map(|t| t.0),
                rate_bytes_per_s: event.rate.map(|r| r.0),
                loss: event.loss.map(|l| l.0),
            };
            if change == LinkChange::default() {
                let message = "this event changes nothing: expected `latency`, `rate` or `loss`";
                return Err(self.error(event.at.span(), message));
            }
            let ends =
                self.ends(&event.between, &event.from, &event.to, &index, event.at.span())?;
            let at = event.at.get_ref().0;
            events.extend(ends.into_iter().map(|(from, to)| Event { at, from, to, change }));
        }
        events.sort_by_key(|e| e.at);
        let cross_traffic = self.cross_traffic(&file.cross_traffic, &index, &links)?;
        Ok(Topology { hosts, sites, nodes, links, events, cross_traffic })
    }

    fn cross_traffic(
        &self,
        written: &[file::CrossTraffic],
        index: &HashMap<String, usize>,
        links: &[Link],
    ) -> Result<Vec<CrossTraffic>, TopologyError> {
        let mut all = Vec::new();
        for traffic in written {
            let span = traffic.rate.span();
            let (on, off) = match (traffic.on, traffic.off) {
                (None, None) => (ALWAYS_ON, Duration::ZERO),
                (Some(on), Some(off)) if !on.0.is_zero() => (on.0, off.0),
                _ => {
                    let message = "expected both `on`, more than nothing, and `off`, or neither";
                    return Err(self.error(span, message));
                }
            };
            let ends =
                self.ends(&traffic.between, &traffic.from, &traffic.to, index, span.clone())?;
            let rate_bytes_per_s = traffic.rate.get_ref().0;
            let is_more = |link: &Link| {
                ends.contains(&(link.from, link.to)) && link.rate_bytes_per_s <= rate_bytes_per_s
            };
            if links.iter().any(is_more) {
                return Err(self.error(span, "expected less than the rate of the link"));
            }
            let of = |(from, to)| CrossTraffic { from, to, rate_bytes_per_s, on, off };
            all.extend(ends.into_iter().map(of));
        }
        Ok(all)
    }

    fn hosts(&self, written: &file::Hosts) -> Result<Hosts, TopologyError> {
        let mtu_bytes = match &written.mtu {
            Some(mtu) if !MTU_BYTES.contains(mtu.get_ref()) => {
                let (least, most) = (MTU_BYTES.start(), MTU_BYTES.end());
                let message = format!("expected an MTU of {least} to {most} bytes");
                return Err(self.error(mtu.span(), message));
            }
            Some(mtu) => *mtu.get_ref(),
            None => USUAL_MTU_BYTES,
        };
        let congestion_control = written.congestion_control.clone();
        Ok(Hosts { tcp: written.tcp, congestion_control, mtu_bytes })
    }

    fn sites_and_nodes(
        &self,
        written: &[file::Site],
        mtu_bytes: u64,
    ) -> Result<(Vec<Site>, Vec<Node>), TopologyError> {
        let (mut sites, mut nodes) = (Vec::new(), Vec::<Node>::new());
        if written.is_empty() {
            return Err(self.error(0..0, "expected at least one [[site]]"));
        }
        let mut site_names = HashMap::new();
        let mut node_names = HashMap::new();
        for (index, site) in written.iter().enumerate() {
            let (name, span) = (site.name.get_ref(), site.name.span());
            self.check_name(name, span.clone())?;
            if index >= MAX_SITES {
                return Err(self.error(span, format!("expected at most {MAX_SITES} sites")));
            }
            if site_names.insert(name.clone(), index).is_some() {
                return Err(self.error(span, format!("the site `{name}` exists already")));
            }
            let uplink = site.uplink.map(|r| r.0);
            let queue = default_queue(uplink.unwrap_or(0.0), Duration::from_millis(100));
            sites.push(Site {
                name: name.clone(),
                latency: site.latency.0,
                uplink_bytes_per_s: uplink,
                uplink_queue_bytes: site.uplink_queue.map_or(queue, |s| s.0.max(mtu_bytes)),
            });
            for (node, rate, span) in self.written_nodes(site)? {
                self.check_name(&node, span.clone())?;
                if nodes.len() >= MAX_NODES {
                    return Err(self.error(span, format!("expected at most {MAX_NODES} nodes")));
                }
                if node_names.insert(node.clone(), ()).is_some() {
                    return Err(self.error(span, format!("the node `{node}` exists already")));
                }
                let queue = default_queue(rate, Duration::from_millis(50));
                nodes.push(Node {
                    name: node,
                    site: index,
                    rate_bytes_per_s: rate,
                    receive_queue_bytes: site.node_queue.map_or(queue, |s| s.0.max(mtu_bytes)),
                    send_queue_bytes: SENDER_QUEUE_BYTES,
                });
            }
        }
        Ok((sites, nodes))
    }

    /// Names, rates and places of a site's nodes.
    fn written_nodes(
        &self,
        site: &file::Site,
    ) -> Result<Vec<(String, f64, Range<usize>)>, TopologyError> {
        let span = site.nodes.span();
        match site.nodes.get_ref() {
            file::Nodes::Count(count) if !(1..=MAX_NODES as u64).contains(count) => {
                Err(self.error(span, format!("expected 1 to {MAX_NODES} nodes, found {count}")))
            }
            file::Nodes::Count(count) => Ok((1..=*count)
                .map(|i| (format!("{}{i}", site.name.get_ref()), site.node_rate.0, span.clone()))
                .collect()),
            file::Nodes::List(list) if list.is_empty() => {
                Err(self.error(span, "expected at least one node"))
            }
            file::Nodes::List(list) => Ok(list
                .iter()
                .map(|n| {
                    let rate = n.get_ref().rate.unwrap_or(site.node_rate).0;
                    (n.get_ref().name.clone(), rate, n.span())
                })
                .collect()),
        }
    }

    /// Names become host names and arguments of MPI launchers.
    fn check_name(&self, name: &str, span: Range<usize>) -> Result<(), TopologyError> {
        let good = name.len() <= 32
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && !name.ends_with('-')
            && name != "localhost";
        if good {
            return Ok(());
        }
        let message = "expected a name of 1 to 32 lower-case letters, digits and hyphens that \
                       starts with a letter, other than `localhost`";
        Err(self.error(span, message))
    }

    fn links(
        &self,
        file: &file::File,
        index: &HashMap<String, usize>,
        sites: &[Site],
        mtu_bytes: u64,
    ) -> Result<Vec<Link>, TopologyError> {
        let mut links: Vec<Link> = Vec::new();
        let mut seen = HashMap::new();
        for link in &file.link {
            let span = link.latency.span();
            for (from, to) in self.ends(&link.between, &link.from, &link.to, index, span.clone())? {
                if seen.insert((from, to), ()).is_some() {
                    let (a, b) = (&sites[from].name, &sites[to].name);
                    return Err(self.error(span, format!("a link {a} → {b} exists already")));
                }
                let latency = link.latency.get_ref().0;
                let queue = default_queue(link.rate.0, 2 * latency + Duration::from_millis(50));
                links.push(Link {
                    from,
                    to,
                    latency,
                    rate_bytes_per_s: link.rate.0,
                    loss: link.loss.map_or(0.0, |l| l.0),
                    jitter: link.jitter.map_or(Duration::ZERO, |j| j.0),
                    queue_bytes: link.queue.map_or(queue, |s| s.0.max(mtu_bytes)),
                });
            }
        }
        for (from, a) in sites.iter().enumerate() {
            for (to, b) in sites.iter().enumerate() {
                if from != to && !seen.contains_key(&(from, to)) {
                    let message = format!(
                        "no link {} → {}: expected a [[link]] for every pair of sites",
                        a.name, b.name
                    );
                    return Err(self.error(file.site[from].name.span(), message));
                }
            }
        }
        links.sort_by_key(|l| (l.from, l.to));
        Ok(links)
    }

    /// The directions that `between = [a, b]` or `from`/`to` name.
    fn ends(
        &self,
        between: &Option<Spanned<[Spanned<String>; 2]>>,
        from: &Option<Spanned<String>>,
        to: &Option<Spanned<String>>,
        index: &HashMap<String, usize>,
        place: Range<usize>,
    ) -> Result<Vec<(usize, usize)>, TopologyError> {
        let site = |name: &Spanned<String>| {
            index.get(name.get_ref()).copied().ok_or_else(|| {
                let message = format!("expected the name of a site, found `{}`", name.get_ref());
                self.error(name.span(), message)
            })
        };
        let (pair, both) = match (between, from, to) {
            (Some(pair), None, None) => {
                let span = pair.span();
                let [a, b] = pair.get_ref();
                ((site(a)?, site(b)?, span), true)
            }
            (None, Some(a), Some(b)) => ((site(a)?, site(b)?, a.span()), false),
            _ => {
                let message = "expected either `between = [\"a\", \"b\"]` for both directions, or \
                               `from` and `to` for one";
                return Err(self.error(place, message));
            }
        };
        match pair {
            (a, b, span) if a == b => Err(self.error(span, "expected two different sites")),
            (a, b, _) if both => Ok(vec![(a, b), (b, a)]),
            (a, b, _) => Ok(vec![(a, b)]),
        }
    }
}
