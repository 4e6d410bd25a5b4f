//! What measurements have cost, and whether another one may begin: no more than an operator allows of the time and
//! of the bytes.
//!
//! Each ceiling is a bucket that fills at the rate that is allowed (a token bucket, RFC 2697) and holds a tenth of
//! an hour's worth: what begins while something is left is paid to its end, so an hour takes at most a tenth more
//! than is allowed, and the last measurement.

use super::{Schedule, TELL_EVERY};
use crate::measurement::{Request, Seconds};
use arborcast_proto::Spending;
use std::time::Instant;

const SAVED_S: Seconds = 360.0;

/// What an operator allows; `None`: as much as there is to measure.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ceilings {
    /// The part of the time in which the network is used by measurements.
    pub time_share: Option<f64>,
    /// In an hour, of all nodes.
    pub bytes_per_hour: Option<u64>,
}

/// What measurements are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Links,
    Trials,
    Suspects,
    /// Trials in programs' broadcasts, as much as these take longer for it.
    Programs,
}

#[derive(Debug)]
struct Bucket {
    per_s: f64,
    left: f64,
}

impl Bucket {
    fn new(per_s: f64) -> Self {
        Bucket { per_s, left: per_s * SAVED_S }
    }

    fn fill(&mut self, passed_s: Seconds) {
        self.left = (self.left + self.per_s * passed_s).min(self.per_s * SAVED_S);
    }
}

#[derive(Debug)]
pub(super) struct Ledger {
    spending: Spending,
    time: Option<Bucket>,
    bytes: Option<Bucket>,
    began: Option<Instant>,
    filled: Option<Instant>,
    told: Option<Instant>,
    is_news: bool,
}

impl Ledger {
    pub fn new(ceilings: Ceilings) -> Self {
        let Ceilings { time_share, bytes_per_hour } = ceilings;
        Ledger {
            spending: Spending { time_share, bytes_per_hour, ..Spending::default() },
            time: time_share.map(Bucket::new),
            bytes: bytes_per_hour.map(|most| Bucket::new(most as f64 / 3600.0)),
            began: None,
            filled: None,
            told: None,
            is_news: false,
        }
    }

    /// Whether anything may be measured now.
    pub fn has_room(&mut self, now: Instant) -> bool {
        self.began.get_or_insert(now);
        let passed = now.saturating_duration_since(self.filled.replace(now).unwrap_or(now));
        let mut has_room = true;
        // All of them, whether or not one has none.
        for bucket in self.time.iter_mut().chain(&mut self.bytes) {
            bucket.fill(passed.as_secs_f64());
            has_room &= bucket.left > 0.0;
        }
        has_room
    }

    pub fn note(&mut self, purpose: Purpose, seconds: Seconds, bytes: u64) {
        let spent = match purpose {
            Purpose::Links => &mut self.spending.links,
            Purpose::Trials => &mut self.spending.trials,
            Purpose::Suspects => &mut self.spending.suspects,
            Purpose::Programs => &mut self.spending.programs,
        };
        spent.seconds += seconds;
        spent.bytes = spent.bytes.saturating_add(bytes);
        self.is_news = true;
        for (bucket, taken) in [(&mut self.time, seconds), (&mut self.bytes, bytes as f64)] {
            bucket.iter_mut().for_each(|bucket| bucket.left -= taken);
        }
    }

    /// What is to be told now: nothing where nothing is new, or something was told a moment ago.
    fn tell(&mut self, now: Instant) -> Option<Spending> {
        if !self.is_news || self.told.is_some_and(|told| now - told < TELL_EVERY) {
            return None;
        }
        (self.is_news, self.told) = (false, Some(now));
        let began = self.began.unwrap_or(now);
        let job_s = now.saturating_duration_since(began).as_secs_f64();
        Some(Spending { job_s, ..self.spending })
    }
}

/// The bytes that all nodes of a group send for a request.
pub(super) fn bytes_of(request: &Request, nodes: usize) -> u64 {
    match request {
        Request::Broadcast { bytes, .. } => bytes.saturating_mul(nodes.saturating_sub(1) as u64),
        Request::Transfers(round) => {
            round.iter().map(|transfer| transfer.bytes * u64::from(transfer.repetitions)).sum()
        }
    }
}

impl Schedule {
    /// What measurements have cost, where that is to be told to the daemons now.
    pub fn spending(&mut self, now: Instant) -> Option<Spending> {
        self.ledger.tell(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::Spent;
    use std::time::Duration;

    /// What is spent in an hour by measurements of one second and some bytes that begin as soon as they may.
    fn in_an_hour(ceilings: Ceilings, bytes: u64) -> Spent {
        let (mut ledger, start) = (Ledger::new(ceilings), Instant::now());
        let mut now_s = 0.0;
        while now_s < 3600.0 {
            let now = start + Duration::from_secs_f64(now_s);
            let may_begin = ledger.has_room(now);
            if may_begin {
                ledger.note(Purpose::Trials, 1.0, bytes);
            }
            now_s += if may_begin { 1.0 } else { 0.1 };
        }
        ledger.spending.all()
    }

    #[test]
    fn an_hour_takes_what_is_allowed_and_a_tenth_more_at_most() {
        assert!(in_an_hour(Ceilings::default(), 1).seconds >= 3599.0);
        let time = in_an_hour(Ceilings { time_share: Some(0.05), bytes_per_hour: None }, 1 << 20);
        assert!((180.0..=199.0).contains(&time.seconds), "{time:?}");
        let ceilings = Ceilings { time_share: Some(0.5), bytes_per_hour: Some(100 << 20) };
        let bytes = in_an_hour(ceilings, 1 << 20);
        assert!((100 << 20..=111 << 20).contains(&bytes.bytes), "{bytes:?}");
    }

    #[test]
    fn a_ceiling_that_is_reached_does_not_hold_back_the_other_one() {
        let ceilings = Ceilings { time_share: Some(0.001), bytes_per_hour: Some(3600) };
        let (mut ledger, start) = (Ledger::new(ceilings), Instant::now());
        assert!(ledger.has_room(start));
        // Of both, 640 s more than was saved up.
        ledger.note(Purpose::Trials, 1.0, 1000);
        let mut looks_s = (1..=10).map(|look| 100 * look);
        let first_s = looks_s.find(|&s| ledger.has_room(start + Duration::from_secs(s)));
        assert_eq!(first_s, Some(700));
    }

    #[test]
    fn what_is_spent_is_told_by_purpose_and_not_too_often() {
        let (mut ledger, start) = (Ledger::new(Ceilings::default()), Instant::now());
        let at = |s| start + Duration::from_secs(s);
        assert!(ledger.has_room(start) && ledger.tell(at(1)).is_none(), "nothing was spent");
        ledger.note(Purpose::Links, 0.5, 10);
        ledger.note(Purpose::Suspects, 0.25, 3);
        let told = ledger.tell(at(2)).expect("it is news");
        assert_eq!(told.links, Spent { seconds: 0.5, bytes: 10 });
        assert_eq!(told.suspects, Spent { seconds: 0.25, bytes: 3 });
        assert_eq!((told.trials, told.job_s), (Spent::default(), 2.0));
        ledger.note(Purpose::Trials, 1.0, 7);
        assert!(ledger.tell(at(4)).is_none(), "a moment ago");
        assert_eq!(
            ledger.tell(at(8)).expect("it is news").all(),
            Spent { seconds: 1.75, bytes: 20 }
        );
        assert!(ledger.tell(at(20)).is_none(), "nothing is new");
    }
}
