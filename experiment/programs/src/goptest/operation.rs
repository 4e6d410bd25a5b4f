//! The operations that can be timed, with their buffers.

use super::command::BroadcastChoice;
use super::kind::Kind;
use super::options::Options;
use super::sample::Sample;
use super::{collective, partners};
use crate::measure::broadcast::{Arborcast, Broadcast, FixedTree, Native};
use crate::measure::buffer::{check_room, message};
use crate::measure::failure::{Failure, agree};
use arborcast_planner::trees::shapes;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

/// The broadcasts to measure one after the other; a single `None` for other operations. Collective.
pub fn broadcasts(
    comm: &SimpleCommunicator,
    options: &Options,
) -> Result<Vec<Option<Box<dyn Broadcast>>>, Failure> {
    if !options.kind.is_broadcast() {
        return Ok(vec![None]);
    }
    let unit = options.kind.unit_bytes() as u64;
    let sizes: Vec<u64> = options.sizes.iter().map(|size| *size as u64 * unit).collect();
    let root = match options.kind {
        Kind::BroadcastRound => options.root,
        _ => Some(options.root.unwrap_or(0)),
    };
    let make = |choice: &BroadcastChoice| -> Result<Option<Box<dyn Broadcast>>, Failure> {
        Ok(Some(match choice {
            BroadcastChoice::Native => Box::new(Native),
            BroadcastChoice::Arborcast => Box::new(Arborcast::connect(comm, root, &sizes)?),
            BroadcastChoice::Flat => Box::new(FixedTree::new(comm, "flat", shapes::flat)?),
            BroadcastChoice::Chain => Box::new(FixedTree::new(comm, "chain", shapes::chain)?),
            BroadcastChoice::Binomial => {
                Box::new(FixedTree::new(comm, "binomial", shapes::binomial)?)
            }
        }))
    };
    options.broadcasts.iter().map(make).collect()
}

/// Room for the longest message of the kind of element that the operation moves.
enum Buffers {
    Bytes { outgoing: Vec<u8>, incoming: Vec<u8> },
    Integers { outgoing: Vec<i32>, incoming: Vec<i32> },
    Doubles { outgoing: Vec<f64>, incoming: Vec<f64> },
}

/// An operation on a communicator, ready to be timed.
pub struct Operation<'a> {
    comm: &'a SimpleCommunicator,
    options: &'a Options,
    broadcast: Option<&'a dyn Broadcast>,
    buffers: Buffers,
    /// Seconds that the ACKer method takes off for each process.
    subtracted: Vec<f64>,
}

impl<'a> Operation<'a> {
    /// Collective.
    pub fn new(
        comm: &'a SimpleCommunicator,
        options: &'a Options,
        broadcast: Option<&'a dyn Broadcast>,
    ) -> Result<Self, Failure> {
        let longest = options.sizes.last().copied().unwrap_or(0);
        let parts = match options.kind {
            Kind::Scatter | Kind::Gather => comm.size() as usize + 1,
            _ => 2,
        };
        let bytes = longest.saturating_mul(options.kind.unit_bytes()).saturating_mul(parts);
        check_room(comm, bytes)?;
        let buffers = agree(comm, buffers_for(options.kind, longest, comm.size() as usize))?;
        let subtracted = match options.kind {
            Kind::Acker => {
                let rounds =
                    collective::empty_rounds(comm, options.root.unwrap_or(0), options.repetitions);
                rounds.iter().map(|round| round * options.subtracted_rounds).collect()
            }
            _ => Vec::new(),
        };
        Ok(Self { comm, options, broadcast, buffers, subtracted })
    }

    /// What is taken off the times of each process, in seconds; nothing for most operations.
    pub fn subtracted(&self) -> &[f64] {
        &self.subtracted
    }

    pub fn broadcast_name(&self) -> Option<&'static str> {
        self.broadcast.map(Broadcast::name)
    }

    /// What a report should say about the broadcasts so far.
    pub fn note(&self) -> Option<String> {
        self.broadcast.and_then(Broadcast::note)
    }

    /// Times `repetitions` of the operation at `size`, in its unit. Collective.
    pub fn sample(&mut self, size: usize, repetitions: u64) -> Sample {
        let (comm, options) = (self.comm, self.options);
        let (broadcast, root) = (self.broadcast.unwrap_or(&Native), options.root.unwrap_or(0));
        let bytes = size * options.kind.unit_bytes();
        match (options.kind, &mut self.buffers) {
            (Kind::Acker, Buffers::Bytes { outgoing, .. }) => {
                let subtracted = &self.subtracted;
                let message = &mut outgoing[..bytes];
                collective::acker(comm, broadcast, root, message, repetitions, subtracted)
            }
            (Kind::LeafAck, Buffers::Bytes { outgoing, .. }) => {
                collective::leaf_acks(comm, broadcast, root, &mut outgoing[..bytes], repetitions)
            }
            (Kind::BroadcastRound, Buffers::Bytes { outgoing, .. }) => {
                let message = &mut outgoing[..bytes];
                collective::broadcast_round(comm, broadcast, options.root, message, repetitions)
            }
            (Kind::Gather, Buffers::Bytes { outgoing, incoming }) => {
                let all = bytes * comm.size() as usize;
                collective::gather(comm, &outgoing[..bytes], &mut incoming[..all], repetitions)
            }
            (Kind::Barrier, _) => collective::barrier(comm, repetitions),
            (_, Buffers::Bytes { outgoing, incoming }) => {
                let mut pair = partners::Partners {
                    comm,
                    source: options.source,
                    calls: options.calls.at(options.kind, bytes),
                    outgoing: &outgoing[..bytes],
                    incoming: &mut incoming[..bytes],
                };
                match options.kind {
                    Kind::HeadToHead => pair.head_to_head(repetitions),
                    _ => pair.round_trip(repetitions),
                }
            }
            (Kind::Scatter, Buffers::Integers { outgoing, incoming }) => {
                let all = size * comm.size() as usize;
                collective::scatter(comm, &outgoing[..all], &mut incoming[..size], repetitions)
            }
            (_, Buffers::Integers { outgoing, incoming }) => {
                collective::sum(comm, &outgoing[..size], &mut incoming[..size], repetitions)
            }
            (_, Buffers::Doubles { outgoing, incoming }) => {
                collective::sum(comm, &outgoing[..size], &mut incoming[..size], repetitions)
            }
        }
    }
}

fn buffers_for(kind: Kind, longest: usize, processes: usize) -> Result<Buffers, Failure> {
    let all = longest.saturating_mul(processes);
    let bytes = longest.saturating_mul(kind.unit_bytes());
    Ok(match kind {
        Kind::RoundTrip
        | Kind::HeadToHead
        | Kind::Barrier
        | Kind::BroadcastRound
        | Kind::Acker
        | Kind::LeafAck => Buffers::Bytes { outgoing: message(bytes)?, incoming: message(bytes)? },
        Kind::Gather => Buffers::Bytes { outgoing: message(longest)?, incoming: message(all)? },
        Kind::DoubleSum => {
            Buffers::Doubles { outgoing: message(longest)?, incoming: message(longest)? }
        }
        Kind::IntegerSum => {
            Buffers::Integers { outgoing: message(longest)?, incoming: message(longest)? }
        }
        Kind::Scatter => Buffers::Integers { outgoing: message(all)?, incoming: message(longest)? },
    })
}
