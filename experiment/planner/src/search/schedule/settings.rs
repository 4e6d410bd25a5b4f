//! How to search, and for what, as the command line says.

use super::Running;
use super::demand::Wanted;
use super::ledger::Ceilings;
use crate::measurement::Seconds;
use crate::model::network::{FIRST_WINDOW_BYTES, Network};
use crate::search::strategy::random_transform::Parameters;
use crate::search::strategy::state::LEAST_EAGER_BYTES;
use crate::search::strategy::{Description, STRATEGIES};
use std::time::Duration;

/// In a shorter pause TCP forgets nothing; after a longer one, on nearly all ways, there is nothing left to
/// forget.
const SHORTEST_PAUSE_S: Seconds = 0.2;
pub(super) const LONGEST_PAUSE_S: Seconds = 2.0;
/// A pause that differs by this factor is another one: medians of few pauses come and go.
const ANOTHER_PAUSE: f64 = 2.5;

/// How to search, and for what.
#[derive(Debug, Clone)]
pub struct Settings {
    pub strategy: &'static Description,
    /// Equal seeds draw equal random numbers.
    pub seed: u64,
    /// The first rest of a search that has nothing left to try.
    pub rest: Duration,
    /// What is known is measured again once it is this old.
    pub refresh: Duration,
    /// Larger messages are measured at this size.
    pub max_bytes: u64,
    /// Larger messages use rendezvous.
    pub eager_bytes: u64,
    /// What programs pause before a broadcast where they have not shown it; `None`: the hosts' TCP keeps its
    /// windows, so that pauses don't matter.
    pub pause_s: Option<Seconds>,
    /// Of the strategy of that name.
    pub random_transform: Parameters,
    /// On what measurements cost.
    pub ceilings: Ceilings,
    /// The part of the time of programs' broadcasts that trials in them may cost.
    pub explore_max: f64,
    /// A root and the sizes to search for, over all nodes, in place of what applications ask for.
    pub fixed: Option<(String, Vec<u64>)>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            strategy: &STRATEGIES[0],
            seed: 1,
            rest: Duration::from_secs(30),
            refresh: Duration::from_secs(600),
            max_bytes: 64 << 20,
            eager_bytes: LEAST_EAGER_BYTES,
            pause_s: None,
            random_transform: Parameters::default(),
            ceilings: Ceilings::default(),
            explore_max: 0.01,
            fixed: None,
        }
    }
}

impl Settings {
    /// A network as others are told of it: with what the MPI in use sends at once.
    pub(super) fn in_this_mpi(&self, network: &Network) -> Network {
        network.clone().with_eager_bytes(self.eager_bytes)
    }

    /// How long trials pause before a broadcast for programs that pause for so long: less is as none, more as
    /// the longest.
    pub(super) fn pause_before_s(&self, pause_s: Option<Seconds>) -> Seconds {
        match self.pause_s.map(|usual_s| pause_s.unwrap_or(usual_s)) {
            Some(pause_s) if pause_s >= SHORTEST_PAUSE_S => pause_s.min(LONGEST_PAUSE_S),
            _ => 0.0,
        }
    }

    /// Whether a search goes by quite another pause than programs make.
    pub(super) fn has_another_pause(&self, wanted: &Wanted, running: &Running) -> bool {
        let (now_s, before_s) =
            (self.pause_before_s(wanted.pause_s), running.search.config().pause_s);
        let (shorter_s, longer_s) = (now_s.min(before_s), now_s.max(before_s));
        let matters = wanted.bytes as f64 > FIRST_WINDOW_BYTES;
        matters && longer_s >= ANOTHER_PAUSE * shorter_s.max(SHORTEST_PAUSE_S)
    }
}
