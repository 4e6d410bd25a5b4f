//! The rate of a link from when the bytes of a transfer came. A connection begins with a small window and
//! doubles it every round trip (slow start: V. Jacobson, "Congestion avoidance and control", 1988), so bytes
//! over time tell of TCP's start. But what is sent at once leaves the narrowest link at that link's rate
//! (C. Dovrolis, P. Ramanathan, D. Moore, "What do packet dispersion techniques measure?", 2001): so the rate is
//! that at which most pieces came, of the later ones; pauses, and what was held up on the way and came in a heap, are
//! left out.

use crate::measurement::{Arrival, Seconds};
use std::collections::BTreeMap;

/// What comes faster than this (32 Gbit/s) was there when the receiver looked, which says when it looked and not
/// how fast it came.
const FOUND_AT_ONCE: f64 = 4e9;
/// The part of a transfer over which its fastest rate is taken, and the time that tells one.
const WINDOW_PART: f64 = 1.0 / 8.0;
const WINDOW_S: Seconds = 2e-3;
/// What comes faster than that by this factor was found in a heap too. (Where windows stay narrow, that rate is one of
/// pauses, and the link is up to three times as fast.)
const HEAP: f64 = 4.0;
/// Bytes that tell a rate: so many packets that it makes little difference whether the last one is still in it.
const PIECE_BYTES: f64 = 10_000.0;
/// Pieces that came slower or faster than most by this factor were held up.
const HELD_UP: f64 = 2.0;
/// What comes before this part of a transfer may still be of a sender that spreads what it sends and speeds up.
const LATER: f64 = 0.25;
/// Nothing came for this much longer than the bytes of a transfer that may share its way take, and this long: the
/// sender waited for leave to send.
const PAUSE_AMONG_OTHERS: f64 = 4.0;
const PAUSE_S: Seconds = 3e-3;
/// The last three quarters of a transfer whose rate no longer grows differ by less than this fraction. (A sender
/// that spreads what it sends goes by what arrived in a round trip before, and is even within each; but then the
/// first of these quarters is of an earlier round trip than the last: N. Cardwell et al., "BBR: Congestion-based
/// congestion control", 2016.)
const EVEN: f64 = 0.15;
/// What passes less than this fraction of what could have is slowed down: busy processors make all of it a little
/// slower.
pub(super) const SHARED: f64 = 0.85;
/// What transfers share is told by so many windows at least that differ by no more than this factor.
const LEAST_WINDOWS: usize = 3;
const LEVEL: f64 = 1.08;
/// In so many windows in a row no more passes on average than what is shared, and this factor: what passes in fewer
/// may have waited for a receiver that was late.
const ROW: usize = 4;
const MORE: f64 = 1.1;
/// What a clock tells that went wrong comes to no more windows than this.
const MOST_WINDOWS: u32 = 10_000;
/// What comes faster than its link's rate by this factor waited for a packet before it that was lost, or for its
/// receiver.
const AT_LINK_RATE: f64 = 1.1;

/// The rate at which the later part of a transfer came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Steady {
    /// In bytes per second.
    pub rate: f64,
    /// How long bytes came at about that rate in that part.
    pub busy_s: Seconds,
    /// The rate no longer changed.
    pub is_even: bool,
    /// Bytes came in bursts too short to tell a rate, so that this one is of the pauses between them.
    pub is_of_pauses: bool,
}

/// What a receiver found when it looked: bytes, and how long after it had looked before, during which they came.
#[derive(Debug, Clone, Copy)]
struct Look {
    bytes: f64,
    seconds: Seconds,
}

impl Look {
    fn rate(&self) -> f64 {
        self.bytes / self.seconds.max(1e-9)
    }

    fn and(&self, later: &Look) -> Look {
        Look { bytes: self.bytes + later.bytes, seconds: self.seconds + later.seconds }
    }

    /// Nothing came for a while, of bytes that come at this rate.
    fn is_pause(&self, rate: f64) -> bool {
        self.seconds > PAUSE_AMONG_OTHERS * self.bytes / rate + PAUSE_S
    }
}

