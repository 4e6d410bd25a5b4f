//! What production has shown to have changed, and what a program's plan therefore avoids: so production does not
//! show when it is as before. It is measured now and then, with transfers so short that they can go beside what
//! programs send, or fit into a short pause.

use crate::change::Change;
use crate::measurement::{Outcome, Seconds, Transfer, TransferResult, are_pings};
use crate::model::network::Network;
use crate::model::parameter::Parameter;
use crate::survey;
use std::time::{Duration, Instant};

/// Between two measurements, the first and the last; each time longer by this factor.
const FIRST_INTERVAL: Duration = Duration::from_secs(5);
const LAST_INTERVAL: Duration = Duration::from_secs(20);
const LONGER: f64 = 1.5;
/// How long a measurement takes at the rate that is left, and its least and most bytes: enough for a burst that
/// tells a rate, and no more than a program can wait for.
const PROBE_S: Seconds = 0.08;
const LEAST_BYTES: f64 = 32.0 * 1024.0;
const MOST_BYTES: f64 = 1024.0 * 1024.0;
/// What is doubted is believed once this number of measurements in a row, so far apart, have said the same: a processor
/// that is busy for a moment looks the same.
const CONFIRMATIONS: u32 = 3;
const ONCE_MORE: Duration = Duration::from_secs(1);
/// It is better than was thought from this factor on, and as before from this part of what it was before: a short
/// transfer does not tell the whole rate.
const BETTER: f64 = 1.5;
const AS_BEFORE: f64 = 0.6;
/// A round trip that has grown by this, and by this part, is a longer way.
const LONGER_WAY_S: Seconds = 8e-3;
const LONGER_WAY_PART: f64 = 0.25;

/// One change that has not been undone.
#[derive(Debug)]
struct Suspect {
    change: Change,
    /// The network without it.
    before: Network,
    due: Instant,
    interval: Duration,
    /// Over a longer way TCP takes longer to start, which looks like a slower link, and busy processors look like a
    /// longer way: an empty message tells, once.
    is_way_open: bool,
    /// Nothing is done about it before so many measurements have confirmed it.
    doubts: u32,
}

impl Suspect {
    fn new(change: Change, before: &Network, now: Instant) -> Self {
        let (from, to) = change.between;
        let is_way_open = change.parameter.is_rate() && before.site_of(from) != before.site_of(to);
        let due = if is_way_open { now } else { now + FIRST_INTERVAL };
        Suspect {
            change,
            before: before.clone(),
            due,
            interval: FIRST_INTERVAL,
            is_way_open,
            doubts: 0,
        }
    }

    fn transfer(&self) -> Transfer {
        if self.is_way_open || !self.change.parameter.is_rate() {
            return Transfer::new(self.change.between, 0, 2);
        }
        let bytes = (self.change.value * PROBE_S).clamp(LEAST_BYTES, MOST_BYTES);
        Transfer::new(self.change.between, bytes as u64, 1)
    }

    /// Whether it can only tell that something is as before: what programs send meanwhile can hide that, and cannot make
    /// it seem so. They need not wait for it, and their plans send little where it goes.
    fn is_in_passing(&self) -> bool {
        !self.is_way_open && self.doubts == 0
    }

    fn round_trip_before_s(&self) -> Seconds {
        let (from, to) = self.change.between;
        self.before.latency_s(from, to) + self.before.latency_s(to, from)
    }

    /// The latencies there and back, where an empty message took so much longer that they are what has changed.
    fn longer_way(&self, result: &TransferResult) -> Option<[Change; 2]> {
        let before_s = self.round_trip_before_s();
        let added_s = result.seconds - before_s;
        let is_longer = added_s > LONGER_WAY_S.max(LONGER_WAY_PART * before_s);
        let (from, to) = self.change.between;
        let one_way = |(from, to)| {
            let site = |node| self.before.site_of(node);
            let parameter = Parameter::LinkLatency { from: site(from), to: site(to) };
            let value = parameter.of(&self.before) + added_s / 2.0;
            Change { parameter, value, between: (from, to) }
        };
        (is_longer && added_s.is_finite()).then(|| [(from, to), (to, from)].map(one_way))
    }

    /// Whether a transfer is nearer to what is doubted than to what the network is known for.
    fn is_confirmed(&self, result: &TransferResult, network: &Network) -> bool {
        let (from, to) = self.change.between;
        let known = network.rate(from, to);
        let between = (known * self.change.value).sqrt().min(AS_BEFORE * known);
        survey::rate(&self.transfer(), result) < between
    }

    /// The network after a measurement, and whether all is as before, where that has told something new.
    fn judge(&mut self, result: &TransferResult, network: &Network) -> Option<(Network, bool)> {
        let Change { parameter, value, between: (from, to) } = self.change;
        let restored = || (parameter.restore(network, &self.before), true);
        if !parameter.is_rate() {
            let added_s = value - parameter.of(&self.before);
            return (result.seconds < self.round_trip_before_s() + added_s / 2.0).then(restored);
        }
        let rate = survey::rate(&self.transfer(), result);
        let before = self.before.rate(from, to);
        if rate >= AS_BEFORE * before {
            return Some(restored());
        }
        if rate < BETTER * value.min(before) {
            return None;
        }
        self.change.value = rate;
        Some((parameter.set(network, rate), false))
    }
}

