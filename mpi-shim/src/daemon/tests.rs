//! The link against a daemon in the same process that answers only as long as it is told to.

use super::*;
use arborcast_proto::message::{Answer, FRAME_HEADER_BYTES, body_bytes, from_body, to_frame};
use arborcast_proto::segment::{Board, Identity, SlotView};
use arborcast_proto::{NodeName, SizeClass, monotonic_ns};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

const HOLD_WAIT_MAX: Duration = Duration::from_millis(200);

/// What the daemon has seen.
#[derive(Default)]
struct Seen {
    frozen: AtomicBool,
    hellos: AtomicU32,
    boards: AtomicU32,
    plans: AtomicU32,
    slots: Mutex<Vec<SlotView>>,
}

fn name_of(node: &mut Node) -> Option<NodeName> {
    node.board().map(|board| board.identity().node.clone())
}

struct FakeDaemon {
    directory: tempfile::TempDir,
    board: Board,
    seen: Arc<Seen>,
}

impl FakeDaemon {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let name = |name| NodeName::new(name).unwrap();
        let identity = Identity { node: name("n7"), site: name("a"), hold_wait_max: HOLD_WAIT_MAX };
        let random = directory.path().file_name().unwrap().to_str().unwrap().to_owned();
        let segment = format!("arborcast-test-link-{random}");
        let board = Board::create(&segment, &identity).unwrap();
        let file = board.file().unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let seen = Arc::new(Seen::default());
        let to_note = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, file) = (to_note.clone(), file.try_clone().unwrap());
                thread::spawn(move || serve(stream.unwrap(), &seen, &file));
            }
        });
        FakeDaemon { directory, board, seen }
    }

    fn node(&self) -> Node {
        Node { socket: Some(self.directory.path().join("socket")), ..Node::new() }
    }

    /// As by SIGSTOP: connections are made, and nothing is answered.
    fn freeze(&self, frozen: bool) {
        self.seen.frozen.store(frozen, Ordering::SeqCst);
    }

    fn holds(&self) -> Vec<bool> {
        self.seen.slots.lock().unwrap().iter().map(|slot| slot.hold_state().holds).collect()
    }
}

fn serve(mut stream: UnixStream, seen: &Seen, board: &OwnedFd) {
    let mut header = [0; FRAME_HEADER_BYTES];
    while stream.read_exact(&mut header).is_ok() {
        let mut body = vec![0; body_bytes(header).unwrap()];
        stream.read_exact(&mut body).unwrap();
        while seen.frozen.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        match from_body(&body).unwrap() {
            Ask::Hello(_) => {
                seen.hellos.fetch_add(1, Ordering::SeqCst);
                let (slot, file) = SlotView::create().unwrap();
                seen.slots.lock().unwrap().push(slot);
                send_with(&stream, &to_frame(&Answer::Welcome).unwrap(), &file);
            }
            Ask::Board => {
                seen.boards.fetch_add(1, Ordering::SeqCst);
                send_with(&stream, &to_frame(&Answer::Board).unwrap(), board);
            }
            Ask::Ring => {}
            Ask::Plan(..) => {
                seen.plans.fetch_add(1, Ordering::SeqCst);
                let _ = stream.write_all(&to_frame(&Answer::Done).unwrap());
            }
            _ => {
                let _ = stream.write_all(&to_frame(&Answer::Done).unwrap());
            }
        }
    }
}

fn send_with(stream: &UnixStream, frame: &[u8], file: &OwnedFd) {
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    // Fails where the client has stopped waiting.
    let parts = [IoSlice::new(frame)];
    let _ = rustix::net::sendmsg(stream, &parts, &mut control, SendFlags::NOSIGNAL);
}

fn group(name: &str) -> Group {
    Group::new(["n0", "n7", name].map(|n| NodeName::new(n).unwrap()).to_vec()).unwrap()
}

fn broadcast() -> Broadcast {
    let target = Target { group: group("n1").hash(), root: 0, class: SizeClass::of(8) };
    Broadcast { target, bytes: 8, seconds: None, pause_s: None, quiet_s: None, native_s: None }
}

#[test]
fn a_plan_is_asked_for_once() {
    let daemon = FakeDaemon::start();
    let mut node = daemon.node();
    let Broadcast { target, .. } = broadcast();
    for root in [0, 0, 1, 0] {
        let target = Target { root, ..target };
        node.with_link(|link| link.ask_for_plan(target, 8)).unwrap();
    }
    assert_eq!(daemon.seen.plans.load(Ordering::SeqCst), 2);
    daemon.freeze(true);
    let another = Target { root: 2, ..target };
    node.with_link(|link| link.ask_for_plan(another, 8));
    assert!(node.with_link(|_| ()).is_none(), "who does not answer is taken for gone");
}