/// What the arrivals of one transfer tell; `None` where they are too few.
pub(super) fn steady(arrivals: &[Arrival]) -> Option<Steady> {
    let timed_looks = |at_most: f64| {
        let mut looks = looks(arrivals, at_most);
        looks.retain(|look| look.bytes <= at_most * look.seconds);
        looks
    };
    let total = |looks: &[Look]| looks.iter().map(|look| look.bytes).sum::<f64>();
    let in_heaps = timed_looks(FOUND_AT_ONCE);
    let (fastest, is_of_pauses) = fastest_in_a_row(&in_heaps, WINDOW_PART * total(&in_heaps))?;
    let pieces = pieces(&timed_looks(HEAP * fastest));
    let total = total(&pieces);
    let usual = usual_rate(&pieces, LATER * total)?;
    // Bytes and time of the part of a transfer between two fractions of its bytes, of pieces that were not held up.
    let at_rate = |from: f64, to: f64| {
        let mut part = Look { bytes: 0.0, seconds: 0.0 };
        for (end, piece) in with_ends(&pieces) {
            let begin = end - piece.bytes;
            let within = f64::min(end, to * total) - f64::max(begin, from * total);
            if within > 0.0 && (piece.rate() / usual).ln().abs() <= HELD_UP.ln() {
                part = part
                    .and(&Look { bytes: within, seconds: piece.seconds * within / piece.bytes });
            }
        }
        part
    };
    let [second, third, last] = [0.25, 0.5, 0.75].map(|from| at_rate(from, from + 0.25).rate());
    let is_like = |a: f64, b: f64| (a / b).ln().abs() < EVEN;
    // One piece of more than a quarter does not tell what changed meanwhile.
    let is_seen = pieces.iter().all(|piece| piece.bytes <= 0.25 * total);
    let is_even =
        is_seen && is_like(second, third) && is_like(third, last) && is_like(second, last);
    let later = at_rate(LATER, 1.0);
    (later.bytes > 0.0).then(|| Steady {
        rate: later.rate(),
        busy_s: later.seconds,
        is_even,
        is_of_pauses,
    })
}

/// Looks in a row, as many as tell a rate.
fn pieces(looks: &[Look]) -> Vec<Look> {
    let mut pieces: Vec<Look> = Vec::new();
    for look in looks {
        match pieces.last_mut() {
            Some(last) if last.bytes < PIECE_BYTES => *last = last.and(look),
            _ => pieces.push(*look),
        }
    }
    pieces
}

/// Each piece with how many bytes had come at its end.
fn with_ends(pieces: &[Look]) -> impl Iterator<Item = (f64, &Look)> {
    pieces.iter().scan(0.0, |end, piece| {
        *end += piece.bytes;
        Some((*end, piece))
    })
}

/// Half of the bytes that came after the first `from` came in pieces no faster than this.
fn usual_rate(pieces: &[Look], from: f64) -> Option<f64> {
    let mut later: Vec<&Look> =
        with_ends(pieces).filter(|(end, _)| *end > from).map(|(_, piece)| piece).collect();
    later.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    let mut left = later.iter().map(|piece| piece.bytes).sum::<f64>() / 2.0;
    let reaches_half = |piece: &&&Look| {
        left -= piece.bytes;
        left <= 0.0
    };
    later.iter().find(reaches_half).map(|piece| piece.rate())
}

/// What came after the first look. What came faster than `at_most`, in bytes per second, was there before it was
/// found: it came since an earlier look. So only the first may be faster, of which it is not known since when it came.
fn looks(arrivals: &[Arrival], at_most: f64) -> Vec<Look> {
    let mut looks: Vec<Look> = Vec::new();
    for pair in arrivals.windows(2) {
        let bytes = (pair[1].bytes - pair[0].bytes) as f64;
        let seconds = (pair[1].seconds - pair[0].seconds).max(0.0);
        let mut look = Look { bytes, seconds };
        while look.bytes > at_most * look.seconds
            && let Some(before) = looks.pop()
        {
            look = before.and(&look);
        }
        looks.push(look);
    }
    looks
}

