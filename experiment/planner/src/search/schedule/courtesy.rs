//! When to begin something while programs are at work: what fits into the rest of their pause at once, and what does
//! not only as far as they may be made to wait.

use crate::measurement::Seconds;
use std::time::Instant;

/// What a program waits at most when it finds the experiment at work, in seconds: the daemons' `hold_wait_max`
/// where nobody has set it otherwise.
const WAIT_S: Seconds = 0.25;
/// Of their time programs may be made to wait this part; what was not used of it is kept up to this, which is
/// also there at the beginning, when there is most to learn.
const WAITING_PART: f64 = 0.01;
const MOST_CREDIT_S: Seconds = 1.0;
/// A program that has paused for this many times its usual pause, and so long, does something else now.
const LONG_PAUSE: f64 = 2.0;
const LONG_PAUSE_S: Seconds = 1.0;

/// What programs have been made to wait, and since when none holds the network.
#[derive(Debug, Default)]
pub(super) struct Courtesy {
    /// What they have waited, less what they may; not below `-MOST_CREDIT_S`.
    debt_s: Seconds,
    counted: Option<Instant>,
    free_since: Option<Instant>,
}

impl Courtesy {
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
        let counted = self.counted.get_or_insert_with(|| {
            self.debt_s = -MOST_CREDIT_S;
            now
        });
        let passed_s = now.saturating_duration_since(*counted).as_secs_f64();
        *counted = now;
        self.debt_s = (self.debt_s - WAITING_PART * passed_s).max(-MOST_CREDIT_S);
    }

    /// What is left of the programs' pause, if they pause for `pause_s`. `None` where they have gone on to something
    /// else, or are not there.
    pub fn left_s(&self, pause_s: Option<Seconds>, now: Instant) -> Option<Seconds> {
        let (pause_s, free_since) = (pause_s?, self.free_since?);
        let free_s = now.saturating_duration_since(free_since).as_secs_f64();
        let is_long = free_s > LONG_PAUSE * pause_s + LONG_PAUSE_S;
        (!is_long).then_some(pause_s - free_s)
    }

    /// Whether what takes about `expected_s` may begin, where programs pause for `pause_s`, if they do.
    pub fn may_begin(
        &mut self,
        expected_s: Seconds,
        pause_s: Option<Seconds>,
        now: Instant,
    ) -> bool {
        self.count(now);
        let fits = self.left_s(pause_s, now).is_none_or(|left_s| expected_s <= left_s);
        fits || self.debt_s + expected_s.min(WAIT_S) <= 0.0
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
        assert!(courtesy.may_begin(9.0, None, at(0.0)), "nobody is there");
        courtesy.note_free(at(0.0));
        let mut waited = 0;
        while courtesy.may_begin(0.3, Some(0.2), at(0.1)) {
            courtesy.note_wait(9.0, at(0.1));
            waited += 1;
        }
        assert_eq!(f64::from(waited) * WAIT_S, MOST_CREDIT_S, "nobody waits longer");
        assert!(courtesy.may_begin(0.05, Some(0.2), at(0.1)), "it fits");
        assert!(!courtesy.may_begin(0.15, Some(0.2), at(0.1)), "no longer");
        assert!(courtesy.may_begin(0.3, Some(0.2), at(1.5)), "a long pause");
        courtesy.note_free(at(24.0));
        assert!(!courtesy.may_begin(0.3, Some(0.2), at(24.0)));
        courtesy.note_free(at(26.0));
        assert!(courtesy.may_begin(0.3, Some(0.2), at(26.0)), "a hundredth of the time");
        courtesy.note_wait(0.1, at(26.0));
        assert!(!courtesy.may_begin(0.3, Some(0.2), at(26.0)));
        assert!(courtesy.may_begin(0.15, Some(0.04), at(26.0)), "what is short costs less");
    }
}