#[test]
fn a_daemon_frozen_while_an_experiment_runs_costs_about_one_wait() {
    let daemon = FakeDaemon::start();
    let mut node = daemon.node();
    assert_eq!(node.with_link(|_| ()), Some(()));
    assert!(hold::start(daemon.board.experiment(), || false));
    daemon.freeze(true);
    let start = Instant::now();
    for _ in 0..20 {
        node.with_link(Link::begin).unwrap();
        node.with_link(|link| link.end(&broadcast(), monotonic_ns())).unwrap();
    }
    assert!(start.elapsed() >= HOLD_WAIT_MAX, "the first waits");
    let waits = || daemon.seen.slots.lock().unwrap()[0].hold_state().hold_timeouts;
    assert_eq!(waits(), 1, "and none after it");
    // Once the word has changed, the wait is worth it again.
    hold::stop(daemon.board.experiment());
    let start = Instant::now();
    node.with_link(Link::begin).unwrap();
    assert!(start.elapsed() >= HOLD_WAIT_MAX);
    assert_eq!(waits(), 2);
}

#[test]
fn a_frozen_daemon_that_is_asked_costs_one_wait_and_then_longer_and_longer_pauses() {
    let daemon = FakeDaemon::start();
    let mut node = daemon.node();
    node.with_link(|link| link.register(group("n1").hash(), &group("n1")).unwrap()).unwrap();
    daemon.freeze(true);
    let waits = (0..20).filter(|i| {
        let group = group(&format!("m{i}"));
        let used = node.with_link(|link| {
            let refused = link.register(group.hash(), &group).is_err();
            link.begin();
            refused
        });
        used == Some(true)
    });
    assert_eq!(waits.count(), 1, "one register timed out, then there was no link");
    assert_eq!(name_of(&mut node), None, "nor is it asked for its name");
    daemon.freeze(false);
    let start = Instant::now();
    while node.with_link(|_| ()).is_none() {
        assert!(start.elapsed() < Duration::from_secs(30), "it is never looked for again");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(daemon.seen.hellos.load(Ordering::SeqCst) >= 2);
}

#[test]
fn pauses_double_from_a_second_to_five_minutes() {
    let mut backoff = Backoff::default();
    let mut now = Instant::now();
    let pauses: Vec<u64> = (0..11)
        .map(|_| {
            backoff.timed_out(now);
            let until = backoff.not_before.unwrap();
            assert!(!backoff.may_try(until - Duration::from_millis(1)) && backoff.may_try(until));
            let pause = until - now;
            now = until;
            pause.as_secs()
        })
        .collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    backoff.absent(now);
    assert!(backoff.may_try(now + LOOK_EVERY));
    backoff.answered();
    assert!(backoff.may_try(now));
    backoff.timed_out(now);
    assert!(backoff.may_try(now + LOOK_EVERY));
}

#[test]
fn the_name_takes_no_slot_and_is_asked_for_once() {
    let daemon = FakeDaemon::start();
    let mut node = daemon.node();
    for _ in 0..1000 {
        assert_eq!(name_of(&mut node).unwrap().as_str(), "n7");
    }
    // Looked at again, the board is still there.
    node.looked = None;
    assert_eq!(name_of(&mut node).unwrap().as_str(), "n7");
    assert_eq!(daemon.seen.boards.load(Ordering::SeqCst), 1);
    assert_eq!(daemon.seen.hellos.load(Ordering::SeqCst), 0);
    // A root needs a slot; then the name comes with it.
    node.with_link(Link::begin).unwrap();
    assert_eq!(daemon.seen.hellos.load(Ordering::SeqCst), 1);
    let mut orphan = daemon.node();
    assert!(name_of(&mut orphan).is_some());
    std::fs::remove_file(daemon.directory.path().join("socket")).unwrap();
    orphan.looked = None;
    assert_eq!(name_of(&mut orphan), None, "nobody serves it any more");
}

#[test]
fn a_thread_holds_for_itself_alone() {
    let daemon = FakeDaemon::start();
    let node = Mutex::new(daemon.node());
    let begin = || node.lock().unwrap().with_link(Link::begin).unwrap();
    let end =
        || node.lock().unwrap().with_link(|link| link.end(&broadcast(), monotonic_ns())).unwrap();
    begin();
    // A thread that began before there was a link.
    thread::scope(|scope| scope.spawn(end).join().unwrap());
    assert_eq!(daemon.holds(), [true], "this thread still broadcasts");
    // One that left a broadcast by an exception, and goes on with another.
    begin();
    begin();
    end();
    assert_eq!(daemon.holds(), [false]);
    thread::scope(|scope| {
        scope.spawn(begin).join().unwrap();
        begin();
        end();
    });
    assert_eq!(daemon.holds(), [true], "the other thread's");
}
