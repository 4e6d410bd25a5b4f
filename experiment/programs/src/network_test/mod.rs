//! PARUS network_test: how long messages take from each process to each other, as a matrix for each
//! message length. The test types, options and files are those of the original and its successors;
//! see `docs/man/network_test.1`.

mod crowd;
mod matrix;
mod names;
mod noise;
mod options;
mod output;
mod pairs;
mod plots;
mod text;

pub use matrix::{Matrix, Statistic};
pub use options::{Options, TestType};
pub use text::{ParseError, TextMatrices, parse as parse_text};

use crate::measure::buffer::{check_room, message};
use crate::measure::command_line::Parsed;
use crate::measure::failure::{Failure, agree, need_processes};
use crate::measure::program::Outcome;
use crate::measure::progress::Progress;
use crate::measure::statistics::Summary;
use crate::measure::window::Window;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

/// Runs the program. Collective over `comm`; files are written by rank 0.
pub fn run(comm: &SimpleCommunicator, arguments: &[String]) -> Result<Outcome, Failure> {
    let options = match options::parse(arguments)? {
        Parsed::Options(options) => options,
        Parsed::Text(text) => return Ok(Outcome::Text(text)),
    };
    need_processes(comm, "network_test", 2)?;
    options.check_processes(comm.size() as usize)?;
    let hosts = host_names(comm);
    let mut participant = Participant::new(comm, &options)?;
    let speaks = comm.rank() == 0;
    let files = if speaks { output::Files::create(&options, &hosts).map(Some) } else { Ok(None) };
    let mut files = agree(comm, files)?;
    let mut plots = plots::Plots::new(&options, &hosts);
    let steps = options.lengths().count() as u64 * comm.size() as u64;
    let mut progress = Progress::new(steps, speaks);
    for length in options.lengths() {
        let row = participant.measure(length, &mut progress);
        let matrix = participant.collect(&row);
        let written = match (&mut files, matrix) {
            (Some(files), Some(matrix)) => {
                plots.add(length, &matrix);
                files.record(length, &matrix)
            }
            _ => Ok(()),
        };
        agree(comm, written)?;
    }
    drop(progress);
    let drawn = if speaks { plots.save() } else { Ok(()) };
    agree(comm, drawn)?;
    if let Some(files) = files {
        files.tell();
    }
    Ok(Outcome::Done)
}

/// What a rank needs to take part in the measurement of any length.
struct Participant<'a> {
    comm: &'a SimpleCommunicator,
    options: &'a Options,
    outgoing: Vec<u8>,
    /// Room for one message, or for one of each process where all send to all.
    incoming: Vec<u8>,
    window: Option<Window>,
}

impl<'a> Participant<'a> {
    fn new(comm: &'a SimpleCommunicator, options: &'a Options) -> Result<Self, Failure> {
        let longest = options.longest();
        let messages =
            if options.test_type == TestType::AllToAll { comm.size() as usize } else { 1 };
        // A window has the length of a message too.
        let noise = options.noise_length.saturating_mul(options.noise_processes);
        check_room(comm, longest.saturating_mul(messages + 2).saturating_add(noise))?;
        let room = message(longest).and_then(|out| {
            message(longest.saturating_mul(messages)).map(|incoming| (out, incoming))
        });
        let (outgoing, incoming) = agree(comm, room)?;
        let window = match options.test_type {
            TestType::Put | TestType::Get => Some(Window::allocate(comm, longest.max(1))?),
            _ => None,
        };
        Ok(Self { comm, options, outgoing, incoming, window })
    }

    /// The row of this rank: seconds from each process to it; nothing from itself.
    fn measure(&mut self, length: usize, progress: &mut Progress) -> Vec<Summary> {
        let what = format!("{} of {length} bytes", self.options.test_type.name());
        match self.options.test_type {
            TestType::AllToAll => {
                let row = crowd::all_to_all(self, length);
                (0..self.comm.size()).for_each(|_| progress.step(&what));
                row
            }
            TestType::Bcast => crowd::bcast(self, length, || progress.step(&what)),
            _ if self.options.parallel_pairs => {
                pairs::at_once(self, length, || progress.step(&what))
            }
            _ => pairs::in_turn(self, length, || progress.step(&what)),
        }
    }

    /// Rows of all ranks, on rank 0.
    fn collect(&self, row: &[Summary]) -> Option<Matrix> {
        let flat: Vec<f64> = row
            .iter()
            .flat_map(|cell| [cell.average, cell.median, cell.deviation, cell.min])
            .collect();
        let root = self.comm.process_at_rank(0);
        if self.comm.rank() != 0 {
            root.gather_into(&flat[..]);
            return None;
        }
        let mut all = vec![0.0; flat.len() * self.comm.size() as usize];
        root.gather_into_root(&flat[..], &mut all[..]);
        let matrix = Matrix::from_rows(self.comm.size() as usize, &all);
        // The origin of a put reports it, so what came in as a row is a column.
        Some(if self.options.test_type == TestType::Put { matrix.transposed() } else { matrix })
    }
}

/// Processor names of all ranks, in their order; on every rank.
fn host_names(comm: &SimpleCommunicator) -> Vec<String> {
    let name = mpi::environment::processor_name().unwrap_or_else(|_| "unknown".to_owned());
    let mut mine = [0u8; output::HOST_NAME_BYTES];
    let kept = name.len().min(mine.len() - 1);
    mine[..kept].copy_from_slice(&name.as_bytes()[..kept]);
    let mut all = vec![0u8; mine.len() * comm.size() as usize];
    comm.all_gather_into(&mine[..], &mut all[..]);
    all.chunks(mine.len())
        .map(|chunk| String::from_utf8_lossy(chunk).trim_end_matches('\0').to_owned())
        .collect()
}
