//! One client's connection: frames in, frames out, and an eye on the client's process.

use super::node::{ConnectionId, Question};
use arborcast_proto::message::{
    self, Answer, Ask, FRAME_HEADER_BYTES, FrameError, MAX_BODY_BYTES, Refusal,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tracing::debug;

/// A client that does not take its answer for so long is cut off.
const WRITE_LIMIT: Duration = Duration::from_secs(10);

/// What connections tell the daemon.
pub enum Event {
    Question(Question, oneshot::Sender<Option<Answer>>),
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
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Serves a client until either side ends it, then says so.
pub async fn serve(
    mut stream: UnixStream,
    connection: ConnectionId,
    own_uid: u32,
    events: mpsc::Sender<Event>,
) {
    let Err(ended) = converse(&mut stream, connection, own_uid, &events).await;
    debug!(connection, "ended: {ended}");
    // Fails only when the daemon is ending.
    let _ = events.send(Event::Gone(connection)).await;
}

async fn converse(
    stream: &mut UnixStream,
    connection: ConnectionId,
    own_uid: u32,
    events: &mpsc::Sender<Event>,
) -> Result<std::convert::Infallible, Ended> {
    let peer = stream.peer_cred()?;
    let trusted = peer.uid() == own_uid || peer.uid() == 0;
    let process = peer.pid().and_then(watch);
    loop {
        let ask = tokio::select! {
            biased; // what a process said before it ended counts
            ask = read_ask(stream) => ask?,
            () = ended(process.as_ref()) => return Err(Ended::Died),
        };
        let (reply, answer) = oneshot::channel();
        let question = Question { connection, trusted, ask };
        events.send(Event::Question(question, reply)).await.map_err(|_| Ended::Daemon)?;
        if let Some(answer) = answer.await.map_err(|_| Ended::Daemon)? {
            let frame = to_frame(&answer)?;
            let written = tokio::time::timeout(WRITE_LIMIT, stream.write_all(&frame));
            written.await.map_err(|_| Ended::Stuck)??;
        }
    }
}

fn to_frame(answer: &Answer) -> Result<Vec<u8>, FrameError> {
    match message::to_frame(answer) {
        Err(FrameError::TooLong(_) | FrameError::Codec(_)) => {
            let text = format!("the answer has more than {MAX_BODY_BYTES} bytes");
            message::to_frame(&Answer::Refused(Refusal::Invalid(text)))
        }
        frame => frame,
    }
}

async fn read_ask(stream: &mut UnixStream) -> Result<Ask, Ended> {
    let mut header = [0; FRAME_HEADER_BYTES];
    match stream.read_exact(&mut header).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(Ended::Closed),
        result => result?,
    };
    let len = message::body_bytes(header)?;
    // Memory grows with what comes, not with what is announced.
    let mut body = Vec::new();
    stream.take(len as u64).read_to_end(&mut body).await?;
    if body.len() < len {
        return Err(Ended::Closed);
    }
    Ok(message::from_body(&body)?)
}

/// Something that becomes readable when the process ends. A client whose socket was inherited by a
/// child is noticed only by this. `None` where the process is in another pid namespace or gone; then
/// the end of the connection has to do.
fn watch(pid: i32) -> Option<AsyncFd<OwnedFd>> {
    let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::NONBLOCK).ok()?;
    // SAFETY: an `OwnedFd` names the same open descriptor until it is dropped.
    unsafe { AsyncFd::register_with_interest(pidfd, tokio::io::Interest::READABLE) }.ok()
}

async fn ended(process: Option<&AsyncFd<OwnedFd>>) {
    match process {
        Some(process) => {
            let _ = process.readable().await;
        }
        None => std::future::pending().await,
    }
}
