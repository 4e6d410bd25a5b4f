//! Lets all processes begin at one moment. A barrier cannot: processes leave it up to its own
//! duration apart, which on a grid is as long as what is to be measured. Instead the clocks are
//! compared once, and then a moment is agreed upon that lies ahead for everybody (the window-based
//! synchronisation of SKaMPI and ReproMPI; S. Hunold, A. Carpen-Amarie, "Reproducible MPI Benchmarking
//! Is Still Not as Easy as You Think", IEEE TPDS 2016).

use super::clock::{Clock, MpiClock, wait_until};
use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

const TAG: i32 = 171;

/// Empty round trips of which the fastest tells the difference of two clocks.
const CLOCK_ROUNDS: usize = 10;

/// Agreements of which the slowest tells how far ahead a moment must lie.
const TRIAL_AGREEMENTS: usize = 5;

/// Added to half as much again as the slowest agreement.
const MARGIN_SECONDS: f64 = 20e-6;

/// The processes of a communicator with their clocks compared.
pub struct WindowSync<'a> {
    comm: &'a SimpleCommunicator,
    /// This process's clock less that of process 0.
    offset_seconds: f64,
    ahead_seconds: f64,
}

impl<'a> WindowSync<'a> {
    /// Collective.
    pub fn new(comm: &'a SimpleCommunicator) -> Self {
        let offset_seconds = if comm.rank() == 0 {
            (1..comm.size()).for_each(|other| tell_offset(comm, other));
            0.0
        } else {
            learn_offset(comm)
        };
        let mut sync = Self { comm, offset_seconds, ahead_seconds: 0.0 };
        let mut slowest: f64 = 0.0;
        for _ in 0..TRIAL_AGREEMENTS {
            let (from, to) = (sync.now(), sync.latest(sync.now()));
            // From the moment at which the last process entered: what counts is the way back.
            slowest = slowest.max(sync.now() - to.max(from));
        }
        sync.ahead_seconds = 1.5 * sync.latest(slowest) + MARGIN_SECONDS;
        sync
    }

    /// The clock of process 0, as nearly as it is known.
    fn now(&self) -> f64 {
        MpiClock.now() - self.offset_seconds
    }

    /// The greatest of all processes' values. Collective.
    fn latest(&self, value: f64) -> f64 {
        let mut greatest = 0.0;
        self.comm.all_reduce_into(&value, &mut greatest, SystemOperation::max());
        greatest
    }

    /// All processes return from this at one moment. Collective. Returns that moment on this
    /// process's clock.
    pub fn start_together(&self) -> f64 {
        let moment = self.latest(self.now()) + self.ahead_seconds + self.offset_seconds;
        wait_until(&MpiClock, moment);
        moment
    }
}

/// Process 0's part: finds how far the other's clock is ahead, and tells it.
fn tell_offset(comm: &SimpleCommunicator, other: i32) {
    let other = comm.process_at_rank(other);
    let mut best = (f64::INFINITY, 0.0);
    for _ in 0..CLOCK_ROUNDS {
        let mut theirs = 0.0;
        let sent = MpiClock.now();
        other.send_with_tag(&theirs, TAG);
        other.receive_into_with_tag(&mut theirs, TAG);
        let back = MpiClock.now();
        let round = (back - sent, theirs - (sent + back) / 2.0);
        if round.0 < best.0 {
            best = round;
        }
    }
    other.send_with_tag(&best.1, TAG);
}

fn learn_offset(comm: &SimpleCommunicator) -> f64 {
    let first = comm.process_at_rank(0);
    let mut received = 0.0;
    for _ in 0..CLOCK_ROUNDS {
        first.receive_into_with_tag(&mut received, TAG);
        first.send_with_tag(&MpiClock.now(), TAG);
    }
    first.receive_into_with_tag(&mut received, TAG);
    received
}
