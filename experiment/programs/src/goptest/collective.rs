//! Collective operations. The broadcast with ACKer follows de Supinski and Karonis, "Accurately
//! Measuring MPI Broadcasts in a Computational Grid" (HPDC 1999): repeated broadcasts overlap, and
//! their mean hides it; an acknowledgement of each one by a process, the ACKer, makes the root wait
//! for that process, and what the acknowledgement costs can be measured and taken off.

use super::sample::Sample;
use crate::measure::broadcast::Broadcast;
use crate::measure::clock::{MpiClock, seconds_of};
use mpi::collective::SystemOperation;
use mpi::datatype::Equivalence;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

const TAG_LATENCY: i32 = 161;
const TAG_ACK: i32 = 162;

/// Each process is root in turn, or `root` always; seconds of one broadcast.
pub fn broadcast_round(
    comm: &SimpleCommunicator,
    broadcast: &dyn Broadcast,
    root: Option<i32>,
    elements: &mut [i32],
    repetitions: u64,
) -> Sample {
    let size = comm.size();
    timed(comm, repetitions, || match root {
        Some(root) => broadcast.broadcast(comm, root, elements),
        None => (0..size).for_each(|root| broadcast.broadcast(comm, root, elements)),
    })
    .shared_by(if root.is_some() { 1 } else { size })
}

/// Broadcast with ACKer, for each process other than `root`; the slowest is the result. Seconds;
/// `per_process[i]` is OL_i, the time until a broadcast has arrived at process i. Collective; the
/// sample is the same on all ranks.
///
/// The original goptest takes off a whole round of empty messages. What lies on the path after the
/// broadcast's arrival is one empty message, hence half of a round here.
pub fn acker(
    comm: &SimpleCommunicator,
    broadcast: &dyn Broadcast,
    root: i32,
    elements: &mut [i32],
    repetitions: u64,
) -> Sample {
    let mut result = vec![0.0; comm.size() as usize + 1];
    let mut least_elapsed = f64::INFINITY;
    for process in (0..comm.size()).filter(|process| *process != root) {
        let latency = leaf_latency_seconds(comm, root, process, repetitions);
        let elapsed =
            acknowledged_broadcasts(comm, broadcast, root, process, elements, repetitions);
        least_elapsed = least_elapsed.min(elapsed);
        result[process as usize] = elapsed / repetitions as f64 - latency;
    }
    result[comm.size() as usize] = least_elapsed;
    comm.process_at_rank(root).broadcast_into(&mut result[..]);
    let elapsed_seconds = result.pop().unwrap_or(0.0);
    let seconds = result.iter().copied().fold(0.0, f64::max);
    Sample { seconds, elapsed_seconds, per_process: result }
}

/// Seconds of one empty message between `root` and `process`: half of the mean round. Collective;
/// meaningful on the root. A first round, untimed, makes both ready: else the time would hold how far
/// apart the two leave the barrier.
pub fn leaf_latency_seconds(
    comm: &SimpleCommunicator,
    root: i32,
    process: i32,
    repetitions: u64,
) -> f64 {
    comm.barrier();
    let mut empty: [u8; 0] = [];
    let mut round = || {
        if comm.rank() == root {
            let process = comm.process_at_rank(process);
            process.send_with_tag(&empty[..], TAG_LATENCY);
            process.receive_into_with_tag(&mut empty[..], TAG_LATENCY);
        } else if comm.rank() == process {
            let root = comm.process_at_rank(root);
            root.receive_into_with_tag(&mut empty[..], TAG_LATENCY);
            root.send_with_tag(&empty[..], TAG_LATENCY);
        }
    };
    round();
    let elapsed = seconds_of(&MpiClock, || (0..repetitions).for_each(|_| round()));
    elapsed / repetitions as f64 / 2.0
}

/// Seconds on the root of `repetitions` broadcasts, each acknowledged by `process`, after one that
/// primes the line.
fn acknowledged_broadcasts(
    comm: &SimpleCommunicator,
    broadcast: &dyn Broadcast,
    root: i32,
    process: i32,
    elements: &mut [i32],
    repetitions: u64,
) -> f64 {
    comm.barrier();
    let mut once = || {
        let mut empty: [u8; 0] = [];
        broadcast.broadcast(comm, root, elements);
        if comm.rank() == root {
            comm.process_at_rank(process).receive_into_with_tag(&mut empty[..], TAG_ACK);
        } else if comm.rank() == process {
            comm.process_at_rank(root).send_with_tag(&empty[..], TAG_ACK);
        }
    };
    once();
    seconds_of(&MpiClock, || (0..repetitions).for_each(|_| once()))
}

/// Broadcasts with an ACK of each leaf, as Arborcast's experiments time them; seconds until the root
/// has all of them, after one that primes the line. Collective; the sample is the same on all ranks.
pub fn leaf_acks(
    comm: &SimpleCommunicator,
    broadcast: &dyn Broadcast,
    root: i32,
    elements: &mut [i32],
    repetitions: u64,
) -> Sample {
    comm.barrier();
    broadcast.until_acked(comm, root, elements);
    let mut elapsed: f64 = (0..repetitions)
        .filter_map(|_| broadcast.until_acked(comm, root, elements))
        .map(|time| time.as_secs_f64())
        .sum();
    comm.process_at_rank(root).broadcast_into(&mut elapsed);
    Sample::mean(elapsed, repetitions)
}

/// `outgoing` has a part of the length of `incoming` for each process; process 0 scatters it.
pub fn scatter(
    comm: &SimpleCommunicator,
    outgoing: &[i32],
    incoming: &mut [i32],
    repetitions: u64,
) -> Sample {
    let root = comm.process_at_rank(0);
    timed(comm, repetitions, || {
        if comm.rank() == 0 {
            root.scatter_into_root(outgoing, incoming);
        } else {
            root.scatter_into(incoming);
        }
    })
}

/// Sum over all processes, known to all.
pub fn sum<T: Equivalence>(
    comm: &SimpleCommunicator,
    outgoing: &[T],
    incoming: &mut [T],
    repetitions: u64,
) -> Sample {
    timed(comm, repetitions, || {
        comm.all_reduce_into(outgoing, incoming, SystemOperation::sum());
    })
}

pub fn barrier(comm: &SimpleCommunicator, repetitions: u64) -> Sample {
    timed(comm, repetitions, || comm.barrier())
}

/// Seconds of one repetition on this process, after a barrier.
fn timed(comm: &SimpleCommunicator, repetitions: u64, mut once: impl FnMut()) -> Sample {
    comm.barrier();
    let elapsed = seconds_of(&MpiClock, || (0..repetitions).for_each(|_| once()));
    Sample::mean(elapsed, repetitions)
}
