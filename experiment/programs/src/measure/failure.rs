//! How a measurement program ends when it cannot go on. Ranks must fail together, or the others wait
//! for ever: every [`Failure`] that reaches the top of a program is one that all ranks hold, because
//! it follows from the command line, the number of processes, or [`agree`].

use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

/// Why a program ended early. Each has its exit code, see [`Failure::exit_code`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The message names the option.
    #[error("{0}; see --help for what there is")]
    BadOption(String),
    #[error(
        "{what} needs at least {needed} processes and was started with {found}; give mpirun a larger -n"
    )]
    TooFewProcesses { what: String, needed: i32, found: i32 },
    #[error("no memory for {bytes} bytes of messages on one process; ask for shorter messages")]
    NoMemory { bytes: usize },
    #[error("{path}: {reason}")]
    File { path: String, reason: String },
    #[error("{what} cannot be had here: {reason}")]
    Unavailable { what: String, reason: String },
    /// Another rank failed; what it said.
    #[error("rank {rank}: {message}")]
    Elsewhere { rank: i32, code: u8, message: String },
}

impl Failure {
    pub fn file(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::File { path: path.display().to_string(), reason: error.to_string() }
    }

    /// 2 bad option, 3 too few processes, 4 no memory, 5 a file, 6 something not to be had.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::BadOption(_) => 2,
            Self::TooFewProcesses { .. } => 3,
            Self::NoMemory { .. } => 4,
            Self::File { .. } => 5,
            Self::Unavailable { .. } => 6,
            Self::Elsewhere { code, .. } => *code,
        }
    }
}

/// Makes one rank's failure everyone's: where any rank brings an error, all get that of the lowest
/// such rank. Collective over `comm`.
pub fn agree<T>(comm: &SimpleCommunicator, local: Result<T, Failure>) -> Result<T, Failure> {
    let (size, rank) = (comm.size(), comm.rank());
    let mine = if local.is_err() { rank } else { size };
    let mut first = size;
    comm.all_reduce_into(&mine, &mut first, SystemOperation::min());
    if first == size {
        return local;
    }
    let (mut code, message) = match &local {
        Err(failure) => (failure.exit_code(), failure.to_string()),
        Ok(_) => (0, String::new()),
    };
    let speaker = comm.process_at_rank(first);
    let mut length = message.len() as u64;
    speaker.broadcast_into(&mut code);
    speaker.broadcast_into(&mut length);
    let mut text = message.into_bytes();
    text.resize(length as usize, 0);
    speaker.broadcast_into(&mut text[..]);
    match local {
        Err(failure) if first == rank => Err(failure),
        _ => Err(Failure::Elsewhere {
            rank: first,
            code,
            message: String::from_utf8_lossy(&text).into_owned(),
        }),
    }
}

/// An error unless `comm` has at least `needed` processes.
pub fn need_processes(comm: &SimpleCommunicator, what: &str, needed: i32) -> Result<(), Failure> {
    let found = comm.size();
    if found < needed {
        return Err(Failure::TooFewProcesses { what: what.to_owned(), needed, found });
    }
    Ok(())
}
