//! Transfers that run at once: how many bytes tell, and whether they share something. Where together they reach
//! less than each alone, they share, unless it was packets lost on the way, or a new connection.

use super::arrivals::AtOnce;
use super::links::{Links, Pair};
use crate::measurement::{Arrival, Seconds, Transfer, TransferResult};

/// What reaches less than this fraction of its parts' sum is shared, if its parts also take much longer than
/// alone, or longer while they no longer get faster: connections that start reach less than their links carry,
/// alone as well, and busy processors make all of them a little slower.
pub(super) const SHARED: f64 = 0.85;
const SLOWER: f64 = 1.1;
const MUCH_SLOWER: f64 = 1.5;
/// What does not tell is made again with this many times the bytes, while all of it is not more than that.
const LONGER: f64 = 4.0;
const AT_ONCE_MAX_BYTES: f64 = 32e6;
/// Transfers at once reach this part of what they reach in a while in twice that, if they no longer start.
const EVEN: f64 = 0.9;
const EVEN_ROUND_TRIPS: f64 = 2.0;
/// How long transfers at once take at least, at their links' rates: a round trip, and so long.
const LEAST_S: Seconds = 0.08;
/// The part of the time for which they send at least in which they reach what they share.
const REACHED: f64 = 0.75;

/// What transfers tell that ran at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Together {
    /// They reached this, in bytes per second, which is less than what their links carry, and took longer
    /// than alone without getting faster.
    Shared(f64),
    /// They reached what their links carry.
    Apart,
    /// They reached this, and were over before their connections had started; alone they would have reached no
    /// more.
    Unclear(f64),
}

impl Links {
    /// How long transfers at once that are to tell of `pairs` take at their links' rates, at least: longer where
    /// several at once have not told `unclear` times what they share.
    pub fn while_s(&self, pairs: &[Pair], unclear: u32) -> Seconds {
        let rates: f64 = pairs.iter().map(|&pair| self.rate_of(pair)).sum();
        let by_rate = |a: &&Pair, b: &&Pair| self.rate_of(**a).total_cmp(&self.rate_of(**b));
        let told_s = pairs.iter().max_by(by_rate).map_or(0.0, |&fastest| {
            let (bytes, _) = self.telling(fastest);
            bytes as f64 / self.rate_of(fastest)
        });
        let round_trip_s = self.longest_round_trip_s(pairs.iter().copied());
        let while_s = told_s.max(round_trip_s).max(LEAST_S);
        (while_s * LONGER.powi(unclear as i32)).min((AT_ONCE_MAX_BYTES / rates).max(while_s))
    }

    fn longest_round_trip_s(&self, pairs: impl Iterator<Item = Pair>) -> Seconds {
        pairs.filter_map(|pair| self.round_trip_s(pair)).fold(0.0, f64::max)
    }

    /// Bytes that take this long at the rate that `pair` reaches alone.
    pub fn for_a_while(&self, from: usize, to: usize, pair: Pair, while_s: Seconds) -> Transfer {
        Transfer::new((from, to), (self.rate_of(pair) * while_s).max(1024.0) as u64, 1)
    }

    /// How long a transfer takes alone, without its round trip: at the link's rate, and what its connection
    /// takes to start, a round trip more or less for each time that it has twice or half the bytes of the one
    /// that was measured.
    pub fn alone_s(&self, bytes: u64, pair: Pair) -> Seconds {
        let (told_bytes, told_s) = self.telling(pair);
        let rate = self.rate_of(pair);
        let starting_s = (told_s - told_bytes as f64 / rate).max(0.0);
        let round_trip_s = self.round_trip_s(pair).unwrap_or(0.0);
        if starting_s < round_trip_s / 2.0 {
            return bytes as f64 / rate;
        }
        let doublings = (bytes.max(1) as f64 / told_bytes.max(1) as f64).log2();
        bytes as f64 / rate + (starting_s + doublings * round_trip_s).max(0.0)
    }

    /// Whether transfers that ran at once share something, each of which is to tell of a `pair` and was
    /// `under_way_s` since it passed what they may share. Their links together carry `expected`.
    pub fn together(
        &self,
        transfers: &[Transfer],
        results: &[TransferResult],
        pair: impl Fn(&Transfer) -> Pair,
        under_way_s: impl Fn(&Transfer) -> Seconds,
        expected: f64,
    ) -> Together {
        let busy_s = |(transfer, result): (&Transfer, &TransferResult)| {
            self.sending_s(pair(transfer), transfer, result)
        };
        let all = || transfers.iter().zip(results);
        let link_rate = |transfer: &Transfer| self.rate_of(pair(transfer));
        let Some(fastest) = all().max_by(|a, b| link_rate(a.0).total_cmp(&link_rate(b.0))) else {
            return Together::Unclear(0.0);
        };
        let arrivals: Vec<(&[Arrival], Seconds)> =
            all().map(|(t, r)| (r.arrivals.as_slice(), under_way_s(t))).collect();
        let bytes = all().map(|(transfer, result)| result.bytes_of(transfer) as f64).sum::<f64>();
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
        let alone_s: Seconds =
            all().map(|(t, result)| self.alone_s(result.bytes_of(t), pair(t))).sum();
        // Connections that start reach ever more in each round trip.
        let round_trips_s =
            EVEN_ROUND_TRIPS * self.longest_round_trip_s(transfers.iter().map(&pair));
        let is_even = in_s(2.0 * least_s) > EVEN * most
            || least_s > round_trips_s && most > EVEN * in_s(least_s / 2.0);
        let is_held_back = at_once.while_all_go_on().is_some_and(|(length_s, [before, after])| {
            length_s > round_trips_s
                && before.max(after) < SHARED * expected
                && before > EVEN * after
        });
        let is_slower = is_even && together_s > SLOWER * alone_s;
        if together_s > MUCH_SLOWER * alone_s || is_slower || is_held_back {
            Together::Shared(rate)
        } else {
            Together::Unclear(rate)
        }
    }
}
