//! What rounds of link measurements take, told by those before, and how one is made to fit into a pause.

use crate::measurement::{Seconds, Transfer, are_pings};
use std::collections::VecDeque;

/// What a round is taken to last before one was made, and the bytes up to which a transfer takes as long as none.
const A_ROUND_S: Seconds = 0.1;
const SHORT_BYTES: f64 = 16.0 * 1024.0;
/// What a round takes from when it is stopped, before one was.
const AN_ENDING_S: Seconds = 0.1;
/// The longest of so many counts: rounds are stopped so that programs don't meet them.
const ENDINGS: usize = 6;
/// One that takes longer lost packets at the end.
const LONGEST_ENDING_S: Seconds = 0.3;
/// A round is cut to fit into a pause where that leaves it this time; no less of its bytes than this part are sent, if
/// there is time for them after all.
const LEAST_ROUND_S: Seconds = 0.1;
const LEAST_PART: f64 = 0.25;
/// Of empty messages there are fewer, but so many: the first of them may have to connect.
const LEAST_PINGS: u32 = 2;

/// The last rounds.
#[derive(Debug)]
pub(super) struct Rounds {
    /// The work of the last one, and what it took, or more than that where a program ended it.
    last: (f64, Seconds),
    /// What the shortest one has taken.
    least_s: Seconds,
    /// The one that is asked for.
    asked: Vec<Transfer>,
    /// What the last ones that were stopped took from then on, and their work.
    endings_s: VecDeque<(f64, Seconds)>,
}

impl Default for Rounds {
    fn default() -> Self {
        Rounds {
            last: (SHORT_BYTES, A_ROUND_S),
            least_s: A_ROUND_S,
            asked: Vec::new(),
            endings_s: VecDeque::new(),
        }
    }
}

impl Rounds {
    pub fn note_asked(&mut self, round: &[Transfer]) {
        self.asked = round.to_vec();
    }

    /// The round that was asked for took so long, or a program came, which ends all but empty messages.
    pub fn note_taken(&mut self, spent_s: Seconds, is_disturbed: bool) {
        let stop_s = stops_after_s(&self.asked);
        let is_ended = is_disturbed && !are_pings(&self.asked);
        let seconds = if is_ended { 2.0 * spent_s } else { spent_s };
        self.last = (work(&self.asked), seconds);
        self.least_s = self.least_s.min(seconds);
        if spent_s > stop_s {
            let ending_s = (spent_s - stop_s).min(LONGEST_ENDING_S);
            self.endings_s.push_back((work(&self.asked), ending_s));
        }
        if self.endings_s.len() > ENDINGS {
            self.endings_s.pop_front();
        }
    }

    /// What the orders and answers of whatever is measured take, about.
    pub fn least_s(&self) -> Seconds {
        self.least_s
    }

    /// What a round takes, roughly.
    pub fn expected_s(&self, round: &[Transfer]) -> Seconds {
        let (last, seconds) = self.last;
        let least_s = self.least_s.min(seconds);
        (least_s + (seconds - least_s) * work(round) / last).min(stops_after_s(round))
    }

    /// A round such that it is over after `left_s`; `None` where it would tell too little.
    pub fn fitted(&self, round: &[Transfer], left_s: Seconds) -> Option<Vec<Transfer>> {
        if are_pings(round) {
            return self.fewer_pings(round, left_s);
        }
        let expected_s = self.expected_s(round);
        let at_most = |part: f64| {
            let ending_s = self.ending_s(part * work(round));
            fitted(round, expected_s, left_s, ending_s, part)
        };
        at_most(1.0).or_else(|| at_most(LEAST_PART))
    }

    /// What a round of so much work takes at most once it is stopped: where there is less of it, less is still on its way.
    fn ending_s(&self, work: f64) -> Seconds {
        let scaled = |&(of, seconds): &(f64, Seconds)| {
            let more_s = (seconds - AN_ENDING_S).max(0.0);
            seconds.min(AN_ENDING_S) + more_s * (work / of).min(1.0)
        };
        self.endings_s.iter().map(scaled).reduce(f64::max).unwrap_or(AN_ENDING_S)
    }

    fn fewer_pings(&self, round: &[Transfer], left_s: Seconds) -> Option<Vec<Transfer>> {
        let most = round.iter().map(|ping| ping.repetitions).max()?;
        let at_most = |repetitions| {
            let fewer = |ping: &Transfer| Transfer {
                repetitions: ping.repetitions.min(repetitions),
                ..*ping
            };
            round.iter().map(fewer).collect::<Vec<_>>()
        };
        let mut fewer = (LEAST_PINGS.min(most)..=most).rev().map(at_most);
        fewer.find(|fewer| self.expected_s(fewer) <= left_s)
    }
}

