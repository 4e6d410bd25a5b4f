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
    message: &mut [u8],
    repetitions: u64,
) -> Sample {
    timed(comm, repetitions, |repetition| {
        broadcast.broadcast(comm, root.unwrap_or_else(|| turn(comm, repetition)), message);
    })
}

/// The process whose turn it is.
fn turn(comm: &SimpleCommunicator, repetition: u64) -> i32 {
    (repetition % comm.size() as u64) as i32
}

/// Broadcast with ACKer, for each process other than `root`; the slowest is the result. Seconds;
/// `per_process[i]` is OL_i, the time until a broadcast has arrived at process i: of a broadcast and
/// its acknowledgement, less `subtracted[i]`. Collective; the sample is the same on
/// all ranks.
pub fn acker(
    comm: &SimpleCommunicator,
    broadcast: &dyn Broadcast,
    root: i32,
    message: &mut [u8],
    repetitions: u64,
    subtracted: &[f64],
) -> Sample {
    let mut result = vec![0.0; comm.size() as usize + 1];
    let mut least_elapsed = f64::INFINITY;
    for process in (0..comm.size()).filter(|process| *process != root) {
        let elapsed = acknowledged_broadcasts(comm, broadcast, root, process, message, repetitions);
        least_elapsed = least_elapsed.min(elapsed);
        let mean = elapsed / repetitions as f64;
        result[process as usize] = arrival_seconds(mean, subtracted[process as usize]);
    }
    result[comm.size() as usize] = least_elapsed;
    comm.process_at_rank(root).broadcast_into(&mut result[..]);
    let elapsed_seconds = result.pop().unwrap_or(0.0);
    let seconds = result.iter().copied().fold(0.0, f64::max);
    Sample { seconds, elapsed_seconds, per_process: result }
}

/// What is left of an acknowledged broadcast. An empty broadcast may send nothing, so that no more than
/// what is taken off passes: then it takes no time.
fn arrival_seconds(acknowledged_seconds: f64, subtracted_seconds: f64) -> f64 {
    (acknowledged_seconds - subtracted_seconds).max(0.0)
}

/// Stretches of empty rounds of which the fastest counts.
const LATENCY_STRETCHES: usize = 5;

/// Seconds of a round of empty messages between `root` and each process, the least of several stretches
/// of `repetitions`. They are measured once, ahead of all samples: a sample with a round of its own would
/// come out the faster, and be preferred, the more its round was disturbed. Collective; the same on all
/// ranks.
pub fn empty_rounds(comm: &SimpleCommunicator, root: i32, repetitions: u64) -> Vec<f64> {
    let of = |process: i32| {
        let stretches = (0..LATENCY_STRETCHES).map(|_| stretch(comm, root, process, repetitions));
        stretches.fold(f64::INFINITY, f64::min)
    };
    let mut rounds: Vec<f64> =
        (0..comm.size()).map(|process| if process == root { 0.0 } else { of(process) }).collect();
    comm.process_at_rank(root).broadcast_into(&mut rounds[..]);
    rounds
}

/// The mean round of `repetitions`. A first one, untimed, makes both ready: else the time would hold how
/// far apart the two leave the barrier.
fn stretch(comm: &SimpleCommunicator, root: i32, process: i32, repetitions: u64) -> f64 {
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
    seconds_of(&MpiClock, || (0..repetitions).for_each(|_| round())) / repetitions as f64
}

/// Seconds on the root of `repetitions` broadcasts, each acknowledged by `process`, after one that
/// primes the line.
fn acknowledged_broadcasts(
    comm: &SimpleCommunicator,
    broadcast: &dyn Broadcast,
    root: i32,
    process: i32,
    message: &mut [u8],
    repetitions: u64,
) -> f64 {
    comm.barrier();
    let mut once = || {
        let mut empty: [u8; 0] = [];
        broadcast.broadcast(comm, root, message);
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
    message: &mut [u8],
    repetitions: u64,
) -> Sample {
    comm.barrier();
    broadcast.until_acked(comm, root, message);
    let mut elapsed: f64 = (0..repetitions)
        .filter_map(|_| broadcast.until_acked(comm, root, message))
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
    timed(comm, repetitions, |_| {
        if comm.rank() == 0 {
            root.scatter_into_root(outgoing, incoming);
        } else {
            root.scatter_into(incoming);
        }
    })
}

/// `incoming` has a part of the length of `outgoing` for each process; each in turn gathers.
pub fn gather(
    comm: &SimpleCommunicator,
    outgoing: &[u8],
    incoming: &mut [u8],
    repetitions: u64,
) -> Sample {
    timed(comm, repetitions, |repetition| {
        let root = comm.process_at_rank(turn(comm, repetition));
        if root.is_self() {
            root.gather_into_root(outgoing, incoming);
        } else {
            root.gather_into(outgoing);
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
    timed(comm, repetitions, |_| {
        comm.all_reduce_into(outgoing, incoming, SystemOperation::sum());
    })
}

pub fn barrier(comm: &SimpleCommunicator, repetitions: u64) -> Sample {
    timed(comm, repetitions, |_| comm.barrier())
}

/// Seconds of one repetition on this process, after one that is not timed and a barrier. `once` gets
/// the number of the repetition, from 0.
fn timed(comm: &SimpleCommunicator, repetitions: u64, mut once: impl FnMut(u64)) -> Sample {
    once(0);
    comm.barrier();
    let elapsed = seconds_of(&MpiClock, || (0..repetitions).for_each(&mut once));
    Sample::mean(elapsed, repetitions)
}

#[cfg(test)]
mod tests {
    use super::arrival_seconds;

    #[test]
    fn an_arrival_is_never_before_its_departure() {
        assert!((arrival_seconds(3e-3, 1e-3) - 2e-3).abs() < 1e-15);
        assert_eq!(arrival_seconds(1e-3, 2e-3), 0.0);
    }
}
