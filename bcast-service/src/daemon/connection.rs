//! One client's connection: frames in, frames out, and an eye on the client's process. A client can
//! cost no more than its budget, and a frame that has begun has to end.

use super::budget::{OverBudget, Seat, User};
use super::node::{ConnectionId, Question, Reply};
use arborcast_proto::message::{
    self, Answer, Ask, FRAME_HEADER_BYTES, FrameError, MAX_APPLICATION_BODY_BYTES, MAX_BODY_BYTES,
    Refusal,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::{debug, warn};

/// From a connection's begin to the end of its first frame, and from the first byte of any other to its
/// last.
const FRAME_LIMIT: Duration = Duration::from_secs(10);
/// A client that does not take its answer for so long is cut off.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// The longest body from who has not introduced itself: what operators ask is shorter.
const MAX_STRANGER_BODY_BYTES: usize = 4096;

/// What connections tell the daemon.
pub enum Event {
    Question(Question, oneshot::Sender<Option<Reply>>),
    Gone(ConnectionId),
}

#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the client has closed it")]
    Closed,
    #[error("the client's process has ended")]
    Died,
    #[error("the daemon is ending")]
    Daemon,
    #[error("the client does not take its answer")]
    Stuck,
    #[error("a message that does not end")]
    Unfinished,
    #[error("a message of {0} bytes, where {1} are the most it may have")]
    TooLong(usize, usize),
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Serves a client until either side ends it, then says so.
pub async fn serve(
    mut stream: UnixStream,
    connection: ConnectionId,
    user: User,
    seat: Seat,
    events: mpsc::Sender<Event>,
) {
    let Err(ended) = converse(&mut stream, connection, user, &seat, &events).await;
    match ended {
        Ended::Unfinished | Ended::TooLong(..) | Ended::OverBudget(_) | Ended::Stuck => {
            warn!(connection, uid = user.uid, "closed: {ended}");
        }
        _ => debug!(connection, "ended: {ended}"),
    }
    // Fails only when the daemon is ending.
    let _ = events.send(Event::Gone(connection)).await;
}

async fn converse(
    stream: &mut UnixStream,
    connection: ConnectionId,
    user: User,
    seat: &Seat,
    events: &mpsc::Sender<Event>,
) -> Result<std::convert::Infallible, Ended> {
    let process = stream.peer_cred()?.pid().and_then(watch);
    let trusted = user.trusted;
    let mut max_body_bytes = if trusted { MAX_BODY_BYTES } else { MAX_STRANGER_BODY_BYTES };
    let mut is_first = true;
    loop {
        let ask = tokio::select! {
            biased; // what a process said before it ended counts
            ask = read_ask(stream, is_first, max_body_bytes, seat) => ask?,
            () = ended(process.as_ref()) => return Err(Ended::Died),
        };
        is_first = false;
        let (reply, answer) = oneshot::channel();
        let question = Question { connection, trusted, ask };
        events.send(Event::Question(question, reply)).await.map_err(|_| Ended::Daemon)?;
        if let Some(Reply { answer, file }) = answer.await.map_err(|_| Ended::Daemon)? {
            if answer == Answer::Welcome {
                max_body_bytes = max_body_bytes.max(MAX_APPLICATION_BODY_BYTES);
            }
            let frame = to_frame(&answer)?;
            drop(answer);
            let _share = seat.share(frame.len())?;
            let written = timeout(WRITE_LIMIT, write(stream, &frame, file));
            written.await.map_err(|_| Ended::Stuck)??;
        }
    }
}

fn to_frame(answer: &Answer) -> Result<Vec<u8>, FrameError> {
    match message::to_frame(answer) {
        Err(FrameError::TooLong(_) | FrameError::Codec(_)) => {
            let text = format!("the answer has more than {MAX_BODY_BYTES} bytes");
            warn!("{text}");
            message::to_frame(&Answer::Refused(Refusal::Invalid(text)))
        }
        frame => frame,
    }
}

/// Writes a frame, and a descriptor with its first byte.
async fn write(stream: &mut UnixStream, frame: &[u8], file: Option<OwnedFd>) -> io::Result<()> {
    let Some(file) = file else { return stream.write_all(frame).await };
    let send = || {
        let files = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        // There is room for one.
        control.push(SendAncillaryMessage::ScmRights(&files));
        let parts = [IoSlice::new(frame)];
        Ok(rustix::net::sendmsg(&*stream, &parts, &mut control, SendFlags::NOSIGNAL)?)
    };
    let sent = stream.async_io(Interest::WRITABLE, send).await?;
    stream.write_all(&frame[sent..]).await
}

async fn read_ask(
    stream: &mut UnixStream,
    is_first: bool,
    max_body_bytes: usize,
    seat: &Seat,
) -> Result<Ask, Ended> {
    let unfinished = |_| Ended::Unfinished;
    let mut header = [0; FRAME_HEADER_BYTES];
    // A client may be silent for as long as it likes, but for who has never said anything.
    let begin = read_all(stream, &mut header[..1]);
    if is_first {
        timeout(FRAME_LIMIT, begin).await.map_err(unfinished)??;
    } else {
        begin.await?;
    }
    let rest = async {
        read_all(stream, &mut header[1..]).await?;
        let len = message::body_bytes(header)?;
        if len > max_body_bytes {
            return Err(Ended::TooLong(len, max_body_bytes));
        }
        let _share = seat.share(len)?;
        // Memory grows with what comes, not with what is announced.
        let mut body = Vec::new();
        stream.take(len as u64).read_to_end(&mut body).await?;
        if body.len() < len {
            return Err(Ended::Closed);
        }
        Ok(message::from_body(&body)?)
    };
    timeout(FRAME_LIMIT, rest).await.map_err(unfinished)?
}

async fn read_all(stream: &mut UnixStream, bytes: &mut [u8]) -> Result<(), Ended> {
    match stream.read_exact(bytes).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Ended::Closed),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

/// Something that becomes readable when the process ends. A client whose socket was inherited by a
/// child is noticed only by this. `None` where the process is in another pid namespace or gone; then
/// the end of the connection has to do.
fn watch(pid: i32) -> Option<AsyncFd<OwnedFd>> {
    let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::NONBLOCK).ok()?;
    // SAFETY: an `OwnedFd` names the same open descriptor until it is dropped.
    unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }.ok()
}

