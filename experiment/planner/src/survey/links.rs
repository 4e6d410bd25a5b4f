//! The second part of a survey: latencies and rates between clusters and around them, each alone.

use super::near::Clusters;
use super::sharing::{FAN_ATTEMPTS, Fan, LINK_ATTEMPTS};
use super::{NEAR_PINGS, PINGS, REPETITIONS, answers, rounds_of_pairs};
use crate::measurement::Seconds;
use crate::measurement::Transfer;
use crate::model::network::{DEFAULT_OVERHEAD_S, Link, Network, Node, Site};
use std::collections::{HashMap, HashSet};

/// Bytes of a first transfer at least: what TCP sends in four windows, each twice the one before, from its
/// initial ten segments (RFC 6928). So the same once more fits into one window.
const FIRST_BYTES: u64 = 208 << 10;
/// Where the way is long, a first transfer has the bytes that would be enough at this rate, up to a limit: the
/// queue in front of the link has to take a window that is sent at once (Reno, CUBIC).
const FIRST_RATE: f64 = 8e6;
const FIRST_MAX_BYTES: u64 = 624 << 10;
const MAX_BYTES: u64 = 8 << 20;
/// A rate is known once the bytes took so long, and this part of the round trip, which is subtracted. A TCP
/// that spreads what it sends (BBR, Cardwell et al. 2016) goes by what arrived in a round trip before, and
/// sends that in about half of one, however fast the link is.
const LONG_ENOUGH_S: Seconds = 3e-3;
const LONG_ENOUGH: f64 = 0.7;
/// How much longer than necessary a transfer is planned, and how much shorter it may then be.
const AMPLE: f64 = 1.2;
const ALMOST: f64 = 0.85;
/// A transfer that was too short is followed by one that is longer by this, at least and at most.
const LONGER: std::ops::RangeInclusive<f64> = 3.0..=64.0;
/// Rates are known after so many transfers, whatever these were. The fastest counts, since another one may have
/// lost packets; but not one whose bytes took less than this part of the round trip, which may be noise alone.
const RATE_ATTEMPTS: u32 = 3;
const TELLING: f64 = 0.3;
/// The same bytes in short messages and in longer ones tell what a message costs beside its bytes. Short
/// enough that the processors are what limits them.
const TRAIN_BYTES: u64 = 128 << 10;
const SHORT_BYTES: u32 = 256;
const LONGER_BYTES: u32 = 32 << 10;
const MESSAGE_ROUNDS: usize = 3;

pub(super) type Pair = (usize, usize);

