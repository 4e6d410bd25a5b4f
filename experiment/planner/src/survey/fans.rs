//! What each cluster shares towards all others, and what all others share towards it: *fans* of transfers out of
//! a cluster's nodes, or into them. First all clusters send to all at once; who then reaches what its links carry
//! shares nothing. The others' fans follow, as many at a time as take nothing from each other, and with no more
//! transfers than fill what was reached before. What has not told the same twice is measured again.

use super::arrivals::{SHARED, is_more};
use super::links::{Links, Pair};
use super::rounds::Rounds;
use super::together::{Passed, Together, Told};
use crate::measurement::{Seconds, Transfer, TransferResult};
use std::collections::{HashMap, HashSet};

/// Once it is roughly known what a cluster shares, at most this many times as much is sent.
const OVERLOAD: f64 = 2.5;
/// Transfers at once out of one cluster: enough to fill what it shares.
const FAN: usize = 6;
/// What has not told twice is measured again, up to so many times after all at once; and up to the second number what
/// was slowed down once as clearly as what shares something, of which nothing else is known.
const ATTEMPTS: u32 = 2;
const MOST_ATTEMPTS: u32 = 4;
/// What was told twice agrees up to this fraction.
const AGREE: f64 = 0.1;
/// A connection that was of use shortly before starts by so many round trips sooner than a new one.
const SOONER: f64 = 2.0;

/// A cluster, and whether it receives.
type Fan = (usize, bool);

/// Of one fan, as far as it is known.
#[derive(Debug, Default)]
struct Findings {
    /// What its transfers share, each time that they have told it.
    told: Vec<Passed>,
    /// What passed, each time that they have not told and it was clearly less than could have.
    slowed: Vec<f64>,
    /// What passed, more or less, when all clusters sent at once and it was slowed down.
    about: f64,
    /// How many times they have not told.
    unclear: u32,
    /// All of them at once have reached what their links carry.
    is_apart: bool,
}

impl Findings {
    fn is_known(&self) -> bool {
        self.is_apart || self.agreed().is_some()
    }

    /// The most that was told, if it was told twice: transfers of which one has lost packets look now and then as if
    /// they shared something, and others may have taken of it.
    fn agreed(&self) -> Option<f64> {
        let told = || self.told.iter().map(|told| told.rate);
        let most = most(told())?;
        let like_it = told().filter(|rate| (most / rate).ln() < AGREE);
        let (count, sum) = like_it.fold((0, 0.0), |(count, sum), rate| (count + 1, sum + rate));
        (count > 1).then(|| sum / f64::from(count))
    }

    /// The most that was told clearly, if only once.
    fn told_clearly(&self) -> Option<f64> {
        most(self.told.iter().filter(|told| told.is_clear).map(|told| told.rate))
    }

    /// Nothing else explains that they were slowed down, but that was seen only once.
    fn is_suspected(&self) -> bool {
        self.rate().is_infinite() && !self.is_apart && !self.slowed.is_empty()
    }

    fn note(&mut self, found: Together, is_whole: bool) {
        match found {
            Together::Shared(passed) => self.told.push(passed),
            Together::Apart if is_whole => self.is_apart = true,
            // All of them are next.
            Together::Apart => self.unclear += 1,
            Together::Unclear(passed) => {
                self.unclear += 1;
                self.note_slowed(passed);
            }
        }
    }

    /// So much has passed in a row: what was told up to now to be less was of something else. What is told after it is
    /// not: what had filled the queue of its own link before may have been among that.
    fn note_passed(&mut self, rate: f64) {
        self.told.retain(|told| !is_more(rate, told.rate));
        self.slowed.retain(|&slowed| !is_more(rate, slowed));
    }

    fn note_slowed(&mut self, passed: Option<Passed>) {
        self.slowed.extend(passed.filter(|passed| passed.is_clear).map(|passed| passed.rate));
    }

    /// What it shares; infinite where that is nothing, or has not been told beyond doubt. Where it was not told, but
    /// clearly slowed down twice, the most that passed: what slows it down in other ways comes on top.
    fn rate(&self) -> f64 {
        let slowed = most(self.slowed.iter().copied()).filter(|_| self.slowed.len() > 1);
        let rate = self.agreed().or(self.told_clearly()).or(slowed);
        rate.filter(|_| !self.is_apart).unwrap_or(f64::INFINITY)
    }
}

