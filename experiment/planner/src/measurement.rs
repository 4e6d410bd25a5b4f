//! What is asked of a network and what it answers: broadcasts of a plan, and transfers between nodes.
//! The experiment job carries it out over MPI, [`crate::search::converge`] on the simulator.

use arborcast_proto::Plan;
use serde::{Deserialize, Serialize};

/// Seconds.
pub type Seconds = f64;

/// Repetitions of a trial.
const MIN_REPETITIONS: u32 = 3;
const MAX_REPETITIONS: u32 = 15;
/// A trial's median is known well enough when the middle half of its samples lies within this part
/// of it.
const SPREAD_ENOUGH: f64 = 0.05;
/// Of a transfer, where its bytes are enough for that many.
const SEGMENTS: u64 = 128;
const MIN_SEGMENT_BYTES: u64 = 4 << 10;
const MAX_SEGMENT_BYTES: u64 = 32 << 10;
/// Repetitions that have taken longer than this are enough, pauses included, and even where they are fewer than
/// they should be without: what is long is disturbed less.
pub const TRIAL_S: Seconds = 4.0;

/// One step of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// One broadcast with leaf ACKs.
    Broadcast {
        plan: Plan,
        bytes: u64,
        /// For so long nothing is sent before it, as programs do: TCP begins anew after a pause.
        pause_s: Seconds,
        /// A broadcast that takes longer can't win: it may be abandoned, and its trial with it. A native
        /// one can't be abandoned; its time is reported all the same.
        give_up_after_s: Option<Seconds>,
    },
    /// Transfers that run at the same time.
    Transfers(Vec<Transfer>),
}

impl Request {
    /// For how long nothing is sent before it.
    pub fn pause_s(&self) -> Seconds {
        match self {
            Request::Broadcast { pause_s, .. } => *pause_s,
            Request::Transfers(_) => 0.0,
        }
    }
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Broadcast(BroadcastResult),
    Transfers {
        /// One a transfer, in their order.
        results: Vec<TransferResult>,
        /// An application asked for the network before they were over.
        disturbed: bool,
    },
}

/// What the root of a broadcast measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BroadcastResult {
    /// Until the ACKs of all leaves, or of all ranks for a native one; until it was abandoned.
    pub seconds: Seconds,
    pub abandoned: bool,
    /// An application asked for the network before it was over.
    pub disturbed: bool,
}

/// Broadcasts of one plan, repeated until their median is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    pub plan: Plan,
    pub bytes: u64,
    /// At least this many repetitions that count, then until the median is known well enough, at most
    /// `max_repetitions`.
    pub min_repetitions: u32,
    pub max_repetitions: u32,
    /// See [`Request::Broadcast`].
    pub pause_s: Seconds,
    /// See [`Request::Broadcast`].
    pub give_up_after_s: Option<Seconds>,
    /// What the strategy's model says it takes, if it has one.
    pub predicted_s: Option<Seconds>,
}

impl Trial {
    /// With as many repetitions as it takes for a median that one disturbance doesn't move.
    pub fn new(plan: Plan, bytes: u64) -> Self {
        Trial {
            plan,
            bytes,
            min_repetitions: MIN_REPETITIONS,
            max_repetitions: MAX_REPETITIONS,
            pause_s: 0.0,
            give_up_after_s: None,
            predicted_s: None,
        }
    }

    /// Whether these samples are enough: the middle half of them is close together, or there are as many
    /// as the trial allows, or as time does. Where each of them takes a pause, one that is as the model foretold
    /// is enough: the two did not come about in the same way.
    pub fn is_known_well_enough(&self, samples_s: &[Seconds]) -> bool {
        let is_as_foretold = |predicted_s: Seconds| {
            samples_s.iter().any(|seconds| (seconds / predicted_s).ln().abs() <= SPREAD_ENOUGH)
        };
        if self.pause_s > 0.0 && self.predicted_s.is_some_and(is_as_foretold) {
            return true;
        }
        let (count, spent_s) = (samples_s.len() as u32, samples_s.iter().sum::<Seconds>());
        if spent_s > TRIAL_S {
            return true;
        }
        let counted_s = counted(samples_s);
        if counted_s.len() < self.min_repetitions as usize {
            return false;
        }
        if spent_s + f64::from(count) * self.pause_s > TRIAL_S {
            return true;
        }
        let mut sorted = counted_s.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: usize| sorted[(sorted.len() - 1) * part / 4];
        let is_close = at(3) - at(1) <= SPREAD_ENOUGH * at(2);
        is_close || count >= self.max_repetitions
    }
}

