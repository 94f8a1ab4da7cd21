//! The storage of both filters: cache lines of eight atomic 64-bit words.
//!
//! Two layouts use it. *Interleaved*: a line is a row and word `l` belongs to generation (lane) `l`, so one
//! load of a line covers eight generations. *Solid*: the words of all lines form one array that belongs to a
//! single generation.

use crate::simd;
use crate::sync::{AtomicU64, Ordering};

/// Words in a line, and lanes of an interleaved ring.
pub(crate) const LANES: usize = 8;

/// Bytes in a line: the cache line size of x86-64 and most ARM processors.
pub(crate) const LINE_BYTES: usize = 64;

#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct CacheLine(pub(crate) [AtomicU64; LANES]);

#[cfg(not(loom))]
const _: () = assert!(size_of::<CacheLine>() == LINE_BYTES && align_of::<CacheLine>() == LINE_BYTES);

/// The allocator could not provide the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

/// A fixed number of lines, initially zero.
pub(crate) struct CacheLines(Box<[CacheLine]>);

impl CacheLines {
    /// Allocates and touches the memory at once, so that a later insert cannot fail for lack of memory.
    pub(crate) fn zeroed(lines: usize) -> Result<Self, OutOfMemory> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(lines).map_err(|_| OutOfMemory)?;
        // The advice must precede the first write, which fixes the page size.
        simd::advise_huge_pages(memory.spare_capacity_mut());
        memory.resize_with(lines, CacheLine::default);
        Ok(Self(memory.into_boxed_slice()))
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.len() * LINE_BYTES
    }

    /// The line of a row in the interleaved layout.
    #[inline]
    pub(crate) fn row(&self, row: usize) -> &CacheLine {
        &self.0[row]
    }

    /// A word in the solid layout, counted over all lines.
    #[inline]
    pub(crate) fn word(&self, word: usize) -> &AtomicU64 {
        &self.0[word / LANES].0[word % LANES]
    }
}

/// Sets the bits of `mask`; returns whether one of them was clear.
///
/// Skips the write when all bits are set, so that lookups of known ids do not invalidate the line in other
/// caches.
#[inline]
pub(crate) fn set_bits(word: &AtomicU64, mask: u64) -> bool {
    if word.load(Ordering::Relaxed) & mask == mask {
        return false;
    }
    word.fetch_or(mask, Ordering::Relaxed) & mask != mask
}
