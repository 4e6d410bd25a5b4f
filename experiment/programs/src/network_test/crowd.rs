//! Tests in which all processes take part at once.

use super::Participant;
use crate::measure::clock::{Clock, MpiClock};
use crate::measure::statistics::Summary;
use crate::measure::window_sync::WindowSync;
use mpi::request::multiple_scope;
use mpi::traits::*;

const TAG: i32 = 131;

/// Each process sends to each other without blocking; on each receiver the time from `MPI_Irecv` to
/// the matching `MPI_Waitany`.
pub fn all_to_all(participant: &mut Participant, length: usize) -> Vec<Summary> {
    let (rank, size) = (participant.comm.rank(), participant.comm.size());
    let others: Vec<i32> = (0..size).filter(|other| *other != rank).collect();
    let outgoing = &participant.outgoing[..length];
    let mut samples = vec![Vec::with_capacity(participant.options.num_repeats); size as usize];
    let sync = WindowSync::new(participant.comm);
    for _ in 0..participant.options.num_repeats {
        sync.start_together();
        multiple_scope(others.len(), |sending, sends| {
            multiple_scope(others.len(), |receiving, receives| {
                let mut starts = Vec::with_capacity(others.len());
                let mut rest = &mut participant.incoming[..];
                for other in &others {
                    let (part, left) = rest.split_at_mut(length);
                    rest = left;
                    starts.push(MpiClock.now());
                    let source = participant.comm.process_at_rank(*other);
                    receives.add(source.immediate_receive_into_with_tag(receiving, part, TAG));
                }
                for other in &others {
                    let target = participant.comm.process_at_rank(*other);
                    sends.add(target.immediate_send_with_tag(sending, outgoing, TAG));
                }
                for _ in &others {
                    let Some((index, _, _)) = receives.wait_any() else { break };
                    samples[others[index] as usize].push(MpiClock.now() - starts[index]);
                }
            });
            sends.wait_all(&mut Vec::new());
        });
    }
    samples.iter().map(|cell| Summary::of(cell)).collect()
}

/// `MPI_Bcast` from each process in turn, timed on each receiver from the moment at which all start.
pub fn bcast(
    participant: &mut Participant,
    length: usize,
    mut root_done: impl FnMut(),
) -> Vec<Summary> {
    let (rank, size) = (participant.comm.rank(), participant.comm.size());
    let buffer = &mut participant.incoming[..length];
    let mut row = vec![Summary::default(); size as usize];
    let sync = WindowSync::new(participant.comm);
    for root in 0..size {
        let process = participant.comm.process_at_rank(root);
        let mut samples = Vec::with_capacity(participant.options.num_repeats);
        for _ in 0..participant.options.num_repeats {
            let start = sync.start_together();
            process.broadcast_into(buffer);
            samples.push(MpiClock.now() - start);
        }
        if root != rank {
            row[root as usize] = Summary::of(&samples);
        }
        root_done();
    }
    row
}
