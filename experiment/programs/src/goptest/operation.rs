//! The operations that can be timed, with their buffers.

use super::{collective, options::Options, partners};
use crate::measure::broadcast::{Arborcast, Broadcast, FixedTree, Native};
use crate::measure::buffer::{check_room, message};
use crate::measure::failure::{Failure, agree};
use arborcast_planner::baseline;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

/// One timed stretch of repetitions. Meaningful on rank 0.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// Of one repetition, what the operation reports.
    pub seconds: f64,
    /// What the clock saw, for judging whether that is well above its resolution.
    pub elapsed_seconds: f64,
    /// For each process, where the operation knows.
    pub per_process: Vec<f64>,
}

impl Sample {
    /// Of `repetitions` that took `elapsed_seconds` together.
    pub fn mean(elapsed_seconds: f64, repetitions: u64) -> Self {
        let seconds = elapsed_seconds / repetitions as f64;
        Self { seconds, elapsed_seconds, per_process: Vec::new() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    RoundTrip,
    HeadToHead,
    BroadcastRound,
    Acker,
    LeafAck,
    Scatter,
    Barrier,
    IntegerSum,
    DoubleSum,
}

impl Kind {
    pub const ALL: [Self; 9] = [
        Self::RoundTrip,
        Self::HeadToHead,
        Self::BroadcastRound,
        Self::Acker,
        Self::LeafAck,
        Self::Scatter,
        Self::Barrier,
        Self::IntegerSum,
        Self::DoubleSum,
    ];

    /// Its option.
    pub fn name(self) -> &'static str {
        match self {
            Self::RoundTrip => "roundtrip",
            Self::HeadToHead => "head",
            Self::BroadcastRound => "bcast",
            Self::Acker => "bcastalt",
            Self::LeafAck => "bcastleaf",
            Self::Scatter => "scatter",
            Self::Barrier => "sync",
            Self::IntegerSum => "isum",
            Self::DoubleSum => "dsum",
        }
    }

    /// Bytes of one unit of size.
    pub fn unit_bytes(self) -> usize {
        match self {
            Self::RoundTrip | Self::HeadToHead | Self::Barrier => 1,
            Self::BroadcastRound
            | Self::Acker
            | Self::LeafAck
            | Self::Scatter
            | Self::IntegerSum => 4,
            Self::DoubleSum => 8,
        }
    }

    pub fn is_broadcast(self) -> bool {
        matches!(self, Self::BroadcastRound | Self::Acker | Self::LeafAck)
    }

    pub fn is_between_partners(self) -> bool {
        matches!(self, Self::RoundTrip | Self::HeadToHead)
    }
}

/// Whom a receive names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveFrom {
    Partner,
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    Blocking,
    NonBlocking,
}

/// Which broadcast is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BroadcastChoice {
    Native,
    Arborcast,
    Flat,
    Chain,
    Binomial,
}

impl BroadcastChoice {
    /// By their names on the command line.
    pub const ALL: [(&'static str, Self); 5] = [
        ("native", Self::Native),
        ("arborcast", Self::Arborcast),
        ("flat", Self::Flat),
        ("chain", Self::Chain),
        ("binomial", Self::Binomial),
    ];
}

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
            BroadcastChoice::Flat => Box::new(FixedTree::new(comm, "flat", baseline::flat)?),
            BroadcastChoice::Chain => Box::new(FixedTree::new(comm, "chain", baseline::chain)?),
            BroadcastChoice::Binomial => {
                Box::new(FixedTree::new(comm, "binomial", baseline::binomial)?)
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
