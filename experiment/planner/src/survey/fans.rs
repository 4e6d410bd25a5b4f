//! What each cluster shares towards all others, and what all others share towards it: *fans* of transfers out of
//! a cluster's nodes, or into them. First all clusters send to all at once; who then reaches what its links carry
//! shares nothing. The others' fans follow, as many at a time as take nothing from each other, and with no more
//! transfers than fill what was reached before. What looks shared is measured until two rounds agree.

use super::links::{Links, Pair};
use super::rounds::Rounds;
use super::together::{SHARED, Together};
use crate::measurement::{Seconds, Transfer, TransferResult};
use std::collections::{HashMap, HashSet};

/// Once it is roughly known what a cluster shares, at most this many times as much is sent.
const OVERLOAD: f64 = 1.4;
/// Transfers at once out of one cluster: enough to fill what it shares.
const FAN: usize = 6;
/// A connection that lost packets, or is new, looks like one that shares: rounds are made until two agree up to
/// this fraction, or there were this many.
const AGREE: f64 = 0.1;
const ATTEMPTS: u32 = 3;
/// What has not told as often does not bind messages that connections carry while they start.
const UNCLEAR: u32 = 2;
/// Connections that alone take this multiple of the time at their links' rates begin with longer transfers.
const STARTING: f64 = 2.0;
/// Transfers are stopped after this multiple of what they take where nothing is shared: what they share is known by
/// then, and one that lost packets may go on for long.
const TOO_LONG: f64 = 1.5;
/// Transfers of this multiple of the bytes tell whether connections still start.
const FAR_MORE: f64 = 1.5;

/// A cluster, and whether it receives.
type Fan = (usize, bool);

/// Of one fan, as far as it is known.
#[derive(Debug, Default)]
struct Findings {
    /// What its transfers reached together, in each round that made them share.
    rates: Vec<f64>,
    /// The same when all clusters sent at once, where others may have taken it from them: it shares no less.
    at_least: Option<f64>,
    /// How many times they have not told.
    unclear: u32,
    /// What they reached with which bytes when they had not told first.
    unclear_rate: Option<(f64, u64)>,
    /// All of them at once have reached what their links carry.
    is_apart: bool,
}

impl Findings {
    /// What they have reached together at most, where they share.
    fn reached(&self) -> Option<f64> {
        self.rates.iter().copied().chain(self.at_least).reduce(f64::max)
    }

    /// Two rounds have told, of which one may have been of all clusters.
    fn is_known(&self) -> bool {
        let has_told_twice = self.at_least.is_some() && !self.rates.is_empty();
        self.is_apart || has_told_twice || closest(&self.rates).is_some()
    }

    /// Connections that start reach more with far more bytes; where they reach the same, they share it.
    fn note_unclear(&mut self, rate: f64, bytes: u64) {
        let (before, its_bytes) = *self.unclear_rate.get_or_insert((rate, bytes));
        if closest(&[before, rate]).is_none() {
            self.unclear_rate = Some((rate, bytes));
        } else if (bytes as f64 / its_bytes as f64).ln().abs() > FAR_MORE.ln() {
            self.rates.extend([before, rate]);
        }
    }

    fn is_due(&self, is_first: bool) -> bool {
        let is_open = !self.rates.is_empty() || (1..UNCLEAR).contains(&self.unclear);
        !self.is_known() && (is_first || is_open)
    }

    /// What it shares; infinite where that is nothing.
    fn rate(&self) -> f64 {
        let agreed = closest(&self.rates).filter(|_| self.at_least.is_none());
        agreed.or(self.reached()).unwrap_or(f64::INFINITY)
    }
}

#[derive(Debug, Default)]
pub(super) struct Fans {
    /// 0: all at once.
    step: u32,
    found: HashMap<Fan, Findings>,
}

impl Fans {
    /// What to measure next; empty once all is known.
    pub fn ask(&mut self, links: &Links) -> Rounds {
        // Two clusters have nothing to share but their link.
        if links.members.len() < 3 {
            return Vec::new();
        }
        while self.step <= ATTEMPTS {
            let rounds = match self.step {
                0 => vec![self.all_at_once(links)],
                attempt => self.rounds(links, attempt == 1),
            };
            if !rounds.is_empty() {
                return rounds;
            }
            self.step += 1;
        }
        Vec::new()
    }