/// What of a trial's samples counts. The first broadcast along a plan opens connections, which programs do once: where
/// it is the slowest, it does not count beside others.
pub fn counted(samples_s: &[Seconds]) -> &[Seconds] {
    match samples_s {
        [first, others @ ..] if !others.is_empty() && others.iter().all(|other| other < first) => {
            others
        }
        all => all,
    }
}

/// `from` sends `bytes` in segments of `segment_bytes`, and `to` answers with an empty message
/// once it has all of them. The time is taken at `from`, from its start until the answer; of
/// `repetitions` the least.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    pub from: usize,
    pub to: usize,
    pub bytes: u64,
    pub segment_bytes: u32,
    pub repetitions: u32,
    /// How much later than its round it starts.
    pub delay_s: Seconds,
    /// So long after its round began it sends no more: what has come by then is all of it.
    pub stop_after_s: Seconds,
    /// See [`arborcast_proto::Striping::is_tcp_paced`].
    pub is_tcp_paced: bool,
}

impl Transfer {
    /// In segments that tell when its bytes come, below the eager limit of nearly any MPI.
    pub fn new((from, to): (usize, usize), bytes: u64, repetitions: u32) -> Self {
        let segment_bytes = (bytes / SEGMENTS).clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES) as u32;
        Transfer {
            from,
            to,
            bytes,
            segment_bytes,
            repetitions,
            delay_s: 0.0,
            stop_after_s: f64::INFINITY,
            is_tcp_paced: false,
        }
    }
}

/// Whether transfers that run at once are empty messages, which nothing stops before their end.
pub fn are_pings(round: &[Transfer]) -> bool {
    round.iter().all(|transfer| transfer.bytes == 0)
}

/// What came of a transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransferResult {
    /// At its sender, from its start until the answer; of the repetitions the least.
    pub seconds: Seconds,
    /// At its receiver, in the last repetition.
    pub arrivals: Vec<Arrival>,
    /// The part of the packets that its sender sent meanwhile over long ways, and again since they were lost.
    pub lost: f64,
}

impl TransferResult {
    /// What came of a transfer, as far as that is known: of one that was stopped before anything came, nothing.
    pub fn bytes_of(&self, transfer: &Transfer) -> u64 {
        let was_stopped = transfer.delay_s + self.seconds >= transfer.stop_after_s;
        let unseen = if was_stopped { 0 } else { transfer.bytes };
        self.arrivals.last().map_or(unseen, |last| last.bytes)
    }

    /// Whether all of a transfer came, as far as that was seen.
    pub fn is_whole(&self, transfer: &Transfer) -> bool {
        self.arrivals.last().is_some_and(|last| last.bytes >= transfer.bytes)
    }

    /// One of which it is not known when its bytes came.
    pub fn timed(seconds: Seconds) -> Self {
        TransferResult { seconds, arrivals: Vec::new(), lost: 0.0 }
    }
}

/// What had come when, since the round began, which the nodes know of each other to a few milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Arrival {
    pub bytes: u64,
    pub seconds: Seconds,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_broadcast_over_new_connections_does_not_count_beside_others() {
        assert_eq!(counted(&[0.4]), [0.4]);
        assert_eq!(counted(&[0.4, 0.2]), [0.2]);
        assert_eq!(counted(&[0.2, 0.4, 0.2]), [0.2, 0.4, 0.2], "another one was disturbed");
        let trial = Trial::new(Plan::Native, 1);
        assert!(trial.is_known_well_enough(&[0.2, 0.2, 0.201]));
        assert!(!trial.is_known_well_enough(&[0.4, 0.2, 0.2]));
        assert!(trial.is_known_well_enough(&[0.4, 0.2, 0.2, 0.2]));
    }

    #[test]
    fn where_each_takes_a_pause_one_broadcast_as_foretold_is_enough() {
        let at_once = Trial { predicted_s: Some(0.2), ..Trial::new(Plan::Native, 1) };
        assert!(!at_once.is_known_well_enough(&[0.205]));
        let paused = Trial { pause_s: 1.0, ..at_once };
        assert!(paused.is_known_well_enough(&[0.205]));
        assert!(!paused.is_known_well_enough(&[0.25]));
        let unforeseen = Trial { predicted_s: None, ..paused };
        assert!(!unforeseen.is_known_well_enough(&[0.205]));
    }
}
