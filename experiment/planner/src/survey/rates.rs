//! The second and third part of a survey: latencies and rates between clusters and around them, then
//! what transfers that run at once share.

use super::clusters::Clusters;
use super::{PINGS, REPETITIONS, answers, rounds_of_pairs};
use crate::network::{DEFAULT_OVERHEAD_S, Link, Network, Node, Site};
use crate::simulate::Seconds;
use crate::strategy::Transfer;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Bytes of a first transfer, which only tells how many the next one takes: the first ones of a
/// connection are slow.
const FIRST_BYTES: u64 = 64 << 10;
const MAX_BYTES: u64 = 8 << 20;
/// A rate is known once the bytes took about the round trip, but no less than this long.
const LONG_ENOUGH_S: Seconds = 4e-3;
/// How much longer than necessary a transfer is planned, and how much shorter it may then be.
const AMPLE: f64 = 1.2;
const ALMOST: f64 = 0.6;
/// Rates are known after so many transfers, whatever these were.
const RATE_ATTEMPTS: u32 = 3;
/// Short messages that tell what a message costs beside its bytes.
const MESSAGE_BYTES: u32 = 2 << 10;
const MESSAGES: u32 = 128;
/// How long transfers that run at once should take, all alike, and how much the largest may be. What is
/// too much for what they share has to fit the queue in front of it: once packets are lost, the time
/// tells of TCP and not of the rate, so each attempt takes a fraction of the first. (Trains that are short enough disperse at the bottleneck's rate:
/// Dovrolis, Ramanathan and Moore 2001.)
const AT_ONCE_S: Seconds = 0.06;
const AT_ONCE_MAX_BYTES: f64 = 32e6;
/// Transfers at once out of one cluster: enough to fill what it shares.
const FAN: usize = 6;
/// What reaches less than this fraction of its parts' sum is shared.
const SHARED: f64 = 0.85;
/// Directions whose rates differ by less than this fraction share alike.
const ALIKE: f64 = 0.2;

/// What runs at once over new connections is measured in so many rounds, and the fastest counts. Not in
/// repetitions of each transfer: those of one that got ahead of the others would run by themselves.
const ROUNDS: usize = 2;
/// A connection that lost packets looks like one that shares. So what looks shared is measured again,
/// until a round is not faster than those before by this fraction, in so many rounds at most.
const FASTER: f64 = 0.1;
const SHARING_ATTEMPTS: u32 = 3;