/// Each node of a cluster with the next one, the last with the first.
fn ring(members: &[usize]) -> Vec<Pair> {
    let next = members.iter().copied().cycle().skip(1);
    members.iter().copied().zip(next).filter(|(a, b)| a != b).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Latency,
    /// Counted from 0.
    Rate(u32),
    Messages,
    /// Counted from 0.
    Fans(u32),
    /// Counted from 0.
    SharedLinks(u32),
    Done,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Rates {
    pub(super) members: Vec<Vec<usize>>,
    nodes: usize,
    step: Step,
    asked: Vec<Vec<Transfer>>,
    round_trip_s: HashMap<Pair, Seconds>,
    /// Bytes, and the seconds they took, of the last transfer where it was too short to be sure of the rate.
    too_short: HashMap<Pair, (u64, Seconds)>,
    /// Of pairs of nodes, alone.
    pub(super) rate: HashMap<Pair, f64>,
    /// What a message costs a node beside its bytes.
    overhead_s: Seconds,
    /// Of pairs of clusters: all pairs of nodes together, where they share.
    pub(super) shared: HashMap<Pair, f64>,
    /// What the transfers of a fan reached together, in each round that made them share.
    pub(super) fans: HashMap<Fan, Vec<f64>>,
}

impl Rates {
    pub fn new(clusters: &Clusters) -> Self {
        let members = clusters.members();
        let mut rates = Rates {
            nodes: members.iter().map(Vec::len).sum(),
            members,
            step: Step::Latency,
            asked: Vec::new(),
            round_trip_s: HashMap::new(),
            too_short: HashMap::new(),
            rate: HashMap::new(),
            overhead_s: DEFAULT_OVERHEAD_S,
            shared: HashMap::new(),
            fans: HashMap::new(),
        };
        // One round trip stands for all between two clusters.
        let cluster = rates.cluster_of();
        for ((a, b), seconds) in clusters.round_trips() {
            let pair = if cluster[a] == cluster[b] {
                (a, b)
            } else {
                rates.first_pair(cluster[a].min(cluster[b]), cluster[a].max(cluster[b]))
            };
            let known_s = rates.round_trip_s.entry(pair).or_insert(f64::INFINITY);
            *known_s = known_s.min(seconds);
        }
        rates
    }

    pub fn ask(&mut self) -> Option<Vec<Vec<Transfer>>> {
        while self.asked.is_empty() {
            self.asked = match self.step {
                Step::Latency => {
                    let unknown = |pair: &Pair| self.round_trip_s(*pair).is_none();
                    let cluster = self.cluster_of();
                    let pings =
                        |(a, b): Pair| if cluster[a] == cluster[b] { NEAR_PINGS } else { PINGS };
                    self.ask_alone(unknown, |pair| (0, pings(pair)))
                }
                Step::Rate(_) => {
                    let unknown = |pair: &Pair| {
                        !self.rate.contains_key(pair) || self.too_short.contains_key(pair)
                    };
                    self.ask_alone(unknown, |pair| (self.bytes_to_tell_the_rate(pair), REPETITIONS))
                }
                Step::Messages => self.ask_messages(),
                Step::Fans(attempt) => self.ask_fans(attempt),
                Step::SharedLinks(attempt) => self.ask_shared_links(attempt),
                Step::Done => return None,
            };
            if self.asked.is_empty() {
                self.advance();
            }
        }
        Some(self.asked.clone())
    }

    fn advance(&mut self) {
        self.step = match self.step {
            Step::Latency => Step::Rate(0),
            Step::Rate(attempt) if attempt + 1 < RATE_ATTEMPTS => Step::Rate(attempt + 1),
            Step::Rate(_) => Step::Messages,
            Step::Messages => Step::Fans(0),
            Step::Fans(attempt) if attempt + 1 < FAN_ATTEMPTS => Step::Fans(attempt + 1),
            Step::Fans(_) => Step::SharedLinks(0),
            Step::SharedLinks(attempt) if attempt + 1 < LINK_ATTEMPTS => {
                Step::SharedLinks(attempt + 1)
            }
            Step::SharedLinks(_) | Step::Done => Step::Done,
        };
    }

    pub fn observe(&mut self, seconds: &[Vec<Seconds>]) {
        if !answers(&self.asked, seconds) {
            return;
        }
        let rounds = std::mem::take(&mut self.asked);
        if self.step == Step::Messages {
            self.note_messages(seconds);
        }
        for (round, seconds) in rounds.iter().zip(seconds) {
            match self.step {
                Step::Latency => {
                    let pairs = round.iter().map(|transfer| (transfer.from, transfer.to));
                    self.round_trip_s.extend(pairs.zip(seconds.iter().copied()));
                }
                Step::Rate(_) => self.note_rates(round, seconds),
                Step::Fans(_) => self.note_fan(round, seconds),
                Step::SharedLinks(_) => self.note_shared_links(round, seconds),
                Step::Messages | Step::Done => {}
            }
        }
        self.advance();
    }

    /// One transfer for each pair that is `wanted`, of so many bytes and repetitions: between the first
    /// nodes of each two clusters and around each cluster in a ring. No node takes part in two at once
    /// (answers would wait behind the bytes of the other), nor do two pairs inside one cluster.
    fn ask_alone(
        &self,
        wanted: impl Fn(&Pair) -> bool,
        how_much: impl Fn(Pair) -> (u64, u32),
    ) -> Vec<Vec<Transfer>> {
        // A round trip is the same from both ends.
        let both = self.step != Step::Latency;
        let mut between = Vec::new();
        for (i, a) in self.members.iter().enumerate() {
            let others = self.members[i + 1..].iter().map(|b| (a[0], b[0]));
            let directions = others.flat_map(|(a, b)| [Some((a, b)), both.then_some((b, a))]);
            between.extend(directions.flatten().filter(&wanted));
        }
        let mut rounds = rounds_of_pairs(&between, self.nodes, usize::MAX);
        let busy: HashSet<(usize, usize)> = rounds
            .iter()
            .enumerate()
            .flat_map(|(number, round)| {
                round.iter().flat_map(move |&(a, b)| [(number, a), (number, b)])
            })
            .collect();
        for members in &self.members {
            let mut ring: Vec<Pair> = ring(members).into_iter().filter(&wanted).collect();
            // What its first node takes part in comes first: in the first rounds that leave it idle.
            ring.sort_by_key(|&(a, b)| a != members[0] && b != members[0]);
            for number in 0.. {
                if ring.is_empty() {
                    break;
                }
                if number == rounds.len() {
                    rounds.push(Vec::new());
                }
                let is_idle = |node| !busy.contains(&(number, node));
                let fits = ring.iter().position(|&(a, b)| is_idle(a) && is_idle(b));
                rounds[number].extend(fits.map(|place| ring.remove(place)));
            }
        }
        let transfer = |pair: Pair| {
            let (bytes, repetitions) = how_much(pair);
            Transfer::new(pair, bytes, repetitions)
        };
        rounds.into_iter().map(|round| round.into_iter().map(transfer).collect()).collect()
    }

    pub(super) fn cluster_of(&self) -> Vec<usize> {
        let mut cluster = vec![0; self.nodes];
        for (c, nodes) in self.members.iter().enumerate() {
            nodes.iter().for_each(|&node| cluster[node] = c);
        }
        cluster
    }

    pub(super) fn round_trip_s(&self, (a, b): Pair) -> Option<Seconds> {
        let either = self.round_trip_s.get(&(a, b)).or_else(|| self.round_trip_s.get(&(b, a)));
        either.copied()
    }

    /// A transfer tells a rate if its bytes take so long.
    fn long_enough_s(&self, pair: Pair) -> Seconds {
        (LONG_ENOUGH * self.round_trip_s(pair).unwrap_or(0.0)).max(LONG_ENOUGH_S)
    }

    fn bytes_to_tell_the_rate(&self, pair: Pair) -> u64 {
        let Some(&(bytes, busy_s)) = self.too_short.get(&pair) else {
            let bytes = (FIRST_RATE * self.long_enough_s(pair)) as u64;
            return bytes.clamp(FIRST_BYTES, FIRST_MAX_BYTES);
        };
        let times = AMPLE * self.long_enough_s(pair) / busy_s;
        let times = times.clamp(*LONGER.start(), *LONGER.end());
        ((bytes as f64 * times) as u64).min(MAX_BYTES)
    }

    fn note_rates(&mut self, round: &[Transfer], seconds: &[Seconds]) {
        for (transfer, &seconds) in round.iter().zip(seconds) {
            let pair = (transfer.from, transfer.to);
            let busy_s = (seconds - self.round_trip_s(pair).unwrap_or(0.0)).max(1e-7);
            let telling_s = TELLING * self.round_trip_s(pair).unwrap_or(0.0);
            let is_telling = |before: &&(u64, Seconds)| before.1 >= telling_s;
            let before = self.too_short.get(&pair).filter(is_telling).map(|_| self.rate_of(pair));
            let rate = transfer.bytes as f64 / busy_s;
            self.rate.insert(pair, before.map_or(rate, |before| before.max(rate)));
            if busy_s < ALMOST * self.long_enough_s(pair) && transfer.bytes < MAX_BYTES {
                self.too_short.insert(pair, (transfer.bytes, busy_s));
            } else {
                self.too_short.remove(&pair);
            }
        }
    }

    /// Many short messages around each cluster, all nodes at once, as a broadcast keeps them at work; then
    /// the same bytes in few longer ones.
    fn ask_messages(&self) -> Vec<Vec<Transfer>> {
        let pairs: Vec<Pair> = self.members.iter().flat_map(|members| ring(members)).collect();
        if pairs.is_empty() {
            return Vec::new();
        }
        let round = |segment_bytes: u32| -> Vec<Transfer> {
            let transfer =
                |&pair| Transfer { segment_bytes, ..Transfer::new(pair, TRAIN_BYTES, 1) };
            pairs.iter().map(transfer).collect()
        };
        let lengths = [SHORT_BYTES, LONGER_BYTES].into_iter();
        lengths.flat_map(|bytes| vec![round(bytes); MESSAGE_ROUNDS]).collect()
    }

    /// What the shorter messages take longer is theirs alone, whatever the rate is. Processors that were busy
    /// will be so again: the slowest round of the shorter ones counts, and the fastest of the longer.
    fn note_messages(&mut self, seconds: &[Vec<Seconds>]) {
        let mean_s = |round: &Vec<Seconds>| round.iter().sum::<Seconds>() / round.len() as f64;
        let (short, longer) = seconds.split_at(MESSAGE_ROUNDS);
        let messages = |bytes: u32| (TRAIN_BYTES / u64::from(bytes)) as f64;
        let more = messages(SHORT_BYTES) - messages(LONGER_BYTES);
        let slowest_s = short.iter().map(mean_s).fold(0.0, f64::max);
        let fastest_s = longer.iter().map(mean_s).fold(f64::INFINITY, f64::min);
        let each_s = (slowest_s - fastest_s) / more;
        if each_s.is_finite() {
            self.overhead_s = each_s.max(DEFAULT_OVERHEAD_S);
        }
    }

    pub(super) fn rate_of(&self, pair: Pair) -> f64 {
        self.rate.get(&pair).copied().unwrap_or(1e6)
    }

    pub(super) fn first_pair(&self, a: usize, b: usize) -> Pair {
        (self.members[a][0], self.members[b][0])
    }

    /// What was found. An interface is as fast as the fastest that passed it.
    pub fn network(&self, nodes: usize) -> Network {
        let count = self.members.len();
        let cluster = self.cluster_of();
        let blank = |site: &usize| Node {
            site: *site,
            send_rate: 0.0,
            receive_rate: 0.0,
            overhead_s: self.overhead_s,
        };
        let mut all: Vec<Node> = cluster.iter().map(blank).collect();
        for (&(from, to), &rate) in &self.rate {
            all[from].send_rate = all[from].send_rate.max(rate);
            all[to].receive_rate = all[to].receive_rate.max(rate);
        }
        let mut sites = Vec::with_capacity(count);
        for (c, members) in self.members.iter().enumerate() {
            let mut site = Site {
                egress_rate: self.fan_rate((c, false)),
                ingress_rate: self.fan_rate((c, true)),
            };
            if let [node] = members[..] {
                // A lone node's interface is what limits it, whatever it sends to.
                if site.egress_rate.is_finite() {
                    all[node].send_rate = all[node].send_rate.max(site.egress_rate);
                } else {
                    all[node].send_rate = f64::INFINITY;
                }
                if site.ingress_rate.is_finite() {
                    all[node].receive_rate = all[node].receive_rate.max(site.ingress_rate);
                } else {
                    all[node].receive_rate = f64::INFINITY;
                }
                site = Site::UNLIMITED;
            }
            sites.push(site);
        }
        let mut links = Vec::with_capacity(count * count);
        for a in 0..count {
            links.extend((0..count).map(|b| self.link(a, b)));
        }
        if nodes == 1 {
            (all[0].send_rate, all[0].receive_rate) = (f64::INFINITY, f64::INFINITY);
        }
        Network::new(all, sites, links).expect("what was measured is in range")
    }

    fn link(&self, a: usize, b: usize) -> Link {
        let (latency_s, rate) = if a == b {
            let ring = ring(&self.members[a]).into_iter();
            let trips = ring.filter_map(|pair| self.round_trip_s(pair));
            let least = trips.fold(f64::INFINITY, f64::min);
            (if least.is_finite() { least } else { 0.0 }, f64::INFINITY)
        } else {
            let there = self.first_pair(a, b);
            let least = self.round_trip_s(there).unwrap_or(f64::INFINITY);
            let rate = self.rate.get(&there).copied().unwrap_or(f64::INFINITY);
            (if least.is_finite() { least } else { 0.0 }, rate)
        };
        let latency_s = (latency_s / 2.0 - 2.0 * DEFAULT_OVERHEAD_S).max(0.0);
        match self.shared.get(&(a, b)) {
            Some(&shared_rate) => Link { latency_s, pair_rate: f64::INFINITY, shared_rate },
            None if a == b => Link { latency_s, ..Link::LOCAL },
            None => Link { latency_s, pair_rate: rate, shared_rate: f64::INFINITY },
        }
    }
}
