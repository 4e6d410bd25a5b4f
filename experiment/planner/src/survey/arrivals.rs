//! The rate of a link from when the bytes of a transfer came. A connection begins with a small window and
//! doubles it every round trip (slow start: V. Jacobson, "Congestion avoidance and control", 1988), so bytes
//! over time tell of TCP's start. But what is sent at once leaves the narrowest link at that link's rate
//! (C. Dovrolis, P. Ramanathan, D. Moore, "What do packet dispersion techniques measure?", 2001): so pauses
//! are left out, and the later half counts.

use crate::measurement::{Arrival, Seconds};

/// What comes faster than this (32 Gbit/s) was there when the receiver looked, which says when it looked and not
/// how fast it came.
const FOUND_AT_ONCE: f64 = 4e9;
/// The least part of a transfer over which its fastest rate is taken, and the time that tells one.
const WINDOW_PART: f64 = 1.0 / 8.0;
const WINDOW_S: Seconds = 2e-3;
/// Nothing came for this much longer than its bytes take: the sender waited for leave to send.
const PAUSE: f64 = 4.0;
const PAUSE_S: Seconds = 3e-3;
/// The last three quarters of a transfer whose rate no longer grows differ by less than this fraction. (A sender
/// that spreads what it sends goes by what arrived in a round trip before, and is even within each; but then the
/// first of these quarters is of an earlier round trip than the last: N. Cardwell et al., "BBR: Congestion-based
/// congestion control", 2016.)
const EVEN: f64 = 0.05;

/// The rate at which the later half of a transfer came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Steady {
    /// In bytes per second.
    pub rate: f64,
    /// How long bytes came without a pause in that half.
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

/// What the arrivals of one transfer tell; `None` where they are too few.
pub(super) fn steady(arrivals: &[Arrival]) -> Option<Steady> {
    let looks = looks(arrivals);
    let total: f64 = looks.iter().map(|look| look.bytes).sum();
    let (fastest, is_of_pauses) = fastest(&looks, WINDOW_PART * total)?;
    let is_pause = |look: &Look| look.seconds > PAUSE * look.bytes / fastest + PAUSE_S;
    // Bytes and time of the part of a transfer between two fractions of its bytes, without pauses.
    let busy = |from: f64, to: f64| {
        let (mut end, mut bytes, mut seconds) = (0.0, 0.0, 0.0);
        for look in &looks {
            let begin = end;
            end += look.bytes;
            let within = f64::min(end, to * total) - f64::max(begin, from * total);
            if within > 0.0 && !is_pause(look) {
                bytes += within;
                seconds += look.seconds * within / look.bytes;
            }
        }
        (bytes, seconds)
    };
    let rate = |(bytes, seconds): (f64, Seconds)| bytes / seconds.max(1e-9);
    let [second, third, last] = [0.25, 0.5, 0.75].map(|from| rate(busy(from, from + 0.25)));
    let is_like = |a: f64, b: f64| (a / b).ln().abs() < EVEN;
    // One look at more than a quarter does not tell what changed meanwhile.
    let is_seen = looks.iter().all(|look| look.bytes <= 0.25 * total);
    let is_even =
        is_seen && is_like(second, third) && is_like(third, last) && is_like(second, last);
    let later = busy(0.5, 1.0);
    (later.0 > 0.0).then(|| Steady {
        rate: rate(later).min(fastest),
        busy_s: later.1,
        is_even,
        is_of_pauses,
    })
}

/// What came after the first look.
fn looks(arrivals: &[Arrival]) -> Vec<Look> {
    let mut looks: Vec<Look> = Vec::new();
    for pair in arrivals.windows(2) {
        let bytes = (pair[1].bytes - pair[0].bytes) as f64;
        let seconds = (pair[1].seconds - pair[0].seconds).max(0.0);
        if bytes <= FOUND_AT_ONCE * seconds {
            looks.push(Look { bytes, seconds });
        } else if let Some(look) = looks.last_mut() {
            look.bytes += bytes;
            look.seconds += seconds;
        }
        // Else it is more of the first look, of which it is not known since when it came.
    }
    looks
}

