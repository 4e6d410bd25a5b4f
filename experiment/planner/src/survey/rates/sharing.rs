//! The third part of a survey: what transfers share that run at once, over one link or at one cluster.

use super::{Pair, Rates};
use crate::simulate::Seconds;
use crate::strategy::Transfer;
use crate::survey::rounds_of_pairs;
use std::collections::HashSet;
use std::hash::Hash;

/// How long transfers that run at once should take, all alike, and how much the largest may be. What is
/// too much for what they share has to fit the queue in front of it: once packets are lost, the time
/// tells of TCP and not of the rate. So each attempt takes a fraction of the first. (Trains that are
/// short enough disperse at the bottleneck's rate: Dovrolis, Ramanathan and Moore 2001.)
const AT_ONCE_S: Seconds = 0.06;
const AT_ONCE_MAX_BYTES: f64 = 32e6;
/// Transfers at once out of one cluster: enough to fill what it shares.
const FAN: usize = 6;
/// What reaches less than this fraction of its parts' sum is shared.
const SHARED: f64 = 0.85;
/// Directions whose rates differ by less than this fraction share alike.
const ALIKE: f64 = 0.2;
/// A connection that lost packets looks like one that shares. So what looks shared is measured again,
/// until a round is not faster than the one before by this fraction, in so many rounds at most; one that is
/// slower by as much has lost packets itself.
const FASTER: f64 = 0.1;
pub(super) const SHARING_ATTEMPTS: u32 = 3;

/// A cluster, and whether it receives.
pub(super) type Fan = (usize, bool);

impl Rates {
    /// The time that transfers at these rates may take.
    fn while_s(rates: impl Iterator<Item = f64>, attempt: u32) -> Seconds {
        let longest_s = AT_ONCE_S / f64::from(attempt + 1);
        rates.map(|rate| AT_ONCE_MAX_BYTES / rate).fold(longest_s, f64::min)
    }

    /// Bytes that take so long at the rate that `pair` reaches alone.
    fn for_a_while(&self, from: usize, to: usize, pair: Pair, while_s: Seconds) -> Transfer {
        let bytes = (self.rate_of(pair) * while_s).max(1024.0) as u64;
        Transfer::new((from, to), bytes, 1)
    }

    /// For each two clusters of several nodes, two transfers at once between different nodes; in both
    /// directions only where their rates differ.
    pub(super) fn ask_shared_links(&self, attempt: u32) -> Vec<Vec<Transfer>> {
        let count = self.members.len();
        let large: Vec<usize> = (0..count).filter(|&c| self.members[c].len() > 1).collect();
        let mut pairs = Vec::new();
        for (i, &a) in large.iter().enumerate() {
            for &b in &large[i + 1..] {
                pairs.push((a, b));
                if !self.is_alike(a, b) {
                    pairs.push((b, a));
                }
            }
        }
        pairs.retain(|link| attempt == 0 || self.doubtful_links.contains(link));
        // Different clusters don't disturb each other.
        let rounds = rounds_of_pairs(&pairs, count, usize::MAX);
        let both = |(a, b): Pair| {
            let pair = self.first_pair(a, b);
            let second = (self.members[a][1], self.members[b][1]);
            let while_s = Self::while_s(std::iter::once(self.rate_of(pair)), attempt);
            [pair, second].map(|(from, to)| self.for_a_while(from, to, pair, while_s))
        };
        rounds.into_iter().map(|round| round.into_iter().flat_map(both).collect()).collect()
    }

    pub(super) fn note_shared_links(&mut self, round: &[Transfer], seconds: &[Seconds]) {
        let cluster = self.cluster_of();
        for (two, seconds) in round.chunks(2).zip(seconds.chunks(2)) {
            let link = (cluster[two[0].from], cluster[two[0].to]);
            let pair = self.first_pair(link.0, link.1);
            let together = self.rate_at_once(two, seconds, |_| pair);
            let alone = self.rate_of(pair);
            let shared = judge(self.shared.get(&link).copied(), together, 2.0 * alone);
            let back = (link.1, link.0);
            let directions =
                if self.is_alike(back.0, back.1) { vec![link, back] } else { vec![link] };
            for (a, b) in directions {
                if let Some(Sharing { rate, .. }) = shared {
                    let more = (rate / alone).max(1.0);
                    self.shared.insert((a, b), more * self.rate_of(self.first_pair(a, b)));
                } else {
                    self.shared.remove(&(a, b));
                }
            }
            note_doubt(&mut self.doubtful_links, link, shared);
        }
    }

    /// Whether a link of two clusters is as fast in one direction as in the other.
    fn is_alike(&self, a: usize, b: usize) -> bool {
        let ratio = self.rate_of(self.first_pair(a, b)) / self.rate_of(self.first_pair(b, a));
        (1.0 - ALIKE..=1.0 / (1.0 - ALIKE)).contains(&ratio)
    }

