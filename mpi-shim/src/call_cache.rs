//! What the last broadcasts' arguments led to, so that the next one like them asks MPI nothing.
//!
//! Programs broadcast the same few variables again and again. Where native is best, the questions to
//! MPI (how large is the communicator, how long an element, what is attached) would be most of what
//! this library adds, above all with cold caches.

use crate::communicator::Communicator;
use crate::datatype::Message;
use crate::pmpi::{Comm, Datatype};
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

/// All of a broadcast's arguments but the address.
#[derive(Clone, Copy, PartialEq)]
pub struct Arguments {
    pub count: i64,
    pub datatype: Datatype,
    pub root: c_int,
    pub comm: Comm,
}

#[derive(Clone, Copy)]
struct Known {
    arguments: Arguments,
    /// Of [`EPOCH`].
    epoch: u32,
    communicator: *mut Communicator,
    message: Message,
}

/// Counts the communicators that were freed: what was known before may be of one of them.
///
/// Relaxed: a thread that meets a freed communicator's handle again got it from MPI, which gave it
/// out after the attribute's deletion, under a lock of its own.
static EPOCH: AtomicU32 = AtomicU32::new(0);

/// A program that broadcasts a length and then that number of elements finds both.
const PLACES: usize = 8;

thread_local! {
    static KNOWN: [Cell<Option<Known>>; PLACES] = const { [const { Cell::new(None) }; PLACES] };
}

impl Arguments {
    fn place(&self) -> usize {
        (self.count ^ i64::from(self.root)) as usize % PLACES
    }

    /// The communicator and the message.
    ///
    /// # Safety
    /// As for [`Communicator::of`].
    pub unsafe fn find<'a>(&self) -> Option<(&'a mut Communicator, Message)> {
        let known = KNOWN.with(|places| places[self.place()].get())?;
        let is_valid = known.arguments == *self && known.epoch == EPOCH.load(Ordering::Relaxed);
        // SAFETY: remembered from `Communicator::of`, and none has been freed since.
        is_valid.then(|| (unsafe { &mut *known.communicator }, known.message))
    }

    /// Remembers what these arguments mean until any communicator is freed. The datatype must be a
    /// predefined one, since another's handle may come to mean another type, or the communicator native,
    /// for which no datatype matters.
    pub fn remember(self, communicator: *mut Communicator, message: Message) {
        let epoch = EPOCH.load(Ordering::Relaxed);
        let known = Known { arguments: self, epoch, communicator, message };
        KNOWN.with(|places| places[self.place()].set(Some(known)));
    }
}

/// A communicator is being freed.
pub fn forget_all() {
    EPOCH.fetch_add(1, Ordering::Relaxed);
}
