//! A client's slot as the daemon reads it: memory that an application of any user writes.

use arborcast_proto::SizeClass;
use arborcast_proto::segment::{BROADCASTS_KEPT, Slot, SlotView};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The first byte: how many of the broadcasts the daemon has seen. Then the slot.
pub fn run(bytes: &[u8]) {
    let Some((&seen, words)) = bytes.split_first() else { return };
    let (view, file) = SlotView::create().expect("memory");
    let file = File::from(file);
    let size = file.metadata().expect("a file").len() as usize;
    file.write_all_at(&words[..words.len().min(size)], 0).expect("memory");
    let state = view.hold_state();
    let (broadcasts, now) = view.broadcasts_since(seen.into());
    assert!(broadcasts.len() <= BROADCASTS_KEPT);
    for broadcast in &broadcasts {
        assert_eq!(SizeClass::of(broadcast.bytes), broadcast.target.class);
        let seconds = [broadcast.seconds, broadcast.pause_s, broadcast.native_s];
        assert!(seconds.iter().flatten().all(|seconds| (0.0..1e6).contains(seconds)));
    }
    // The application's own view of the same bytes.
    if let Ok(slot) = Slot::open(&file.into()) {
        slot.count_hold_timeout();
        let _ = slot.seconds_since_last(now);
        if let Some(broadcast) = broadcasts.first() {
            slot.record(broadcast, 1);
        }
        assert!(view.hold_state().hold_timeouts >= state.hold_timeouts);
        assert!(view.broadcasts_since(now).0.len() <= 1);
    }
}
