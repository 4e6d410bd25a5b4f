//! The desk: a slot for each client of a daemon, in which the client alone writes.
//!
//! The daemon hands out slots over its socket, so no two clients ever write to one. It reads them
//! when it is rung and now and then besides, and believes nothing: what is out of range is left out.

use super::MAGIC;
use super::mapping::{Opened, Owned, SegmentError, Shared};
use crate::hold;
use crate::{GroupHash, SizeClass, Target};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The clients one daemon serves at a time.
pub const SLOTS: usize = 256;
/// The last broadcasts that a slot shows.
pub const BROADCASTS_KEPT: usize = 64;

/// One broadcast that the client was the root of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Broadcast {
    pub target: Target,
    pub bytes: u64,
    /// Seconds until the ACKs of all leaves, where this broadcast was timed.
    pub seconds: Option<f64>,
}

#[repr(C)]
struct BroadcastWords {
    group: AtomicU64,
    root_and_class: AtomicU64,
    bytes: AtomicU64,
    /// Bits of an `f64`; NaN where the broadcast was not timed.
    seconds: AtomicU64,
}

#[repr(C, align(64))]
struct SlotWords {
    /// The client's word of [`crate::hold`].
    request: AtomicU32,
    /// Experiments only: the number of the grant for which it has stopped.
    stopped_grant: AtomicU32,
    /// CLOCK_MONOTONIC nanoseconds at the end of the last broadcast.
    last_broadcast_ns: AtomicU64,
    /// How often the client waited for an experiment in vain.
    waits_given_up: AtomicU64,
    /// Broadcasts so far; number `i` stands at `i % BROADCASTS_KEPT`.
    broadcasts: AtomicU64,
    ring: [BroadcastWords; BROADCASTS_KEPT],
}

#[repr(C)]
struct DeskWords {
    magic: AtomicU64,
    slots: [SlotWords; SLOTS],
}

// SAFETY: `repr(C)`, atomics only.
unsafe impl Shared for DeskWords {}

/// What the daemon sees of a client's hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldState {
    pub holds: bool,
    /// CLOCK_MONOTONIC nanoseconds at the end of the client's last broadcast; 0 before the first.
    pub last_broadcast_ns: u64,
    pub waits_given_up: u64,
    pub stopped_grant: u32,
}

/// The daemon's side of its desk.
pub struct Desk {
    words: Owned<DeskWords>,
}

impl Desk {
    /// Creates the desk; `gid` is the group whose members may be clients.
    ///
    /// # Errors
    /// Where the segment cannot be created, or given its group and mode.
    pub fn create(segment: &str, gid: Option<u32>) -> Result<Self, SegmentError> {
        let words = Owned::<DeskWords>::create(segment, 0o660, gid)?;
        // Release pairs with the Acquire in `Slot::open`.
        words.get().magic.store(MAGIC, Ordering::Release);
        Ok(Desk { words })
    }

    /// Makes a slot ready for its next client. The old one must be dead.
    pub fn clear(&self, slot: usize) {
        let slot = &self.words.get().slots[slot];
        slot.request.store(hold::Request::Free as u32, Ordering::Relaxed);
        for word in [&slot.last_broadcast_ns, &slot.waits_given_up, &slot.broadcasts] {
            word.store(0, Ordering::Relaxed);
        }
        slot.stopped_grant.store(0, Ordering::Release);
    }

    pub fn hold_state(&self, slot: usize) -> HoldState {
        let slot = &self.words.get().slots[slot];
        HoldState {
            holds: hold::holds(&slot.request),
            last_broadcast_ns: slot.last_broadcast_ns.load(Ordering::Relaxed),
            waits_given_up: slot.waits_given_up.load(Ordering::Relaxed),
            stopped_grant: slot.stopped_grant.load(Ordering::Acquire),
        }
    }

    /// The broadcasts of a slot's client since the first `seen` of them, oldest first, and how many
    /// there are now. Those that the client has overwritten meanwhile are missing.
    pub fn broadcasts_since(&self, slot: usize, seen: u64) -> (Vec<Broadcast>, u64) {
        let slot = &self.words.get().slots[slot];
        // Acquire pairs with the Release in `Slot::record`.
        let now = slot.broadcasts.load(Ordering::Acquire);
        let kept = BROADCASTS_KEPT as u64;
        let first = seen.clamp(now.saturating_sub(kept), now);
        let read: Vec<_> = (first..now).map(|number| (number, slot.read(number))).collect();
        // Pairs with the fence in `Slot::record`: an entry is whole unless its place was taken by a
        // later broadcast, of which the counter then speaks (or is one short of speaking).
        fence(Ordering::Acquire);
        let after = slot.broadcasts.load(Ordering::Relaxed);
        let whole = |number: u64| after.saturating_sub(number) < kept;
        let broadcasts = read
            .into_iter()
            .filter(|(number, _)| whole(*number))
            .filter_map(|(_, broadcast)| broadcast)
            .collect();
        (broadcasts, now)
    }
}

