//! The third part of a survey: what transfers share that run at once, over one link or at one cluster.

use super::links::{Pair, Rates};
use crate::measurement::Seconds;
use crate::measurement::Transfer;
use crate::survey::rounds_of_pairs;

/// How long transfers that run at once should take, all alike, and how much the largest may be. What is
/// too much for what they share has to fit the queue in front of it: once packets are lost, the time
/// tells of TCP and not of the rate. (Trains that are short enough disperse at the bottleneck's rate:
/// Dovrolis, Ramanathan and Moore 2001.)
const AT_ONCE_S: Seconds = 0.04;
const AT_ONCE_MAX_BYTES: f64 = 32e6;
/// Once it is roughly known what a cluster shares, only so many times as much is sent, and for as long as a
/// queue takes it that holds what passes in this time, within these limits.
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
pub(super) const LINK_ATTEMPTS: u32 = 2;
pub(super) const FAN_ATTEMPTS: u32 = 3;

/// A cluster, and whether it receives.
pub(super) type Fan = (usize, bool);

impl Rates {
    /// The time that transfers at these rates may take, of which none may be too large.
    fn while_s(rates: impl Iterator<Item = f64>, longest_s: Seconds) -> Seconds {
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
        pairs.retain(|link| attempt == 0 || self.shared.contains_key(link));
        // Different clusters don't disturb each other.
        let rounds = rounds_of_pairs(&pairs, count, usize::MAX);
        let both = |(a, b): Pair| {
            let pair = self.first_pair(a, b);
            let second = (self.members[a][1], self.members[b][1]);
            let while_s = Self::while_s(std::iter::once(self.rate_of(pair)), AT_ONCE_S);
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
            let before = self.shared.get(&link).copied().unwrap_or(alone);
            let fastest = before.max(together);
            let back = (link.1, link.0);
            let directions =
                if self.is_alike(back.0, back.1) { vec![link, back] } else { vec![link] };
            for (a, b) in directions {
                if fastest < SHARED * 2.0 * alone {
                    let more = fastest / alone;
                    self.shared.insert((a, b), more * self.rate_of(self.first_pair(a, b)));
                } else {
                    self.shared.remove(&(a, b));
                }
            }
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
        let is_due = |fan: &Fan| {
            attempt == 0 || self.fans.get(fan).is_some_and(|rates| closest(rates).is_none())
        };
        fans.filter(is_due).map(|fan| self.fan(fan)).collect()
    }

    /// The nodes that stand for a hub and another cluster, the sender first.
    fn spoke_pair(&self, (hub, into): Fan, other: usize) -> Pair {
        if into { self.first_pair(other, hub) } else { self.first_pair(hub, other) }
    }

    /// The clusters with the fastest links to or from a hub, the fastest first, and those rates.
    fn spokes(&self, fan: Fan) -> Vec<(usize, f64)> {
        let (hub, _) = fan;
        let rate = |other: usize| self.rate_of(self.spoke_pair(fan, other));
        let others = (0..self.members.len()).filter(|&other| other != hub);
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
        let members = &self.members[hub];
        let (next, last) = (members[1 % members.len()], members[members.len() - 1]);
        let inside = if into { (last, members[0]) } else { (members[0], next) };
        let all: f64 = spokes.iter().map(|spoke| spoke.1).sum();
        let one_is_enough = members.len() == 1 || all < SHARED * self.rate_of(inside);
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
            |other: usize| self.round_trip_s(self.spoke_pair(fan, other)).unwrap_or(0.0);
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

    pub(super) fn note_fan(&mut self, transfers: &[Transfer], seconds: &[Seconds]) {
        let cluster = self.cluster_of();
        let [first, second, ..] = transfers else { return };
        let into = cluster[first.to] == cluster[second.to];
        let fan = (cluster[if into { first.to } else { first.from }], into);
        let pair =
            |transfer: &Transfer| self.first_pair(cluster[transfer.from], cluster[transfer.to]);
        let together = self.rate_at_once(transfers, seconds, pair);
        let expected: f64 = self.spokes(fan).iter().map(|spoke| spoke.1).sum();
        if together < SHARED * expected {
            self.fans.entry(fan).or_default().push(together);
        } else {
            self.fans.remove(&fan);
        }
    }

    /// What a fan shares; infinite where it shares nothing.
    pub(super) fn fan_rate(&self, fan: Fan) -> f64 {
        let Some(rates) = self.fans.get(&fan) else { return f64::INFINITY };
        closest(rates).unwrap_or_else(|| rates.iter().copied().fold(0.0, f64::max))
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
