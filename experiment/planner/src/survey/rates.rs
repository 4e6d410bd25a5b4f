//! The second and third part of a survey: latencies and rates between clusters and around them, then
//! what transfers that run at once share.

use super::clusters::Clusters;
use super::{REPETITIONS, answers, rounds_of_pairs};
use crate::network::{DEFAULT_OVERHEAD_S, Link, Network, Node, Site};
use crate::simulate::Seconds;
use crate::strategy::Transfer;
use std::collections::HashMap;

/// Bytes of the first try; the next ones are larger where that was over before it told anything.
const FIRST_BYTES: u64 = 96 << 10;
const GROWTH: u64 = 8;
const MAX_BYTES: u64 = 8 << 20;
/// A rate is known once the bytes took this many times the round trip, but no less than this long.
const ROUND_TRIPS: f64 = 1.0;
const LONG_ENOUGH_S: Seconds = 4e-3;
/// How long transfers that run at once should take, all alike, and how much the largest may be.
const AT_ONCE_S: Seconds = 0.25;
const AT_ONCE_MAX_BYTES: f64 = 32e6;
/// Transfers at once out of one cluster: enough to fill what it shares.
const FAN: usize = 6;
/// What reaches less than this fraction of its parts' sum is shared.
const SHARED: f64 = 0.85;
/// Transfers inside clusters that run at the same time: they are fast, and some networks are one
/// machine.
const INSIDE_AT_ONCE: usize = 2;

