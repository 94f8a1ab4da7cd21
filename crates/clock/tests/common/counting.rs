//! An allocator that counts, for every test that has this module.

#![allow(unsafe_code, reason = "only an allocator can count what is allocated")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[derive(Clone, Copy)]
struct Count {
    /// How often something was asked for.
    asked: usize,
    held: isize,
    peak: isize,
}

thread_local! {
    /// Of this thread; tests run beside each other.
    static COUNT: Cell<Count> = const { Cell::new(Count { asked: 0, held: 0, peak: 0 }) };
}

struct Counting;

fn count(asked: usize, bytes: isize) {
    // A thread at its end has no more counter, and nothing to say.
    let _ = COUNT.try_with(|count| {
        let Count { asked: before, held, peak } = count.get();
        let held = held + bytes;
        count.set(Count { asked: before + asked, held, peak: peak.max(held) });
    });
}

// SAFETY: every call is passed on to the allocator of the system as it came; what is not here ends in these two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as isize);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as isize));
        // SAFETY: the caller's promise about both is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often this asks for memory, and the most that it holds beyond what was held before.
pub fn counted(work: impl FnOnce()) -> (usize, usize) {
    let before = COUNT.get();
    COUNT.set(Count { asked: 0, held: 0, peak: 0 });
    work();
    let Count { asked, held, peak } = COUNT.get();
    COUNT.set(Count { held: before.held + held, ..before });
    (asked, usize::try_from(peak).unwrap_or(0))
}
