//! The slot of a client: a memory file of its own, in which the client alone writes.
//!
//! The daemon makes it, seals its size and hands it over with its welcome, so nobody else can map it
//! and nobody can cut it short: neither side can be killed by a mapping that lost its pages. The daemon
//! reads it when it is rung and now and then besides, and believes nothing: what is out of range is
//! left out.

use super::MAGIC;
use super::mapping::{Opened, SegmentError, Shared, sealed_memory};
use crate::hold;
use crate::{GroupHash, SizeClass, Target};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// The last broadcasts that a slot shows.
pub const BROADCASTS_KEPT: usize = 64;
/// A broadcast that its root is through with is under way no longer than this, as far as a slot may say.
pub const MOST_UNDER_WAY: Duration = Duration::from_secs(10);
/// A broadcast or a pause that is said to have taken longer is not believed.
const MAX_SECONDS: f64 = 86_400.0;

/// One broadcast that the client was the root of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Broadcast {
    pub target: Target,
    pub bytes: u64,
    /// Seconds until the ACKs of all leaves, where this broadcast was timed.
    pub seconds: Option<f64>,
    /// Seconds from the end of the client's last broadcast to the beginning of this one, where known.
    pub pause_s: Option<f64>,
    /// The same from the last one that the client took part in, whoever its root.
    pub quiet_s: Option<f64>,
    /// Seconds that the root spent in a native broadcast, where known: the whole of it took no less.
    pub native_s: Option<f64>,
}

#[repr(C)]
struct BroadcastWords {
    group: AtomicU64,
    root_and_class: AtomicU64,
    bytes: AtomicU64,
    /// Bits of an `f64`; NaN where the broadcast was not timed.
    seconds: AtomicU64,
    /// Bits of an `f64`; NaN where it is not known.
    pause_s: AtomicU64,
    /// As before, both.
    quiet_s: AtomicU64,
    native_s: AtomicU64,
}

#[repr(C)]
struct SlotWords {
    magic: AtomicU64,
    /// The client's word of [`crate::hold`].
    request: AtomicU32,
    /// How often the client has claimed the network.
    claims: AtomicU64,
    /// CLOCK_MONOTONIC nanoseconds at the end of the last broadcast.
    last_broadcast_ns: AtomicU64,
    /// Holds for which the experiment did not stop within `hold_wait_max`.
    hold_timeouts: AtomicU64,
    /// Broadcasts so far; number `i` stands at `i % BROADCASTS_KEPT`.
    broadcasts: AtomicU64,
    recent: [BroadcastWords; BROADCASTS_KEPT],
}

// SAFETY: `repr(C)`, atomics only.
unsafe impl Shared for SlotWords {}

/// What the daemon sees of a client's hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldState {
    pub holds: bool,
    /// How often the client has claimed the network: a hold that stands since before its last claim
    /// is as fresh as that claim.
    pub claims: u64,
    /// CLOCK_MONOTONIC nanoseconds at the end of the client's last broadcast; 0 before the first.
    pub last_broadcast_ns: u64,
    pub hold_timeouts: u64,
}

/// The daemon's view of a client's slot.
pub struct SlotView {
    words: Opened<SlotWords>,
}

impl SlotView {
    /// Makes a slot, and the file that its client is to get.
    ///
    /// # Errors
    /// Where the system has no memory files, or no more memory or descriptors.
    pub fn create() -> Result<(Self, OwnedFd), SegmentError> {
        let file = sealed_memory("arborcast-slot", size_of::<SlotWords>())?;
        let words = Opened::<SlotWords>::sealed(&file)?;
        // Release pairs with the Acquire in `Slot::open`.
        words.get().magic.store(MAGIC, Ordering::Release);
        Ok((SlotView { words }, file))
    }

    pub fn hold_state(&self) -> HoldState {
        let slot = self.words.get();
        HoldState {
            holds: hold::holds(&slot.request),
            claims: slot.claims.load(Ordering::Relaxed),
            last_broadcast_ns: slot.last_broadcast_ns.load(Ordering::Relaxed),
            hold_timeouts: slot.hold_timeouts.load(Ordering::Relaxed),
        }
    }