/// The highest rate at which `width` bytes came in a row, and whether most of that time was a pause.
fn fastest_in_a_row(looks: &[Look], width: f64) -> Option<(f64, bool)> {
    let mut fastest: Option<(f64, bool)> = None;
    let (mut end, mut bytes, mut seconds) = (0, 0.0, 0.0);
    for begin in 0..looks.len() {
        while end < looks.len() && (bytes < width || seconds < WINDOW_S) {
            bytes += looks[end].bytes;
            seconds += looks[end].seconds;
            end += 1;
        }
        // A window that the transfer's end cuts short counts only where no other is left.
        if seconds >= WINDOW_S && (bytes >= width || fastest.is_none()) {
            let rate = bytes / seconds;
            if fastest.is_none_or(|(most, _)| rate > most) {
                let longest_s =
                    looks[begin..end].iter().map(|look| look.seconds).fold(0.0, f64::max);
                fastest = Some((rate, longest_s > seconds / 2.0));
            }
        }
        bytes -= looks[begin].bytes;
        seconds -= looks[begin].seconds;
    }
    fastest
}

/// A transfer among others that run at once.
pub(super) struct Passing<'a> {
    pub arrivals: &'a [Arrival],
    /// How long its bytes were under way since they passed what all share.
    pub under_way_s: Seconds,
    /// What its link carries, in bytes per second.
    pub rate: f64,
    /// From so many of its bytes on it comes at that rate where it is alone, but for pauses.
    pub steady_from: f64,
}

/// What transfers that run at once bring together, in windows of equal length in the order in which it passed what
/// they share.
pub(super) struct AtOnce {
    windows: Vec<Window>,
}

/// So many bytes per second passed, and so many would have passed of those transfers that went on, had nothing
/// slowed them down.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    passed: f64,
    possible: f64,
}

impl AtOnce {
    pub fn new(all: &[Passing], window_s: Seconds) -> Self {
        let mut windows: BTreeMap<u32, Window> = BTreeMap::new();
        for transfer in all {
            transfer.each_look(|from_s, to_s, bytes, is_steady| {
                let number = |at_s: Seconds| ((at_s / window_s) as u32).min(MOST_WINDOWS);
                for number in number(from_s)..=number(to_s) {
                    let begin_s = f64::from(number) * window_s;
                    let within_s = (to_s.min(begin_s + window_s) - from_s.max(begin_s)).max(0.0);
                    let part = if to_s > from_s { within_s / (to_s - from_s) } else { 1.0 };
                    let window = windows.entry(number).or_default();
                    window.passed += part * bytes / window_s;
                    window.possible +=
                        if is_steady { transfer.rate * within_s / window_s } else { 0.0 };
                }
            });
        }
        AtOnce { windows: windows.into_values().collect() }
    }

    /// What passed in each window in which more could have, in ascending order.
    fn slowed(&self) -> Vec<f64> {
        let slowed = self.windows.iter().filter(|window| window.is_slowed());
        let mut passed: Vec<f64> = slowed.map(|window| window.passed).collect();
        passed.sort_by(f64::total_cmp);
        passed
    }

    /// What they share, in bytes per second: where more could have passed, the same did again and again, and nowhere did
    /// more. `None` where that was not seen.
    pub fn shared(&self) -> Option<f64> {
        let slowed = self.slowed();
        // The level at which most of them lie, the higher one of two.
        let at = |first: usize| {
            let level = slowed[first..].iter().take_while(|&&rate| rate < LEVEL * slowed[first]);
            (level.count(), first)
        };
        let (count, first) = (0..slowed.len()).map(at).max()?;
        let is_level = count >= LEAST_WINDOWS.max(slowed.len() / 4);
        let level = slowed[first + count / 2];
        (is_level && !is_more(self.most_in_a_row(), level)).then_some(level)
    }

    /// The most that passed in some windows in a row, in bytes per second; 0 of fewer windows.
    pub fn most_in_a_row(&self) -> f64 {
        let mean =
            |row: &[Window]| row.iter().map(|window| window.passed).sum::<f64>() / ROW as f64;
        self.windows.windows(ROW).map(mean).fold(0.0, f64::max)
    }

