//! Tests of one pair at a time, and of disjoint pairs at once. One pair at a time, the process whose
//! row is being measured gives orders to the others; those who have none wait asleep, so that they
//! disturb neither the network nor, on a shared host, the processors of the pair.

use super::{Participant, TestType, noise};
use crate::measure::link::{End, Link};
use crate::measure::statistics::Summary;
use mpi::traits::*;
use std::time::Duration;

const TAG_CONTROL: i32 = 111;

/// What a waiting process is told to do; the second number of the message is for `Noise`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Be the peer of the order's sender.
    Measure,
    /// Make noise while the order's sender measures its way from the given rank.
    Noise { sender: i32 },
    /// It is your row's turn.
    YourTurn,
    /// The rows of this message length are complete.
    LengthDone,
}

impl Order {
    fn encode(self) -> [i32; 2] {
        match self {
            Self::Measure => [0, 0],
            Self::Noise { sender } => [1, sender],
            Self::YourTurn => [2, 0],
            Self::LengthDone => [3, 0],
        }
    }

    fn decode([code, argument]: [i32; 2]) -> Self {
        match code {
            0 => Self::Measure,
            1 => Self::Noise { sender: argument },
            2 => Self::YourTurn,
            _ => Self::LengthDone,
        }
    }
}

/// Measures the row of each process, one after the other. `seen` is called on every process as many
/// times as there are processes, evenly over the measurement.
pub fn in_turn(
    participant: &mut Participant,
    length: usize,
    mut seen: impl FnMut(),
) -> Vec<Summary> {
    let comm = participant.comm;
    let (rank, size) = (comm.rank(), comm.size());
    let tell = |to: i32, order: Order| {
        comm.process_at_rank(to).send_with_tag(&order.encode()[..], TAG_CONTROL);
    };
    let mut row = vec![Summary::default(); size as usize];
    let mut turn = rank == 0;
    loop {
        if turn {
            for peer in (0..size).filter(|peer| *peer != rank) {
                tell(peer, Order::Measure);
                let noisy = noise::members(participant.options, size, rank, peer);
                noisy.iter().for_each(|member| tell(*member, Order::Noise { sender: peer }));
                let samples = measure(participant, peer, End::Reporter, length, &noisy);
                row[peer as usize] = Summary::of(&samples);
            }
            seen();
            if rank + 1 == size {
                (0..rank).for_each(|other| tell(other, Order::LengthDone));
                return row;
            }
            tell(rank + 1, Order::YourTurn);
        }
        let (order, from) = wait_quietly(participant);
        turn = order == Order::YourTurn;
        match order {
            Order::Measure => {
                measure(participant, from, End::Peer, length, &[]);
                seen();
            }
            Order::Noise { sender } => noise::make(participant, from, sender),
            Order::YourTurn => {}
            Order::LengthDone => return row,
        }
    }
}

/// Measures disjoint pairs at once, in rounds until everyone has met everyone. `seen` is called once
/// a round and once at the end, so about as often as there are processes.
pub fn at_once(
    participant: &mut Participant,
    length: usize,
    mut seen: impl FnMut(),
) -> Vec<Summary> {
    let (rank, size) = (participant.comm.rank(), participant.comm.size());
    let mut row = vec![Summary::default(); size as usize];
    for round in 0..rounds(size) {
        participant.comm.barrier();
        if let Some(peer) = partner(size, round, rank) {
            let order = [End::Reporter, End::Peer];
            let ends = if rank < peer { order } else { [order[1], order[0]] };
            for end in ends {
                let samples = measure(participant, peer, end, length, &[]);
                if end == End::Reporter {
                    row[peer as usize] = Summary::of(&samples);
                }
            }
        }
        seen();
    }
    row
}

/// One end's part in the measurement of a pair; samples on the reporter.
fn measure(
    participant: &mut Participant,
    peer: i32,
    end: End,
    length: usize,
    noisy: &[i32],
) -> Vec<f64> {
    let link = Link::open(participant.comm, peer, end);
    let repeats = participant.options.num_repeats;
    let incoming = &mut participant.incoming[..length];
    match (participant.options.test_type, &participant.window) {
        (TestType::AsyncOneToOne, _) => {
            link.exchange(&participant.outgoing[..length], incoming, repeats)
        }
        (TestType::SendRecvAndRecvSend, _) => link.echo(incoming, repeats),
        (TestType::Put, Some(window)) => {
            let outgoing = &participant.outgoing[..length];
            one_sided(&link, end, repeats, || window.timed_put(peer, outgoing))
        }
        (TestType::Get, Some(window)) => {
            one_sided(&link, end, repeats, || window.timed_get(peer, incoming))
        }
        (test_type, _) => {
            let go = || noise::one_more(participant.comm, noisy);
            let samples = match test_type {
                TestType::Noise => {
                    let outgoing = &participant.outgoing[..length];
                    link.exchange_beside(outgoing, incoming, repeats, go)
                }
                _ => link.one_way_beside(incoming, repeats, go),
            };
            noise::wait_for_silence(participant.comm, noisy);
            samples
        }
    }
}

/// The reporter transfers; its peer stays inside MPI until all is done.
fn one_sided(link: &Link, end: End, repeats: usize, mut transfer: impl FnMut() -> f64) -> Vec<f64> {
    let samples = match end {
        End::Reporter => (0..repeats).map(|_| transfer()).collect(),
        End::Peer => Vec::new(),
    };
    link.meet();
    samples
}

/// Waits for an order, asleep most of the time.
fn wait_quietly(participant: &Participant) -> (Order, i32) {
    const SHORTEST: Duration = Duration::from_micros(20);
    const LONGEST: Duration = Duration::from_millis(1);
    let mut pause = SHORTEST;
    let from = loop {
        if let Some(status) = participant.comm.any_process().immediate_probe_with_tag(TAG_CONTROL) {
            break status.source_rank();
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST);
    };
    let mut message = [0; 2];
    participant.comm.process_at_rank(from).receive_into_with_tag(&mut message[..], TAG_CONTROL);
    (Order::decode(message), from)
}

/// Rounds in which `size` processes meet each other, two by two (a round-robin tournament).
fn rounds(size: i32) -> i32 {
    size + size % 2 - 1
}

/// Whom `rank` meets in a round; nobody once where `size` is odd. The circle method: one stays, the
/// others move round, and those at opposite places meet.
fn partner(size: i32, round: i32, rank: i32) -> Option<i32> {
    let fixed = rounds(size);
    let peer = if rank == fixed {
        // The one who stays meets the one whose own place is opposite to itself.
        (0..fixed).find(|other| (2 * other - round).rem_euclid(fixed) == 0)?
    } else {
        let opposite = (round - rank).rem_euclid(fixed);
        if opposite == rank { fixed } else { opposite }
    };
    (peer < size).then_some(peer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn orders_survive_the_wire() {
        for order in
            [Order::Measure, Order::Noise { sender: 7 }, Order::YourTurn, Order::LengthDone]
        {
            assert_eq!(Order::decode(order.encode()), order);
        }
    }

    #[test]
    fn everyone_meets_everyone_once_and_the_feeling_is_mutual() {
        for size in 2..12 {
            let mut met = HashSet::new();
            for round in 0..rounds(size) {
                for rank in 0..size {
                    let Some(peer) = partner(size, round, rank) else { continue };
                    assert_eq!(partner(size, round, peer), Some(rank), "{size} {round} {rank}");
                    assert_ne!(peer, rank);
                    assert!(met.insert((rank, peer)), "{rank} meets {peer} twice of {size}");
                }
            }
            assert_eq!(met.len() as i32, size * (size - 1));
        }
    }
}
