//! A blocking connection to the daemon of this node, for programs that have no event loop:
//! applications, experiments and the operator's command. Every wait has a limit.

use crate::message::{self, Answer, Ask, FRAME_HEADER_BYTES, FrameError, Refusal};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The socket's place where nothing else is said.
pub const DEFAULT_SOCKET: &str = "/run/arborcast/arborcastd.sock";
/// Names another place for the socket.
pub const SOCKET_VARIABLE: &str = "ARBORCAST_SOCKET";

/// Why the daemon did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("no daemon at {path}: {source}; is arborcastd running on this node?")]
    Connect { path: PathBuf, source: io::Error },
    #[error("the daemon did not answer: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the daemon gave an answer to another question")]
    Unexpected,
}

/// The daemon's socket: what the environment says, or the default.
pub fn socket_path() -> PathBuf {
    std::env::var_os(SOCKET_VARIABLE).map_or_else(|| DEFAULT_SOCKET.into(), PathBuf::from)
}

/// A connection to a daemon.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
}

impl Connection {
    /// Connects; no later call waits for the daemon longer than `limit`.
    ///
    /// # Errors
    /// `Connect` where nobody listens.
    pub fn open(path: &Path, limit: Duration) -> Result<Self, ClientError> {
        let connect = |source| ClientError::Connect { path: path.into(), source };
        let stream = UnixStream::connect(path).map_err(connect)?;
        stream.set_read_timeout(Some(limit)).map_err(connect)?;
        stream.set_write_timeout(Some(limit)).map_err(connect)?;
        Ok(Connection { stream })
    }

    /// Sends one question and waits for its answer.
    ///
    /// # Errors
    /// Where the daemon is gone, silent or refuses. After anything but `Refused` the connection is
    /// of no use any more.
    pub fn ask(&mut self, ask: &Ask) -> Result<Answer, ClientError> {
        self.tell(ask)?;
        let mut header = [0; FRAME_HEADER_BYTES];
        self.stream.read_exact(&mut header)?;
        let mut body = vec![0; message::body_bytes(header)?];
        self.stream.read_exact(&mut body)?;
        match message::from_body(&body)? {
            Answer::Refused(refusal) => Err(refusal.into()),
            answer => Ok(answer),
        }
    }

    /// Sends a message that has no answer.
    ///
    /// # Errors
    /// Where the daemon is gone or its socket stays full.
    pub fn tell(&mut self, ask: &Ask) -> Result<(), ClientError> {
        Ok(self.stream.write_all(&message::to_frame(ask)?)?)
    }

    /// Whether the daemon has closed its end. Does not wait.
    pub fn is_closed(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut fds = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        matches!(poll(&mut fds, Some(&now)), Ok(1..) if fds[0].revents().intersects(gone))
    }
}
