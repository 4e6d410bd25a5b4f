//! *Links*: latencies and rates between one node of each cluster and one of each other, and around each
//! cluster, each pair alone. Where transfers were too short to tell a rate, longer ones follow.

use super::arrivals::{Steady, steady};
use super::assumed;
use super::near::Near;
use super::rounds::{NEAR_PINGS, PINGS, Rounds, rounds_of_pairs, rounds_one_way};
use crate::measurement::{Seconds, Transfer, TransferResult};
use crate::model::network::{DEFAULT_OVERHEAD_S, Network, PACKET_BYTES};
use std::collections::{HashMap, HashSet};

/// Bytes of a first transfer, by how much each next one is longer, and the most.
const FIRST_BYTES: u64 = 256 << 10;
const LONGER: u64 = 4;
const MAX_BYTES: u64 = 16 << 20;
/// Bytes of a first transfer where the round trip is below this, so that a connection starts in no time: so many that
/// what processors hold up for a moment is little of it.
const FIRST_BYTES_NEAR: u64 = 4 << 20;
const NEAR_S: Seconds = 2e-3;
/// Transfers after which a rate is known, whatever they were.
const RATE_ATTEMPTS: u32 = 4;
/// What takes this number of round trips, and this long, need not be longer.
const ENOUGH_ROUND_TRIPS: f64 = 2.0;
const ENOUGH_S: Seconds = 0.25;
/// A transfer that tells a rate is stopped after this number of round trips, and this long: what has come by then is
/// enough, and one that lost packets may go on for long.
const STOP_ROUND_TRIPS: f64 = 12.0;
const STOP_S: Seconds = 1.5;
/// Where queues are too short for TCP's bursts, a transfer alone loses this part of its packets, and so many at least, of
/// the windows that were too wide; and not only once, when others may have been the reason.
const LOST_BURSTS: f64 = 0.01;
const LEAST_LOST_PACKETS: f64 = 16.0;
const TELLING_LOSSES: usize = 2;
/// A rate that was seen for a shorter time is not known, nor one that still grew.
const SHORTEST_S: Seconds = 16e-3;

pub(super) type Pair = (usize, usize);

/// Each node of a cluster with the next one, the last with the first.
pub(super) fn ring(members: &[usize]) -> Vec<Pair> {
    let next = members.iter().copied().cycle().skip(1);
    members.iter().copied().zip(next).filter(|(a, b)| a != b).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Latency,
    /// Counted from 0.
    Rate(u32),
}

/// Round trips and rates of pairs of nodes, alone.
#[derive(Debug)]
pub(super) struct Links {
    /// The nodes of each cluster; its first stands for it.
    pub members: Vec<Vec<usize>>,
    nodes: usize,
    step: Step,
    round_trip_s: HashMap<Pair, Seconds>,
    /// Bytes of the next transfer, where another one is to tell whether the rate still grows.
    too_short: HashMap<Pair, u64>,
    pub rate: HashMap<Pair, f64>,
    /// The last transfer of each pair: its bytes, and how long it took without its round trip.
    told: HashMap<Pair, (u64, Seconds)>,
    /// The bytes of each transfer that lost so much.
    lost_bursts: Vec<u64>,
}

impl Links {
    pub fn new(near: &Near) -> Self {
        let members = near.members();
        let mut links = Links {
            nodes: members.iter().map(Vec::len).sum(),
            members,
            step: Step::Latency,
            round_trip_s: HashMap::new(),
            too_short: HashMap::new(),
            rate: HashMap::new(),
            told: HashMap::new(),
            lost_bursts: Vec::new(),
        };
        // One round trip stands for all between two clusters.
        let cluster = links.cluster_of();
        for ((a, b), seconds) in near.round_trips() {
            let pair = if cluster[a] == cluster[b] {
                (a, b)
            } else {
                links.first_pair(cluster[a].min(cluster[b]), cluster[a].max(cluster[b]))
            };
            let known_s = links.round_trip_s.entry(pair).or_insert(f64::INFINITY);
            *known_s = known_s.min(seconds);
        }
        links
    }

    /// What to measure next; empty once all is known.
    pub fn ask(&mut self) -> Rounds {
        loop {
            let rounds = match self.step {
                Step::Latency => {
                    let unknown = |pair: &Pair| self.round_trip_s(*pair).is_none();
                    let cluster = self.cluster_of();
                    let pings =
                        |(a, b): Pair| if cluster[a] == cluster[b] { NEAR_PINGS } else { PINGS };
                    self.ask_alone(unknown, |pair| (0, pings(pair)))
                }
                Step::Rate(RATE_ATTEMPTS) => return Vec::new(),
                Step::Rate(_) => {
                    let unknown = |pair: &Pair| {
                        !self.rate.contains_key(pair) || self.too_short.contains_key(pair)
                    };
                    self.ask_alone(unknown, |pair| (self.bytes_to_tell_the_rate(pair), 1))
                }
            };
            if !rounds.is_empty() {
                return rounds;
            }
            self.advance();
        }
    }

