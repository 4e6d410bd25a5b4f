//! When to begin something while programs are at work: what fits into the rest of their pause at once, and what does
//! not only as far as they may be made to wait.

use super::pauses::Pauses;
use crate::measurement::Seconds;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What a program waits at most when it finds the experiment at work, in seconds: the daemons' `hold_wait_max`
/// where nobody has set it otherwise.
const WAIT_S: Seconds = 0.25;
/// Of their time programs may be made to wait this part. At the beginning, when there is most to learn, they may be
/// made to wait as long as a native broadcast takes, up to this; what was not used of all that is kept as long.
const WAITING_PART: f64 = 0.01;
const MOST_CREDIT_S: Seconds = 1.0;
/// So many of the pauses that one may still become are shorter than what is counted on.
const SHORTER: f64 = 0.25;
/// What fits into this part of a pause can wait for the next one.
const ROOMY: f64 = 0.8;
/// The network is free so long after a broadcast at most: daemons let holds linger, and words take their way.
const LATEST: Duration = Duration::from_secs(1);
/// Of so many times the least counts.
const ORDERS: usize = 8;
/// A program that has paused for this many times its usual pause, and so long, does something else now.
const LONG_PAUSE: f64 = 2.0;
const LONG_PAUSE_S: Seconds = 1.0;

/// What programs have been made to wait, and since when none holds the network.
#[derive(Debug)]
pub(super) struct Courtesy {
    /// What they have waited, less what they may; not below `-credit_s`.
    debt_s: Seconds,
    credit_s: Seconds,
    counted: Option<Instant>,
    free_since: Option<Instant>,
    /// When programs' last broadcast ended, and how much later than that the network was free of late: so much of a pause
    /// has gone by when the job hears of it.
    broadcast_ended: Option<Instant>,
    free_after_s: VecDeque<Seconds>,
    /// Until then nodes receive what its root has left behind.
    arrives_until: Option<Instant>,
    /// What begins now begins so much later.
    lead_s: Seconds,
}

/// Whether something may begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Permission {
    Begin,
    /// If it is over in this number of seconds.
    Fit(Seconds),
    /// It fits into the next pause.
    Wait,
    /// It fits into no pause, and programs have waited enough.
    NoRoom,
}

impl Default for Courtesy {
    fn default() -> Self {
        Courtesy {
            debt_s: -WAIT_S,
            credit_s: WAIT_S,
            counted: None,
            free_since: None,
            broadcast_ended: None,
            free_after_s: VecDeque::new(),
            arrives_until: None,
            lead_s: 0.0,
        }
    }
}

impl Courtesy {
    /// A native broadcast of a program takes so long, or longer.
    pub fn note_native(&mut self, at_least_s: Seconds) {
        let more_s = at_least_s.min(MOST_CREDIT_S) - self.credit_s;
        if more_s > 0.0 {
            self.credit_s += more_s;
            self.debt_s -= more_s;
        }
    }

    /// The last hold has ended.
    pub fn note_free(&mut self, now: Instant) {
        self.free_since = Some(now);
        self.note_order();
    }

    /// A broadcast of a program ended then at its root, and takes so much longer until all nodes have the message.
    pub fn note_broadcast(&mut self, ended: Instant, arrives_after_s: Seconds) {
        self.broadcast_ended = self.broadcast_ended.max(Some(ended));
        let arrives = ended + Duration::from_secs_f64(arrives_after_s);
        self.arrives_until = self.arrives_until.max(Some(arrives));
        self.note_order();
    }

    /// How long the job takes until it may begin: as long as its ranks take to get ready.
    pub fn note_lead(&mut self, lead_s: Seconds) {
        self.lead_s = lead_s;
    }

    fn note_order(&mut self) {
        let both = self.free_since.zip(self.broadcast_ended);
        let after = both.and_then(|(free, ended)| free.checked_duration_since(ended));
        self.free_after_s
            .extend(after.filter(|after| *after < LATEST).as_ref().map(Duration::as_secs_f64));
        if self.free_after_s.len() > ORDERS {
            self.free_after_s.pop_front();
        }
    }

