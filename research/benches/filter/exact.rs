//! An exact table of ids with their expiry, and an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes allocated and not freed.
static HELD: AtomicUsize = AtomicUsize::new(0);

pub struct Counting;

// SAFETY: all methods pass their arguments to the system's allocator.
#[allow(unsafe_code, reason = "counting allocations needs an allocator")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

pub fn held() -> usize {
    HELD.load(Ordering::Relaxed)
}

/// Ids of sixteen bytes with their expiry, and their order of arrival.
#[derive(Default)]
pub struct Exact {
    expires: HashMap<[u8; 16], u64>,
    order: VecDeque<([u8; 16], u64)>,
}

impl Exact {
    pub fn insert(&mut self, id: [u8; 16], expires: u64, now: u64) {
        while let Some((id, expires)) = self.order.front()
            && *expires < now
        {
            self.expires.remove(id);
            self.order.pop_front();
        }
        if self.expires.insert(id, expires).is_none() {
            self.order.push_back((id, expires));
        }
    }

    pub fn len(&self) -> usize {
        self.expires.len()
    }
}
