//! Noise beside a measured pair: other processes, each to each, send each other messages during every
//! transfer, without blocking also for `noise_blocking`, which is about the pair. The reporter of the pair starts each volley with an empty message and, after the last,
//! waits until all have fallen silent.

use super::{Options, Participant};
use mpi::request::multiple_scope;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

const TAG_GO: i32 = 121;
const TAG_SILENT: i32 = 122;
const TAG_NOISE: i32 = 123;

/// Who makes noise while `sender` and `receiver` are measured: others, as evenly spread over the ranks
/// as in the original. All ranks come to the same answer.
pub fn members(options: &Options, size: i32, receiver: i32, sender: i32) -> Vec<i32> {
    let wanted = if options.test_type.has_noise() { options.noise_processes } else { 0 };
    let others = size - 2;
    let apart = (others / (wanted as i32).max(1)).max(1);
    let mut next = 0;
    let mut chosen = Vec::with_capacity(wanted);
    while chosen.len() < wanted {
        while next == receiver || next == sender {
            next += 1;
        }
        chosen.push(next);
        next += apart;
    }
    chosen
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

/// This process's part in the noise beside `sender` and `receiver`.
pub fn make(participant: &Participant, receiver: i32, sender: i32) {
    let (comm, options) = (participant.comm, participant.options);
    let mut others = members(options, comm.size(), receiver, sender);
    others.retain(|member| *member != comm.rank());
    let reporter = comm.process_at_rank(receiver);
    let mut empty: [u8; 0] = [];
    let outgoing = vec![0u8; options.noise_length];
    let mut incoming = vec![0u8; options.noise_length * others.len()];
    for _ in 0..options.num_repeats {
        reporter.receive_into_with_tag(&mut empty[..], TAG_GO);
        for _ in 0..options.noise_messages {
            exchange(comm, &others, &outgoing, &mut incoming);
        }
    }
    reporter.send_with_tag(&empty[..], TAG_SILENT);
}

/// One message to and from each of the others, all at once.
fn exchange(comm: &SimpleCommunicator, others: &[i32], outgoing: &[u8], incoming: &mut [u8]) {
    multiple_scope(2 * others.len(), |scope, requests| {
        let mut rest = incoming;
        for other in others {
            let (part, left) = rest.split_at_mut(outgoing.len());
            rest = left;
            let other = comm.process_at_rank(*other);
            requests.add(other.immediate_send_with_tag(scope, outgoing, TAG_NOISE));
            requests.add(other.immediate_receive_into_with_tag(scope, part, TAG_NOISE));
        }
        requests.wait_all(&mut Vec::new());
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn noise_is_made_by_others_than_the_pair() {
        let options = Options::parse_from(["network_test", "-t", "noise", "-p", "3"]);
        for size in 5..12 {
            for pair in 0..size * size {
                let (receiver, sender) = (pair / size, pair % size);
                let found = members(&options, size, receiver, sender);
                assert!(found.windows(2).all(|two| two[0] < two[1]) && found[2] < size);
                assert!(!found.contains(&receiver) && !found.contains(&sender));
            }
        }
        assert_eq!(members(&options, 8, 2, 0), [1, 3, 5]);
        let quiet = Options::parse_from(["network_test"]);
        assert!(members(&quiet, 5, 0, 1).is_empty());
    }
}