    /// What passed where more could have, in bytes per second, as far as that was seen at all.
    pub fn about_shared(&self) -> Option<f64> {
        let slowed = self.slowed();
        (slowed.len() >= LEAST_WINDOWS).then(|| slowed[slowed.len() * 3 / 4])
    }

    /// Whether most of what passed was not slowed down while at least this could have passed, in bytes per second, or
    /// did.
    pub fn are_free_at(&self, possible: f64) -> bool {
        let is_at = |window: &&Window| window.possible.max(window.passed) >= possible;
        let at = || self.windows.iter().filter(is_at);
        let free = at().filter(|window| !window.is_slowed()).count();
        free >= LEAST_WINDOWS && 2 * free > at().count()
    }
}

/// Whether what passed in a row is more than transfers can have that share so much.
pub(super) fn is_more(passed_in_a_row: f64, shared: f64) -> bool {
    passed_in_a_row >= MORE * shared
}

impl Window {
    fn is_slowed(&self) -> bool {
        self.passed < SHARED * self.possible
    }
}

impl Passing<'_> {
    /// Calls with when each look began and ended at what they share, what it found, and whether it would have come
    /// at the link's rate alone.
    fn each_look(&self, mut each: impl FnMut(Seconds, Seconds, f64, bool)) {
        let Some(first) = self.arrivals.first() else { return };
        let (mut came, mut at_s) = (first.bytes as f64, first.seconds);
        for look in looks(self.arrivals, AT_LINK_RATE * self.rate) {
            let is_steady = came >= self.steady_from && !look.is_pause(self.rate);
            let from_s = at_s - self.under_way_s;
            each(from_s, from_s + look.seconds, look.bytes, is_steady);
            came += look.bytes;
            at_s += look.seconds;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT_BYTES: u64 = 4096;
    const RATE: f64 = 12.5e6;

    /// What comes over a link of [`RATE`] when windows from ten packets on are doubled every round trip.
    fn slow_start(bytes: u64, round_trip_s: Seconds) -> Vec<Arrival> {
        let (mut window, mut arrivals, mut sent, mut at_s) = (14_600.0, Vec::new(), 0.0, 0.0);
        while sent < bytes as f64 {
            let burst = f64::min(window, bytes as f64 - sent);
            let segments = (burst / SEGMENT_BYTES as f64).ceil() as u64;
            for i in 1..=segments {
                let bytes = sent as u64 + i * SEGMENT_BYTES;
                let seconds = at_s + (i * SEGMENT_BYTES) as f64 / RATE;
                arrivals.push(Arrival { bytes, seconds });
            }
            sent += (segments * SEGMENT_BYTES) as f64;
            at_s += f64::max(round_trip_s, burst / RATE);
            window *= 2.0;
        }
        arrivals
    }

    /// Looks of so many bytes over a link of [`RATE`], with a pause after each burst of them.
    fn bursts(looks: u64, looked_bytes: u64, burst: u64, pause_s: Seconds) -> Vec<Arrival> {
        let arrival = |i: u64| {
            let seconds = (i * looked_bytes) as f64 / RATE + (i / burst) as f64 * pause_s;
            Arrival { bytes: i * looked_bytes, seconds }
        };
        (1..looks).map(arrival).collect()
    }

    fn assert_rate(found: f64, truth: f64) {
        assert!((found / truth - 1.0).abs() < 0.05, "{found} for {truth}");
    }

    #[test]
    fn the_link_is_told_from_the_start_of_tcp() {
        for round_trip_s in [1e-3, 20e-3, 100e-3, 250e-3] {
            let arrivals = slow_start(1 << 20, round_trip_s);
            let found = steady(&arrivals).unwrap();
            assert_rate(found.rate, RATE);
            let over_time = (1 << 20) as f64 / arrivals.last().unwrap().seconds;
            assert!(round_trip_s < 0.1 || over_time < 0.2 * RATE, "{over_time} B/s");
        }
    }

    #[test]
    fn a_window_that_is_a_little_too_small_does_not_make_the_link_slower() {
        // Of each 55 ms the sender waits for 10.
        let (looked_bytes, burst) = (32 << 10, 18);
        let arrivals = bursts(100, looked_bytes, burst, 10e-3);
        let found = steady(&arrivals).unwrap();
        assert_rate(found.rate, RATE);
        assert!(found.is_even);
    }

    #[test]
    fn a_window_that_stays_far_too_small_does_not_make_the_link_slower() {
        // HyStart has ended slow start early: seven looks a round trip of 45 ms, an eighth of all has more than a round
        // trip in it.
        let (looked_bytes, burst, pause_s) = (32 << 10, 7, 26e-3);
        let arrivals = bursts(100, looked_bytes, burst, pause_s);
        assert_rate(steady(&arrivals).unwrap().rate, RATE);
    }

    #[test]
    fn pauses_as_short_as_a_few_looks_do_not_make_the_link_slower() {
        // What is under way has come apart into blocks, as where ways are now longer, now shorter.
        let (looked_bytes, burst, pause_s) = (8 << 10, 6, 3e-3);
        let arrivals = bursts(128, looked_bytes, burst, pause_s);
        let found = steady(&arrivals).unwrap();
        assert_rate(found.rate, RATE);
        assert!(found.is_even);
    }

    #[test]
    fn a_sender_that_still_speeds_up_is_not_even() {
        let faster =
            |i: u64| Arrival { bytes: i * SEGMENT_BYTES, seconds: (i as f64).sqrt() * 0.05 };
        let arrivals: Vec<Arrival> = (1..64).map(faster).collect();
        assert!(!steady(&arrivals).unwrap().is_even);
    }

    #[test]
    fn a_receiver_that_reads_in_heaps_sees_the_same_rate() {
        let mut arrivals = slow_start(1 << 20, 1e-3);
        for (i, arrival) in arrivals.iter_mut().enumerate() {
            // Away for 2.5 ms of every 5 ms.
            let phase = arrival.seconds % 5e-3;
            arrival.seconds += if phase < 2.5e-3 { 2.5e-3 - phase } else { 0.0 } + i as f64 * 1e-9;
        }
        assert_rate(steady(&arrivals).unwrap().rate, RATE);
    }

    #[test]
    fn a_receiver_that_comes_late_does_not_tell_of_its_memory() {
        let mut arrivals = slow_start(1 << 20, 1e-3);
        let half = arrivals.len() / 2;
        let end_s = arrivals.last().unwrap().seconds;
        for (i, arrival) in arrivals[half..].iter_mut().enumerate() {
            arrival.seconds = end_s + i as f64 * 1e-9;
        }
        let found = steady(&arrivals).unwrap().rate;
        assert!(found < 1.5 * RATE, "{found} B/s");
    }

    #[test]
    fn a_receiver_that_was_away_for_most_of_it_tells_what_came_meanwhile() {
        // As seen beside a program that broadcasts: a few pieces, nothing for 45 ms, then all that had come.
        let mut arrivals = slow_start(1 << 20, 1e-3);
        let back_s = 0.9 * arrivals.last().unwrap().seconds;
        for (i, arrival) in arrivals.iter_mut().enumerate().skip(4) {
            arrival.seconds = arrival.seconds.max(back_s + i as f64 * 4e-8);
        }
        let found = steady(&arrivals).unwrap();
        assert_rate(found.rate, RATE);
        assert!(!found.is_even, "what changed meanwhile was not seen");
    }

    #[test]
    fn too_few_arrivals_tell_nothing() {
        assert_eq!(steady(&[]), None);
        assert_eq!(steady(&[Arrival { bytes: 10, seconds: 0.1 }]), None);
    }

    /// What passes a link of [`RATE`] that two transfers share, each of which alone would come at that rate, or that
    /// each has to itself.
    fn two_at_once(slower: f64) -> AtOnce {
        let one = slow_start(4 << 20, 20e-3);
        let one: Vec<Arrival> =
            one.iter().map(|a| Arrival { seconds: slower * a.seconds, ..*a }).collect();
        let later: Vec<Arrival> =
            one.iter().map(|a| Arrival { seconds: a.seconds + 0.15, ..*a }).collect();
        let passing =
            |arrivals, under_way_s| Passing { arrivals, under_way_s, rate: RATE, steady_from: 1e6 };
        AtOnce::new(&[passing(&one, 0.0), passing(&later, 0.1)], 0.02)
    }

    #[test]
    fn what_two_share_is_told_from_when_both_go_on() {
        assert_rate(two_at_once(2.0).shared().unwrap(), RATE);
        assert!(!two_at_once(2.0).are_free_at(1.5 * RATE));
        assert_eq!(two_at_once(1.0).shared(), None);
        assert!(two_at_once(1.0).are_free_at(1.95 * RATE));
        assert_eq!(AtOnce::new(&[], 0.02).shared(), None);
    }

    #[test]
    fn what_passes_at_last_was_not_shared_before() {
        let at_rate = |from_s: Seconds, rate: f64, seconds: Seconds| {
            let looks = (rate * seconds) as u64 / SEGMENT_BYTES;
            (0..looks).map(move |i| from_s + (i * SEGMENT_BYTES) as f64 / rate)
        };
        let arrivals = |at_s: Vec<Seconds>| -> Vec<Arrival> {
            let bytes = (0..).map(|i| i * SEGMENT_BYTES);
            bytes.zip(at_s).map(|(bytes, seconds)| Arrival { bytes, seconds }).collect()
        };
        let told = |faster_s: Seconds| {
            let even = arrivals(at_rate(0.0, RATE, 0.1 + faster_s).collect());
            let starts_late = at_rate(0.0, 0.35 * RATE, 0.1).chain(at_rate(0.1, RATE, faster_s));
            let starts_late = arrivals(starts_late.collect());
            let passing =
                |arrivals| Passing { arrivals, under_way_s: 0.0, rate: RATE, steady_from: 0.0 };
            AtOnce::new(&[passing(&even), passing(&starts_late)], 0.02).shared()
        };
        assert_rate(told(0.0).unwrap(), 1.35 * RATE);
        assert_eq!(told(0.1), None);
    }

    #[test]
    fn a_link_that_is_faster_than_it_seemed_alone_takes_its_part() {
        let arrivals = slow_start(4 << 20, 1e-3);
        let rate = RATE / 1.2;
        let passing = Passing { arrivals: &arrivals, under_way_s: 0.0, rate, steady_from: 1e6 };
        let passed: Vec<f64> =
            AtOnce::new(&[passing], 0.02).windows.iter().map(|w| w.passed).collect();
        let sum: f64 = passed.iter().map(|rate| 0.02 * rate).sum();
        let came = (arrivals[arrivals.len() - 1].bytes - arrivals[0].bytes) as f64;
        assert!((sum / came - 1.0).abs() < 0.01, "{sum} of {came} B");
        assert_rate(passed[passed.len() / 2], RATE);
    }

    #[test]
    fn clocks_that_go_wrong_hold_nothing_up() {
        let at = |bytes, seconds| Arrival { bytes, seconds };
        let arrivals = [at(0, -1e9), at(4096, 1.0), at(8192, 1e300), at(9000, f64::INFINITY)];
        let passing =
            Passing { arrivals: &arrivals, under_way_s: 0.1, rate: RATE, steady_from: 0.0 };
        assert_eq!(AtOnce::new(&[passing], 0.02).shared(), None);
    }

    #[test]
    fn what_waits_for_a_lost_packet_did_not_come_faster_than_its_link() {
        let mut late = slow_start(4 << 20, 20e-3);
        let lost_s = late[late.len() / 2].seconds;
        for arrival in &mut late {
            let is_held_up = (lost_s..lost_s + 0.05).contains(&arrival.seconds);
            arrival.seconds = if is_held_up { lost_s + 0.05 } else { arrival.seconds };
        }
        let passing = Passing { arrivals: &late, under_way_s: 0.0, rate: RATE, steady_from: 1e6 };
        let most =
            AtOnce::new(&[passing], 0.02).windows.iter().map(|w| w.passed).fold(0.0, f64::max);
        assert!(most < 1.2 * RATE, "{most} B/s");
    }
}