    pub fn observe(
        &mut self,
        links: &Links,
        rounds: &[Vec<Transfer>],
        results: &[Vec<TransferResult>],
    ) {
        for (round, results) in rounds.iter().zip(results) {
            match self.step {
                0 => self.note_all_at_once(links, round, results),
                _ => self.note_round(links, round, results),
            }
        }
        self.step += 1;
    }

    /// What a cluster shares in one direction, in bytes per second; infinite where it shares nothing.
    pub fn rate(&self, cluster: usize, into: bool) -> f64 {
        self.found.get(&(cluster, into)).map_or(f64::INFINITY, Findings::rate)
    }

    /// From each cluster to those with the fastest links.
    fn all_at_once(&self, links: &Links) -> Vec<Transfer> {
        let mut received = vec![0; links.members.len()];
        let mut of_hub = |hub: usize| -> Vec<Spoke> {
            let senders = hands(links, (hub, false));
            let mut spoke = |(sent, (other, _)): (usize, (usize, f64))| {
                let receivers = hands(links, (other, true));
                let to = receivers[received[other] % receivers.len()];
                received[other] += 1;
                let from = senders[sent % senders.len()];
                Spoke { from, to, pair: links.first_pair(hub, other) }
            };
            let spokes = fastest_spokes(links, (hub, false)).into_iter().enumerate();
            spokes.map(&mut spoke).collect()
        };
        let hubs: Vec<Vec<Spoke>> = (0..links.members.len()).map(&mut of_hub).collect();
        let unclear = hubs.iter().map(|spokes| starting(links, spokes)).max().unwrap_or(0);
        // As long as the cluster takes that takes longest.
        let while_s =
            hubs.iter().map(|spokes| links.while_s(&pairs(spokes), unclear)).fold(0.0, f64::max);
        at_once(links, &hubs.concat(), while_s, |_| 0.0)
    }

    fn note_all_at_once(&mut self, links: &Links, round: &[Transfer], results: &[TransferResult]) {
        let cluster = links.cluster_of();
        for fan in fans(links) {
            let (hub, into) = fan;
            let is_its = |t: &Transfer| cluster[if into { t.to } else { t.from }] == hub;
            let of_fan = round.iter().zip(results).filter(|(transfer, _)| is_its(transfer));
            let (transfers, results): (Vec<_>, Vec<_>) =
                of_fan.map(|(transfer, result)| (*transfer, result.clone())).unzip();
            // A part of its links may be what shares nothing.
            let found = (transfers.len() >= fastest_spokes(links, fan).len())
                .then(|| together(links, fan, &transfers, &results));
            let findings = self.found.entry(fan).or_default();
            match found {
                Some(Together::Apart) => findings.is_apart = true,
                Some(Together::Shared(rate)) => findings.at_least = Some(rate),
                Some(Together::Unclear(rate)) => findings.note_unclear(rate, bytes_of(&transfers)),
                None => {}
            }
        }
    }

    /// The fans that are not known yet, in rounds in which none sends from where another one does, or into where
    /// another one does.
    fn rounds(&self, links: &Links, is_first: bool) -> Rounds {
        let is_due = |fan: &Fan| self.found.get(fan).is_none_or(|found| found.is_due(is_first));
        let mut due: Vec<Fan> = fans(links).filter(is_due).collect();
        let mut rounds = Vec::new();
        while !due.is_empty() {
            let mut used = HashSet::new();
            let mut round = Vec::new();
            due.retain(|&fan| {
                let Some(spokes) = self.spokes(links, fan, &used) else { return true };
                used.insert(fan);
                used.extend(spokes.iter().map(|(other, _)| (*other, !fan.1)));
                round.extend(self.fan(links, fan, &spokes));
                false
            });
            rounds.push(round);
        }
        rounds
    }

