//! A blocking connection to the daemon of this node, for programs that have no event loop:
//! applications, experiments and the operator's command. Every wait has a limit, connecting included,
//! and a daemon that has gone raises no signal.

use crate::message::{self, Answer, Ask, FRAME_HEADER_BYTES, FrameError, Refusal, Role};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The socket's place where nothing else is said.
pub const DEFAULT_SOCKET: &str = "/run/arborcast/arborcastd.sock";
/// Names another place for the socket.
pub const SOCKET_VARIABLE: &str = "ARBORCAST_SOCKET";

/// How often a daemon whose queue of new connections is full is tried again, within the limit.
const FULL_QUEUE_RETRY: Duration = Duration::from_millis(5);

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

impl ClientError {
    /// Whether somebody has the socket and does not serve it: the daemon is stopped or overloaded.
    pub fn is_time_out(&self) -> bool {
        let (ClientError::Connect { source, .. } | ClientError::Io(source)) = self else {
            return false;
        };
        matches!(source.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
    }
}

/// The daemon's socket: what the environment says, or the default.
pub fn socket_path() -> PathBuf {
    std::env::var_os(SOCKET_VARIABLE).map_or_else(|| DEFAULT_SOCKET.into(), PathBuf::from)
}

/// Whether a daemon accepts connections at `path`, or would if it came to it. Does not wait.
pub fn is_served(path: &Path) -> bool {
    let connected = begin_connect(path);
    connected
        .is_ok_and(|(_, connected)| matches!(connected, Ok(()) | Err(rustix::io::Errno::AGAIN)))
}

/// The file of a daemon's socket. Each daemon makes one of its own: where it is another one, so is the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketFile {
    device: u64,
    inode: u64,
    /// Seconds and nanoseconds: inodes are used again.
    changed: (i64, i64),
}

impl SocketFile {
    /// `None` where there is none.
    pub fn at(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Some(SocketFile { device: metadata.dev(), inode: metadata.ino(), changed })
    }
}

/// A socket that does not block, and what came of connecting it.
fn begin_connect(path: &Path) -> rustix::io::Result<(OwnedFd, rustix::io::Result<()>)> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let connected = rustix::net::connect(&socket, &address);
    Ok((socket, connected))
}