/// The highest rate at which `width` bytes came in a row, and whether most of that time was a pause.
fn fastest(looks: &[Look], width: f64) -> Option<(f64, bool)> {
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

/// What transfers that run at once bring together, in the order in which it passed what they share.
pub(super) struct AtOnce {
    /// When, and how many bytes.
    steps: Vec<(Seconds, f64)>,
    /// From when the last has begun until the first ends.
    all_go_on: (Seconds, Seconds),
}

impl AtOnce {
    /// Each transfer's arrivals, with how long its bytes were under way since they passed what all share.
    pub fn new(all: &[(&[Arrival], Seconds)]) -> Self {
        let steps = |(arrivals, under_way_s): &(&[Arrival], Seconds)| {
            let step = |pair: &[Arrival]| {
                (pair[1].seconds - under_way_s, (pair[1].bytes - pair[0].bytes) as f64)
            };
            arrivals.windows(2).map(step).collect::<Vec<_>>()
        };
        let mut steps: Vec<(Seconds, f64)> = all.iter().flat_map(steps).collect();
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ends = |(arrivals, under_way_s): &(&[Arrival], Seconds)| {
            let at = |arrival: Option<&Arrival>| arrival.map(|a| a.seconds - under_way_s);
            Some((at(arrivals.first())?, at(arrivals.last())?))
        };
        let both = |all: (Seconds, Seconds), one: Option<(Seconds, Seconds)>| {
            // One that tells nothing does not go on.
            let (begins, ends) = one.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
            (all.0.max(begins), all.1.min(ends))
        };
        let all_go_on = all.iter().map(ends).fold((f64::NEG_INFINITY, f64::INFINITY), both);
        AtOnce { steps, all_go_on }
    }

    /// Of the later half of the time in which all go on, how long it is and what they reach in its first and
    /// second half, in bytes per second. `None` where there is no such time.
    pub fn while_all_go_on(&self) -> Option<(Seconds, [f64; 2])> {
        let (begins, ends) = self.all_go_on;
        let length_s = (ends - begins) / 2.0;
        let is_some = length_s > 0.0 && length_s.is_finite();
        let rate = |from: Seconds| {
            let within =
                self.steps.iter().filter(|(at, _)| (from..from + length_s / 2.0).contains(at));
            within.map(|(_, bytes)| bytes).sum::<f64>() / (length_s / 2.0)
        };
        is_some.then(|| (length_s, [rate(ends - length_s), rate(ends - length_s / 2.0)]))
    }

    /// The most that they reach for as long as `window_s`, in bytes per second. `None` where they are over
    /// before.
    pub fn rate(&self, window_s: Seconds) -> Option<f64> {
        let (mut first, mut bytes, mut most) = (0, 0.0, None);
        for last in 0..self.steps.len() {
            bytes += self.steps[last].1;
            // What came at the window's first moment was on its way before it.
            while first < last && self.steps[last].0 - self.steps[first + 1].0 >= window_s {
                bytes -= self.steps[first].1;
                first += 1;
            }
            let took_s = self.steps[last].0 - self.steps[first].0;
            if took_s >= window_s {
                let rate = (bytes - self.steps[first].1) / took_s;
                most = Some(f64::max(most.unwrap_or(0.0), rate));
            }
        }
        most
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
        assert_eq!(AtOnce::new(&[]).rate(1e-3), None);
        assert_eq!(AtOnce::new(&[(&slow_start(1 << 16, 1e-3), 0.0), (&[], 0.0)]).rate(1.0), None);
    }

    #[test]
    fn what_runs_at_once_adds_up() {
        let (fast, slow) = (slow_start(4 << 20, 20e-3), slow_start(2 << 20, 20e-3));
        let half: Vec<Arrival> =
            slow.iter().map(|a| Arrival { seconds: 2.0 * a.seconds + 0.3, ..*a }).collect();
        let at_once = AtOnce::new(&[(&fast, 0.0), (&half, 0.3)]);
        assert_rate(at_once.rate(0.05).unwrap(), 1.5 * RATE);
        let (length_s, [before, after]) = at_once.while_all_go_on().unwrap();
        assert!(0.1 < length_s && length_s < 0.2, "{length_s} s of 0.37");
        assert_rate(after, 1.5 * RATE);
        assert!(before < 1.01 * after);
        assert_eq!(AtOnce::new(&[(&fast, 0.0), (&[], 0.0)]).while_all_go_on(), None);
    }
}
