//! mpi_collective_benchmark, after the one of DUNE: how much of a collective operation's time a
//! process can work through while a non-blocking call is under way. After W. Lawry, C. Wilson,
//! A. Maccabe, R. Brightwell, "COMB: A Portable Benchmark Suite for Assessing MPI Overlap" (CLUSTER
//! 2002). See `docs/man/mpi_collective_benchmark.1`.

mod availability;
mod ini;
mod method;
mod options;
mod output;

pub use availability::{Availability, Iteration, Step, availability};
pub use method::{Method, Mode, Start};
pub use options::Options;

use crate::measure::buffer::check_room;
use crate::measure::command_line::Parsed;
use crate::measure::failure::{Failure, agree};
use crate::measure::program::Outcome;
use crate::measure::progress::Progress;
use method::Exercise;
use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::*;
use output::{Output, Row};

/// Runs the program. Collective over `comm`; rank 0 writes.
pub fn run(comm: &SimpleCommunicator, arguments: &[String]) -> Result<Outcome, Failure> {
    let options = match options::parse(arguments, || options_file(comm))? {
        Parsed::Options(options) => options,
        Parsed::Text(text) => return Ok(Outcome::Text(text)),
    };
    let speaks = comm.rank() == 0;
    if speaks {
        options
            .warnings(comm.size())
            .iter()
            .for_each(|text| eprintln!("mpi_collective_benchmark: {text}"));
    }
    let sizes = options.communicator_sizes(comm.size());
    let longest = options.bytes().iter().copied().max().unwrap_or(0);
    check_room(comm, longest.saturating_mul(comm.size() as usize + 1))?;
    let output = if speaks { Output::open(&options).map(Some) } else { Ok(None) };
    let mut output = agree(comm, output)?;
    let steps = options.methods().len() * sizes.len() * options.bytes().len();
    let mut progress = Progress::new(steps as u64, speaks);
    for method in options.methods() {
        for bytes in options.bytes() {
            for size in &sizes {
                let row = measure_on_part(comm, &options, *method, *bytes, *size)?;
                progress.step(&format!("{} of {bytes} bytes on {size} processes", method.name()));
                let written = match (&mut output, row) {
                    (Some(output), Some(row)) => output.add(row),
                    _ => Ok(()),
                };
                agree(comm, written)?;
            }
        }
    }
    drop(progress);
    let finished = output.map_or(Ok(()), Output::finish);
    agree(comm, finished)?;
    Ok(Outcome::Done)
}

/// The options file of rank 0's working folder, on every rank: hosts may have different ones.
fn options_file(comm: &SimpleCommunicator) -> Option<String> {
    let root = comm.process_at_rank(0);
    let text = match comm.rank() {
        0 => std::fs::read(options::OPTIONS_FILE).unwrap_or_default(),
        _ => Vec::new(),
    };
    let mut length = text.len() as u64;
    root.broadcast_into(&mut length);
    if length == 0 {
        return None;
    }
    let mut text = text;
    text.resize(length as usize, 0);
    root.broadcast_into(&mut text[..]);
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// One row, measured by the first `size` processes; on those. Collective over `world`.
fn measure_on_part(
    world: &SimpleCommunicator,
    options: &Options,
    method: Method,
    bytes: usize,
    size: i32,
) -> Result<Option<Row>, Failure> {
    let color = if world.rank() < size { Color::with_value(0) } else { Color::undefined() };
    let part = world.split_by_color(color);
    let exercise = match &part {
        Some(part) => Exercise::new(part, method, bytes, options.start).map(Some),
        None => Ok(None),
    };
    let row = agree(world, exercise)?.map(|mut exercise| measure(&mut exercise, options));
    let mut end = world.immediate_barrier();
    if row.is_none() {
        // Who does not take part sleeps, so as not to take a processor from those who do.
        while let Err(pending) = end.test() {
            std::thread::sleep(std::time::Duration::from_millis(1));
            end = pending;
        }
    } else {
        end.wait();
    }
    Ok(row)
}

fn measure(exercise: &mut Exercise, options: &Options) -> Row {
    let iterations = options.iterations;
    let mut time = |mode, work| exercise.mean(mode, work, iterations);
    // Untimed: the first call sets up connections.
    time(Mode::Blocking, 0.0);
    let blocking = time(Mode::Blocking, 0.0).seconds;
    let wait = time(Mode::Wait, 0.0).seconds;
    let mut found = |mode| {
        let base = time(mode, 0.0).seconds;
        availability(base, options.threshold, |work| time(mode, work))
    };
    let sleep = found(Mode::Sleep);
    let active = found(Mode::Active);
    Row {
        method: exercise.method(),
        bytes: exercise.bytes(),
        processes: exercise.processes(),
        iterations,
        blocking,
        wait,
        sleep,
        active,
    }
}
