//! *Sharing*: what transfers share that run at once, out of one cluster, into one, and over the same link.
//! Where together they reach less than each alone, they share, unless another round shows that it was
//! packets lost on the way, or a new connection.

use super::links::ring;
use super::links::{Links, Pair};
use super::rounds::{Rounds, rounds_of_pairs};
use crate::measurement::{Seconds, Transfer};
use crate::model::network::{DEFAULT_OVERHEAD_S, Link, Network, Node, Site};
use std::collections::HashMap;

/// How long transfers that run at once should take, all alike, and how much the largest may be. What is
/// too much for what they share has to fit the queue in front of it: once packets are lost, the time
/// tells of TCP and not of the rate. (Trains that are short enough disperse at the bottleneck's rate:
/// C. Dovrolis, P. Ramanathan, D. Moore, "What do packet dispersion techniques measure?", 2001.)
const AT_ONCE_S: Seconds = 0.04;
const AT_ONCE_MAX_BYTES: f64 = 32e6;
/// Once it is roughly known what a cluster shares, at most this many times as much is sent, and for as long
/// as a queue takes it that holds what passes in this time, within these limits.
const OVERLOAD: f64 = 1.4;
const QUEUE_S: Seconds = 0.05;
const TUNED_S: std::ops::RangeInclusive<Seconds> = 0.03..=0.15;
/// Transfers at once out of one cluster: enough to fill what it shares.
const FAN: usize = 6;
/// What reaches less than this fraction of its parts' sum is shared.
const SHARED: f64 = 0.85;
/// Directions whose rates differ by less than this fraction share alike.
const ALIKE: f64 = 0.2;
/// A connection that lost packets, or is new, looks like one that shares. So what looks shared is measured
/// again: over links, since the second connection is new at first, once; around clusters, until two rounds
/// agree up to this fraction.
const AGREE: f64 = 0.1;
const LINK_ATTEMPTS: u32 = 2;
const FAN_ATTEMPTS: u32 = 3;

/// A cluster, and whether it receives.
type Fan = (usize, bool);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Counted from 0.
    Fans(u32),
    /// Counted from 0.
    Links(u32),
}

/// What is shared between transfers that each link alone would carry.
#[derive(Debug)]
pub(super) struct Sharing {
    links: Links,
    step: Step,
    /// Of pairs of clusters: all pairs of nodes together, where they share, in bytes per second.
    shared: HashMap<Pair, f64>,
    /// What the transfers of a fan reached together, in each round that made them share.
    fans: HashMap<Fan, Vec<f64>>,
}

impl Sharing {
    pub fn new(links: Links) -> Self {
        Sharing { links, step: Step::Fans(0), shared: HashMap::new(), fans: HashMap::new() }
    }

    /// What to measure next; empty once all is known.
    pub fn ask(&mut self) -> Rounds {
        loop {
            let rounds = match self.step {
                Step::Fans(attempt) => self.ask_fans(attempt),
                Step::Links(LINK_ATTEMPTS) => return Vec::new(),
                Step::Links(attempt) => self.ask_shared_links(attempt),
            };
            if !rounds.is_empty() {
                return rounds;
            }
            self.advance();
        }
    }

    fn advance(&mut self) {
        self.step = match self.step {
            Step::Fans(attempt) if attempt + 1 < FAN_ATTEMPTS => Step::Fans(attempt + 1),
            Step::Fans(_) => Step::Links(0),
            Step::Links(attempt) => Step::Links(attempt + 1),
        };
    }

    pub fn observe(&mut self, rounds: &[Vec<Transfer>], seconds: &[Vec<Seconds>]) {
        for (round, seconds) in rounds.iter().zip(seconds) {
            match self.step {
                Step::Fans(_) => self.note_fan(round, seconds),
                Step::Links(_) => self.note_shared_links(round, seconds),
            }
        }
        self.advance();
    }

    /// The time that transfers at these rates may take, of which none may be too large.
    fn while_s(rates: impl Iterator<Item = f64>, longest_s: Seconds) -> Seconds {
        rates.map(|rate| AT_ONCE_MAX_BYTES / rate).fold(longest_s, f64::min)
    }

    /// Bytes that take this long at the rate that `pair` reaches alone.
    fn for_a_while(&self, from: usize, to: usize, pair: Pair, while_s: Seconds) -> Transfer {
        let bytes = (self.links.rate_of(pair) * while_s).max(1024.0) as u64;
        Transfer::new((from, to), bytes, 1)
    }