/// All that a group's network is suspected of.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    all: Vec<Suspect>,
    /// Which of them is being measured.
    asked: Option<usize>,
}

impl Suspects {
    /// What a parameter was before is what it was before its first change.
    pub fn add(&mut self, change: Change, before: &Network, now: Instant) {
        let known = self.all.iter_mut().find(|known| known.change.parameter == change.parameter);
        match known {
            Some(known) => *known = Suspect::new(change, &known.before, now),
            None => self.all.push(Suspect::new(change, before, now)),
        }
    }

    /// As [`Suspects::add`] of a change about which nothing is done before it is measured.
    pub fn doubt(&mut self, change: Change, network: &Network, now: Instant) {
        let is_it = |known: &Suspect| known.change.parameter == change.parameter;
        let place = self.all.iter().position(is_it).unwrap_or_else(|| {
            let doubts = if change.parameter.is_rate() { CONFIRMATIONS } else { 0 };
            self.all.push(Suspect { doubts, ..Suspect::new(change, network, now) });
            self.all.len() - 1
        });
        let suspect = &mut self.all[place];
        suspect.due = now;
        if !change.parameter.is_rate() {
            suspect.is_way_open = true;
        } else if suspect.change.value > change.value {
            // Slower than what is known, or was doubted.
            (suspect.change, suspect.doubts) = (change, CONFIRMATIONS);
        }
    }

    /// What to measure now, if anything.
    pub fn ask(&mut self, now: Instant) -> Option<Transfer> {
        // What has to wait for a pause keeps nothing else waiting.
        let is_due = |suspect: &Suspect| suspect.due <= now;
        let in_passing =
            self.all.iter().position(|suspect| is_due(suspect) && suspect.is_in_passing());
        self.asked = in_passing.or_else(|| self.all.iter().position(is_due));
        Some(self.all[self.asked?].transfer())
    }

    /// Whether nothing is done about one of them before it is measured.
    pub fn have_to_be_seen(&self) -> bool {
        let is_doubted = |suspect: &Suspect| {
            suspect.doubts > 0 || suspect.is_way_open && !suspect.change.parameter.is_rate()
        };
        self.all.iter().any(is_doubted)
    }

    pub fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Whether what is asked need not have the network for itself.
    pub fn are_asked_in_passing(&self) -> bool {
        self.asked.and_then(|asked| self.all.get(asked)).is_some_and(Suspect::is_in_passing)
    }

    /// Takes what came of it; gives the network as it is now, if that is another than was thought, and what is not as
    /// it was where that is something else than what was suspected.
    pub fn answer(
        &mut self,
        outcome: &Outcome,
        network: &Network,
        now: Instant,
    ) -> Option<(Network, Option<Change>)> {
        let asked = self.asked.take()?;
        let Outcome::Transfers { results, disturbed } = outcome else { return None };
        let suspect = self.all.get_mut(asked)?;
        // A program that comes waits for empty messages, which go on to their end. Where the way has become longer than
        // its pauses, it comes to each.
        let is_whole =
            are_pings(&[suspect.transfer()]) && results.iter().all(|r| r.seconds.is_finite());
        if *disturbed && !is_whole {
            return None;
        }
        if std::mem::take(&mut suspect.is_way_open) {
            let longer_way = suspect.longer_way(results.first()?);
            // A longer way explains that the rate looked lower, so that is measured at once.
            let is_next = longer_way.is_some() || suspect.doubts > 0;
            suspect.due = if is_next { now } else { now + suspect.interval };
            let (parameter, before) = (suspect.change.parameter, suspect.before.clone());
            if longer_way.is_none() && !parameter.is_rate() {
                self.all.remove(asked);
                let is_as_before = parameter.of(network) == parameter.of(&before);
                return (!is_as_before).then(|| (parameter.restore(network, &before), None));
            }
            let ways = longer_way?;
            ways.iter().for_each(|way| self.add(*way, &before, now));
            let network = ways.iter().fold(network.clone(), |network, way| way.apply(&network));
            return Some((network, Some(ways[0])));
        }
        suspect.interval = suspect.interval.mul_f64(LONGER).min(LAST_INTERVAL);
        suspect.due = now + suspect.interval;
        if suspect.doubts > 0 {
            let change = suspect.change;
            if suspect.is_confirmed(results.first()?, network) {
                suspect.doubts -= 1;
                if suspect.doubts > 0 {
                    suspect.due = now + ONCE_MORE;
                    return None;
                }
                return Some((change.apply(network), Some(change)));
            }
            suspect.doubts = 0;
            if change.parameter.of(network) == change.parameter.of(&suspect.before) {
                self.all.remove(asked);
                return None;
            }
            // What was done about an earlier change stands, and is judged as ever.
        }
        let (network, is_as_before) = suspect.judge(results.first()?, network)?;
        if is_as_before {
            self.all.remove(asked);
        }
        Some((network, None))
    }
}
