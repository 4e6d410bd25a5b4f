//! Kernels that time the way between two processes. Both ends call the same function; the end that
//! reports gets the samples, its peer none. One-way times need no common clock: the reporter sends
//! an empty order and waits half of an empty round trip, so that both ends begin at one moment, and
//! then times its own receive. Where the two directions of a link have different latencies, each is
//! given their mean.
//!
//! The patterns are those of PARUS network_test; see its manual for what each is to show.

use super::clock::{Clock, MpiClock, wait_until};
use mpi::request::{multiple_scope, scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

const TAG_ORDER: i32 = 101;
const TAG_MESSAGE: i32 = 102;

/// Empty round trips from which the latency of a link is taken.
const LATENCY_ROUNDS: usize = 10;

/// Which end of a link this process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Times the transfers and gets the samples.
    Reporter,
    /// Does the other half.
    Peer,
}

/// The way between this process and another, with its empty one-way latency measured.
pub struct Link<'a> {
    comm: &'a SimpleCommunicator,
    peer: i32,
    end: End,
    latency_seconds: f64,
}

/// Readings of the clock during an exchange.
struct SwapMoments {
    receiving: f64,
    received: f64,
    both_done: f64,
}

impl<'a> Link<'a> {
    /// Measures the empty latency; `peer` is the other end's rank, which must call this too.
    pub fn open(comm: &'a SimpleCommunicator, peer: i32, end: End) -> Self {
        let mut link = Self { comm, peer, end, latency_seconds: 0.0 };
        let round = (0..LATENCY_ROUNDS).map(|_| link.round_trip(&mut [])).fold(f64::MAX, f64::min);
        link.latency_seconds = round / 2.0;
        link
    }

    /// Half of the least empty round trip, in seconds. Zero on the [`End::Peer`].
    pub fn latency_seconds(&self) -> f64 {
        match self.end {
            End::Reporter => self.latency_seconds,
            End::Peer => 0.0,
        }
    }

    fn round_trip(&self, message: &mut [u8]) -> f64 {
        let peer = self.comm.process_at_rank(self.peer);
        let start = MpiClock.now();
        match self.end {
            End::Reporter => {
                peer.send_with_tag(message, TAG_MESSAGE);
                peer.receive_into_with_tag(message, TAG_MESSAGE);
            }
            End::Peer => {
                peer.receive_into_with_tag(message, TAG_MESSAGE);
                peer.send_with_tag(message, TAG_MESSAGE);
            }
        }
        MpiClock.now() - start
    }

    /// Both ends return from this at one moment, as nearly as the latency is known. Returns that
    /// moment: a reporter that is woken late has still been waited for since then.
    fn start_together(&self) -> f64 {
        let peer = self.comm.process_at_rank(self.peer);
        let mut empty: [u8; 0] = [];
        match self.end {
            End::Reporter => {
                let moment = MpiClock.now() + self.latency_seconds;
                peer.send_with_tag(&empty[..], TAG_ORDER);
                wait_until(&MpiClock, moment);
                moment
            }
            End::Peer => {
                peer.receive_into_with_tag(&mut empty[..], TAG_ORDER);
                MpiClock.now()
            }
        }
    }

    /// Collects `repeats` samples on the reporter, none on the peer.
    fn repeat(&self, repeats: usize, mut once: impl FnMut() -> f64) -> Vec<f64> {
        let mut samples = Vec::with_capacity(repeats);
        for _ in 0..repeats {
            let seconds = once();
            if self.end == End::Reporter {
                samples.push(seconds);
            }
        }
        samples
    }

    /// `one_to_one`: the peer sends, the reporter's `MPI_Recv` is timed. Seconds.
    pub fn one_way(&self, message: &mut [u8], repeats: usize) -> Vec<f64> {
        self.one_way_beside(message, repeats, || ())
    }

    /// As [`Link::one_way`]; the reporter calls `before` ahead of each transfer, untimed.
    pub fn one_way_beside(
        &self,
        message: &mut [u8],
        repeats: usize,
        mut before: impl FnMut(),
    ) -> Vec<f64> {
        let peer = self.comm.process_at_rank(self.peer);
        self.repeat(repeats, || {
            if self.end == End::Reporter {
                before();
            }
            let start = self.start_together();
            match self.end {
                End::Reporter => {
                    peer.receive_into_with_tag(message, TAG_MESSAGE);
                }
                End::Peer => peer.send_with_tag(message, TAG_MESSAGE),
            }
            MpiClock.now() - start
        })
    }

    /// `async_one_to_one`: both send and receive at once without blocking; timed from the reporter's
    /// `MPI_Irecv` to its `MPI_Waitany`. Seconds. A half-duplex link takes twice as long as for
    /// [`Link::one_way`].
    pub fn exchange(&self, outgoing: &[u8], incoming: &mut [u8], repeats: usize) -> Vec<f64> {
        self.repeat(repeats, || {
            self.start_together();
            let moments = self.swap(outgoing, incoming);
            moments.received - moments.receiving
        })
    }

    /// `noise`: the same exchange, timed until the reporter has sent and received. Seconds. The
    /// reporter calls `before` ahead of each, untimed.
    pub fn exchange_beside(
        &self,
        outgoing: &[u8],
        incoming: &mut [u8],
        repeats: usize,
        mut before: impl FnMut(),
    ) -> Vec<f64> {
        self.repeat(repeats, || {
            if self.end == End::Reporter {
                before();
            }
            let start = self.start_together();
            self.swap(outgoing, incoming).both_done - start
        })
    }

    /// `MPI_Isend`, `MPI_Irecv`, and their completion.
    fn swap(&self, outgoing: &[u8], incoming: &mut [u8]) -> SwapMoments {
        let peer = self.comm.process_at_rank(self.peer);
        scope(|sending| {
            let send = peer.immediate_send_with_tag(sending, outgoing, TAG_MESSAGE);
            let receiving = MpiClock.now();
            multiple_scope(1, |scope, requests| {
                requests.add(peer.immediate_receive_into_with_tag(scope, incoming, TAG_MESSAGE));
                requests.wait_any();
            });
            let received = MpiClock.now();
            send.wait();
            SwapMoments { receiving, received, both_done: MpiClock.now() }
        })
    }

    /// `send_recv_and_recv_send`: the reporter sends, the peer sends back at once; half of the time
    /// between. Seconds.
    pub fn echo(&self, message: &mut [u8], repeats: usize) -> Vec<f64> {
        self.repeat(repeats, || self.round_trip(message) / 2.0)
    }

    /// Waits for the peer to have come here too. The peer stays inside MPI meanwhile, so that
    /// one-sided transfers to it make progress.
    pub(crate) fn meet(&self) {
        self.round_trip(&mut []);
    }
}