    /// For each two clusters of several nodes, two transfers at once between different nodes; in both
    /// directions only where their rates differ.
    fn ask_shared_links(&self, attempt: u32) -> Rounds {
        let count = self.links.members.len();
        let large: Vec<usize> = (0..count).filter(|&c| self.links.members[c].len() > 1).collect();
        let mut pairs = Vec::new();
        for (i, &a) in large.iter().enumerate() {
            for &b in &large[i + 1..] {
                pairs.push((a, b));
                if !self.is_alike(a, b) {
                    pairs.push((b, a));
                }
            }
        }
        pairs.retain(|link| attempt == 0 || self.shared.contains_key(link));
        // Different clusters don't disturb each other.
        let rounds = rounds_of_pairs(&pairs, count, usize::MAX);
        let both = |(a, b): Pair| {
            let pair = self.links.first_pair(a, b);
            let second = (self.links.members[a][1], self.links.members[b][1]);
            let while_s = Self::while_s(std::iter::once(self.links.rate_of(pair)), AT_ONCE_S);
            [pair, second].map(|(from, to)| self.for_a_while(from, to, pair, while_s))
        };
        rounds.into_iter().map(|round| round.into_iter().flat_map(both).collect()).collect()
    }

    fn note_shared_links(&mut self, round: &[Transfer], seconds: &[Seconds]) {
        let cluster = self.links.cluster_of();
        for (two, seconds) in round.chunks(2).zip(seconds.chunks(2)) {
            let link = (cluster[two[0].from], cluster[two[0].to]);
            let pair = self.links.first_pair(link.0, link.1);
            let together = self.rate_at_once(two, seconds, |_| pair);
            let alone = self.links.rate_of(pair);
            let before = self.shared.get(&link).copied().unwrap_or(alone);
            let fastest = before.max(together);
            let back = (link.1, link.0);
            let directions =
                if self.is_alike(back.0, back.1) { vec![link, back] } else { vec![link] };
            for (a, b) in directions {
                if fastest < SHARED * 2.0 * alone {
                    let more = fastest / alone;
                    self.shared
                        .insert((a, b), more * self.links.rate_of(self.links.first_pair(a, b)));
                } else {
                    self.shared.remove(&(a, b));
                }
            }
        }
    }

    /// Whether a link of two clusters is as fast in one direction as in the other.
    fn is_alike(&self, a: usize, b: usize) -> bool {
        let ratio = self.links.rate_of(self.links.first_pair(a, b))
            / self.links.rate_of(self.links.first_pair(b, a));
        (1.0 - ALIKE..=1.0 / (1.0 - ALIKE)).contains(&ratio)
    }

    /// All bytes over the time of the longest transfer, less its round trip.
    fn rate_at_once(
        &self,
        transfers: &[Transfer],
        seconds: &[Seconds],
        pair: impl Fn(&Transfer) -> Pair,
    ) -> f64 {
        let busy = transfers.iter().zip(seconds).map(|(transfer, seconds)| {
            seconds - self.links.round_trip_s(pair(transfer)).unwrap_or(0.0)
        });
        let busy_s = busy.fold(1e-7, f64::max);
        transfers.iter().map(|transfer| transfer.bytes as f64).sum::<f64>() / busy_s
    }

    /// For each cluster, transfers at once to the clusters with the fastest links, then from such.
    fn ask_fans(&self, attempt: u32) -> Rounds {
        let count = self.links.members.len();
        if count < 3 {
            return Vec::new();
        }
        let fans = (0..count).flat_map(|hub| [(hub, false), (hub, true)]);
        let is_due = |fan: &Fan| {
            attempt == 0 || self.fans.get(fan).is_some_and(|rates| closest(rates).is_none())
        };
        fans.filter(is_due).map(|fan| self.fan(fan)).collect()
    }

    /// The nodes that stand for a hub and another cluster, the sender first.
    fn spoke_pair(&self, (hub, into): Fan, other: usize) -> Pair {
        if into { self.links.first_pair(other, hub) } else { self.links.first_pair(hub, other) }
    }

    /// The clusters with the fastest links to or from a hub, the fastest first, and those rates.
    fn spokes(&self, fan: Fan) -> Vec<(usize, f64)> {
        let (hub, _) = fan;
        let rate = |other: usize| self.links.rate_of(self.spoke_pair(fan, other));
        let others = (0..self.links.members.len()).filter(|&other| other != hub);
        let mut spokes: Vec<(usize, f64)> = others.map(|other| (other, rate(other))).collect();
        spokes.sort_by(|a, b| b.1.total_cmp(&a.1));
        spokes.truncate(FAN);
        spokes
    }

