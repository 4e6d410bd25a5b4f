//! Messages between the ranks of the job, on a communicator of their own. Nothing here waits for the
//! other side: a message that the MPI does not take at once (above its eager limit, where it uses
//! rendezvous) stays in an outbox, and a long one that comes is taken in bit by bit. So two ranks that send
//! to each other never wait for each other. Whoever looks for mail moves all of it.

mod flight;

use arborcast_planner::job::SHORT_NAP;
use arborcast_proto::codec;
use flight::{Coming, Going};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use serde::{Serialize, de::DeserializeOwned};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

const MESSAGE: i32 = 1;
/// No content: a rank asks those that measure to give up what is under way.
const GIVE_UP: i32 = 2;

/// What a rank says to all.
const WORD_BYTES: usize = 256;

/// A rank with more than this in its outbox takes mail in, and sends nothing new, until it is less.
const OUTBOX_MAX_BYTES: usize = 16 << 20;

/// A rank's mailbox.
pub struct Mailbox {
    comm: SimpleCommunicator,
    outbox: RefCell<Vec<Going>>,
    /// In the order of arrival.
    inbox: RefCell<VecDeque<Coming>>,
}

impl Mailbox {
    /// Collective.
    pub fn new(world: &SimpleCommunicator) -> Self {
        Mailbox { comm: world.duplicate(), outbox: RefCell::default(), inbox: RefCell::default() }
    }

    pub fn rank(&self) -> i32 {
        self.comm.rank()
    }

    pub fn size(&self) -> i32 {
        self.comm.size()
    }

    pub fn send(&self, to: i32, message: &impl Serialize) {
        self.send_to_each(&[to], message);
    }

    /// The ranks share one copy of the message.
    pub fn send_to_each(&self, ranks: &[i32], message: &impl Serialize) {
        // Only a message above 64 MiB does not encode; ours are plans and records.
        let Ok(bytes) = codec::encode(message) else { return };
        let bytes: Rc<[u8]> = bytes.into();
        let share_bytes = bytes.len() / ranks.len().max(1);
        let going = |&to: &i32| Going::start(&self.comm, to, MESSAGE, bytes.clone(), share_bytes);
        self.outbox.borrow_mut().extend(ranks.iter().map(going));
        self.move_mail();
        while self.outbox_bytes() > OUTBOX_MAX_BYTES {
            std::thread::sleep(SHORT_NAP / 8);
            self.move_mail();
        }
    }

    fn outbox_bytes(&self) -> usize {
        self.outbox.borrow().iter().map(|going| going.share_bytes).sum()
    }

    /// Whether mail is on its way that moves only when this rank looks for mail.
    pub fn is_busy(&self) -> bool {
        !self.outbox.borrow().is_empty() || !self.inbox.borrow().is_empty()
    }

    /// Lets what goes out go, and what comes come.
    fn move_mail(&self) {
        self.outbox.borrow_mut().retain_mut(|going| !going.is_done());
        let mut inbox = self.inbox.borrow_mut();
        while let Some(status) = self.comm.any_process().immediate_probe_with_tag(MESSAGE) {
            let len = status.count(u8::equivalent_datatype()) as usize;
            inbox.push_back(Coming::start(&self.comm, status.source_rank(), MESSAGE, len));
        }
        inbox.iter_mut().for_each(Coming::look);
    }

    /// The next message that has come, if any. One that does not decode is from another version and
    /// is passed over.
    pub fn receive<T: DeserializeOwned>(&self) -> Option<(i32, T)> {
        self.move_mail();
        let mut inbox = self.inbox.borrow_mut();
        while let Some(next) = next_whole(&inbox) {
            let (from, bytes) = inbox.remove(next)?.into_message()?;
            if let Ok(message) = codec::decode(&bytes) {
                return Some((from, message));
            }
        }
        None
    }

