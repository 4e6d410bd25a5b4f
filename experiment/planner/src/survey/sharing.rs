//! *Sharing*: what transfers share that run at once: around clusters, see [`Fans`], then over the same link.

use super::arrivals::SHARED;
use super::fans::Fans;
use super::links::{Links, Pair};
use super::rounds::{Rounds, rounds_one_way};
use super::together::Together;
use crate::measurement::{Seconds, Transfer, TransferResult};
use crate::model::network::{Link, Network, Node, Site};
use std::collections::HashMap;

/// Directions whose rates differ by less than this fraction share alike.
const ALIKE: f64 = 0.2;
/// A connection that lost packets, or is new, looks like one that shares. So what looks shared is measured
/// again, once, since the second connection is new at first.
const LINK_ATTEMPTS: u32 = 2;

/// Two transfers over one link take so long at its rate at least, each alone.
const BOTH_S: Seconds = 0.1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Fans,
    /// Counted from 0.
    Links(u32),
}

/// What is shared between transfers that each link alone would carry.
#[derive(Debug)]
pub(super) struct Sharing {
    pub(super) links: Links,
    step: Step,
    fans: Fans,
    /// Of pairs of clusters: all pairs of nodes together, where they share, in bytes per second.
    shared: HashMap<Pair, f64>,
}

impl Sharing {
    pub fn new(links: Links) -> Self {
        Sharing { links, step: Step::Fans, fans: Fans::default(), shared: HashMap::new() }
    }

    /// What to measure next; empty once all is known.
    pub fn ask(&mut self) -> Rounds {
        loop {
            let rounds = match self.step {
                Step::Fans => self.fans.ask(&self.links),
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
            Step::Fans => Step::Links(0),
            Step::Links(attempt) => Step::Links(attempt + 1),
        };
    }

    pub fn observe(&mut self, rounds: &[Vec<Transfer>], results: &[Vec<TransferResult>]) {
        if self.step == Step::Fans {
            return self.fans.observe(&self.links, rounds, results);
        }
        for (round, results) in rounds.iter().zip(results) {
            self.note_shared_links(round, results);
        }
        self.advance();
    }

    /// For each two clusters of several nodes, two transfers at once between different nodes; in both
    /// directions only where their rates differ.
    fn ask_shared_links(&self, attempt: u32) -> Rounds {
        let count = self.links.members.len();
        let large: Vec<usize> = (0..count).filter(|&c| self.links.members[c].len() > 1).collect();
        let mut pairs = Vec::new();
        for (i, &a) in large.iter().enumerate() {
            for &b in &large[i + 1..] {
                // As many to each as from each.
                let forth = 2 * (b - a) <= count;
                let (from, to) = if forth { (a, b) } else { (b, a) };
                pairs.push((from, to));
                if !self.is_alike(a, b) {
                    pairs.push((to, from));
                }
            }
        }
        // What reaches together what one does alone is shared; more may be so since one connection was new.
        let is_open = |&(a, b): &Pair| {
            let alone = self.links.rate_of(self.links.first_pair(a, b));
            self.shared.get(&(a, b)).is_some_and(|rate| *rate > alone / SHARED)
        };
        pairs.retain(|link| attempt == 0 || is_open(link));
        // Different clusters don't disturb each other, nor does what one sends what it receives.
        let rounds = rounds_one_way(&pairs, count);
        let both = |(a, b): Pair| {
            let pair = self.links.first_pair(a, b);
            let second = (self.links.members[a][1], self.links.members[b][1]);
            // They start alike: as many bytes as one takes to tell its rate tell of both.
            let (bytes, _) = self.links.telling(pair);
            let bytes = bytes.max(self.links.bytes_in(BOTH_S, pair));
            [pair, second].map(|pair| Transfer::new(pair, bytes, 1))
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
            let together = match self.links.together(two, results, |_| pair, |_| 0.0).found {
                Together::Apart => None,
                Together::Shared(all) if all.rate > alone / SHARED => Some(before.max(all.rate)),
                // What one reaches alone is known better.
                Together::Shared(_) | Together::Unclear(_) => Some(before),
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

    /// An interface is as fast as the fastest that passed it, or as most of its cluster where it is like them.
    fn interfaces(&self, overhead_s: Seconds) -> Vec<Node> {
        let cluster = self.links.cluster_of();
        let blank =
            |site: &usize| Node { site: *site, send_rate: 0.0, receive_rate: 0.0, overhead_s };
        let mut all: Vec<Node> = cluster.iter().map(blank).collect();
        for (&(from, to), &rate) in &self.links.rate {
            all[from].send_rate = all[from].send_rate.max(rate);
            all[to].receive_rate = all[to].receive_rate.max(rate);
        }
        for members in &self.links.members {
            level(&mut all, members, |node| &mut node.send_rate);
            level(&mut all, members, |node| &mut node.receive_rate);
        }
        all
    }

    /// What the survey has found, given what a message costs a node.
    pub fn network(&self, overhead_s: Seconds) -> Network {
        let count = self.links.members.len();
        let mut all = self.interfaces(overhead_s);
        let mut sites = Vec::with_capacity(count);
        for (c, members) in self.links.members.iter().enumerate() {
            let mut site = Site {
                egress_rate: self.fans.rate(c, false),
                ingress_rate: self.fans.rate(c, true),
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
        if all.len() == 1 {
            (all[0].send_rate, all[0].receive_rate) = (f64::INFINITY, f64::INFINITY);
        }
        let network = Network::new(all, sites, links).expect("what was measured is in range");
        network.with_lost_bursts(self.links.lost_burst_bytes().unwrap_or(u64::MAX))
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

/// Gives rates that are like the median of these nodes that one: the least of many that busy processors have each made a
/// little slower would be taken for what binds them.
fn level(all: &mut [Node], members: &[usize], rate: fn(&mut Node) -> &mut f64) {
    let mut rates: Vec<f64> = members.iter().map(|&node| *rate(&mut all[node])).collect();
    rates.sort_by(f64::total_cmp);
    let usual = rates[rates.len() / 2];
    for &node in members {
        let own = rate(&mut all[node]);
        if (SHARED..SHARED.recip()).contains(&(*own / usual)) {
            *own = usual;
        }
    }
}