    /// The client's broadcasts since the first `seen` of them, oldest first, and how many
    /// there are now. Those that the client has overwritten meanwhile are missing.
    pub fn broadcasts_since(&self, seen: u64) -> (Vec<Broadcast>, u64) {
        let slot = self.words.get();
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
    /// `None` for what no broadcast can be.
    fn read(&self, number: u64) -> Option<Broadcast> {
        let words = &self.recent[(number % BROADCASTS_KEPT as u64) as usize];
        let root_and_class = words.root_and_class.load(Ordering::Relaxed);
        let believed = |word: &AtomicU64| {
            let seconds = f64::from_bits(word.load(Ordering::Relaxed));
            (0.0..=MAX_SECONDS).contains(&seconds).then_some(seconds)
        };
        let bytes = words.bytes.load(Ordering::Relaxed);
        let class = SizeClass::try_from((root_and_class & 0xff) as u8).ok()?;
        // The last class is open above: no message is larger than those that are meant.
        if SizeClass::of(bytes) != class || bytes > class.max_bytes() {
            return None;
        }
        Some(Broadcast {
            target: Target {
                group: GroupHash(words.group.load(Ordering::Relaxed)),
                root: u16::try_from(root_and_class >> 8).ok()?,
                class,
            },
            bytes,
            seconds: believed(&words.seconds),
            pause_s: believed(&words.pause_s),
            quiet_s: believed(&words.quiet_s),
            native_s: believed(&words.native_s),
        })
    }
}

/// A client's own slot.
pub struct Slot {
    words: Opened<SlotWords>,
}

impl Slot {
    /// Opens the slot that the daemon gave this process. The file need not stay open.
    ///
    /// # Errors
    /// Where the file is no slot of this layout, or not sealed.
    pub fn open(file: &OwnedFd) -> Result<Self, SegmentError> {
        let words = Opened::<SlotWords>::sealed(file)?;
        // Acquire pairs with the Release in `SlotView::create`.
        if words.get().magic.load(Ordering::Acquire) != MAGIC {
            return Err(SegmentError::Layout { name: "slot".into() });
        }
        Ok(Slot { words })
    }

    fn slot(&self) -> &SlotWords {
        self.words.get()
    }

    /// Claims the network: [`hold::claim`], counted, so that the daemon can tell a hold that is in use
    /// from one that was forgotten.
    #[must_use]
    pub fn claim(&self, experiment: &AtomicU32) -> bool {
        // Before the fence in `hold::claim`: a daemon that must see the claim sees the count, too.
        add_one(&self.slot().claims);
        hold::claim(self.request(), experiment)
    }

    /// The client's word of [`crate::hold`].
    pub fn request(&self) -> &AtomicU32 {
        &self.slot().request
    }

    /// The client went ahead although the experiment had not stopped in time.
    pub fn count_hold_timeout(&self) {
        add_one(&self.slot().hold_timeouts);
    }

    /// From the end of the last broadcast to `now_ns` (CLOCK_MONOTONIC); `None` before the first.
    pub fn seconds_since_last(&self, now_ns: u64) -> Option<f64> {
        let last_ns = self.slot().last_broadcast_ns.load(Ordering::Relaxed);
        (last_ns > 0).then(|| now_ns.saturating_sub(last_ns) as f64 / 1e9)
    }