    fn advance(&mut self) {
        self.step = match self.step {
            Step::Latency => Step::Rate(0),
            Step::Rate(attempt) => Step::Rate(attempt + 1),
        };
    }

    /// See [`Network::with_lost_bursts`].
    pub fn lost_burst_bytes(&self) -> Option<u64> {
        let lost = &self.lost_bursts;
        lost.iter().copied().min().filter(|_| lost.len() >= TELLING_LOSSES)
    }

    /// See [`super::Survey::assumed_network`]. What has been measured is as it was.
    pub fn assumed_network(&self) -> Option<Network> {
        let rate = |a: usize, b: usize| {
            let pair = self.first_pair(a, b);
            let least = if self.too_short.contains_key(&pair) { assumed::SITE_RATE } else { 0.0 };
            self.rate.get(&pair).map_or(assumed::SITE_RATE, |rate| rate.max(least))
        };
        let network = || assumed::network(&self.cluster_of(), |a, b| self.latency_s(a, b), rate);
        if self.step == Step::Latency { None } else { network() }
    }

    /// Between two clusters, or inside one, one way.
    pub fn latency_s(&self, a: usize, b: usize) -> Seconds {
        let least_s = if a == b {
            let trips =
                ring(&self.members[a]).into_iter().filter_map(|pair| self.round_trip_s(pair));
            trips.reduce(f64::min)
        } else {
            self.round_trip_s(self.first_pair(a, b))
        };
        // Infinite where a rank has not answered.
        let least_s = least_s.filter(|seconds| seconds.is_finite()).unwrap_or(0.0);
        (least_s / 2.0 - 2.0 * DEFAULT_OVERHEAD_S).max(0.0)
    }

    pub fn observe(&mut self, rounds: &[Vec<Transfer>], results: &[Vec<TransferResult>]) {
        let is_paced = self.lost_burst_bytes().is_some();
        for (transfer, result) in rounds.iter().flatten().zip(results.iter().flatten()) {
            if self.step == Step::Latency {
                self.round_trip_s.insert((transfer.from, transfer.to), result.seconds);
            } else {
                self.note_rate(transfer, result);
                let came = result.bytes_of(transfer);
                let lost_packets = result.lost * came as f64 / f64::from(PACKET_BYTES);
                if !is_paced && result.lost >= LOST_BURSTS && lost_packets >= LEAST_LOST_PACKETS {
                    self.lost_bursts.push(came);
                }
            }
        }
        self.advance();
        if !is_paced && self.lost_burst_bytes().is_some() {
            self.begin_anew();
        }
    }

    /// What was told between clusters is TCP's of bursts that were lost, and so are the windows of those connections for
    /// long: it is told once more, by others.
    fn begin_anew(&mut self) {
        let clusters = 0..self.members.len();
        let between =
            clusters.clone().flat_map(|a| clusters.clone().skip(a + 1).map(move |b| (a, b)));
        let round_trip_s: Vec<_> =
            between.map(|(a, b)| ((a, b), self.round_trip_s(self.first_pair(a, b)))).collect();
        self.members.iter_mut().for_each(|members| members.rotate_left(1));
        for ((a, b), seconds) in round_trip_s {
            let pair = self.first_pair(a, b);
            self.round_trip_s.extend(seconds.map(|seconds| (pair, seconds)));
        }
        let cluster = self.cluster_of();
        let is_inside = |(a, b): &Pair| cluster[*a] == cluster[*b];
        self.rate.retain(|pair, _| is_inside(pair));
        self.told.retain(|pair, _| is_inside(pair));
        self.too_short.retain(|pair, _| is_inside(pair));
        self.step = Step::Rate(0);
    }

