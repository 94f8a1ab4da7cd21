//! The storage under every filter of this crate: cache lines of eight atomic 64-bit words.
//!
//! Two addressings share it. *Interleaved*: a line is a row, word `l` of it belongs to generation (lane) `l`, so
//! that one line load answers for eight generations. *Solid*: the words of all lines form one array that belongs
//! to a single generation. The words are atomics in both the exclusive and the concurrent filter; the
//! [`Access`] decides how they are changed.

use crate::metal;
use crate::sync::{AtomicU64, Ordering};

/// Words in a line; equally the number of generations of an interleaved ring.
pub(crate) const LANES: usize = 8;

/// Bytes in a line: one cache line of the machines we know.
pub(crate) const LINE_BYTES: usize = 64;

/// One cache line.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct Line(pub(crate) [AtomicU64; LANES]);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == LINE_BYTES && align_of::<Line>() == LINE_BYTES);

/// The allocator could not provide the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

/// A fixed number of lines, zero at the start.
pub(crate) struct Lines(Box<[Line]>);

impl Lines {
    /// Takes the memory at once: what the system grants now it cannot take back when ids arrive.
    pub(crate) fn zeroed(lines: usize) -> Result<Self, OutOfMemory> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(lines).map_err(|_| OutOfMemory)?;
        // Before the first touch: the system decides on the kind of page when it is first written.
        metal::advise_huge_pages(memory.spare_capacity_mut());
        memory.resize_with(lines, Line::default);
        Ok(Self(memory.into_boxed_slice()))
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.len() * LINE_BYTES
    }

    /// The line of an interleaved row.
    #[inline]
    pub(crate) fn row(&self, row: usize) -> &Line {
        &self.0[row]
    }

    /// The word of a solid array, counted over all lines.
    #[inline]
    pub(crate) fn word(&self, word: usize) -> &AtomicU64 {
        &self.0[word / LANES].0[word % LANES]
    }
}

/// How a word is changed: by the only owner, or among several threads.
pub(crate) trait Access {
    /// Whether nobody else can touch the storage during a call.
    const EXCLUSIVE: bool;

    /// Sets the bits of `mask`; tells whether one of them was still clear.
    fn or(word: &AtomicU64, mask: u64) -> bool;

    /// Adds to a count; returns the sum.
    fn add(count: &AtomicU64, more: u64) -> u64;
}

/// The caller holds `&mut`: a plain load and store, without a bus lock.
pub(crate) struct Exclusive;

/// Several threads: an atomic `or`, left out when the bits are already there so that a storm of duplicates keeps
/// the line shared between the caches.
pub(crate) struct Shared;

impl Access for Exclusive {
    const EXCLUSIVE: bool = true;

    #[inline]
    fn or(word: &AtomicU64, mask: u64) -> bool {
        let old = word.load(Ordering::Relaxed);
        word.store(old | mask, Ordering::Relaxed);
        old & mask != mask
    }

    #[inline]
    fn add(count: &AtomicU64, more: u64) -> u64 {
        let sum = count.load(Ordering::Relaxed).wrapping_add(more);
        count.store(sum, Ordering::Relaxed);
        sum
    }
}

impl Access for Shared {
    const EXCLUSIVE: bool = false;

    #[inline]
    fn or(word: &AtomicU64, mask: u64) -> bool {
        if word.load(Ordering::Relaxed) & mask == mask {
            return false;
        }
        word.fetch_or(mask, Ordering::Relaxed) & mask != mask
    }

    #[inline]
    fn add(count: &AtomicU64, more: u64) -> u64 {
        count.fetch_add(more, Ordering::Relaxed).wrapping_add(more)
    }
}
