//! What rounds of link measurements take, told by those before, and how one is made to fit into a pause.

use crate::measurement::{Seconds, Transfer};
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

/// The last rounds.
#[derive(Debug)]
pub(super) struct Rounds {
    /// The most bytes of a transfer in the last one, and what it took, or more than that where a program came.
    last: (f64, Seconds),
    /// What the shortest one has taken.
    least_s: Seconds,
    /// The most bytes of a transfer in the one that is asked for, and when it is stopped.
    asked: (f64, Seconds),
    /// What the last ones that were stopped took from then on.
    endings_s: VecDeque<Seconds>,
}

impl Default for Rounds {
    fn default() -> Self {
        Rounds {
            last: (0.0, A_ROUND_S),
            least_s: A_ROUND_S,
            asked: (0.0, f64::INFINITY),
            endings_s: VecDeque::from([AN_ENDING_S]),
        }
    }
}

impl Rounds {
    pub fn note_asked(&mut self, round: &[Transfer]) {
        self.asked = (most_bytes(round), stops_after_s(round));
    }

    /// The round that was asked for took so long, or a program came and ended it.
    pub fn note_taken(&mut self, spent_s: Seconds, is_disturbed: bool) {
        let (bytes, stop_s) = self.asked;
        let seconds = if is_disturbed { 2.0 * spent_s } else { spent_s };
        self.last = (bytes, seconds);
        self.least_s = self.least_s.min(seconds);
        if spent_s > stop_s {
            self.endings_s.push_back((spent_s - stop_s).min(LONGEST_ENDING_S));
        }
        if self.endings_s.len() > ENDINGS {
            self.endings_s.pop_front();
        }
    }

    /// What a round takes, roughly.
    pub fn expected_s(&self, round: &[Transfer]) -> Seconds {
        let (bytes, seconds) = self.last;
        let least_s = self.least_s.min(seconds);
        let part = (most_bytes(round) + SHORT_BYTES) / (bytes + SHORT_BYTES);
        (least_s + (seconds - least_s) * part).min(stops_after_s(round))
    }

    /// A round such that it is over after `left_s`; `None` where it would tell too little.
    pub fn fitted(&self, round: &[Transfer], left_s: Seconds) -> Option<Vec<Transfer>> {
        let ending_s = self.endings_s.iter().copied().fold(0.0, f64::max);
        fitted(round, self.expected_s(round), left_s, ending_s)
    }
}

/// A round that would take `expected_s`, such that it is over after `left_s`: where it would not be, shorter, and
/// stopped `ending_s` before.
fn fitted(
    round: &[Transfer],
    expected_s: Seconds,
    left_s: Seconds,
    ending_s: Seconds,
) -> Option<Vec<Transfer>> {
    if most_bytes(round) == 0.0 {
        return (expected_s <= left_s).then(|| round.to_vec());
    }
    let sends_s = left_s - ending_s;
    let part = (sends_s / expected_s).clamp(LEAST_PART, 1.0);
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

fn most_bytes(round: &[Transfer]) -> f64 {
    round.iter().map(|transfer| transfer.bytes).max().unwrap_or(0) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_cut_but_not_to_nothing() {
        let whole = Transfer { delay_s: 0.4, stop_after_s: 3.0, ..Transfer::new((0, 1), 1000, 1) };
        let cut = |left_s| fitted(&[whole], 2.0, left_s, 0.1).map(|round| round[0]);
        assert_eq!(cut(0.15), None, "too little time");
        assert_eq!(cut(9.0), Some(whole));
        assert_eq!(cut(2.6), Some(Transfer { stop_after_s: 2.5, ..whole }), "no longer");
        let half = Transfer { bytes: 500, delay_s: 0.2, stop_after_s: 1.0, ..whole };
        assert_eq!(cut(1.1), Some(half));
        let least = cut(0.3).map(|cut| cut.bytes);
        assert_eq!(least, Some(250), "stopped before all is sent");
        let ping = Transfer::new((0, 1), 0, 16);
        assert_eq!(fitted(&[ping], 2.0, 1.0, 0.1), None, "what cannot be cut");
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