type Pair = (usize, usize);
/// A cluster, and whether it receives.
type Fan = (usize, bool);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Latency,
    /// Counted from 0.
    Rate(u32),
    Messages,
    /// Counted from 0.
    SharedLinks(u32),
    /// Counted from 0.
    Fans(u32),
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
    /// Bytes, and the seconds they took, of the last transfer that was too short to tell a rate.
    too_short: HashMap<Pair, (u64, Seconds)>,
    /// Of pairs of nodes, alone.
    rate: HashMap<Pair, f64>,
    /// What a message costs a node beside its bytes.
    overhead_s: Seconds,
    /// Of pairs of clusters: all pairs of nodes together, where they share.
    shared: HashMap<Pair, f64>,
    /// Links of clusters, or else fans, that look shared and are to be measured again.
    doubtful_links: HashSet<Pair>,
    doubtful_fans: HashSet<Fan>,
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
            round_trip_s: clusters.round_trips().collect(),
            too_short: HashMap::new(),
            rate: HashMap::new(),
            overhead_s: DEFAULT_OVERHEAD_S,
            shared: HashMap::new(),
            doubtful_links: HashSet::new(),
            doubtful_fans: HashSet::new(),
            egress: vec![f64::INFINITY; count],
            ingress: vec![f64::INFINITY; count],
        }
    }

    pub fn ask(&mut self) -> Option<Vec<Vec<Transfer>>> {
        while self.asked.is_empty() {
            self.asked = match self.step {
                Step::Latency => {
                    let unknown = |pair: &Pair| self.round_trip_s(*pair).is_none();
                    self.ask_alone(unknown, |_| (0, PINGS))
                }
                Step::Rate(attempt) => {
                    let repetitions = if attempt == 0 { 1 } else { REPETITIONS };
                    let unknown = |pair: &Pair| !self.rate.contains_key(pair);
                    self.ask_alone(unknown, |pair| (self.bytes_to_tell_the_rate(pair), repetitions))
                }
                Step::Messages => self.ask_messages(),
                Step::SharedLinks(attempt) => self.ask_shared_links(attempt),
                Step::Fans(attempt) => self.ask_fans(attempt),
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
            Step::Messages => Step::SharedLinks(0),
            Step::SharedLinks(attempt) if attempt + 1 < SHARING_ATTEMPTS => {
                Step::SharedLinks(attempt + 1)
            }
            Step::SharedLinks(_) => Step::Fans(0),
            Step::Fans(attempt) if attempt + 1 < SHARING_ATTEMPTS => Step::Fans(attempt + 1),
            Step::Fans(_) | Step::Done => Step::Done,
        };
    }

    pub fn observe(&mut self, seconds: &[Vec<Seconds>]) {
        if !answers(&self.asked, seconds) {
            return;
        }
        let rounds = std::mem::take(&mut self.asked);
        let mut seconds = seconds;
        for same in rounds.chunk_by(PartialEq::eq) {
            let round = &same[0];
            let (of_round, rest) = seconds.split_at(same.len());
            seconds = rest;
            match self.step {
                Step::Latency => {
                    let pairs = round.iter().map(|transfer| (transfer.from, transfer.to));
                    self.round_trip_s.extend(pairs.zip(of_round[0].iter().copied()));
                }
                Step::Rate(attempt) => self.note_rates(attempt, round, &of_round[0]),
                Step::Messages => self.note_messages(round, of_round),
                Step::SharedLinks(_) => self.note_shared_links(round, &of_round[0]),
                Step::Fans(_) => self.note_fan(round, &of_round[0]),
                Step::Done => {}
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
        // A round trip is the same from both ends, and a first guess of a rate too.
        let both = !matches!(self.step, Step::Latency | Step::Rate(0));
        let mut between = Vec::new();
        for (i, a) in self.members.iter().enumerate() {
            let others = self.members[i + 1..].iter().map(|b| (a[0], b[0]));
            let directions = others.flat_map(|(a, b)| [Some((a, b)), both.then_some((b, a))]);
            between.extend(directions.flatten().filter(&wanted));
        }
        let between = rounds_of_pairs(&between, self.nodes, usize::MAX).into_iter();
        let ring = |members: &Vec<usize>, k: usize| {
            let pair = (members[k], members[(k + 1) % members.len()]);
            Some(pair).filter(|pair| pair.0 != pair.1 && wanted(pair))
        };
        let largest = self.members.iter().map(Vec::len).max().unwrap_or(0);
        let around = (0..largest).map(|k| {
            let rings = self.members.iter().filter(|members| k < members.len());
            rings.filter_map(|members| ring(members, k)).collect()
        });
        let rounds: Vec<Vec<Pair>> = between.chain(around).collect();
        let transfer = |pair: Pair| {
            let (bytes, repetitions) = how_much(pair);
            Transfer::new(pair, bytes, repetitions)
        };
        let rounds = rounds.into_iter().filter(|round| !round.is_empty());
        rounds.map(|round| round.into_iter().map(transfer).collect()).collect()
    }

    fn cluster_of(&self) -> Vec<usize> {
        let mut cluster = vec![0; self.nodes];
        for (c, nodes) in self.members.iter().enumerate() {
            nodes.iter().for_each(|&node| cluster[node] = c);
        }
        cluster
    }

    fn round_trip_s(&self, (a, b): Pair) -> Option<Seconds> {
        let either = self.round_trip_s.get(&(a, b)).or_else(|| self.round_trip_s.get(&(b, a)));
        either.copied()
    }

    /// A transfer tells a rate if its bytes take so long.
    fn long_enough_s(&self, pair: Pair) -> Seconds {
        self.round_trip_s(pair).unwrap_or(0.0).max(LONG_ENOUGH_S)
    }

    fn bytes_to_tell_the_rate(&self, pair: Pair) -> u64 {
        let either = self.too_short.get(&pair).or_else(|| self.too_short.get(&(pair.1, pair.0)));
        let Some(&(bytes, busy_s)) = either else { return FIRST_BYTES };
        let times = (AMPLE * self.long_enough_s(pair) / busy_s).clamp(2.0, 64.0);
        ((bytes as f64 * times) as u64).min(MAX_BYTES)
    }

    fn note_rates(&mut self, attempt: u32, round: &[Transfer], seconds: &[Seconds]) {
        for (transfer, &seconds) in round.iter().zip(seconds) {
            let pair = (transfer.from, transfer.to);
            let busy_s = (seconds - self.round_trip_s(pair).unwrap_or(0.0)).max(1e-7);
            let wanted_s = self.long_enough_s(pair);
            // The first transfer is believed where it was so slow that its start does not count.
            let long = if attempt == 0 { 4.0 } else { ALMOST } * wanted_s <= busy_s;
            if long || attempt + 1 == RATE_ATTEMPTS || transfer.bytes >= MAX_BYTES {
                self.rate.insert(pair, transfer.bytes as f64 / busy_s);
            } else {
                self.too_short.insert(pair, (transfer.bytes, busy_s));
            }
        }
    }

    /// Many short messages between neighbours, all pairs at once: a broadcast keeps all nodes at work.
    fn ask_messages(&self) -> Vec<Vec<Transfer>> {
        let largest = self.members.iter().map(Vec::len).max().unwrap_or(0);
        let pairs = (0..largest).step_by(2).flat_map(|k| {
            let pair = move |members: &Vec<usize>| Some((*members.get(k)?, *members.get(k + 1)?));
            self.members.iter().filter_map(pair)
        });
        let bytes = u64::from(MESSAGE_BYTES * MESSAGES);
        let transfer =
            |pair| Transfer { segment_bytes: MESSAGE_BYTES, ..Transfer::new(pair, bytes, 1) };
        let round: Vec<_> = pairs.map(transfer).collect();
        if round.is_empty() { Vec::new() } else { vec![round; ROUNDS] }
    }

    fn note_messages(&mut self, round: &[Transfer], seconds: &[Vec<Seconds>]) {
        let each_s = |(transfer, seconds): (&Transfer, &Seconds)| {
            let pair = (transfer.from, transfer.to);
            let bytes_s = transfer.bytes as f64 / self.rate_of(pair);
            let messages_s = seconds - self.round_trip_s(pair).unwrap_or(0.0) - bytes_s;
            messages_s / f64::from(MESSAGES) / round.len() as f64
        };
        let mean_s =
            |seconds: &Vec<Seconds>| round.iter().zip(seconds).map(each_s).sum::<Seconds>();
        let least_s = seconds.iter().map(mean_s).fold(f64::INFINITY, f64::min);
        let measured_s = if least_s.is_finite() { least_s } else { 0.0 };
        self.overhead_s = measured_s.max(DEFAULT_OVERHEAD_S);
    }

    fn rate_of(&self, pair: Pair) -> f64 {
        self.rate.get(&pair).copied().unwrap_or(1e6)
    }

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

    fn first_pair(&self, a: usize, b: usize) -> Pair {
        (self.members[a][0], self.members[b][0])
    }

    /// For each two clusters of several nodes, two transfers at once between different nodes; in both
    /// directions only where their rates differ.
    fn ask_shared_links(&self, attempt: u32) -> Vec<Vec<Transfer>> {
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

    fn note_shared_links(&mut self, round: &[Transfer], seconds: &[Seconds]) {
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
            match shared {
                Sharing::None => directions.iter().for_each(|link| _ = self.shared.remove(link)),
                Sharing::Doubtful(rate) | Sharing::Certain(rate) => {
                    let more = (rate / alone).max(1.0);
                    for &(a, b) in &directions {
                        self.shared.insert((a, b), more * self.rate_of(self.first_pair(a, b)));
                    }
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
    fn ask_fans(&self, attempt: u32) -> Vec<Vec<Transfer>> {
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

    fn note_fan(&mut self, fan: &[Transfer], seconds: &[Seconds]) {
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
        rates[hub] = match shared {
            Sharing::None => f64::INFINITY,
            Sharing::Doubtful(rate) | Sharing::Certain(rate) => rate,
        };
        note_doubt(&mut self.doubtful_fans, (hub, into), shared);
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

/// What transfers that run at once say, with the rate they share.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sharing {
    None,
    Doubtful(f64),
    Certain(f64),
}

/// Judges by the rate that transfers reached together in this round, and `before` in the best of the
/// rounds before, where each alone would have reached its part of `expected`.
fn judge(before: Option<f64>, together: f64, expected: f64) -> Sharing {
    match before {
        _ if together >= SHARED * expected => Sharing::None,
        Some(before) if together < before * (1.0 + FASTER) => {
            Sharing::Certain(before.max(together))
        }
        _ => Sharing::Doubtful(together),
    }
}

fn note_doubt<T: Eq + Hash>(doubtful: &mut HashSet<T>, what: T, sharing: Sharing) {
    if matches!(sharing, Sharing::Doubtful(_)) {
        doubtful.insert(what);
    } else {
        doubtful.remove(&what);
    }
}
