//! An allocator that counts the allocations of each thread.

#![allow(unsafe_code, reason = "counting allocations needs an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[derive(Clone, Copy)]
struct Count {
    allocations: usize,
    held: isize,
    peak: isize,
}

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(Count { allocations: 0, held: 0, peak: 0 }) };
}

struct Counting;

fn count(more: usize, bytes: isize) {
    // The counter of an ending thread is gone.
    let _ = COUNT.try_with(|count| {
        let Count { allocations, held, peak } = count.get();
        let held = held + bytes;
        count.set(Count { allocations: allocations + more, held, peak: peak.max(held) });
    });
}

// SAFETY: both methods pass their arguments to the system's allocator; the others are implemented by these
// two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as isize);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as isize));
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of allocations of `work`, and the maximum of bytes that it held at once.
pub fn counted(work: impl FnOnce()) -> (usize, usize) {
    let before = COUNT.get();
    COUNT.set(Count { allocations: 0, held: 0, peak: 0 });
    work();
    let Count { allocations, held, peak } = COUNT.get();
    COUNT.set(Count { held: before.held + held, ..before });
    (allocations, usize::try_from(peak).unwrap_or(0))
}
