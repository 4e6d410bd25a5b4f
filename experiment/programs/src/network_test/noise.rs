//! Noise beside a measured pair: other processes, in a ring, send each other messages during every
//! transfer. The reporter of the pair starts each volley with an empty message and, after the last,
//! waits until all have fallen silent.

use super::{Options, Participant, TestType};
use mpi::request::multiple_scope;
use mpi::topology::{Process, SimpleCommunicator};
use mpi::traits::*;

const TAG_GO: i32 = 121;
const TAG_SILENT: i32 = 122;
const TAG_NOISE: i32 = 123;

/// Who makes noise while `sender` sends to `receiver`: the ranks that follow the receiver, so that
/// each process takes its share over the whole matrix. All ranks come to the same answer.
pub fn members(options: &Options, size: i32, receiver: i32, sender: i32) -> Vec<i32> {
    let wanted = if options.test_type.has_noise() { options.noise_processes } else { 0 };
    (1..size).map(|step| (receiver + step) % size).filter(|r| *r != sender).take(wanted).collect()
}

/// Starts one volley.
pub fn one_more(comm: &SimpleCommunicator, members: &[i32]) {
    let empty: [u8; 0] = [];
    for member in members {
        comm.process_at_rank(*member).send_with_tag(&empty[..], TAG_GO);
    }
}

/// Waits until every member has sent and received all of its volleys.
pub fn wait_for_silence(comm: &SimpleCommunicator, members: &[i32]) {
    let mut empty: [u8; 0] = [];
    for member in members {
        comm.process_at_rank(*member).receive_into_with_tag(&mut empty[..], TAG_SILENT);
    }
}

/// This process's part in the noise beside the way from `sender` to `receiver`.
pub fn make(participant: &Participant, receiver: i32, sender: i32) {
    let (comm, options) = (participant.comm, participant.options);
    let ring = members(options, comm.size(), receiver, sender);
    let Some(place) = ring.iter().position(|member| *member == comm.rank()) else { return };
    let reporter = comm.process_at_rank(receiver);
    let mut empty: [u8; 0] = [];
    let outgoing = vec![0u8; options.noise_length];
    let mut incoming = vec![0u8; options.noise_length * options.noise_messages];
    for _ in 0..options.num_repeats {
        reporter.receive_into_with_tag(&mut empty[..], TAG_GO);
        match options.test_type {
            TestType::NoiseBlocking => {
                blocking(comm, &ring, place, options, &outgoing, &mut incoming)
            }
            _ => non_blocking(comm, &ring, place, options, &outgoing, &mut incoming),
        }
    }
    reporter.send_with_tag(&empty[..], TAG_SILENT);
}

/// The messages of one volley as parts of `incoming`; empty messages need no room of their own.
fn parts<'a>(incoming: &'a mut [u8], options: &Options) -> Vec<&'a mut [u8]> {
    if options.noise_length == 0 {
        return (0..options.noise_messages).map(|_| &mut [][..]).collect();
    }
    incoming.chunks_mut(options.noise_length).collect()
}

/// The processes before and after a place of the ring.
fn neighbours<'a>(
    comm: &'a SimpleCommunicator,
    ring: &[i32],
    place: usize,
) -> (Process<'a>, Process<'a>) {
    let at = |place: usize| comm.process_at_rank(ring[place % ring.len()]);
    (at(place + ring.len() - 1), at(place + 1))
}

fn non_blocking(
    comm: &SimpleCommunicator,
    ring: &[i32],
    place: usize,
    options: &Options,
    outgoing: &[u8],
    incoming: &mut [u8],
) {
    let (previous, next) = neighbours(comm, ring, place);
    multiple_scope(2 * options.noise_messages, |scope, requests| {
        for part in parts(incoming, options) {
            requests.add(previous.immediate_receive_into_with_tag(scope, part, TAG_NOISE));
            requests.add(next.immediate_send_with_tag(scope, outgoing, TAG_NOISE));
        }
        requests.wait_all(&mut Vec::new());
    });
}

/// Every second process of the ring sends first, so that no two wait for each other.
fn blocking(
    comm: &SimpleCommunicator,
    ring: &[i32],
    place: usize,
    options: &Options,
    outgoing: &[u8],
    incoming: &mut [u8],
) {
    let (previous, next) = neighbours(comm, ring, place);
    for part in parts(incoming, options) {
        if place.is_multiple_of(2) {
            next.send_with_tag(outgoing, TAG_NOISE);
        }
        previous.receive_into_with_tag(part, TAG_NOISE);
        if !place.is_multiple_of(2) {
            next.send_with_tag(outgoing, TAG_NOISE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn noise_is_made_by_others_than_the_pair() {
        let options = Options::parse_from(["network_test", "-t", "noise", "-p", "3"]);
        for (receiver, sender) in [(0, 1), (4, 0), (2, 4)] {
            let found = members(&options, 5, receiver, sender);
            assert_eq!(found.len(), 3);
            assert!(!found.contains(&receiver) && !found.contains(&sender));
        }
        let quiet = Options::parse_from(["network_test"]);
        assert!(members(&quiet, 5, 0, 1).is_empty());
    }
}