    /// Where its node can take all of it, a cluster's first node stands for the cluster, whose
    /// connections are no longer new; else the cluster's nodes share in it.
    fn fan(&self, fan: Fan) -> Vec<Transfer> {
        let (hub, into) = fan;
        let mut spokes = self.spokes(fan);
        let members = &self.links.members[hub];
        let (next, last) = (members[1 % members.len()], members[members.len() - 1]);
        let inside = if into { (last, members[0]) } else { (members[0], next) };
        let all: f64 = spokes.iter().map(|spoke| spoke.1).sum();
        let one_is_enough = members.len() == 1 || all < SHARED * self.links.rate_of(inside);
        let hands = if one_is_enough { &members[..1] } else { &members[..] };

        let mut longest_s = AT_ONCE_S;
        if let Some(&rate) = self.fans.get(&fan).and_then(|rates| rates.last()) {
            let load = |spokes: &[(usize, f64)]| spokes.iter().map(|spoke| spoke.1).sum::<f64>();
            while spokes.len() > 2 && load(&spokes[..spokes.len() - 1]) > OVERLOAD * rate {
                spokes.pop();
            }
            let load = load(&spokes);
            let fits_s = QUEUE_S * rate / (load - rate).max(1e-9);
            longest_s = fits_s.clamp(*TUNED_S.start(), *TUNED_S.end());
        }
        let while_s = Self::while_s(spokes.iter().map(|spoke| spoke.1), longest_s);
        let round_trip_s =
            |other: usize| self.links.round_trip_s(self.spoke_pair(fan, other)).unwrap_or(0.0);
        let farthest_s = spokes.iter().map(|spoke| round_trip_s(spoke.0)).fold(0.0, f64::max);
        let transfer = |(i, (other, _)): (usize, (usize, f64))| {
            let pair = self.spoke_pair(fan, other);
            let at_hub = hands[i % hands.len()];
            let (from, to) = if into { (pair.0, at_hub) } else { (at_hub, pair.1) };
            let delay_s = if into { (farthest_s - round_trip_s(other)) / 2.0 } else { 0.0 };
            Transfer { delay_s, ..self.for_a_while(from, to, pair, while_s) }
        };
        spokes.into_iter().enumerate().map(transfer).collect()
    }

    fn note_fan(&mut self, transfers: &[Transfer], seconds: &[Seconds]) {
        let cluster = self.links.cluster_of();
        let [first, second, ..] = transfers else { return };
        let into = cluster[first.to] == cluster[second.to];
        let fan = (cluster[if into { first.to } else { first.from }], into);
        let pair = |transfer: &Transfer| {
            self.links.first_pair(cluster[transfer.from], cluster[transfer.to])
        };
        let together = self.rate_at_once(transfers, seconds, pair);
        let expected: f64 = self.spokes(fan).iter().map(|spoke| spoke.1).sum();
        if together < SHARED * expected {
            self.fans.entry(fan).or_default().push(together);
        } else {
            self.fans.remove(&fan);
        }
    }

    /// What a fan shares; infinite where it shares nothing.
    fn fan_rate(&self, fan: Fan) -> f64 {
        let Some(rates) = self.fans.get(&fan) else { return f64::INFINITY };
        closest(rates).unwrap_or_else(|| rates.iter().copied().fold(0.0, f64::max))
    }

    /// What the survey has found, given what a message costs a node. An interface is as fast as the fastest that passed it.
    pub fn network(&self, overhead_s: Seconds) -> Network {
        let count = self.links.members.len();
        let cluster = self.links.cluster_of();
        let blank =
            |site: &usize| Node { site: *site, send_rate: 0.0, receive_rate: 0.0, overhead_s };
        let mut all: Vec<Node> = cluster.iter().map(blank).collect();
        for (&(from, to), &rate) in &self.links.rate {
            all[from].send_rate = all[from].send_rate.max(rate);
            all[to].receive_rate = all[to].receive_rate.max(rate);
        }
        let mut sites = Vec::with_capacity(count);
        for (c, members) in self.links.members.iter().enumerate() {
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
        if cluster.len() == 1 {
            (all[0].send_rate, all[0].receive_rate) = (f64::INFINITY, f64::INFINITY);
        }
        Network::new(all, sites, links).expect("what was measured is in range")
    }

    fn link(&self, a: usize, b: usize) -> Link {
        let (latency_s, rate) = if a == b {
            let ring = ring(&self.links.members[a]).into_iter();
            let trips = ring.filter_map(|pair| self.links.round_trip_s(pair));
            let least = trips.fold(f64::INFINITY, f64::min);
            (if least.is_finite() { least } else { 0.0 }, f64::INFINITY)
        } else {
            let there = self.links.first_pair(a, b);
            let least = self.links.round_trip_s(there).unwrap_or(f64::INFINITY);
            let rate = self.links.rate.get(&there).copied().unwrap_or(f64::INFINITY);
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

/// The mean of the two rates that agree best; `None` where none agree. The faster of two is as wrong as the
/// slower one, and a rate that is too high costs more.
fn closest(rates: &[f64]) -> Option<f64> {
    let pairs =
        rates.iter().enumerate().flat_map(|(i, a)| rates[i + 1..].iter().map(move |b| (a, b)));
    let apart = |(a, b): (&f64, &f64)| (a / b).ln().abs();
    let best = pairs.min_by(|&x, &y| apart(x).total_cmp(&apart(y)))?;
    (apart(best) < AGREE).then(|| (best.0 + best.1) / 2.0)
}