    /// All bytes over the time of the longest transfer, less its round trip.
    fn rate_at_once(
        &self,
        transfers: &[Transfer],
        seconds: &[Seconds],
        pair: impl Fn(&Transfer) -> Pair,
    ) -> f64 {
        let busy = transfers
            .iter()
            .zip(seconds)
            .map(|(transfer, seconds)| seconds - self.round_trip_s(pair(transfer)).unwrap_or(0.0));
        let busy_s = busy.fold(1e-7, f64::max);
        transfers.iter().map(|transfer| transfer.bytes as f64).sum::<f64>() / busy_s
    }

    /// For each cluster, transfers at once to the clusters with the fastest links, then from such.
    pub(super) fn ask_fans(&self, attempt: u32) -> Vec<Vec<Transfer>> {
        let count = self.members.len();
        if count < 3 {
            return Vec::new();
        }
        let fans = (0..count).flat_map(|hub| [(hub, false), (hub, true)]);
        let due = fans.filter(|fan| attempt == 0 || self.doubtful_fans.contains(fan));
        due.map(|fan| self.fan(fan, attempt)).collect()
    }

    /// Where its node can take all of it, a cluster's first node stands for the cluster, whose
    /// connections are no longer new; else the cluster's nodes share in it.
    fn fan(&self, (hub, into): Fan, attempt: u32) -> Vec<Transfer> {
        let link = |other: usize| if into { (other, hub) } else { (hub, other) };
        let rate = |other: usize| {
            let (a, b) = link(other);
            self.rate_of(self.first_pair(a, b))
        };
        let mut others: Vec<usize> = (0..self.members.len()).filter(|&o| o != hub).collect();
        others.sort_by(|&a, &b| rate(b).total_cmp(&rate(a)));
        others.truncate(FAN);
        let while_s = Self::while_s(others.iter().map(|&other| rate(other)), attempt);
        let round_trip_s = |other: usize| {
            let (a, b) = link(other);
            self.round_trip_s(self.first_pair(a, b)).unwrap_or(0.0)
        };
        let farthest_s = others.iter().map(|&other| round_trip_s(other)).fold(0.0, f64::max);
        let members = &self.members[hub];
        let (next, last) = (members[1 % members.len()], members[members.len() - 1]);
        let inside = if into { (last, members[0]) } else { (members[0], next) };
        let one_is_enough = members.len() == 1
            || others.iter().map(|&other| rate(other)).sum::<f64>() < SHARED * self.rate_of(inside);
        let hands = if one_is_enough { &members[..1] } else { &members[..] };
        let transfer = |(i, other): (usize, usize)| {
            let (a, b) = link(other);
            let pair = self.first_pair(a, b);
            let at_hub = hands[i % hands.len()];
            let (from, to) = if into { (pair.0, at_hub) } else { (at_hub, pair.1) };
            let delay_s = if into { (farthest_s - round_trip_s(other)) / 2.0 } else { 0.0 };
            Transfer { delay_s, ..self.for_a_while(from, to, pair, while_s) }
        };
        others.into_iter().enumerate().map(transfer).collect()
    }

    pub(super) fn note_fan(&mut self, fan: &[Transfer], seconds: &[Seconds]) {
        let cluster = self.cluster_of();
        let [first, second, ..] = fan else { return };
        let into = cluster[first.to] == cluster[second.to];
        let hub = cluster[if into { first.to } else { first.from }];
        let pair =
            |transfer: &Transfer| self.first_pair(cluster[transfer.from], cluster[transfer.to]);
        let together = self.rate_at_once(fan, seconds, pair);
        // Alone, the slowest of them would have taken so long.
        let alone_s = fan
            .iter()
            .map(|t| t.bytes as f64 / self.rate.get(&pair(t)).copied().unwrap_or(f64::INFINITY))
            .fold(1e-7, f64::max);
        let expected = fan.iter().map(|t| t.bytes as f64).sum::<f64>() / alone_s;
        let rates = if into { &mut self.ingress } else { &mut self.egress };
        let before = Some(rates[hub]).filter(|rate| rate.is_finite());
        let shared = judge(before, together, expected);
        rates[hub] = shared.map_or(f64::INFINITY, |sharing| sharing.rate);
        note_doubt(&mut self.doubtful_fans, (hub, into), shared);
    }
}

/// What transfers that run at once share.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sharing {
    rate: f64,
    is_certain: bool,
}

/// Judges by the rate that transfers reached together in this round, and `before` in the round before it,
/// where each alone would have reached its part of `expected`. `None`: they share nothing.
fn judge(before: Option<f64>, together: f64, expected: f64) -> Option<Sharing> {
    let certain = before.filter(|before| together < before * (1.0 + FASTER));
    let rate = match certain {
        None => together,
        Some(before) if together < before * (1.0 - FASTER) => before,
        // The faster one is as wrong as the slower one, and a rate that is too high costs more.
        Some(before) => (before + together) / 2.0,
    };
    (together < SHARED * expected).then_some(Sharing { rate, is_certain: certain.is_some() })
}

fn note_doubt<T: Eq + Hash>(doubtful: &mut HashSet<T>, what: T, sharing: Option<Sharing>) {
    if sharing.is_some_and(|sharing| !sharing.is_certain) {
        doubtful.insert(what);
    } else {
        doubtful.remove(&what);
    }
}