    /// Word of a broadcast may come later than that the network is free: then it seems to be so after the one before.
    fn free_after_s(&self) -> Seconds {
        self.free_after_s.iter().copied().reduce(f64::min).unwrap_or(0.0)
    }

    /// A program came while something was under way, and waited so long for its end.
    pub fn note_wait(&mut self, waited_s: Seconds, now: Instant) {
        self.count(now);
        self.debt_s += waited_s.min(WAIT_S);
    }

    fn count(&mut self, now: Instant) {
        let passed = self.counted.map(|counted| now.saturating_duration_since(counted));
        self.counted = Some(now);
        let passed_s = passed.unwrap_or_default().as_secs_f64();
        self.debt_s = (self.debt_s - WAITING_PART * passed_s).max(-self.credit_s);
    }

    /// How long something may take for which the next pause is waited, where programs pause so.
    pub fn next_pause_s(&self, pauses: &Pauses) -> Seconds {
        ROOMY * pauses.long_s() - self.free_after_s() - self.lead_s - self.margin_s()
    }

    /// What programs have waited too long has been begun too late.
    fn margin_s(&self) -> Seconds {
        self.debt_s.max(0.0)
    }

    /// Whether something may begin that `fits` into a time or not, where programs pause, if they do: into what is
    /// left of this pause. What would fit into one that comes soon waits for it, and all else begins as far as they may
    /// be made to wait for `expected_s`; what `is_lost_if_met`, where they may be made to wait until it is over.
    pub fn may_begin(
        &mut self,
        expected_s: Seconds,
        pauses: Option<&Pauses>,
        now: Instant,
        is_lost_if_met: bool,
        fits: impl Fn(Seconds) -> bool,
    ) -> Permission {
        self.count(now);
        let (Some(pauses), Some(free_since)) = (pauses, self.free_since) else {
            return Permission::Begin;
        };
        if self.arrives_until.is_some_and(|until| now < until) {
            return Permission::Wait;
        }
        let since_s = |then| now.saturating_duration_since(then).as_secs_f64();
        let free_s = since_s(free_since) + self.free_after_s();
        let free_s = self.arrives_until.map_or(free_s, |until| free_s.min(since_s(until)));
        let margin_s = self.margin_s();
        let pause_s = pauses.lasts_s(free_s, if margin_s > 0.0 { 0.0 } else { SHORTER });
        let is_long = free_s > LONG_PAUSE * pause_s + LONG_PAUSE_S;
        let left_s = pause_s - free_s - self.lead_s - margin_s;
        let next_s = self.next_pause_s(pauses);
        let has_credit = self.debt_s + expected_s.min(WAIT_S) <= 0.0;
        let is_of_use = |left_s| !is_lost_if_met || expected_s <= left_s + WAIT_S;
        if is_long {
            Permission::Begin
        } else if fits(left_s) {
            Permission::Fit(left_s)
        } else if fits(next_s) {
            Permission::Wait
        } else if has_credit && is_of_use(left_s) {
            Permission::Begin
        } else if has_credit && is_of_use(next_s) {
            Permission::Wait
        } else {
            Permission::NoRoom
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_into_a_pause_begins_and_what_does_not_only_on_credit() {
        let start = Instant::now();
        let at = |s: f64| start + Duration::from_secs_f64(s);
        let mut courtesy = Courtesy::default();
        let permission = |courtesy: &mut Courtesy, expected_s: f64, pause_s, at_s| {
            let pauses = Pauses::of(pause_s);
            let fits = |left_s| expected_s <= left_s;
            courtesy.may_begin(expected_s, pauses.as_ref(), at(at_s), false, fits)
        };
        assert_eq!(permission(&mut courtesy, 9.0, None, 0.0), Permission::Begin, "nobody is there");
        courtesy.note_free(at(0.0));
        let mut waited = 0;
        courtesy.note_native(9.0);
        while permission(&mut courtesy, 0.3, Some(0.2), 0.1) == Permission::Begin {
            courtesy.note_wait(9.0, at(0.1));
            waited += 1;
        }
        assert_eq!(f64::from(waited) * WAIT_S, MOST_CREDIT_S, "nobody waits longer");
        let permission = |courtesy: &mut Courtesy, expected_s, pause_s, at_s| {
            permission(courtesy, expected_s, Some(pause_s), at_s)
        };
        assert!(matches!(permission(&mut courtesy, 0.05, 0.2, 0.1), Permission::Fit(_)), "it fits");
        assert_eq!(permission(&mut courtesy, 0.15, 0.2, 0.1), Permission::Wait, "into the next");
        assert_eq!(permission(&mut courtesy, 0.3, 0.2, 0.1), Permission::NoRoom);
        assert_eq!(permission(&mut courtesy, 0.3, 0.2, 1.5), Permission::Begin, "a long pause");
        courtesy.note_free(at(24.0));
        assert_eq!(permission(&mut courtesy, 0.3, 0.2, 24.0), Permission::NoRoom);
        courtesy.note_free(at(26.0));
        assert_eq!(
            permission(&mut courtesy, 0.3, 0.2, 26.0),
            Permission::Begin,
            "a hundredth of the time"
        );
        assert!(matches!(permission(&mut courtesy, 0.17, 0.2, 26.0), Permission::Fit(_)));
        courtesy.note_wait(0.2, at(26.0));
        courtesy.note_wait(0.2, at(26.0));
        assert_eq!(
            permission(&mut courtesy, 0.17, 0.2, 26.0),
            Permission::NoRoom,
            "pauses are not trusted"
        );
    }

    #[test]
    fn short_pauses_within_bursts_do_not_hide_the_long_ones_between_them() {
        let start = Instant::now();
        let at = |s: f64| start + Duration::from_secs_f64(s);
        let mut courtesy = Courtesy::default();
        courtesy.note_free(at(10.0));
        let pauses = Pauses::of([0.004, 0.5, 0.004, 0.5]);
        let mut permission = |at_s| {
            courtesy.may_begin(0.3, pauses.as_ref(), at(at_s), false, |left_s| left_s >= 0.3)
        };
        assert_eq!(permission(10.002), Permission::Wait, "the next one comes");
        assert!(matches!(permission(10.01), Permission::Fit(_)));
        assert_eq!(permission(10.3), Permission::Wait, "too late in this one");
    }

    #[test]
    fn a_pause_begins_when_all_nodes_have_the_message() {
        let start = Instant::now();
        let at = |s: f64| start + Duration::from_secs_f64(s);
        let mut courtesy = Courtesy::default();
        courtesy.note_free(at(10.1));
        courtesy.note_broadcast(at(10.0), 1.4);
        let permission = |courtesy: &mut Courtesy, at_s| {
            let pauses = Pauses::of([0.4]);
            courtesy.may_begin(0.1, pauses.as_ref(), at(at_s), false, |left_s| left_s >= 0.1)
        };
        assert_eq!(permission(&mut courtesy, 11.3), Permission::Wait);
        assert!(matches!(permission(&mut courtesy, 11.4), Permission::Fit(_)));
        assert_eq!(permission(&mut courtesy, 11.75), Permission::Wait);
    }

    #[test]
    fn what_would_be_lost_is_not_begun_on_credit_and_what_has_gone_of_a_pause_counts() {
        let start = Instant::now();
        let at = |s: f64| start + Duration::from_secs_f64(s);
        let permission = |courtesy: &mut Courtesy, is_lost, at_s| {
            let pauses = Pauses::of([0.2]);
            courtesy.may_begin(0.5, pauses.as_ref(), at(at_s), is_lost, |left_s| left_s >= 0.15)
        };
        let mut courtesy = Courtesy::default();
        courtesy.note_broadcast(at(9.0), 0.0);
        courtesy.note_free(at(10.0));
        assert!(matches!(permission(&mut courtesy, false, 10.01), Permission::Fit(_)));
        assert_eq!(permission(&mut courtesy, false, 10.1), Permission::Wait);
        courtesy.note_lead(0.05);
        assert_eq!(permission(&mut courtesy, true, 10.01), Permission::NoRoom);
        courtesy.note_lead(0.0);
        courtesy.note_broadcast(at(9.9), 0.0);
        courtesy.note_free(at(10.0));
        assert_eq!(permission(&mut courtesy, true, 10.01), Permission::NoRoom);
        assert_eq!(permission(&mut courtesy, false, 10.01), Permission::Begin);
    }
}
