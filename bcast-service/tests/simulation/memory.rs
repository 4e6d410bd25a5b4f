//! The bytes that a thread has allocated and not given back.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE_BYTES: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: isize) {
    LIVE_BYTES.with(|live| live.set(live.get() + bytes));
}

// SAFETY: all is left to the system's allocator; counting allocates nothing, since the counter is `const` and
// needs no drop.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as `System`'s.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as `System`'s.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: it came from `System`, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

pub fn live_bytes() -> isize {
    LIVE_BYTES.with(Cell::get)
}