    /// The clusters to measure a fan with, and their links' rates, none of them `used` already: all, or where it is
    /// known what they reach, as many as reach more. `None` where there are too few.
    fn spokes(&self, links: &Links, fan: Fan, used: &HashSet<Fan>) -> Option<Vec<(usize, f64)>> {
        let mut spokes = fastest_spokes(links, fan);
        let all = spokes.len();
        spokes.retain(|(other, _)| !used.contains(&(*other, !fan.1)));
        let mut is_enough = spokes.len() == all;
        if let Some(rate) = self.found.get(&fan).and_then(Findings::reached) {
            let load = |spokes: &[(usize, f64)]| spokes.iter().map(|spoke| spoke.1).sum::<f64>();
            is_enough |= spokes.len() >= 2 && load(&spokes) > OVERLOAD * rate;
            while spokes.len() > 2 && load(&spokes[..spokes.len() - 1]) > OVERLOAD * rate {
                spokes.pop();
            }
        }
        (is_enough && !used.contains(&fan)).then_some(spokes)
    }

    fn fan(&self, links: &Links, fan: Fan, spokes: &[(usize, f64)]) -> Vec<Transfer> {
        let (_, into) = fan;
        let hands = hands(links, fan);
        let spoke = |(i, (other, _)): (usize, &(usize, f64))| {
            let pair = spoke_pair(links, fan, *other);
            let at_hub = hands[i % hands.len()];
            let (from, to) = if into { (pair.0, at_hub) } else { (at_hub, pair.1) };
            Spoke { from, to, pair }
        };
        let spokes: Vec<Spoke> = spokes.iter().enumerate().map(spoke).collect();
        let unclear =
            self.found.get(&fan).map_or(0, |found| found.unclear) + starting(links, &spokes);
        // At the hub, the last byte of each is to pass when the others' do.
        let way_s = |pair| if into { way_s(links, pair) } else { 0.0 };
        at_once(links, &spokes, links.while_s(&pairs(&spokes), unclear), way_s)
    }

    /// One fan after the other.
    fn note_round(&mut self, links: &Links, round: &[Transfer], results: &[TransferResult]) {
        let cluster = links.cluster_of();
        let (mut round, mut results) = (round, results);
        while let [first, second, ..] = round {
            let into = cluster[first.to] == cluster[second.to];
            let hub = |transfer: &Transfer| cluster[if into { transfer.to } else { transfer.from }];
            let fan = (hub(first), into);
            let of_fan = round.iter().take_while(|transfer| hub(transfer) == fan.0).count();
            let (transfers, others) = round.split_at(of_fan);
            let found = together(links, fan, transfers, &results[..of_fan]);
            let is_whole = of_fan == fastest_spokes(links, fan).len();
            let findings = self.found.entry(fan).or_default();
            let is_unclear = matches!(found, Together::Unclear(_));
            findings.unclear = if is_unclear { findings.unclear + 1 } else { 0 };
            match found {
                Together::Shared(rate) => findings.rates.push(rate),
                Together::Unclear(rate) => {
                    // That they share may be known, and as much once more confirms it.
                    let before = findings.at_least;
                    if before.is_some_and(|before| closest(&[before, rate]).is_some()) {
                        findings.rates.push(rate);
                    }
                    findings.at_least = before.map(|before| before.max(rate));
                    findings.note_unclear(rate, bytes_of(transfers));
                }
                Together::Apart => {
                    findings.rates.clear();
                    findings.at_least = None;
                    findings.is_apart = is_whole;
                    // All of them are next.
                    findings.unclear = u32::from(!is_whole);
                }
            }
            (round, results) = (others, &results[of_fan..]);
        }
    }
}

/// A transfer of a fan: between these nodes, and the pair that tells of it alone.
#[derive(Clone, Copy)]
struct Spoke {
    from: usize,
    to: usize,
    pair: Pair,
}

impl Spoke {
    /// Whether most of the time of a transfer that tells is its connection's start.
    fn is_starting(&self, links: &Links) -> bool {
        let (bytes, _) = links.telling(self.pair);
        links.alone_s(bytes, self.pair) > STARTING * bytes as f64 / links.rate_of(self.pair)
    }
}

/// How often transfers have not told before the first: once where connections start, which takes longer ones.
fn starting(links: &Links, spokes: &[Spoke]) -> u32 {
    u32::from(spokes.iter().any(|spoke| spoke.is_starting(links)))
}

fn pairs(spokes: &[Spoke]) -> Vec<Pair> {
    spokes.iter().map(|spoke| spoke.pair).collect()
}

