//! What is asked of a network and what it answers: broadcasts of a plan, and transfers between nodes.
//! The experiment job carries it out over MPI, [`crate::search::converge`] on the simulator.

use arborcast_proto::Plan;

/// Seconds.
pub type Seconds = f64;

/// How often a plan is broadcast in a trial.
const MIN_REPETITIONS: u32 = 3;
const MAX_REPETITIONS: u32 = 15;
/// A trial's median is known well enough when the middle half of its samples lies within this part
/// of it.
const SPREAD_ENOUGH: f64 = 0.05;
/// Repetitions that have taken longer than this are enough, even where they are fewer than they should be:
/// what is long is disturbed less.
pub const TRIAL_S: Seconds = 4.0;

/// What a strategy wants to know next.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    Broadcast(Trial),
    /// Rounds one after the other; the transfers of a round run at the same time.
    Links(Vec<Vec<Transfer>>),
}

impl From<Trial> for Request {
    fn from(trial: Trial) -> Self {
        Request::Broadcast(trial)
    }
}

/// Broadcasts of one plan with leaf ACKs.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    pub plan: Plan,
    pub bytes: u64,
    /// Repeated at least so often, then until the median is known well enough, at most
    /// `max_repetitions` times.
    pub min_repetitions: u32,
    pub max_repetitions: u32,
    /// A single broadcast that takes longer can't win: it may be abandoned, and the trial with it.
    /// An MPI's own broadcast can't be abandoned; its time is reported all the same.
    pub give_up_after_s: Option<Seconds>,
    /// What the strategy's model says it takes, if it has one.
    pub predicted_s: Option<Seconds>,
}

impl Trial {
    /// As often as it takes a median that one disturbance doesn't move, or the first broadcast over new
    /// connections.
    pub fn new(plan: Plan, bytes: u64) -> Self {
        Trial {
            plan,
            bytes,
            min_repetitions: MIN_REPETITIONS,
            max_repetitions: MAX_REPETITIONS,
            give_up_after_s: None,
            predicted_s: None,
        }
    }

    /// Whether these samples are enough: the middle half of them is close together, or there are as many
    /// as the trial allows, or as time does.
    pub fn is_known_well_enough(&self, samples_s: &[Seconds]) -> bool {
        let (count, spent_s) = (samples_s.len() as u32, samples_s.iter().sum::<Seconds>());
        if spent_s > TRIAL_S {
            return true;
        }
        if count < self.min_repetitions {
            return false;
        }
        let mut sorted = samples_s.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: usize| sorted[(sorted.len() - 1) * part / 4];
        let is_close = at(3) - at(1) <= SPREAD_ENOUGH * at(2);
        is_close || count >= self.max_repetitions
    }
}

/// `from` sends `bytes` in segments of `segment_bytes`, and `to` answers with an empty message
/// once it has all of them. The time is taken at `from`, from its start until the answer; of
/// `repetitions` the least.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    pub from: usize,
    pub to: usize,
    pub bytes: u64,
    pub segment_bytes: u32,
    pub repetitions: u32,
    /// How much later than the others of its round it starts, so that what comes from near and from far
    /// arrives at the same time. One for all transfers of a sender.
    pub delay_s: Seconds,
}

impl Transfer {
    /// In segments below the eager limit of any MPI.
    pub fn new((from, to): (usize, usize), bytes: u64, repetitions: u32) -> Self {
        Transfer { from, to, bytes, segment_bytes: 32 << 10, repetitions, delay_s: 0.0 }
    }
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Broadcast {
        /// One a repetition; those before an abandoned one included.
        samples_s: Vec<Seconds>,
        /// Where the trial was abandoned: how long its last broadcast had taken by then.
        abandoned_after_s: Option<Seconds>,
    },
    /// As many rounds and transfers as asked for.
    Links(Vec<Vec<Seconds>>),
    /// A hold ended it. [`Strategy::next`] offers the same again.
    Interrupted,
}
