//! When to begin something while programs are at work: what fits into the rest of their pause at once, and what does
//! not only as far as they may be made to wait.

use crate::measurement::Seconds;
use std::time::Instant;

/// What a program waits at most when it finds the experiment at work, in seconds: the daemons' `hold_wait_max`
/// where nobody has set it otherwise.
const WAIT_S: Seconds = 0.25;
/// Of their time programs may be made to wait this part. At the beginning, when there is most to learn, they may be
/// made to wait as long as a native broadcast takes, up to this; what was not used of all that is kept as long.
const WAITING_PART: f64 = 0.01;
const MOST_CREDIT_S: Seconds = 4.0;
/// What fits into this part of a pause can wait for the next one.
const ROOMY: f64 = 0.8;
/// Pauses count as so much shorter while programs have waited too long, so that less is begun that they may meet.
const IN_DEBT: f64 = 0.5;
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
        Courtesy { debt_s: -WAIT_S, credit_s: WAIT_S, counted: None, free_since: None }
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
    }

    /// A program came while something was under way that took so long in all, and waited for its end.
    pub fn note_wait(&mut self, took_s: Seconds, now: Instant) {
        self.count(now);
        self.debt_s += took_s.clamp(0.0, WAIT_S);
    }

    fn count(&mut self, now: Instant) {
        let passed = self.counted.map(|counted| now.saturating_duration_since(counted));
        self.counted = Some(now);
        let passed_s = passed.unwrap_or_default().as_secs_f64();
        self.debt_s = (self.debt_s - WAITING_PART * passed_s).max(-self.credit_s);
    }

    /// Whether something may begin that `fits` into a time or not, where programs pause for `pause_s`, if they do:
    /// into what is left of this pause. What would fit into the next one waits for it, and all else begins as far
    /// as they may be made to wait for `expected_s`.
    pub fn may_begin(
        &mut self,
        expected_s: Seconds,
        pause_s: Option<Seconds>,
        now: Instant,
        fits: impl Fn(Seconds) -> bool,
    ) -> Permission {
        self.count(now);
        let (Some(pause_s), Some(free_since)) = (pause_s, self.free_since) else {
            return Permission::Begin;
        };
        let free_s = now.saturating_duration_since(free_since).as_secs_f64();
        let is_long = free_s > LONG_PAUSE * pause_s + LONG_PAUSE_S;
        let pause_s = if self.debt_s > 0.0 { IN_DEBT * pause_s } else { pause_s };
        if is_long {
            Permission::Begin
        } else if fits(pause_s - free_s) {
            Permission::Fit(pause_s - free_s)
        } else if fits(ROOMY * pause_s) {
            Permission::Wait
        } else if self.debt_s + expected_s.min(WAIT_S) <= 0.0 {
            Permission::Begin
        } else {
            Permission::NoRoom
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_fits_into_a_pause_begins_and_what_does_not_only_on_credit() {
        let start = Instant::now();
        let at = |s: f64| start + Duration::from_secs_f64(s);
        let mut courtesy = Courtesy::default();
        let permission = |courtesy: &mut Courtesy, expected_s: f64, pause_s, at_s| {
            courtesy.may_begin(expected_s, pause_s, at(at_s), |left_s| expected_s <= left_s)
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
        assert!(matches!(permission(&mut courtesy, 0.15, 0.2, 26.0), Permission::Fit(_)));
        courtesy.note_wait(0.2, at(26.0));
        courtesy.note_wait(0.2, at(26.0));
        assert_eq!(
            permission(&mut courtesy, 0.15, 0.2, 26.0),
            Permission::NoRoom,
            "pauses are not trusted"
        );
    }
}