    /// One transfer for each pair that is `wanted`, of that many bytes and repetitions: between the first
    /// nodes of each two clusters and around each cluster in a ring. No node takes part in two at once but for one
    /// that comes in from another cluster while one goes out to another, nor do two pairs inside one cluster.
    fn ask_alone(
        &self,
        wanted: impl Fn(&Pair) -> bool,
        how_much: impl Fn(Pair) -> (u64, u32),
    ) -> Rounds {
        // A round trip is the same from both ends.
        let both = self.step != Step::Latency;
        let mut between = Vec::new();
        for (i, a) in self.members.iter().enumerate() {
            let others = self.members[i + 1..].iter().map(|b| (a[0], b[0]));
            let directions = others.flat_map(|(a, b)| [Some((a, b)), both.then_some((b, a))]);
            between.extend(directions.flatten().filter(&wanted));
        }
        let mut rounds = if both {
            rounds_one_way(&between, self.nodes)
        } else {
            rounds_of_pairs(&between, self.nodes)
        };
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
            let stop_after_s = if bytes > 0 { self.stops_after_s(pair) } else { f64::INFINITY };
            Transfer { stop_after_s, ..Transfer::new(pair, bytes, repetitions) }
        };
        rounds.into_iter().map(|round| round.into_iter().map(transfer).collect()).collect()
    }

    /// The cluster of each node.
    pub fn cluster_of(&self) -> Vec<usize> {
        let mut cluster = vec![0; self.nodes];
        for (c, nodes) in self.members.iter().enumerate() {
            nodes.iter().for_each(|&node| cluster[node] = c);
        }
        cluster
    }

    pub fn round_trip_s(&self, (a, b): Pair) -> Option<Seconds> {
        let either = self.round_trip_s.get(&(a, b)).or_else(|| self.round_trip_s.get(&(b, a)));
        either.copied()
    }

    fn bytes_to_tell_the_rate(&self, pair: Pair) -> u64 {
        let is_near = self.round_trip_s(pair).is_some_and(|seconds| seconds < NEAR_S);
        let first = if is_near { FIRST_BYTES_NEAR } else { FIRST_BYTES };
        self.too_short.get(&pair).copied().unwrap_or(first)
    }

    /// When a transfer that is to tell a rate is stopped, at the latest.
    fn stops_after_s(&self, pair: Pair) -> Seconds {
        self.round_trip_s(pair).map_or(f64::INFINITY, |s| (STOP_ROUND_TRIPS * s).max(STOP_S))
    }

    fn note_rate(&mut self, transfer: &Transfer, result: &TransferResult) {
        let pair = (transfer.from, transfer.to);
        let round_trip_s = self.round_trip_s(pair).unwrap_or(0.0);
        // One that was stopped before anything came tells nothing: it is measured again.
        let bytes = match result.bytes_of(transfer) {
            0 => transfer.bytes,
            came => came,
        };
        let whole_s = self.sending_s(pair, transfer, result).max(1e-7);
        // Too short to tell, or found all at once by a receiver that came late: it is at least that fast.
        let seen = steady(&result.arrivals).unwrap_or(Steady {
            rate: bytes as f64 / whole_s,
            busy_s: 0.0,
            is_even: false,
            is_of_pauses: false,
        });
        self.rate.insert(pair, seen.rate);
        let before = self.told.insert(pair, (bytes, whole_s));
        let is_longer = before.is_none_or(|(before, _)| bytes > before);
        let is_known = seen.is_even && seen.busy_s > SHORTEST_S;
        // Longer ones would be stopped too, but for one that was to fit into a pause.
        let is_stopped =
            bytes < transfer.bytes && transfer.stop_after_s >= self.stops_after_s(pair);
        if is_known || is_stopped || transfer.bytes >= MAX_BYTES {
            self.too_short.remove(&pair);
        } else {
            let enough_s = (ENOUGH_ROUND_TRIPS * round_trip_s).max(ENOUGH_S);
            // On a slow link the same once more is long enough, but not where ways are now longer, now shorter.
            let enough = if seen.is_of_pauses { MAX_BYTES } else { (seen.rate * enough_s) as u64 };
            let least = transfer.bytes * if is_longer { 1 } else { 2 };
            let longer = enough.clamp(least, transfer.bytes * LONGER).min(MAX_BYTES);
            self.too_short.insert(pair, longer);
        }
    }

    /// How long a transfer between two nodes that a `pair` tells of was sent, without its round trip: until the
    /// answer, or where that waited behind what went the same way, until the last byte came.
    pub fn sending_s(&self, pair: Pair, transfer: &Transfer, result: &TransferResult) -> Seconds {
        let round_trip_s = self.round_trip_s(pair).unwrap_or(0.0);
        let way_s = transfer.delay_s + round_trip_s / 2.0;
        let last = result.arrivals.last().map_or(f64::INFINITY, |last| last.seconds - way_s);
        (result.seconds - round_trip_s).min(last)
    }

    /// Bytes of a transfer that tells what this pair reaches alone, and how long it takes without its round
    /// trip, the connection's start included.
    pub fn telling(&self, pair: Pair) -> (u64, Seconds) {
        self.told.get(&pair).copied().unwrap_or((FIRST_BYTES, ENOUGH_S))
    }

    /// Of a pair alone, in bytes per second.
    pub fn rate_of(&self, pair: Pair) -> f64 {
        self.rate.get(&pair).copied().unwrap_or(1e6)
    }

    pub fn first_pair(&self, a: usize, b: usize) -> Pair {
        (self.members[a][0], self.members[b][0])
    }
}