/// A round that would take `expected_s`, or at `most` a part of it, such that it is over after `left_s`: where it would not
/// be, shorter, and stopped `ending_s` before.
fn fitted(
    round: &[Transfer],
    expected_s: Seconds,
    left_s: Seconds,
    ending_s: Seconds,
    most: f64,
) -> Option<Vec<Transfer>> {
    let sends_s = left_s - ending_s;
    let part = (sends_s / expected_s).clamp(LEAST_PART, most);
    let fitted = |transfer: &Transfer| Transfer {
        bytes: (transfer.bytes as f64 * part) as u64,
        delay_s: transfer.delay_s * part,
        stop_after_s: transfer.stop_after_s.min(sends_s),
        ..*transfer
    };
    (sends_s >= LEAST_ROUND_S).then(|| round.iter().map(fitted).collect())
}

/// When all of a round is stopped.
fn stops_after_s(round: &[Transfer]) -> Seconds {
    round.iter().map(|transfer| transfer.stop_after_s).fold(0.0, f64::max)
}

/// How much there is to be sent, in bytes, messages included.
fn work(round: &[Transfer]) -> f64 {
    let of = |transfer: &Transfer| {
        f64::from(transfer.repetitions) * (transfer.bytes as f64 + SHORT_BYTES)
    };
    round.iter().map(of).fold(SHORT_BYTES, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_cut_but_not_to_nothing() {
        let whole = Transfer { delay_s: 0.4, stop_after_s: 3.0, ..Transfer::new((0, 1), 1000, 1) };
        let cut = |left_s| fitted(&[whole], 2.0, left_s, 0.1, 1.0).map(|round| round[0]);
        assert_eq!(cut(0.15), None, "too little time");
        assert_eq!(cut(9.0), Some(whole));
        assert_eq!(cut(2.6), Some(Transfer { stop_after_s: 2.5, ..whole }), "no longer");
        let half = Transfer { bytes: 500, delay_s: 0.2, stop_after_s: 1.0, ..whole };
        assert_eq!(cut(1.1), Some(half));
        let least = cut(0.3).map(|cut| cut.bytes);
        assert_eq!(least, Some(250), "stopped before all is sent");
    }

    #[test]
    fn what_took_long_to_end_is_made_smaller() {
        let whole = Transfer { stop_after_s: 0.3, ..Transfer::new((0, 1), 1 << 20, 1) };
        let mut rounds = Rounds::default();
        let part = |rounds: &Rounds, left_s| Some(rounds.fitted(&[whole], left_s)?[0].bytes);
        assert_eq!(part(&rounds, 0.35), Some(whole.bytes));
        rounds.note_asked(&[whole]);
        rounds.note_taken(0.6, false);
        assert_eq!(part(&rounds, 0.9), Some(whole.bytes));
        assert_eq!(part(&rounds, 0.35), Some(whole.bytes / 4));
        assert_eq!(part(&rounds, 0.2), None);
    }

    #[test]
    fn of_empty_messages_there_are_as_many_as_there_is_time_for() {
        let pings = [Transfer::new((0, 1), 0, 16), Transfer::new((0, 2), 0, 3)];
        let mut rounds = Rounds::default();
        rounds.note_asked(&pings);
        // A program that comes waits for their end.
        rounds.note_taken(0.36, true);
        let repetitions = |left_s| {
            let fitted = rounds.fitted(&pings, left_s)?;
            Some(fitted.iter().map(|ping| ping.repetitions).collect::<Vec<_>>())
        };
        assert_eq!(repetitions(0.4), Some(vec![16, 3]));
        assert_eq!(repetitions(0.2), Some(vec![6, 3]));
        assert_eq!(repetitions(0.14), Some(vec![2, 2]));
        assert_eq!(repetitions(0.12), None, "the first may have to connect");
    }

    #[test]
    fn what_a_round_takes_is_told_by_its_bytes_and_by_what_the_shortest_took() {
        let round = |bytes| [Transfer { stop_after_s: 9.0, ..Transfer::new((0, 1), bytes, 1) }];
        let mut rounds = Rounds::default();
        rounds.note_asked(&round(0));
        rounds.note_taken(0.08, false);
        rounds.note_asked(&round(1 << 20));
        rounds.note_taken(0.28, false);
        let twice_s = rounds.expected_s(&round(2 << 20));
        assert!((0.47..0.48).contains(&twice_s), "{twice_s} s");
        assert_eq!(rounds.expected_s(&round(1 << 30)), 9.0, "it is stopped then");
    }
}
