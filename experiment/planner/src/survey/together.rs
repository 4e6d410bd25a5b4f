//! Transfers that run at once: how many bytes tell, and whether they share something. While most of them go on, each
//! at a rate at which it comes alone, either all of that passes, or again and again only what they share. What came
//! while connections started or after packets were lost is left out.

use super::arrivals::{AtOnce, Passing, SHARED};
use super::links::{Links, Pair};
use crate::measurement::{Seconds, Transfer, TransferResult};

/// Transfers that are not slowed down while this part of their links' rates goes on at once share nothing.
const ALL_GO_ON: f64 = 0.95;
/// What passes more than this part of what the links carry may share nothing: connections that have lost a packet go
/// on at 0.7 of their windows (RFC 9438), and new ones come to no more for a while.
const HARDLY_SLOWED: f64 = 0.65;
/// What does not tell is made again with this many times the bytes, while all of it is not more than that.
const LONGER: f64 = 2.0;
const AT_ONCE_MAX_BYTES: f64 = 32e6;
/// How long transfers at once take at least, at their links' rates: so long, and a round trip, by which connections
/// start sooner or later than was thought.
const LEAST_S: Seconds = 0.2;
/// What passes is told in windows of this part of that, and of so long at least and at most: clocks agree to a few
/// milliseconds.
const WINDOW_PART: f64 = 0.1;
const LEAST_WINDOW_S: Seconds = 0.02;
const MOST_WINDOW_S: Seconds = 0.06;

/// What transfers tell that ran at once, and the most that passed in a row, in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Told {
    pub found: Together,
    pub most_passed: f64,
}

/// Whether transfers that ran at once share something.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Together {
    /// They share this.
    Shared(Passed),
    /// They share nothing.
    Apart,
    /// Too few of them went on at once to tell, or they were slowed down in other ways: this passed then.
    Unclear(Option<Passed>),
}

/// What passes while transfers slow each other down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Passed {
    /// In bytes per second.
    pub rate: f64,
    /// It is so much less than what their links carry that nothing else slows them down so far.
    pub is_clear: bool,
}

impl Passed {
    /// Of transfers whose links carry `of_all` at once.
    pub fn new(rate: f64, of_all: f64) -> Self {
        Passed { rate, is_clear: rate < HARDLY_SLOWED * of_all }
    }
}

impl Links {
    /// How long transfers at once that are to tell of `pairs` take at their links' rates, at least: as long as each
    /// alone took to tell its rate, and longer where several at once have not told `unclear` times what they share.
    pub fn while_s(&self, pairs: &[Pair], unclear: u32) -> Seconds {
        let rates: f64 = pairs.iter().map(|&pair| self.rate_of(pair)).sum();
        let told_s = |&pair: &Pair| self.telling(pair).0 as f64 / self.rate_of(pair);
        let round_trips_s = pairs.iter().filter_map(|&pair| self.round_trip_s(pair));
        let least_s = LEAST_S + round_trips_s.fold(0.0, f64::max);
        let while_s = pairs.iter().map(told_s).fold(least_s, f64::max);
        (while_s * LONGER.powi(unclear as i32)).min((AT_ONCE_MAX_BYTES / rates).max(while_s))
    }

    /// Bytes that take this long at the rate that `pair` reaches alone.
    pub fn bytes_in(&self, seconds: Seconds, pair: Pair) -> u64 {
        (self.rate_of(pair) * seconds).max(1024.0) as u64
    }

    /// How long a transfer takes alone, without its round trip: at the link's rate, and what its connection
    /// takes to start, a round trip more or less for each time that it has twice or half the bytes of the one
    /// that was measured, while it starts.
    pub fn alone_s(&self, bytes: u64, pair: Pair) -> Seconds {
        let (told_bytes, told_s) = self.telling(pair);
        let rate = self.rate_of(pair);
        let starting_s = (told_s - told_bytes as f64 / rate).max(0.0);
        let round_trip_s = self.round_trip_s(pair).unwrap_or(0.0);
        if starting_s < round_trip_s / 2.0 {
            return bytes as f64 / rate;
        }
        // A connection that has had twice what is under way at that rate has started.
        let starts = |bytes: u64| (bytes as f64).clamp(1.0, (2.0 * rate * round_trip_s).max(1.0));
        let doublings = (starts(bytes) / starts(told_bytes)).log2();
        bytes as f64 / rate + (starting_s + doublings * round_trip_s).max(0.0)
    }

    /// Whether transfers that ran at once share something, each of which is to tell of a `pair` and was
    /// `under_way_s` since it passed what they may share.
    pub fn together(
        &self,
        transfers: &[Transfer],
        results: &[TransferResult],
        pair: impl Fn(&Transfer) -> Pair,
        under_way_s: impl Fn(&Transfer) -> Seconds,
    ) -> Told {
        let all = || transfers.iter().zip(results);
        let passing = |(transfer, result)| {
            self.passing(transfer, result, pair(transfer), under_way_s(transfer))
        };
        let passing: Vec<Passing> = all().map(passing).collect();
        let at_rate_s =
            |(transfer, _): (&Transfer, _)| transfer.bytes as f64 / self.rate_of(pair(transfer));
        let longest_s = all().map(at_rate_s).fold(0.0, f64::max);
        let window_s = (WINDOW_PART * longest_s).clamp(LEAST_WINDOW_S, MOST_WINDOW_S);
        let at_once = AtOnce::new(&passing, window_s);
        let fastest = passing.iter().map(|transfer| transfer.rate).fold(0.0, f64::max);
        let of_all: f64 = passing.iter().map(|transfer| transfer.rate).sum();
        // What carries one of them carries as much of all: slowed down to less, they were not by what they share.
        let is_possible = |rate: &f64| *rate > SHARED * fastest;
        let found = match at_once.shared().filter(is_possible) {
            Some(rate) => Together::Shared(Passed::new(rate, of_all)),
            None if at_once.are_free_at(ALL_GO_ON * of_all) => Together::Apart,
            None => {
                let about = at_once.about_shared().filter(is_possible);
                Together::Unclear(about.map(|rate| Passed::new(rate.max(fastest), of_all)))
            }
        };
        Told { found, most_passed: at_once.most_in_a_row() }
    }

    /// One of transfers at once that is to tell of a `pair`.
    fn passing<'a>(
        &self,
        transfer: &Transfer,
        result: &'a TransferResult,
        pair: Pair,
        under_way_s: Seconds,
    ) -> Passing<'a> {
        let (told_bytes, _) = self.telling(pair);
        let steady_from = told_bytes.min(transfer.bytes) as f64 / 2.0;
        let arrivals = result.arrivals.as_slice();
        Passing { arrivals, under_way_s, rate: self.rate_of(pair), steady_from }
    }
}