async fn ended(process: Option<&AsyncFd<OwnedFd>>) {
    match process {
        Some(process) => {
            let _ = process.readable().await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::Budget;
    use super::*;
    use arborcast_proto::message::{PROTOCOL_VERSION, Role, to_frame};
    use arborcast_proto::{Group, NodeName};

    /// The client's end of a connection that is served for who is not trusted, by a daemon that
    /// welcomes everybody and says `Done` to all else.
    fn served() -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (events, mut inbox) = mpsc::channel(1);
        let user = User { uid: 1, trusted: false };
        let seat = Budget::new(10).seat(user).unwrap();
        tokio::spawn(serve(theirs, 0, user, seat, events));
        tokio::spawn(async move {
            while let Some(Event::Question(question, reply)) = inbox.recv().await {
                let answer = match question.ask {
                    Ask::Hello(_) => Answer::Welcome,
                    _ => Answer::Done,
                };
                let _ = reply.send(Some(Reply { answer, file: None }));
            }
        });
        ours
    }

    /// Whether a message is answered, and not the connection closed.
    async fn is_answered(stream: &mut UnixStream, ask: &Ask) -> bool {
        let _ = stream.write_all(&to_frame(ask).unwrap()).await;
        let mut header = [0; FRAME_HEADER_BYTES];
        if stream.read_exact(&mut header).await.is_err() {
            return false;
        }
        let mut body = vec![0; message::body_bytes(header).unwrap()];
        stream.read_exact(&mut body).await.is_ok()
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    #[test]
    fn who_has_not_introduced_itself_gets_little_memory() {
        run(async {
            let names = (0..1000).map(|i| NodeName::new(format!("node-{i:05}")).unwrap());
            let large = Ask::Register(Group::new(names.collect()).unwrap());
            let mut stranger = served();
            assert!(is_answered(&mut stranger, &Ask::Status).await);
            assert!(!is_answered(&mut stranger, &large).await);
            let mut client = served();
            assert!(is_answered(&mut client, &Ask::Hello(Role::Application)).await);
            assert!(is_answered(&mut client, &large).await);
        });
    }

    #[test]
    fn an_application_cannot_announce_more_than_it_can_have_to_say() {
        run(async {
            let mut client = served();
            assert!(is_answered(&mut client, &Ask::Hello(Role::Application)).await);
            let mut header = (MAX_APPLICATION_BODY_BYTES as u32 + 1).to_le_bytes().to_vec();
            header.extend(PROTOCOL_VERSION.to_le_bytes());
            client.write_all(&header).await.unwrap();
            // Closed without waiting for the rest.
            assert!(matches!(client.read(&mut [0; 8]).await, Ok(0) | Err(_)));
        });
    }
}
