//! *Links*: latencies and rates between one node of each cluster and one of each other, and around each
//! cluster, each pair alone. Where transfers were too short to tell a rate, longer ones follow.

use super::near::Near;
use super::rounds::{NEAR_PINGS, PINGS, Rounds, rounds_of_pairs};
use crate::measurement::{Seconds, Transfer};
use std::collections::{HashMap, HashSet};

/// A transfer that is made alone is made twice and the faster one counts: the first may open a
/// connection, and TCP learns from it how fast the link is.
const REPETITIONS: u32 = 2;
/// Bytes of a first transfer at least: what TCP sends in four windows, each twice the one before, from its
/// initial ten segments (RFC 6928). So the same once more fits into one window.
const FIRST_BYTES: u64 = 208 << 10;
/// Where the way is long, a first transfer has the bytes that would be enough at this rate, up to a limit: the
/// queue in front of the link has to take a window that is sent at once (Reno, CUBIC).
const FIRST_RATE: f64 = 8e6;
const FIRST_MAX_BYTES: u64 = 624 << 10;
const MAX_BYTES: u64 = 8 << 20;
/// Minimum transfer time for a rate to count, in seconds and as a fraction of the round trip (which is
/// subtracted). A TCP
/// that spreads what it sends (N. Cardwell et al., "BBR: Congestion-based
/// congestion control", 2016) goes by what arrived in a round trip before, and
/// sends that in about half of one, however fast the link is.
const LONG_ENOUGH_S: Seconds = 3e-3;
const LONG_ENOUGH: f64 = 0.7;
/// How much longer than necessary a transfer is planned, and how much shorter it may then be.
const AMPLE: f64 = 1.2;
const ALMOST: f64 = 0.85;
/// A transfer that was too short is followed by one that is longer by this, at least and at most.
const LONGER: std::ops::RangeInclusive<f64> = 3.0..=64.0;
/// Transfers after which a rate is known, whatever they were. The fastest counts, since another one may have
/// lost packets; but not one whose bytes took less than this part of the round trip, which may be noise alone.
const RATE_ATTEMPTS: u32 = 3;
const TELLING: f64 = 0.3;

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
    /// Bytes, and the seconds they took, of the last transfer where it was too short to be sure of the rate.
    too_short: HashMap<Pair, (u64, Seconds)>,
    pub rate: HashMap<Pair, f64>,
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
                    self.ask_alone(unknown, |pair| (self.bytes_to_tell_the_rate(pair), REPETITIONS))
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

    pub fn observe(&mut self, rounds: &[Vec<Transfer>], seconds: &[Vec<Seconds>]) {
        for (round, seconds) in rounds.iter().zip(seconds) {
            if self.step == Step::Latency {
                let pairs = round.iter().map(|transfer| (transfer.from, transfer.to));
                self.round_trip_s.extend(pairs.zip(seconds.iter().copied()));
            } else {
                self.note_rates(round, seconds);
            }
        }
        self.advance();
    }

    /// One transfer for each pair that is `wanted`, of that many bytes and repetitions: between the first
    /// nodes of each two clusters and around each cluster in a ring. No node takes part in two at once
    /// (answers would wait behind the bytes of the other), nor do two pairs inside one cluster.
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

    /// A transfer tells a rate if its bytes take this long.
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

    /// Of a pair alone, in bytes per second.
    pub fn rate_of(&self, pair: Pair) -> f64 {
        self.rate.get(&pair).copied().unwrap_or(1e6)
    }

    pub fn first_pair(&self, a: usize, b: usize) -> Pair {
        (self.members[a][0], self.members[b][0])
    }
}
