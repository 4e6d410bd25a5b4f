//! What production has shown to have changed, and what a program's plan therefore avoids: so production does not
//! show when it is as before. It is measured now and then, with transfers that fit into a short pause.

use crate::change::Change;
use crate::measurement::{Outcome, Seconds, Transfer, TransferResult};
use crate::model::network::Network;
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
/// It is better than was thought from this factor on, and as before from this part of what it was before: a short
/// transfer does not tell the whole rate.
const BETTER: f64 = 1.5;
const AS_BEFORE: f64 = 0.6;

/// One change that has not been undone.
#[derive(Debug)]
struct Suspect {
    change: Change,
    /// The network without it.
    before: Network,
    due: Instant,
    interval: Duration,
}

impl Suspect {
    fn transfer(&self) -> Transfer {
        if !self.change.parameter.is_rate() {
            return Transfer::new(self.change.between, 0, 2);
        }
        let bytes = (self.change.value * PROBE_S).clamp(LEAST_BYTES, MOST_BYTES);
        Transfer::new(self.change.between, bytes as u64, 1)
    }

    /// The network after a measurement, and whether all is as before, where that has told something new.
    fn judge(&mut self, result: &TransferResult, network: &Network) -> Option<(Network, bool)> {
        let Change { parameter, value, between: (from, to) } = self.change;
        let restored = || (parameter.restore(network, &self.before), true);
        if !parameter.is_rate() {
            let before_s = self.before.latency_s(from, to) + self.before.latency_s(to, from);
            let added_s = value - parameter.of(&self.before);
            return (result.seconds < before_s + added_s / 2.0).then(restored);
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
    pub fn add(&mut self, change: Change, before: &Network, now: Instant) {
        let (due, interval) = (now + FIRST_INTERVAL, FIRST_INTERVAL);
        let known = self.all.iter_mut().find(|known| known.change.parameter == change.parameter);
        match known {
            Some(known) => {
                known.change = change;
                (known.due, known.interval) = (due, interval);
            }
            None => self.all.push(Suspect { change, before: before.clone(), due, interval }),
        }
    }

    /// What to measure now, if anything.
    pub fn ask(&mut self, now: Instant) -> Option<Transfer> {
        let due = self.all.iter().position(|suspect| suspect.due <= now)?;
        self.asked = Some(due);
        Some(self.all[due].transfer())
    }

    pub fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Takes what came of it; gives the network as it is now, if that is another than was thought.
    pub fn answer(
        &mut self,
        outcome: &Outcome,
        network: &Network,
        now: Instant,
    ) -> Option<Network> {
        let asked = self.asked.take()?;
        let Outcome::Transfers { results, disturbed: false } = outcome else { return None };
        let suspect = self.all.get_mut(asked)?;
        suspect.interval = suspect.interval.mul_f64(LONGER).min(LAST_INTERVAL);
        suspect.due = now + suspect.interval;
        let (network, is_as_before) = suspect.judge(results.first()?, network)?;
        if is_as_before {
            self.all.remove(asked);
        }
        Some(network)
    }
}