type Pair = (usize, usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Latency,
    /// With so many bytes.
    Rate(u64),
    SharedLink,
    Out,
    Into,
    Done,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Rates {
    members: Vec<Vec<usize>>,
    nodes: usize,
    step: Step,
    asked: Vec<Vec<Transfer>>,
    round_trip_s: HashMap<Pair, Seconds>,
    /// Of pairs of nodes, alone.
    rate: HashMap<Pair, f64>,
    /// Of pairs of clusters: all pairs of nodes together, where they share.
    shared: HashMap<Pair, f64>,
    egress: Vec<f64>,
    ingress: Vec<f64>,
}

impl Rates {
    pub fn new(clusters: &Clusters) -> Self {
        let members = clusters.members();
        let count = members.len();
        Rates {
            nodes: members.iter().map(Vec::len).sum(),
            members,
            step: Step::Latency,
            asked: Vec::new(),
            round_trip_s: HashMap::new(),
            rate: HashMap::new(),
            shared: HashMap::new(),
            egress: vec![f64::INFINITY; count],
            ingress: vec![f64::INFINITY; count],
        }
    }

    pub fn ask(&mut self) -> Option<Vec<Vec<Transfer>>> {
        while self.asked.is_empty() {
            self.asked = match self.step {
                Step::Latency => self.alone(self.all_pairs(), 0, self.nodes),
                Step::Rate(bytes) => {
                    let unknown = |pair: &Pair| !self.rate.contains_key(pair);
                    let pairs = self.all_pairs().into_iter().filter(unknown).collect();
                    self.alone(pairs, bytes, INSIDE_AT_ONCE.max(self.nodes / 64))
                }
                Step::SharedLink => self.ask_shared_links(),
                Step::Out => self.ask_fans(false),
                Step::Into => self.ask_fans(true),
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
            Step::Latency => Step::Rate(FIRST_BYTES),
            Step::Rate(bytes) if bytes < MAX_BYTES => Step::Rate((bytes * GROWTH).min(MAX_BYTES)),
            Step::Rate(_) => Step::SharedLink,
            Step::SharedLink => Step::Out,
            Step::Out => Step::Into,
            Step::Into | Step::Done => Step::Done,
        };
    }

    pub fn observe(&mut self, seconds: &[Vec<Seconds>]) {
        if !answers(&self.asked, seconds) {
            return;
        }
        let rounds = std::mem::take(&mut self.asked);
        for (round, seconds) in rounds.iter().zip(seconds) {
            match self.step {
                Step::Latency | Step::Rate(_) => self.note_alone(round, seconds),
                Step::SharedLink => self.note_shared_link(round, seconds),
                Step::Out => self.note_fan(round, seconds, false),
                Step::Into => self.note_fan(round, seconds, true),
                Step::Done => {}
            }
        }
        self.advance();
    }

    /// The first nodes of each two clusters, and each cluster's nodes around in a ring.
    fn all_pairs(&self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for (i, a) in self.members.iter().enumerate() {
            for b in &self.members[i + 1..] {
                pairs.extend([(a[0], b[0]), (b[0], a[0])]);
            }
            if a.len() > 1 {
                pairs.extend((0..a.len()).map(|k| (a[k], a[(k + 1) % a.len()])));
            }
        }
        pairs
    }

    /// One transfer a pair; no node takes part in two at once.
    fn alone(&self, pairs: Vec<Pair>, bytes: u64, inside_at_once: usize) -> Vec<Vec<Transfer>> {
        let cluster = self.cluster_of();
        let (inside, between): (Vec<Pair>, Vec<Pair>) =
            pairs.into_iter().partition(|&(a, b)| cluster[a] == cluster[b]);
        let mut rounds = rounds_of_pairs(&between, self.nodes, usize::MAX);
        rounds.extend(rounds_of_pairs(&inside, self.nodes, inside_at_once));
        let transfer = |(from, to)| Transfer { from, to, bytes, repetitions: REPETITIONS };
        rounds.into_iter().map(|round| round.into_iter().map(transfer).collect()).collect()
    }

    fn cluster_of(&self) -> Vec<usize> {
        let mut cluster = vec![0; self.nodes];
        for (c, nodes) in self.members.iter().enumerate() {
            nodes.iter().for_each(|&node| cluster[node] = c);
        }
        cluster
    }

    fn note_alone(&mut self, round: &[Transfer], seconds: &[Seconds]) {
        for (transfer, &seconds) in round.iter().zip(seconds) {
            let pair = (transfer.from, transfer.to);
            if transfer.bytes == 0 {
                self.round_trip_s.insert(pair, seconds);
                continue;
            }
            let round_trip_s = self.round_trip_s.get(&pair).copied().unwrap_or(0.0);
            let busy_s = (seconds - round_trip_s).max(1e-7);
            let long = busy_s >= (ROUND_TRIPS * round_trip_s).max(LONG_ENOUGH_S);
            if long || transfer.bytes >= MAX_BYTES {
                self.rate.insert(pair, transfer.bytes as f64 / busy_s);
            }
        }
    }

    fn rate_of(&self, pair: Pair) -> f64 {
        self.rate.get(&pair).copied().unwrap_or(1e6)
    }

    /// The time that transfers at these rates may take.
    fn while_s(rates: impl Iterator<Item = f64>) -> Seconds {
        rates.map(|rate| AT_ONCE_MAX_BYTES / rate).fold(AT_ONCE_S, f64::min)
    }

    /// Bytes that take so long at the rate that `pair` reaches alone.
    fn for_a_while(&self, from: usize, to: usize, pair: Pair, while_s: Seconds) -> Transfer {
        let bytes = (self.rate_of(pair) * while_s).max(1024.0) as u64;
        Transfer { from, to, bytes, repetitions: REPETITIONS }
    }

    fn first_pair(&self, a: usize, b: usize) -> Pair {
        (self.members[a][0], self.members[b][0])
    }

    /// For each two clusters of several nodes, two transfers at once between different nodes.
    fn ask_shared_links(&self) -> Vec<Vec<Transfer>> {
        let count = self.members.len();
        let large: Vec<usize> = (0..count).filter(|&c| self.members[c].len() > 1).collect();
        let mut pairs = Vec::new();
        for (i, &a) in large.iter().enumerate() {
            pairs.extend(large[i + 1..].iter().flat_map(|&b| [(a, b), (b, a)]));
        }
        // Different clusters don't disturb each other.
        let rounds = rounds_of_pairs(&pairs, count, usize::MAX);
        let both = |(a, b): Pair| {
            let pair = self.first_pair(a, b);
            let second = (self.members[a][1], self.members[b][1]);
            let while_s = Self::while_s(std::iter::once(self.rate_of(pair)));
            [pair, second].map(|(from, to)| self.for_a_while(from, to, pair, while_s))
        };
        rounds.into_iter().map(|round| round.into_iter().flat_map(both).collect()).collect()
    }

    fn note_shared_link(&mut self, round: &[Transfer], seconds: &[Seconds]) {
        let cluster = self.cluster_of();
        for (two, seconds) in round.chunks(2).zip(seconds.chunks(2)) {
            let link = (cluster[two[0].from], cluster[two[0].to]);
            let pair = self.first_pair(link.0, link.1);
            let together = self.rate_at_once(two, seconds, |_| pair);
            let alone = self.rate.get(&pair).copied().unwrap_or(f64::INFINITY);
            if together < SHARED * 2.0 * alone {
                self.shared.insert(link, together.max(alone));
            }
        }
    }

    /// All bytes over the time of the longest transfer, less its round trip.
    fn rate_at_once(
        &self,
        transfers: &[Transfer],
        seconds: &[Seconds],
        pair: impl Fn(&Transfer) -> Pair,
    ) -> f64 {
        let busy = transfers.iter().zip(seconds).map(|(transfer, seconds)| {
            seconds - self.round_trip_s.get(&pair(transfer)).copied().unwrap_or(0.0)
        });
        let busy_s = busy.fold(1e-7, f64::max);
        transfers.iter().map(|transfer| transfer.bytes as f64).sum::<f64>() / busy_s
    }

    /// For each cluster, transfers at once to (or from) the clusters with the fastest links.
    fn ask_fans(&self, into: bool) -> Vec<Vec<Transfer>> {
        let count = self.members.len();
        if count < 3 {
            return Vec::new();
        }
        let fan = |hub: usize| {
            let link = |other: usize| if into { (other, hub) } else { (hub, other) };
            let rate = |other: usize| {
                let (a, b) = link(other);
                self.rate_of(self.first_pair(a, b))
            };
            let mut others: Vec<usize> = (0..count).filter(|&other| other != hub).collect();
            others.sort_by(|&a, &b| rate(b).total_cmp(&rate(a)));
            others.truncate(FAN);
            let while_s = Self::while_s(others.iter().map(|&other| rate(other)));
            let transfer = |(i, other): (usize, usize)| {
                let (a, b) = link(other);
                let pair = self.first_pair(a, b);
                let at_hub = self.members[hub][i % self.members[hub].len()];
                let (from, to) = if into { (pair.0, at_hub) } else { (at_hub, pair.1) };
                self.for_a_while(from, to, pair, while_s)
            };
            others.into_iter().enumerate().map(transfer).collect()
        };
        (0..count).map(fan).collect()
    }

    fn note_fan(&mut self, round: &[Transfer], seconds: &[Seconds], into: bool) {
        let cluster = self.cluster_of();
        let Some(first) = round.first() else { return };
        let hub = cluster[if into { first.to } else { first.from }];
        let pair =
            |transfer: &Transfer| self.first_pair(cluster[transfer.from], cluster[transfer.to]);
        let together = self.rate_at_once(round, seconds, pair);
        // Alone, the slowest of them would have taken so long.
        let alone_s = round
            .iter()
            .map(|t| t.bytes as f64 / self.rate.get(&pair(t)).copied().unwrap_or(f64::INFINITY))
            .fold(1e-7, f64::max);
        let expected = round.iter().map(|t| t.bytes as f64).sum::<f64>() / alone_s;
        if together < SHARED * expected {
            let rates = if into { &mut self.ingress } else { &mut self.egress };
            rates[hub] = together;
        }
    }

    /// What was found. An interface is as fast as the fastest that passed it.
    pub fn network(&self, nodes: usize) -> Network {
        let count = self.members.len();
        let cluster = self.cluster_of();
        let blank = |site: &usize| Node {
            site: *site,
            send_rate: 0.0,
            receive_rate: 0.0,
            overhead_s: DEFAULT_OVERHEAD_S,
        };
        let mut all: Vec<Node> = cluster.iter().map(blank).collect();
        for (&(from, to), &rate) in &self.rate {
            all[from].send_rate = all[from].send_rate.max(rate);
            all[to].receive_rate = all[to].receive_rate.max(rate);
        }
        let mut sites = Vec::with_capacity(count);
        for (c, members) in self.members.iter().enumerate() {
            let mut site = Site { egress_rate: self.egress[c], ingress_rate: self.ingress[c] };
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
            let members = &self.members[a];
            let ring = (0..members.len()).map(|k| (members[k], members[(k + 1) % members.len()]));
            let trips = ring.filter_map(|pair| self.round_trip_s.get(&pair));
            let least = trips.copied().fold(f64::INFINITY, f64::min);
            (if least.is_finite() { least } else { 0.0 }, f64::INFINITY)
        } else {
            let (there, back) = (self.first_pair(a, b), self.first_pair(b, a));
            let trip = |pair| self.round_trip_s.get(&pair).copied().unwrap_or(f64::INFINITY);
            let least = trip(there).min(trip(back));
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
