//! The operations that can be timed, with their buffers.

use super::options::{BroadcastChoice, Kind, Options};
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
    Integers { one: Vec<i32>, other: Vec<i32> },
    Doubles { one: Vec<f64>, other: Vec<f64> },
}

/// An operation on a communicator, ready to be timed.
pub struct Operation<'a> {
    comm: &'a SimpleCommunicator,
    options: &'a Options,
    broadcast: Option<&'a dyn Broadcast>,
    buffers: Buffers,
}

impl<'a> Operation<'a> {
    /// Collective.
    pub fn new(
        comm: &'a SimpleCommunicator,
        options: &'a Options,
        broadcast: Option<&'a dyn Broadcast>,
    ) -> Result<Self, Failure> {
        let longest = options.sizes.last().copied().unwrap_or(0);
        let parts = if options.kind == Kind::Scatter { comm.size() as usize + 1 } else { 2 };
        let bytes = longest.saturating_mul(options.kind.unit_bytes()).saturating_mul(parts);
        check_room(comm, bytes)?;
        let buffers = agree(comm, buffers_for(options.kind, longest, comm.size() as usize))?;
        Ok(Self { comm, options, broadcast, buffers })
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
        let count = comm.size() as usize;
        match (options.kind, &mut self.buffers) {
            (Kind::Acker, Buffers::Integers { one, .. }) => {
                let root = options.root.unwrap_or(0);
                let broadcast = self.broadcast.unwrap_or(&Native);
                collective::acker(comm, broadcast, root, &mut one[..size], repetitions)
            }
            (Kind::LeafAck, Buffers::Integers { one, .. }) => {
                let root = options.root.unwrap_or(0);
                let broadcast = self.broadcast.unwrap_or(&Native);
                collective::leaf_acks(comm, broadcast, root, &mut one[..size], repetitions)
            }
            (Kind::BroadcastRound, Buffers::Integers { one, .. }) => {
                let broadcast = self.broadcast.unwrap_or(&Native);
                let elements = &mut one[..size];
                collective::broadcast_round(comm, broadcast, options.root, elements, repetitions)
            }
            (Kind::Scatter, Buffers::Integers { one, other }) => {
                collective::scatter(comm, &one[..size * count], &mut other[..size], repetitions)
            }
            (_, Buffers::Integers { one, other }) => {
                collective::sum(comm, &one[..size], &mut other[..size], repetitions)
            }
            (_, Buffers::Doubles { one, other }) => {
                collective::sum(comm, &one[..size], &mut other[..size], repetitions)
            }
            (Kind::Barrier, _) => collective::barrier(comm, repetitions),
            (_, Buffers::Bytes { outgoing, incoming }) => {
                let mut pair = partners::Partners {
                    comm,
                    source: options.source,
                    calls: options.calls,
                    outgoing: &outgoing[..size],
                    incoming: &mut incoming[..size],
                };
                match options.kind {
                    Kind::HeadToHead => pair.head_to_head(repetitions),
                    _ => pair.round_trip(repetitions),
                }
            }
        }
    }
}

fn buffers_for(kind: Kind, longest: usize, processes: usize) -> Result<Buffers, Failure> {
    Ok(match kind {
        Kind::RoundTrip | Kind::HeadToHead | Kind::Barrier => {
            Buffers::Bytes { outgoing: message(longest)?, incoming: message(longest)? }
        }
        Kind::DoubleSum => Buffers::Doubles { one: message(longest)?, other: message(longest)? },
        Kind::Scatter => Buffers::Integers {
            one: message(longest.saturating_mul(processes))?,
            other: message(longest)?,
        },
        Kind::BroadcastRound | Kind::Acker | Kind::LeafAck | Kind::IntegerSum => {
            Buffers::Integers { one: message(longest)?, other: message(longest)? }
        }
    })
}
