//! The collective operations, blocking and not, on integers of four bytes.

use super::availability::Iteration;
use crate::measure::buffer::message;
use crate::measure::clock::{Clock, MpiClock};
use crate::measure::failure::{Failure, agree};
use crate::measure::window_sync::WindowSync;
use mpi::collective::SystemOperation;
use mpi::request::{Request, Scope, scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

/// Bytes of one element.
pub const ELEMENT_BYTES: usize = size_of::<i32>();

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Method {
    Allreduce,
    Barrier,
    Broadcast,
    Gather,
    Allgather,
    Scatter,
}

impl Method {
    /// As in options and output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allreduce => "allreduce",
            Self::Barrier => "barrier",
            Self::Broadcast => "broadcast",
            Self::Gather => "gather",
            Self::Allgather => "allgather",
            Self::Scatter => "scatter",
        }
    }
}

/// How an operation is called and what is done until it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Blocking,
    /// Non-blocking, completed at once.
    Wait,
    /// Non-blocking, then work outside of MPI, then completed.
    Sleep,
    /// As `Sleep`, with `MPI_Test` again and again during the work.
    Active,
}

/// From when an iteration is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Start {
    /// From when the process itself leaves a barrier, as the original does; processes leave it up to
    /// its own duration apart
    Barrier,
    /// From a moment on which all agree, after their clocks have been compared
    Together,
}

impl Start {
    /// As in options and output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Together => "together",
        }
    }
}

/// An operation on a communicator, with its buffers. Process 0 is the root.
pub struct Exercise<'a> {
    comm: &'a SimpleCommunicator,
    /// `None`: iterations start after a barrier.
    sync: Option<WindowSync<'a>>,
    method: Method,
    bytes: usize,
    /// `bytes` of each process.
    one: Vec<i32>,
    /// `bytes` for each process, where the method has such a side.
    all: Vec<i32>,
}

impl<'a> Exercise<'a> {
    /// `bytes` is what each process sends or receives.
    pub fn new(
        comm: &'a SimpleCommunicator,
        method: Method,
        bytes: usize,
        start: Start,
    ) -> Result<Self, Failure> {
        let count = bytes / ELEMENT_BYTES;
        let parts = match method {
            Method::Gather | Method::Allgather | Method::Scatter => comm.size() as usize,
            Method::Allreduce | Method::Barrier | Method::Broadcast => 1,
        };
        let room = message(count)
            .and_then(|one| message(count.saturating_mul(parts)).map(|all| (one, all)));
        let (one, all) = agree(comm, room)?;
        let sync = (start == Start::Together).then(|| WindowSync::new(comm));
        Ok(Self { comm, sync, method, bytes, one, all })
    }

    pub fn method(&self) -> Method {
        self.method
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn processes(&self) -> i32 {
        self.comm.size()
    }

    /// The mean iteration over all processes; the same on all of them. Collective.
    pub fn mean(&mut self, mode: Mode, work_seconds: f64, iterations: u64) -> Iteration {
        let mut sums = [0.0; 2];
        for _ in 0..iterations {
            let start = self.start();
            let worked = match mode {
                Mode::Blocking => {
                    self.blocking();
                    0.0
                }
                _ => self.non_blocking(mode, work_seconds),
            };
            sums[0] += MpiClock.now() - start;
            sums[1] += worked;
        }
        let mut totals = [0.0; 2];
        self.comm.all_reduce_into(&sums[..], &mut totals[..], SystemOperation::sum());
        let count = iterations as f64 * f64::from(self.comm.size());
        Iteration { seconds: totals[0] / count, work_seconds: totals[1] / count }
    }

    /// The moment from which an iteration is timed. Collective.
    fn start(&self) -> f64 {
        match &self.sync {
            Some(sync) => sync.start_together(),
            None => {
                self.comm.barrier();
                MpiClock.now()
            }
        }
    }

    fn blocking(&mut self) {
        let (comm, one, all) = (self.comm, &mut self.one[..], &mut self.all[..]);
        let (root, is_root) = (comm.process_at_rank(0), comm.rank() == 0);
        match self.method {
            Method::Allreduce => comm.all_reduce_into(one, all, SystemOperation::sum()),
            Method::Barrier => comm.barrier(),
            Method::Broadcast => root.broadcast_into(one),
            Method::Allgather => comm.all_gather_into(one, all),
            Method::Gather if is_root => root.gather_into_root(one, all),
            Method::Gather => root.gather_into(one),
            Method::Scatter if is_root => root.scatter_into_root(all, one),
            Method::Scatter => root.scatter_into(one),
        }
    }

    /// Returns the seconds that the work took.
    fn non_blocking(&mut self, mode: Mode, work: f64) -> f64 {
        let (comm, one, all) = (self.comm, &mut self.one[..], &mut self.all[..]);
        let (root, is_root) = (comm.process_at_rank(0), comm.rank() == 0);
        scope(|scope| match self.method {
            Method::Allreduce => {
                let sum = SystemOperation::sum();
                complete(comm.immediate_all_reduce_into(scope, &*one, all, sum), mode, work)
            }
            Method::Barrier => complete(comm.immediate_barrier(), mode, work),
            Method::Broadcast => complete(root.immediate_broadcast_into(scope, one), mode, work),
            Method::Allgather => {
                complete(comm.immediate_all_gather_into(scope, &*one, all), mode, work)
            }
            Method::Gather if is_root => {
                complete(root.immediate_gather_into_root(scope, &*one, all), mode, work)
            }
            Method::Gather => complete(root.immediate_gather_into(scope, &*one), mode, work),
            Method::Scatter if is_root => {
                complete(root.immediate_scatter_into_root(scope, &*all, one), mode, work)
            }
            Method::Scatter => complete(root.immediate_scatter_into(scope, one), mode, work),
        })
    }
}

/// Works for `work` seconds in the manner of `mode`, then completes the request; returns the seconds
/// that the work took. The work is a busy wait that lets others run, since where ranks outnumber
/// processors each would work in the others' time too.
fn complete<'a, D: ?Sized, S: Scope<'a>>(request: Request<'a, D, S>, mode: Mode, work: f64) -> f64 {
    let begin = MpiClock.now();
    let end = begin + work;
    let mut pending = Some(request);
    let mut now = begin;
    while mode != Mode::Wait && now < end {
        if mode == Mode::Active {
            pending = pending.take().and_then(|request| request.test().err());
        }
        std::thread::yield_now();
        now = MpiClock.now();
    }
    if let Some(request) = pending {
        request.wait_without_status();
    }
    now - begin
}
