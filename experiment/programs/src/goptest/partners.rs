//! Messages between the first and the last process, started by a message of the last. The others wait
//! in the order for the next sample.

use super::kind::{Calls, ReceiveFrom};
use super::sample::Sample;
use crate::measure::clock::{Clock, MpiClock};
use mpi::request::scope;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

const TAG_START: i32 = 140;
/// Tags go round, so that a message of a wrong repetition would not match.
const TAGS: u64 = 16;
const TAG_FIRST: i32 = 141;

/// Both partners, each seen from its own side.
pub struct Partners<'a> {
    pub comm: &'a SimpleCommunicator,
    pub source: ReceiveFrom,
    pub calls: Calls,
    pub outgoing: &'a [u8],
    pub incoming: &'a mut [u8],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    First,
    Last,
}

impl Partners<'_> {
    /// The first sends, the last sends back; time of the whole round.
    pub fn round_trip(&mut self, repetitions: u64) -> Sample {
        self.timed(repetitions, |pair, side, tag| match (side, pair.calls) {
            (Side::First, Calls::Blocking) => {
                pair.send(tag, side);
                pair.receive(tag, side);
            }
            (Side::First, Calls::NonBlocking) => pair.send_and_receive(tag, side),
            (Side::Last, _) => {
                pair.receive(tag, side);
                pair.send(tag, side);
            }
        })
    }

    /// Both send, then both receive. With blocking calls this relies, like the original, on the MPI
    /// to buffer what is sent.
    pub fn head_to_head(&mut self, repetitions: u64) -> Sample {
        self.timed(repetitions, |pair, side, tag| match pair.calls {
            Calls::Blocking => {
                pair.send(tag, side);
                pair.receive(tag, side);
            }
            Calls::NonBlocking => pair.send_and_receive(tag, side),
        })
    }

    /// Seconds of `repetitions` of `round` on the first process; nothing on the others.
    fn timed(&mut self, repetitions: u64, round: impl Fn(&mut Self, Side, i32)) -> Sample {
        let Some(side) = self.side() else { return Sample::default() };
        match side {
            Side::First => self.receive(TAG_START, side),
            Side::Last => self.send(TAG_START, side),
        }
        let start = MpiClock.now();
        for repetition in 0..repetitions {
            round(self, side, TAG_FIRST + (repetition % TAGS) as i32);
        }
        Sample::mean(MpiClock.now() - start, repetitions)
    }

    fn side(&self) -> Option<Side> {
        match self.comm.rank() {
            0 => Some(Side::First),
            rank if rank + 1 == self.comm.size() => Some(Side::Last),
            _ => None,
        }
    }

    fn partner(&self, side: Side) -> i32 {
        match side {
            Side::First => self.comm.size() - 1,
            Side::Last => 0,
        }
    }

    fn send(&self, tag: i32, side: Side) {
        self.comm.process_at_rank(self.partner(side)).send_with_tag(self.outgoing, tag);
    }

    fn receive(&mut self, tag: i32, side: Side) {
        let partner = self.comm.process_at_rank(self.partner(side));
        let any = self.comm.any_process();
        scope(|scope| match (self.source, self.calls) {
            (ReceiveFrom::Partner, Calls::Blocking) => {
                partner.receive_into_with_tag(&mut *self.incoming, tag)
            }
            (ReceiveFrom::Any, Calls::Blocking) => {
                any.receive_into_with_tag(&mut *self.incoming, tag)
            }
            (ReceiveFrom::Partner, Calls::NonBlocking) => {
                partner.immediate_receive_into_with_tag(scope, &mut *self.incoming, tag).wait()
            }
            (ReceiveFrom::Any, Calls::NonBlocking) => {
                any.immediate_receive_into_with_tag(scope, &mut *self.incoming, tag).wait()
            }
        });
    }

    fn send_and_receive(&mut self, tag: i32, side: Side) {
        let partner = self.comm.process_at_rank(self.partner(side));
        let any = self.comm.any_process();
        scope(|scope| {
            let incoming = match self.source {
                ReceiveFrom::Partner => {
                    partner.immediate_receive_into_with_tag(scope, &mut *self.incoming, tag)
                }
                ReceiveFrom::Any => {
                    any.immediate_receive_into_with_tag(scope, &mut *self.incoming, tag)
                }
            };
            partner.send_with_tag(self.outgoing, tag);
            incoming.wait();
        });
    }
}