impl SlotWords {
    fn read(&self, number: u64) -> Option<Broadcast> {
        let words = &self.ring[(number % BROADCASTS_KEPT as u64) as usize];
        let root_and_class = words.root_and_class.load(Ordering::Relaxed);
        let seconds = f64::from_bits(words.seconds.load(Ordering::Relaxed));
        Some(Broadcast {
            target: Target {
                group: GroupHash(words.group.load(Ordering::Relaxed)),
                root: u16::try_from(root_and_class >> 8).ok()?,
                class: SizeClass::try_from((root_and_class & 0xff) as u8).ok()?,
            },
            bytes: words.bytes.load(Ordering::Relaxed),
            seconds: (seconds.is_finite() && seconds >= 0.0).then_some(seconds),
        })
    }
}

/// A client's own slot.
pub struct Slot {
    words: Opened<DeskWords>,
    index: usize,
}

impl Slot {
    /// Opens the slot that the daemon gave this process.
    ///
    /// # Errors
    /// Where there is no such segment, it has another layout, or may not be written by this user.
    pub fn open(segment: &str, index: usize) -> Result<Self, SegmentError> {
        let words = Opened::<DeskWords>::writable(segment)?;
        // Acquire pairs with the Release in `Desk::create`.
        if words.get().magic.load(Ordering::Acquire) != MAGIC || index >= SLOTS {
            return Err(SegmentError::Layout { name: segment.into() });
        }
        Ok(Slot { words, index })
    }

    fn slot(&self) -> &SlotWords {
        &self.words.get().slots[self.index]
    }

    /// The client's word of [`crate::hold`].
    pub fn request(&self) -> &AtomicU32 {
        &self.slot().request
    }

    /// The experiment has stopped for this grant.
    pub fn set_stopped_grant(&self, grant: u32) {
        // Release: the daemon that sees it sees the experiment's last words too.
        self.slot().stopped_grant.store(grant, Ordering::Release);
    }

    /// The client went ahead although the experiment had not stopped in time.
    pub fn count_wait_given_up(&self) {
        let count = &self.slot().waits_given_up;
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Notes a broadcast that ended at `now_ns` (CLOCK_MONOTONIC).
    pub fn record(&self, broadcast: &Broadcast, now_ns: u64) {
        let slot = self.slot();
        let number = slot.broadcasts.load(Ordering::Relaxed);
        let words = &slot.ring[(number % BROADCASTS_KEPT as u64) as usize];
        let Target { group, root, class } = broadcast.target;
        // Pairs with the fence in `Desk::broadcasts_since`: who reads a word below sees a counter
        // of at least `number`.
        fence(Ordering::Release);
        words.group.store(group.0, Ordering::Relaxed);
        let root_and_class = u64::from(root) << 8 | class.index() as u64;
        words.root_and_class.store(root_and_class, Ordering::Relaxed);
        words.bytes.store(broadcast.bytes, Ordering::Relaxed);
        let seconds = broadcast.seconds.unwrap_or(f64::NAN);
        words.seconds.store(seconds.to_bits(), Ordering::Relaxed);
        slot.last_broadcast_ns.store(now_ns, Ordering::Relaxed);
        slot.broadcasts.store(number + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broadcast(bytes: u64) -> Broadcast {
        let target = Target { group: GroupHash(9), root: 3, class: SizeClass::of(bytes) };
        Broadcast { target, bytes, seconds: bytes.is_multiple_of(2).then_some(bytes as f64) }
    }

    fn desk(test: &str) -> (Desk, Slot) {
        let name = format!("arborcast-test-{test}-{}", std::process::id());
        (Desk::create(&name, None).unwrap(), Slot::open(&name, 7).unwrap())
    }

    #[test]
    fn the_daemon_reads_each_broadcast_once() {
        let (desk, slot) = desk("ring");
        for i in 0..10 {
            slot.record(&broadcast(i), i);
        }
        let (first, seen) = desk.broadcasts_since(7, 0);
        assert_eq!(first, (0..10).map(broadcast).collect::<Vec<_>>());
        slot.record(&broadcast(10), 10);
        assert_eq!(desk.broadcasts_since(7, seen).0, [broadcast(10)]);
        for i in 11..500 {
            slot.record(&broadcast(i), i);
        }
        let (last, seen) = desk.broadcasts_since(7, seen + 1);
        assert_eq!(last.last(), Some(&broadcast(499)));
        assert!(last.len() >= BROADCASTS_KEPT - 1);
        assert_eq!(seen, 500);
        assert_eq!(desk.hold_state(7).last_broadcast_ns, 499);
    }

    #[test]
    fn a_slot_is_cleared_for_its_next_client() {
        let (desk, slot) = desk("clear");
        slot.record(&broadcast(1), 1);
        slot.count_wait_given_up();
        slot.set_stopped_grant(4);
        desk.clear(7);
        assert_eq!(desk.broadcasts_since(7, 0), (vec![], 0));
        let clear =
            HoldState { holds: false, last_broadcast_ns: 0, waits_given_up: 0, stopped_grant: 0 };
        assert_eq!(desk.hold_state(7), clear);
    }
}