/// Connects within `limit`. A blocking connect would wait without end for a daemon that accepts
/// nothing and whose queue is full.
fn connect(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let give_up = Instant::now() + limit;
    loop {
        let (socket, connected) = begin_connect(path)?;
        match connected {
            Ok(()) => {
                let stream = UnixStream::from(socket);
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(rustix::io::Errno::AGAIN) if Instant::now() < give_up => {
                std::thread::sleep(FULL_QUEUE_RETRY);
            }
            Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// A connection to a daemon.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    limit: Duration,
}

impl Connection {
    /// Connects; neither this nor an answer takes longer than `limit`.
    ///
    /// # Errors
    /// `Connect` where nobody listens, or nobody accepts in time.
    pub fn open(path: &Path, limit: Duration) -> Result<Self, ClientError> {
        let failed = |source| ClientError::Connect { path: path.into(), source };
        connect(path, limit).and_then(|stream| Self::over(stream, limit)).map_err(failed)
    }

    fn over(stream: UnixStream, limit: Duration) -> io::Result<Self> {
        stream.set_write_timeout(Some(limit))?;
        Ok(Connection { stream, limit })
    }

    /// Sends one question and waits for its answer.
    ///
    /// # Errors
    /// Where the daemon is gone, silent or refuses. After anything but `Refused` the connection is
    /// of no use any more.
    pub fn ask(&mut self, ask: &Ask) -> Result<Answer, ClientError> {
        Ok(self.ask_for_file(ask)?.0)
    }

    /// Introduces this process. The file is its slot's memory.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn hello(&mut self, role: Role) -> Result<OwnedFd, ClientError> {
        match self.ask_for_file(&Ask::Hello(role))? {
            (Answer::Welcome, Some(file)) => Ok(file),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// The board, which this process need not be able to find by itself: it may have a /dev/shm of its own.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn board(&mut self) -> Result<OwnedFd, ClientError> {
        match self.ask_for_file(&Ask::Board)? {
            (Answer::Board, Some(file)) => Ok(file),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// As [`Connection::ask`], with the descriptor that comes with some answers.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn ask_for_file(&mut self, ask: &Ask) -> Result<(Answer, Option<OwnedFd>), ClientError> {
        self.tell(ask)?;
        let give_up = Instant::now() + self.limit;
        let mut header = [0; FRAME_HEADER_BYTES];
        // A descriptor comes with the first byte.
        let (first, file) = self.receive_with_file(&mut header, give_up)?;
        self.read_exact(&mut header[first..], give_up)?;
        let mut body = vec![0; message::body_bytes(header)?];
        self.read_exact(&mut body, give_up)?;
        match message::from_body(&body)? {
            Answer::Refused(refusal) => Err(refusal.into()),
            answer => Ok((answer, file)),
        }
    }

    /// No read on the socket takes longer from now on than until `give_up`.
    fn limit_reads(&self, give_up: Instant) -> io::Result<()> {
        let left = give_up.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))
    }

    fn receive_with_file(
        &self,
        buffer: &mut [u8],
        give_up: Instant,
    ) -> io::Result<(usize, Option<OwnedFd>)> {
        loop {
            self.limit_reads(give_up)?;
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(buffer)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let received = match rustix::net::recvmsg(&self.stream, &mut parts, &mut control, flags)
            {
                Err(rustix::io::Errno::INTR) => continue,
                received => received?,
            };
            let file = control.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut files) => files.next(),
                _ => None,
            });
            return match received.bytes {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => Ok((bytes, file)),
            };
        }
    }

    fn read_exact(&self, mut buffer: &mut [u8], give_up: Instant) -> io::Result<()> {
        while !buffer.is_empty() {
            self.limit_reads(give_up)?;
            match (&self.stream).read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => buffer = &mut buffer[read..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends a message and waits for no answer.
    ///
    /// # Errors
    /// Where the daemon is gone or its socket stays full.
    pub fn tell(&mut self, ask: &Ask) -> Result<(), ClientError> {
        let frame = message::to_frame(ask)?;
        let mut left = &frame[..];
        while !left.is_empty() {
            // An application must not be ended by SIGPIPE because its daemon was.
            match rustix::net::send(&self.stream, left, SendFlags::NOSIGNAL) {
                Ok(sent) => left = &left[sent..],
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(io::Error::from(errno).into()),
            }
        }
        Ok(())
    }

    /// Sends a short message that has no answer, such as the doorbell. Does not wait: where the socket is full,
    /// the daemon has more to read than it does already, and the message is lost.
    pub fn tell_if_room(&mut self, ask: &Ask) {
        let Ok(frame) = message::to_frame(ask) else { return };
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        // So few bytes are sent as a whole or not at all. A daemon that is gone is noticed elsewhere.
        let _ = rustix::net::send(&self.stream, &frame, flags);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    const LIMIT: Duration = Duration::from_millis(100);

    #[test]
    fn a_daemon_that_accepts_nothing_costs_the_limit_even_when_its_queue_is_full() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let mut waiting = Vec::new();
        while let Ok((socket, Ok(()))) = begin_connect(&path) {
            waiting.push(socket);
        }
        assert!(is_served(&path), "it may come back");
        let error = Connection::open(&path, LIMIT).unwrap_err();
        assert!(error.is_time_out(), "{error}");
        drop((listener, waiting));
        assert!(!is_served(&path));
        let error = Connection::open(&path, LIMIT).unwrap_err();
        assert!(!error.is_time_out(), "{error}");
    }

    #[test]
    fn a_silent_or_slow_daemon_costs_the_limit() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut connection = Connection::over(ours, LIMIT).unwrap();
        assert!(connection.ask(&Ask::Status).unwrap_err().is_time_out());
        // One byte at a time, each of them in time.
        let frame = message::to_frame(&Answer::History(Vec::new())).unwrap();
        let slow = std::thread::spawn(move || {
            for byte in frame {
                std::thread::sleep(LIMIT / 4);
                if theirs.write_all(&[byte]).is_err() {
                    break;
                }
            }
        });
        assert!(connection.ask(&Ask::Status).unwrap_err().is_time_out());
        drop(connection);
        slow.join().unwrap();
    }

    #[test]
    fn ringing_never_waits_and_a_daemon_that_went_is_noticed() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut connection = Connection::over(ours, LIMIT).unwrap();
        for _ in 0..100_000 {
            connection.tell_if_room(&Ask::Ring);
        }
        assert!(connection.tell(&Ask::Status).unwrap_err().is_time_out());
        drop(theirs);
        connection.tell_if_room(&Ask::Ring);
        assert!(connection.tell(&Ask::Status).is_err());
        assert!(connection.is_closed());
    }
}