fn most(rates: impl Iterator<Item = f64>) -> Option<f64> {
    rates.reduce(f64::max)
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
        while self.step <= MOST_ATTEMPTS {
            let rounds = match self.step {
                0 => vec![self.all_at_once(links)],
                _ => self.rounds(links),
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
        // As long as the cluster takes that takes longest.
        let while_s =
            hubs.iter().map(|spokes| links.while_s(&pairs(spokes), 0)).fold(0.0, f64::max);
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
            if transfers.len() < fastest_spokes(links, fan).len() {
                continue;
            }
            let found = together(links, fan, &transfers, &results).found;
            let findings = self.found.entry(fan).or_default();
            match found {
                Together::Unclear(passed) => {
                    findings.about = passed.map_or(0.0, |passed| passed.rate);
                    findings.note_slowed(passed);
                }
                // Most of the connections are new.
                Together::Shared(passed) if !passed.is_clear => findings.about = passed.rate,
                Together::Shared(_) | Together::Apart => findings.note(found, true),
            }
        }
    }

    /// The fans that are not known yet, in rounds in which none sends from where another one does, or into where
    /// another one does.
    fn rounds(&self, links: &Links) -> Rounds {
        let is_due = |fan: &Fan| match self.found.get(fan) {
            Some(found) if self.step > ATTEMPTS => found.is_suspected(),
            found => found.is_none_or(|found| !found.is_known()),
        };
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
        // What has not told takes all.
        let found = self.found.get(&fan).filter(|found| found.unclear == 0);
        let about =
            |found: &Findings| found.told.iter().map(|told| told.rate).fold(found.about, f64::max);
        if let Some(rate) = found.map(about).filter(|&rate| rate > 0.0) {
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
        let unclear = self.found.get(&fan).map_or(0, |found| found.unclear);
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
            let told = together(links, fan, transfers, &results[..of_fan]);
            let is_whole = of_fan == fastest_spokes(links, fan).len();
            let findings = self.found.entry(fan).or_default();
            findings.note(told.found, is_whole);
            findings.note_passed(told.most_passed);
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

fn pairs(spokes: &[Spoke]) -> Vec<Pair> {
    spokes.iter().map(|spoke| spoke.pair).collect()
}

/// Transfers all of which go on at last: each begins when, at its slowest, it is done with the others, and has enough
/// bytes not to be done before where its connection has started already.
fn at_once(
    links: &Links,
    spokes: &[Spoke],
    while_s: Seconds,
    way_s: impl Fn(Pair) -> Seconds,
) -> Vec<Transfer> {
    let transfer = |&Spoke { from, to, pair }: &Spoke| {
        let alone_s = links.alone_s(links.bytes_in(while_s, pair), pair);
        let started_s = while_s + SOONER * links.round_trip_s(pair).unwrap_or(0.0);
        let bytes = links.bytes_in(alone_s.min(started_s), pair);
        (Transfer::new((from, to), bytes, 1), alone_s + way_s(pair))
    };
    let all: Vec<(Transfer, Seconds)> = spokes.iter().map(transfer).collect();
    let longest_s = all.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    let late = |(transfer, seconds)| Transfer {
        delay_s: longest_s - seconds,
        stop_after_s: longest_s + while_s,
        ..transfer
    };
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
) -> Told {
    let cluster = links.cluster_of();
    let pair = |transfer: &Transfer| links.first_pair(cluster[transfer.from], cluster[transfer.to]);
    let under_way_s = |transfer: &Transfer| if into { 0.0 } else { way_s(links, pair(transfer)) };
    links.together(transfers, results, pair, under_way_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of transfers that would come at so much in all.
    const CARRIED: f64 = 24e6;

    fn all(found: &[Together]) -> Findings {
        let mut findings = Findings::default();
        found.iter().for_each(|&found| findings.note(found, true));
        findings
    }

    fn shared(rate: f64) -> Together {
        Together::Shared(Passed::new(rate, CARRIED))
    }

    fn slowed(rate: f64) -> Together {
        Together::Unclear(Some(Passed::new(rate, CARRIED)))
    }

    fn told(rates: &[f64]) -> Findings {
        all(&rates.iter().copied().map(shared).collect::<Vec<_>>())
    }

    #[test]
    fn the_most_that_was_told_twice_is_known() {
        assert!(!told(&[12e6]).is_known() && !told(&[9.3e6, 12e6, 9.7e6]).is_known());
        assert_eq!(told(&[9.3e6, 12e6, 9.7e6]).rate(), 12e6);
        assert!(told(&[9e6, 12e6, 12.4e6]).is_known());
        assert_eq!(told(&[9e6, 12e6, 12.4e6]).rate(), 12.2e6);
        assert_eq!(told(&[]).rate(), f64::INFINITY);
        let apart = all(&[shared(14e6), Together::Apart]);
        assert!(apart.is_known() && apart.rate().is_infinite());
    }

    #[test]
    fn what_is_hardly_slowed_is_believed_when_it_is_told_twice() {
        assert_eq!(told(&[18e6]).rate(), f64::INFINITY);
        assert_eq!(told(&[18e6, 12e6]).rate(), 12e6);
        assert_eq!(told(&[18e6, 18.4e6]).rate(), 18.2e6);
    }

    #[test]
    fn what_is_slowed_down_clearly_twice_shares_something() {
        assert_eq!(all(&[slowed(12e6)]).rate(), f64::INFINITY);
        assert_eq!(all(&[slowed(18e6), slowed(18.4e6)]).rate(), f64::INFINITY);
        assert_eq!(all(&[slowed(9e6), slowed(12e6)]).rate(), 12e6);
        let is_suspected = |found: &[Together]| all(found).is_suspected();
        assert!(!is_suspected(&[]) && is_suspected(&[slowed(12e6)]));
        assert!(!is_suspected(&[slowed(18e6)]) && !is_suspected(&[slowed(9e6), slowed(12e6)]));
        // What is told counts alone.
        assert_eq!(all(&[slowed(9e6), slowed(12e6), shared(10e6)]).rate(), 10e6);
        let apart = all(&[slowed(9e6), slowed(12e6), Together::Apart]);
        assert!(apart.rate().is_infinite() && !apart.is_suspected());
    }

    #[test]
    fn what_was_told_is_not_believed_where_more_has_passed() {
        // Windows that stayed narrow, until the same transfers passed side by side.
        for narrow in [shared, slowed] {
            let mut findings = all(&[narrow(12e6), narrow(12.4e6)]);
            assert!(findings.rate().is_finite());
            findings.note_passed(22e6);
            assert!(findings.rate().is_infinite() && !findings.is_suspected());
            // What passed earlier had partly left before.
            findings.note(narrow(12e6), true);
            findings.note(narrow(12.4e6), true);
            findings.note_passed(12.6e6);
            assert!(findings.rate().is_finite());
        }
    }
}
