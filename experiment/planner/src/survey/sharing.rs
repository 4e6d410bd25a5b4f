//! *Sharing*: what transfers share that run at once, out of one cluster, into one, and over the same link.
//! Where together they reach less than each alone, they share, unless another round shows that it was
//! packets lost on the way, or a new connection.

use super::arrivals::AtOnce;
use super::links::{Links, Pair};
use super::rounds::{Rounds, rounds_of_pairs};
use crate::measurement::{Arrival, Seconds, Transfer, TransferResult};
use crate::model::network::{Link, Network, Node, Site};
use std::collections::HashMap;

/// Once it is roughly known what a cluster shares, at most this many times as much is sent.
const OVERLOAD: f64 = 1.4;
/// Transfers at once out of one cluster: enough to fill what it shares.
const FAN: usize = 6;
/// What reaches less than this fraction of its parts' sum is shared, if its parts also take much longer than
/// alone, or longer while they no longer get faster: connections that start reach less than their links carry,
/// alone as well, and busy processors make all of them a little slower.
const SHARED: f64 = 0.85;
const SLOWER: f64 = 1.1;
const MUCH_SLOWER: f64 = 1.5;
/// Directions whose rates differ by less than this fraction share alike.
const ALIKE: f64 = 0.2;
/// A connection that lost packets, or is new, looks like one that shares. So what looks shared is measured
/// again: over links, since the second connection is new at first, once; around clusters, until two rounds
/// agree up to this fraction.
const AGREE: f64 = 0.1;
const LINK_ATTEMPTS: u32 = 2;
const FAN_ATTEMPTS: u32 = 3;

/// What does not tell is made again with this many times the bytes, while all of it is not more than that.
const LONGER: f64 = 4.0;
const AT_ONCE_MAX_BYTES: f64 = 32e6;
/// What has not told as often does not bind messages that connections carry while they start.
const UNCLEAR: u32 = 2;
/// Transfers at once reach this part of what they reach in a while in twice that, if they no longer start.
const EVEN: f64 = 0.9;
/// How long transfers at once take at least, at their links' rates: a round trip, and so long.
const LEAST_S: Seconds = 0.08;
/// The part of the time for which they send at least in which they reach what they share.
const REACHED: f64 = 0.75;

/// A cluster, and whether it receives.
type Fan = (usize, bool);

/// What transfers tell that ran at once.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Together {
    /// They reached this, in bytes per second, which is less than what their links carry, and took longer
    /// than alone without getting faster.
    Shared(f64),
    /// They reached what their links carry.
    Apart,
    /// They were over before their connections had started; alone they would have reached no more.
    Unclear,
}

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
    /// How many times fans have not told.
    unclear_fans: HashMap<Fan, u32>,
}