    /// Notes a broadcast that ended at `ended_ns` (CLOCK_MONOTONIC), or of which the last node should have it by then, up
    /// to [`MOST_UNDER_WAY`] from now.
    pub fn record(&self, broadcast: &Broadcast, ended_ns: u64) {
        let slot = self.slot();
        let number = slot.broadcasts.load(Ordering::Relaxed);
        let words = &slot.recent[(number % BROADCASTS_KEPT as u64) as usize];
        let Target { group, root, class } = broadcast.target;
        // Pairs with the fence in `SlotView::broadcasts_since`: who reads a word below sees a counter
        // of at least `number`.
        fence(Ordering::Release);
        words.group.store(group.0, Ordering::Relaxed);
        let root_and_class = u64::from(root) << 8 | class.index() as u64;
        words.root_and_class.store(root_and_class, Ordering::Relaxed);
        words.bytes.store(broadcast.bytes, Ordering::Relaxed);
        let bits = |seconds: Option<f64>| seconds.unwrap_or(f64::NAN).to_bits();
        words.seconds.store(bits(broadcast.seconds), Ordering::Relaxed);
        words.pause_s.store(bits(broadcast.pause_s), Ordering::Relaxed);
        words.quiet_s.store(bits(broadcast.quiet_s), Ordering::Relaxed);
        words.native_s.store(bits(broadcast.native_s), Ordering::Relaxed);
        slot.last_broadcast_ns.store(ended_ns, Ordering::Relaxed);
        slot.broadcasts.store(number.wrapping_add(1), Ordering::Release);
    }
}

/// A counter that only this process writes, and that stays at its end.
fn add_one(count: &AtomicU64) {
    count.store(count.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{SealFlags, fcntl_add_seals, ftruncate};

    fn broadcast(bytes: u64) -> Broadcast {
        let target = Target { group: GroupHash(9), root: 3, class: SizeClass::of(bytes) };
        let seconds = bytes.is_multiple_of(2).then_some(bytes as f64);
        let pause_s = seconds.map(|seconds| seconds / 2.0);
        let quiet_s = seconds.map(|seconds| seconds / 4.0);
        let native_s = Some(1.0).filter(|_| seconds.is_none());
        Broadcast { target, bytes, seconds, pause_s, quiet_s, native_s }
    }

    fn pair() -> (SlotView, Slot) {
        let (view, file) = SlotView::create().unwrap();
        (view, Slot::open(&file).unwrap())
    }

    #[test]
    fn the_daemon_reads_each_broadcast_once() {
        let (view, slot) = pair();
        for i in 0..10 {
            slot.record(&broadcast(i), i);
        }
        let (first, seen) = view.broadcasts_since(0);
        assert_eq!(first, (0..10).map(broadcast).collect::<Vec<_>>());
        slot.record(&broadcast(10), 10);
        assert_eq!(view.broadcasts_since(seen).0, [broadcast(10)]);
        for i in 11..500 {
            slot.record(&broadcast(i), i);
        }
        let (last, seen) = view.broadcasts_since(seen + 1);
        assert_eq!(last.last(), Some(&broadcast(499)));
        assert!(last.len() >= BROADCASTS_KEPT - 1);
        assert_eq!(seen, 500);
        assert_eq!(view.hold_state().last_broadcast_ns, 499);
    }

    #[test]
    fn claims_and_vain_waits_are_counted_and_stay_at_their_end() {
        let (view, slot) = pair();
        let quiet = AtomicU32::new(0);
        assert!(slot.claim(&quiet) && slot.claim(&quiet));
        slot.count_hold_timeout();
        let state = view.hold_state();
        assert!(state.holds);
        assert_eq!((state.claims, state.hold_timeouts), (2, 1));
        let words = slot.slot();
        for count in [&words.claims, &words.hold_timeouts, &words.broadcasts] {
            count.store(u64::MAX, Ordering::Relaxed);
        }
        assert!(slot.claim(&quiet));
        slot.count_hold_timeout();
        slot.record(&broadcast(1), 1);
        assert_eq!(view.hold_state().claims, u64::MAX);
        assert_eq!(view.hold_state().hold_timeouts, u64::MAX);
        // Whatever the counter says, the view takes no more than the recent samples.
        assert!(view.broadcasts_since(7).0.len() <= BROADCASTS_KEPT);
    }

    #[test]
    fn what_no_broadcast_can_be_is_left_out() {
        let (view, slot) = pair();
        let largest = SizeClass::try_from(SizeClass::COUNT as u8 - 1).unwrap().max_bytes();
        let with_class = |bytes, class| {
            let mut broadcast = broadcast(bytes);
            broadcast.target.class = SizeClass::of(class);
            broadcast
        };
        slot.record(&broadcast(1 << 60), 1);
        slot.record(&broadcast(u64::MAX), 1);
        slot.record(&with_class(1 << 30, 1), 1);
        slot.record(&with_class(1, 1 << 30), 1);
        let untimed = Broadcast { seconds: None, pause_s: None, quiet_s: None, ..broadcast(8) };
        let of_largest = Broadcast { target: broadcast(largest).target, bytes: largest, ..untimed };
        slot.record(&of_largest, 1);
        let long =
            Broadcast { seconds: Some(1e300), pause_s: Some(-1.0), quiet_s: Some(-1.0), ..untimed };
        slot.record(&long, 1);
        assert_eq!(view.broadcasts_since(0), (vec![of_largest, untimed], 6));
    }

    #[test]
    fn nobody_can_cut_a_slot_short_or_undo_that() {
        let (view, file) = SlotView::create().unwrap();
        let slot = Slot::open(&file).unwrap();
        for bytes in [0, 1, 1 << 20] {
            assert!(ftruncate(&file, bytes).is_err(), "{bytes} bytes");
        }
        assert!(fcntl_add_seals(&file, SealFlags::WRITE).is_err());
        drop(file);
        slot.record(&broadcast(1), 1);
        assert_eq!(view.broadcasts_since(0).0, [broadcast(1)], "a mapping needs no descriptor");
    }

    #[test]
    fn a_file_that_could_be_cut_short_is_no_slot() {
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("test", flags).unwrap();
        ftruncate(&file, 1 << 20).unwrap();
        assert!(Slot::open(&file).is_err(), "not sealed");
        let small = sealed_memory("test", 64).unwrap();
        assert!(matches!(Slot::open(&small), Err(SegmentError::Size { .. })));
        let foreign = sealed_memory("test", 1 << 20).unwrap();
        assert!(matches!(Slot::open(&foreign), Err(SegmentError::Layout { .. })));
    }
}