/// Transfers that end at about the same time: connections that start fast would else be done before the others
/// have started.
fn at_once(
    links: &Links,
    spokes: &[Spoke],
    while_s: Seconds,
    way_s: impl Fn(Pair) -> Seconds,
) -> Vec<Transfer> {
    let transfer = |&Spoke { from, to, pair }: &Spoke| {
        let transfer = links.for_a_while(from, to, pair, while_s);
        let alone_s = links.alone_s(transfer.bytes, pair) + way_s(pair);
        (transfer, alone_s)
    };
    let all: Vec<(Transfer, Seconds)> = spokes.iter().map(transfer).collect();
    let longest_s = all.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    let stop_after_s = TOO_LONG * longest_s;
    let late =
        |(transfer, seconds)| Transfer { delay_s: longest_s - seconds, stop_after_s, ..transfer };
    all.into_iter().map(late).collect()
}

fn fans(links: &Links) -> impl Iterator<Item = Fan> {
    (0..links.members.len()).flat_map(|hub| [(hub, false), (hub, true)])
}

/// The nodes that stand for a hub and another cluster, the sender first.
fn spoke_pair(links: &Links, (hub, into): Fan, other: usize) -> Pair {
    if into { links.first_pair(other, hub) } else { links.first_pair(hub, other) }
}

/// The clusters with the fastest links to or from a hub, the fastest first, and those rates; of equally fast
/// ones those that follow the hub, so that not all hubs have the same.
fn fastest_spokes(links: &Links, fan: Fan) -> Vec<(usize, f64)> {
    let (hub, _) = fan;
    let count = links.members.len();
    let others = (1..count).map(|step| (hub + step) % count);
    let mut spokes: Vec<(usize, f64)> =
        others.map(|other| (other, links.rate_of(spoke_pair(links, fan, other)))).collect();
    spokes.sort_by(|a, b| b.1.total_cmp(&a.1));
    spokes.truncate(FAN);
    spokes
}

/// The nodes that stand for a hub: where its node can take all of it, the first, whose connections are no
/// longer new; else all.
fn hands(links: &Links, fan: Fan) -> &[usize] {
    let (hub, into) = fan;
    let members = &links.members[hub];
    let (next, last) = (members[1 % members.len()], members[members.len() - 1]);
    let inside = if into { (last, members[0]) } else { (members[0], next) };
    let all: f64 = fastest_spokes(links, fan).iter().map(|spoke| spoke.1).sum();
    let one_is_enough = members.len() == 1 || all < SHARED * links.rate_of(inside);
    if one_is_enough { &members[..1] } else { &members[..] }
}

/// From one node of a pair to the other.
fn way_s(links: &Links, pair: Pair) -> Seconds {
    links.round_trip_s(pair).unwrap_or(0.0) / 2.0
}

/// What transfers of a fan tell.
fn together(
    links: &Links,
    (_, into): Fan,
    transfers: &[Transfer],
    results: &[TransferResult],
) -> Together {
    let cluster = links.cluster_of();
    let pair = |transfer: &Transfer| links.first_pair(cluster[transfer.from], cluster[transfer.to]);
    let expected: f64 = transfers.iter().map(|transfer| links.rate_of(pair(transfer))).sum();
    let under_way_s = |transfer: &Transfer| if into { 0.0 } else { way_s(links, pair(transfer)) };
    links.together(transfers, results, pair, under_way_s, expected)
}

fn bytes_of(transfers: &[Transfer]) -> u64 {
    transfers.iter().map(|transfer| transfer.bytes).sum()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_far_more_bytes_reach_as_well_is_shared() {
        let mut shared = Findings::default();
        shared.note_unclear(12.4e6, 31_000_000);
        assert!(!shared.is_known());
        shared.note_unclear(12.1e6, 16_000_000);
        assert!(shared.is_known() && (shared.rate() / 12.25e6 - 1.0).abs() < 1e-6);
        let mut starting = Findings::default();
        starting.note_unclear(6e6, 4_000_000);
        starting.note_unclear(6.2e6, 5_000_000);
        starting.note_unclear(9e6, 16_000_000);
        assert!(!starting.is_known() && starting.rate().is_infinite());
    }
}