    /// Waits until all that was sent has been received, on every rank, and drops what still comes.
    /// Collective; nothing can be sent afterwards.
    pub fn close(&self) {
        let is_quiet = || {
            self.move_mail();
            self.inbox.borrow_mut().retain(|coming| !coming.is_whole());
            !self.is_busy()
        };
        while !is_quiet() {
            std::thread::sleep(SHORT_NAP);
        }
        // A rank comes here with its own messages received: once all are here, nothing is on its way.
        let mut all_here = self.comm.immediate_barrier();
        while let Err(not_yet) = all_here.test() {
            all_here = not_yet;
            is_quiet();
            std::thread::sleep(SHORT_NAP);
        }
        while !is_quiet() {
            std::thread::sleep(SHORT_NAP);
        }
    }

    pub fn ask_to_give_up(&self, ranks: &[i32]) {
        let going = |&rank: &i32| Going::start(&self.comm, rank, GIVE_UP, Rc::new([]), 0);
        self.outbox.borrow_mut().extend(ranks.iter().map(going));
    }

    /// Whether somebody has asked to give up since this was last asked.
    pub fn is_asked_to_give_up(&self) -> bool {
        let mut asked = false;
        while let Some(status) = self.comm.any_process().immediate_probe_with_tag(GIVE_UP) {
            let from = self.comm.process_at_rank(status.source_rank());
            from.receive_into_with_tag(&mut [0u8; 0], GIVE_UP);
            asked = true;
        }
        asked
    }

    /// What every rank has to say in at most [`WORD_BYTES`], in the order of ranks; `None` for one that has more to
    /// say, or says it in another version's form. Collective, and over wide areas the next dearest thing to starting.
    pub fn all_gather<T: Serialize + DeserializeOwned>(&self, own: &T) -> Vec<Option<T>> {
        let mut block = [0u8; WORD_BYTES];
        if let Ok(bytes) = codec::encode(own)
            && let Some(start) = block.get_mut(2..2 + bytes.len())
        {
            start.copy_from_slice(&bytes);
            block[..2].copy_from_slice(&(bytes.len() as u16).to_le_bytes());
        }
        let mut all = vec![0u8; WORD_BYTES * self.size() as usize];
        self.comm.all_gather_into(&block[..], &mut all[..]);
        let word = |block: &[u8]| {
            let len = u16::from_le_bytes([block[0], block[1]]);
            codec::decode(block.get(2..2 + usize::from(len))?).ok()
        };
        all.chunks_exact(WORD_BYTES).map(word).collect()
    }
}

/// The first message that is there as a whole, and before which nothing of its sender's is missing.
fn next_whole(inbox: &VecDeque<Coming>) -> Option<usize> {
    let mut unfinished = Vec::new();
    inbox.iter().position(|coming| {
        let is_next = coming.is_whole() && !unfinished.contains(&coming.from);
        if !coming.is_whole() {
            unfinished.push(coming.from);
        }
        is_next
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Far above every MPI's eager limit, also that to itself.
    const LONG: usize = 8 << 20;

    /// In one process, which is its own partner: what would wait for the receiver waits for ever.
    #[test]
    fn long_messages_both_ways_do_not_wait_for_each_other() {
        let (done, waited) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            let limit = Duration::from_secs(60);
            if waited.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                eprintln!("a message waits for its receiver, which waits for the message");
                std::process::exit(1);
            }
        });
        let universe = mpi::initialize().expect("no other test of this program starts MPI");
        let mailbox = Mailbox::new(&universe.world());
        assert_eq!(mailbox.all_gather(&("node".to_owned(), 7)), [Some(("node".to_owned(), 7))]);
        assert_eq!(mailbox.all_gather(&vec![7u64; WORD_BYTES]), [None], "too much to say");
        let messages = [vec![1u8; LONG], vec![2; 3], vec![3; LONG], vec![4; LONG]];
        for message in &messages {
            mailbox.send(0, message);
        }
        mailbox.ask_to_give_up(&[0]);
        for message in &messages {
            let received = std::iter::repeat_with(|| mailbox.receive::<Vec<u8>>()).flatten().next();
            assert!(received == Some((0, message.clone())), "whole, and in the order of sending");
        }
        assert!(mailbox.is_asked_to_give_up());
        mailbox.send(0, &messages[0]);
        assert!(mailbox.is_busy());
        mailbox.close();
        assert!(!mailbox.is_busy(), "what nobody reads is dropped");
        drop(done);
    }
}