impl Sharing {
    pub fn new(links: Links) -> Self {
        Sharing {
            links,
            step: Step::Fans(0),
            shared: HashMap::new(),
            fans: HashMap::new(),
            unclear_fans: HashMap::new(),
        }
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

    pub fn observe(&mut self, rounds: &[Vec<Transfer>], results: &[Vec<TransferResult>]) {
        for (round, results) in rounds.iter().zip(results) {
            match self.step {
                Step::Fans(_) => self.note_fan(round, results),
                Step::Links(_) => self.note_shared_links(round, results),
            }
        }
        self.advance();
    }

    /// How long transfers at once take at their links' rates, at least, if one between the nodes of `fastest`
    /// is to tell: longer where several at once have not told so often what they share.
    fn while_s(&self, fastest: Pair, unclear: u32, rates: f64) -> Seconds {
        let (bytes, _) = self.links.telling(fastest);
        let told_s = bytes as f64 / self.links.rate_of(fastest);
        let round_trip_s = self.links.round_trip_s(fastest).unwrap_or(0.0);
        let while_s = told_s.max(round_trip_s).max(LEAST_S);
        (while_s * LONGER.powi(unclear as i32)).min((AT_ONCE_MAX_BYTES / rates).max(while_s))
    }

    /// Bytes that take this long at the rate that `pair` reaches alone.
    fn for_a_while(&self, from: usize, to: usize, pair: Pair, while_s: Seconds) -> Transfer {
        Transfer::new((from, to), (self.links.rate_of(pair) * while_s).max(1024.0) as u64, 1)
    }

    /// How long a transfer takes alone, without its round trip: at the link's rate, and what its connection
    /// takes to start, a round trip more or less for each time that it has twice or half the bytes of the one
    /// that was measured.
    fn alone_s(&self, bytes: u64, pair: Pair) -> Seconds {
        let (told_bytes, told_s) = self.links.telling(pair);
        let rate = self.links.rate_of(pair);
        let starting_s = (told_s - told_bytes as f64 / rate).max(0.0);
        let round_trip_s = self.links.round_trip_s(pair).unwrap_or(0.0);
        if starting_s < round_trip_s / 2.0 {
            return bytes as f64 / rate;
        }
        let doublings = (bytes.max(1) as f64 / told_bytes.max(1) as f64).log2();
        bytes as f64 / rate + (starting_s + doublings * round_trip_s).max(0.0)
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
        // What reaches together what one does alone is shared; more may be so since one connection was new.
        let is_open = |&(a, b): &Pair| {
            let alone = self.links.rate_of(self.links.first_pair(a, b));
            self.shared.get(&(a, b)).is_some_and(|rate| *rate > alone / SHARED)
        };
        pairs.retain(|link| attempt == 0 || is_open(link));
        // Different clusters don't disturb each other.
        let rounds = rounds_of_pairs(&pairs, count, usize::MAX);
        let both = |(a, b): Pair| {
            let pair = self.links.first_pair(a, b);
            let second = (self.links.members[a][1], self.links.members[b][1]);
            let while_s = self.while_s(pair, 0, 2.0 * self.links.rate_of(pair));
            [pair, second].map(|(from, to)| self.for_a_while(from, to, pair, while_s))
        };
        rounds.into_iter().map(|round| round.into_iter().flat_map(both).collect()).collect()
    }

    fn note_shared_links(&mut self, round: &[Transfer], results: &[TransferResult]) {
        let cluster = self.links.cluster_of();
        for (two, results) in round.chunks(2).zip(results.chunks(2)) {
            let link = (cluster[two[0].from], cluster[two[0].to]);
            let pair = self.links.first_pair(link.0, link.1);
            let alone = self.links.rate_of(pair);
            let before = self.shared.get(&link).copied().unwrap_or(alone);
            // Where they don't tell, a link is taken for one that all share, as nearly all are.
            let together = match self.together(two, results, |_| pair, |_| 0.0, 2.0 * alone) {
                Together::Apart => None,
                Together::Shared(rate) => Some(before.max(rate)),
                Together::Unclear => Some(before),
            };
            let back = (link.1, link.0);
            let directions =
                if self.is_alike(back.0, back.1) { vec![link, back] } else { vec![link] };
            for (a, b) in directions {
                let own = self.links.rate_of(self.links.first_pair(a, b));
                match together {
                    Some(rate) => self.shared.insert((a, b), rate / alone * own),
                    None => self.shared.remove(&(a, b)),
                };
            }
        }
    }

    /// Whether a link of two clusters is as fast in one direction as in the other.
    fn is_alike(&self, a: usize, b: usize) -> bool {
        let ratio = self.links.rate_of(self.links.first_pair(a, b))
            / self.links.rate_of(self.links.first_pair(b, a));
        (1.0 - ALIKE..=1.0 / (1.0 - ALIKE)).contains(&ratio)
    }

    /// Whether transfers that ran at once share something, each of which is to tell of a `pair` and was
    /// `under_way_s` since it passed what they may share. Their links together carry `expected`.
    fn together(
        &self,
        transfers: &[Transfer],
        results: &[TransferResult],
        pair: impl Fn(&Transfer) -> Pair,
        under_way_s: impl Fn(&Transfer) -> Seconds,
        expected: f64,
    ) -> Together {
        let busy_s = |(transfer, result): (&Transfer, &TransferResult)| {
            result.seconds - self.links.round_trip_s(pair(transfer)).unwrap_or(0.0)
        };
        let all = || transfers.iter().zip(results);
        let link_rate = |transfer: &Transfer| self.links.rate_of(pair(transfer));
        let Some(fastest) = all().max_by(|a, b| link_rate(a.0).total_cmp(&link_rate(b.0))) else {
            return Together::Unclear;
        };
        let arrivals: Vec<(&[Arrival], Seconds)> =
            all().map(|(t, r)| (r.arrivals.as_slice(), under_way_s(t))).collect();
        let bytes = transfers.iter().map(|transfer| transfer.bytes as f64).sum::<f64>();
        let whole = || bytes / all().map(busy_s).fold(1e-7, f64::max);
        let at_once = AtOnce::new(&arrivals);
        let in_s = |window_s| at_once.rate(window_s).unwrap_or_else(whole);
        let least_s = REACHED * fastest.0.bytes as f64 / link_rate(fastest.0);
        let most = in_s(least_s);
        // The more they share, the longer they do, if they begin and end together; in part they do.
        let rate = in_s(least_s * (expected / most).max(1.0).sqrt());
        if rate >= SHARED * expected {
            return Together::Apart;
        }
        let together_s: Seconds = all().map(busy_s).sum();
        let alone_s: Seconds = transfers.iter().map(|t| self.alone_s(t.bytes, pair(t))).sum();
        // Connections that start reach ever more, so less in twice the time.
        let is_even = in_s(2.0 * least_s) > EVEN * most;
        if together_s > MUCH_SLOWER * alone_s || is_even && together_s > SLOWER * alone_s {
            Together::Shared(rate)
        } else {
            Together::Unclear
        }
    }

    /// For each cluster, transfers at once to the clusters with the fastest links, then from such.
    fn ask_fans(&self, attempt: u32) -> Rounds {
        let count = self.links.members.len();
        if count < 3 {
            return Vec::new();
        }
        let fans = (0..count).flat_map(|hub| [(hub, false), (hub, true)]);
        let is_due = |fan: &Fan| {
            let disagrees = self.fans.get(fan).is_some_and(|rates| closest(rates).is_none());
            attempt == 0 || disagrees || self.unclear_fans.get(fan).is_some_and(|&n| n < UNCLEAR)
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

        if let Some(&rate) = self.fans.get(&fan).and_then(|rates| rates.last()) {
            let load = |spokes: &[(usize, f64)]| spokes.iter().map(|spoke| spoke.1).sum::<f64>();
            while spokes.len() > 2 && load(&spokes[..spokes.len() - 1]) > OVERLOAD * rate {
                spokes.pop();
            }
        }
        let unclear = self.unclear_fans.get(&fan).copied().unwrap_or(0);
        let rates = spokes.iter().map(|spoke| spoke.1).sum();
        let while_s = self.while_s(self.spoke_pair(fan, spokes[0].0), unclear, rates);
        let transfer = |(i, (other, _)): (usize, (usize, f64))| {
            let pair = self.spoke_pair(fan, other);
            let at_hub = hands[i % hands.len()];
            let (from, to) = if into { (pair.0, at_hub) } else { (at_hub, pair.1) };
            let transfer = self.for_a_while(from, to, pair, while_s);
            // At the hub, the last byte of each is to pass when the others' do: connections that start fast
            // would else be done before the others have started.
            let way_s = if into { self.way_s(pair) } else { 0.0 };
            (transfer, self.alone_s(transfer.bytes, pair) + way_s)
        };
        let all: Vec<(Transfer, Seconds)> = spokes.into_iter().enumerate().map(transfer).collect();
        let longest_s = all.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
        let late = |(transfer, seconds)| Transfer { delay_s: longest_s - seconds, ..transfer };
        all.into_iter().map(late).collect()
    }

    /// From one node of a pair to the other.
    fn way_s(&self, pair: Pair) -> Seconds {
        self.links.round_trip_s(pair).unwrap_or(0.0) / 2.0
    }

    fn note_fan(&mut self, transfers: &[Transfer], results: &[TransferResult]) {
        let cluster = self.links.cluster_of();
        let [first, second, ..] = transfers else { return };
        let into = cluster[first.to] == cluster[second.to];
        let fan = (cluster[if into { first.to } else { first.from }], into);
        let pair = |transfer: &Transfer| {
            self.links.first_pair(cluster[transfer.from], cluster[transfer.to])
        };
        let expected: f64 = transfers.iter().map(|t| self.links.rate_of(pair(t))).sum();
        let under_way_s = |transfer: &Transfer| if into { 0.0 } else { self.way_s(pair(transfer)) };
        let found = self.together(transfers, results, pair, under_way_s, expected);
        if found == Together::Unclear {
            *self.unclear_fans.entry(fan).or_default() += 1;
        } else {
            self.unclear_fans.remove(&fan);
        }
        match found {
            Together::Shared(rate) => self.fans.entry(fan).or_default().push(rate),
            Together::Apart => {
                self.fans.remove(&fan);
            }
            Together::Unclear => {}
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
        let latency_s = self.links.latency_s(a, b);
        let rate = || self.links.rate.get(&self.links.first_pair(a, b)).copied();
        match self.shared.get(&(a, b)) {
            Some(&shared_rate) => Link { latency_s, pair_rate: f64::INFINITY, shared_rate },
            None if a == b => Link { latency_s, ..Link::LOCAL },
            None => Link {
                latency_s,
                pair_rate: rate().unwrap_or(f64::INFINITY),
                shared_rate: f64::INFINITY,
            },
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
