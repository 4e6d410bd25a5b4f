//! goptest, after goptest and mpptest of Gropp's perftest: how long a pattern of messages or a collective
//! operation takes, over message sizes, with the minimum of repeated samples and smoothing. See
//! `docs/man/goptest.1` for the patterns, and `docs/measuring.md` for how they compare.

mod collective;
mod command;
mod fit;
mod graph;
mod kind;
mod operation;
mod options;
mod original;
mod output;
mod partners;
mod refinement;
mod refused;
mod sample;
mod sweep;

use crate::measure::clock::{MpiClock, observed_resolution};
use crate::measure::command_line::Parsed;
use crate::measure::failure::{Failure, agree, need_processes};
use crate::measure::program::Outcome;
use crate::measure::progress::Progress;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use operation::Operation;
use options::Options;
use sweep::sweep;

/// Runs the program. Collective over `comm`; rank 0 decides, and writes.
pub fn run(comm: &SimpleCommunicator, arguments: &[String]) -> Result<Outcome, Failure> {
    let options = match options::parse(arguments)? {
        Parsed::Options(options) => options,
        Parsed::Text(text) => return Ok(Outcome::Text(text)),
    };
    need_processes(comm, "goptest", 2)?;
    options.check_processes(comm.size())?;
    let result = match options.process_set {
        None => measure(comm, &options),
        Some(set) => {
            let ranks: Vec<i32> = (set.first..=set.last).collect();
            let taking_part = comm.split_by_subgroup_collective(&comm.group().include(&ranks));
            agree(comm, taking_part.map_or(Ok(()), |set| measure(&set, &options)))
        }
    };
    result.map(|()| Outcome::Done)
}

/// All that the options ask for, on the processes that take part. Collective over `comm`.
fn measure(comm: &SimpleCommunicator, options: &Options) -> Result<(), Failure> {
    let speaks = comm.rank() == 0;
    let output =
        if speaks { output::Output::open(options, comm.size()).map(Some) } else { Ok(None) };
    let mut output = agree(comm, output)?;
    for broadcast in operation::broadcasts(comm, options)? {
        let mut operation = Operation::new(comm, options, broadcast.as_deref())?;
        let written = match &mut output {
            Some(output) => lead(comm, options, &mut operation, output),
            None => {
                follow(comm, &mut operation);
                Ok(())
            }
        };
        agree(comm, written)?;
    }
    let finished = output.map_or(Ok(()), output::Output::finish);
    agree(comm, finished)
}

/// Repetitions that end the followers' loop.
const NO_MORE: u64 = 0;

/// Rank 0's part: decides what is measured, and tells the others before each sample.
fn lead(
    comm: &SimpleCommunicator,
    options: &Options,
    operation: &mut Operation,
    output: &mut output::Output,
) -> Result<(), Failure> {
    let root = comm.process_at_rank(0);
    let mut progress = Progress::new(options.sizes.len() as u64, true);
    let policy = options.policy(observed_resolution(&MpiClock));
    output.begin_run(operation.broadcast_name(), operation.subtracted());
    let result = sweep(
        &options.sizes,
        &policy,
        |size, repetitions| {
            root.broadcast_into(&mut [size as u64, repetitions][..]);
            operation.sample(size, repetitions)
        },
        |entries, remeasured| {
            if remeasured.is_empty() && entries.len() <= options.sizes.len() {
                progress.step(&format!("size {}", entries.last().map_or(0, |entry| entry.size)));
            }
            output.update(entries, remeasured)
        },
    );
    root.broadcast_into(&mut [0, NO_MORE][..]);
    output.end_run(operation.note());
    result.map(|_| ())
}

/// The others' part.
fn follow(comm: &SimpleCommunicator, operation: &mut Operation) {
    loop {
        let mut order = [0u64; 2];
        comm.process_at_rank(0).broadcast_into(&mut order[..]);
        let [size, repetitions] = order;
        if repetitions == NO_MORE {
            return;
        }
        operation.sample(size as usize, repetitions);
    }
}
