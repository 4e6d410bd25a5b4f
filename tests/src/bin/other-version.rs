//! Stands at the socket of this node's daemon as one of another version does: `other-version frames` answers
//! in frames of the next protocol, `other-version layout` in those of this one, and its board is of the
//! next layout. Until it is killed; the next daemon removes what it leaves behind, as this one does.

use arborcast_proto::NodeName;
use arborcast_proto::client::socket_path;
use arborcast_proto::message::{
    Answer, Ask, FRAME_HEADER_BYTES, PROTOCOL_VERSION, body_bytes, from_body, to_frame,
};
use arborcast_proto::segment::{self, Board, Identity, LAYOUT_VERSION, SlotView};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

const BOARD: &str = "arborcast-board-0";

/// A board whose first word names the next layout.
fn board() -> Board {
    let name = NodeName::new("other").expect("a name");
    let identity =
        Identity { node: name.clone(), site: name, hold_wait_max: Duration::from_millis(250) };
    let board = Board::create(BOARD, &identity).expect("room in /dev/shm");
    let file = std::fs::File::options().write(true).open(format!("/dev/shm/{BOARD}"));
    // Its lower half is the version.
    let offset = if cfg!(target_endian = "little") { 0 } else { 4 };
    let version = (LAYOUT_VERSION + 1).to_ne_bytes();
    file.and_then(|file| file.write_all_at(&version, offset)).expect("a board of ours");
    board
}

/// One question and its answer. `None`: the client has gone.
fn answer(stream: &mut UnixStream, board: &Board, speaks_next_protocol: bool) -> Option<()> {
    let mut header = [0; FRAME_HEADER_BYTES];
    stream.read_exact(&mut header).ok()?;
    let mut body = vec![0; body_bytes(header).ok()?];
    stream.read_exact(&mut body).ok()?;
    let (answer, file) = match from_body(&body).ok()? {
        Ask::Hello(_) => (Answer::Welcome, Some(SlotView::create().ok()?.1)),
        Ask::Board => (Answer::Board, Some(board.file().ok()?)),
        Ask::Ring | Ask::Delivered(_) => return Some(()),
        _ => (Answer::Done, None),
    };
    let mut frame = to_frame(&answer).ok()?;
    if speaks_next_protocol {
        frame[4..6].copy_from_slice(&(PROTOCOL_VERSION + 1).to_le_bytes());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = file.as_ref().map(|file| [file.as_fd()]);
    if let Some(files) = &files {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let parts = [IoSlice::new(&frame)];
    rustix::net::sendmsg(&*stream, &parts, &mut control, SendFlags::NOSIGNAL).ok()?;
    Some(())
}

fn main() {
    let speaks_next_protocol = match std::env::args().nth(1).as_deref() {
        Some("frames") => true,
        Some("layout") => false,
        _ => panic!("usage: other-version frames|layout"),
    };
    let socket = socket_path();
    // As every daemon does with what one that was killed has left behind.
    let beside = format!("{}.board", socket.display());
    if let Ok(left) = std::fs::read_to_string(&beside) {
        let _ = segment::remove(&left);
    }
    std::fs::write(beside, BOARD).expect("a folder of ours");
    let board = Arc::new(board());
    let _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).expect("the daemon has gone");
    for mut stream in listener.incoming().map_while(Result::ok) {
        let board = board.clone();
        std::thread::spawn(
            move || {
                while answer(&mut stream, &board, speaks_next_protocol).is_some() {}
            },
        );
    }
}
