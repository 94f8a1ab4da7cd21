//! The storage under every filter of this crate: cache lines of eight atomic 64-bit words.
//!
//! Two addressings share it. *Interleaved*: a line is a row, word `l` of it belongs to generation (lane) `l`, so
//! that one line load answers for eight generations. *Solid*: the words of all lines form one array that belongs
//! to a single generation.

use crate::simd;
use crate::sync::{AtomicU64, Ordering};

/// Words in a line; equally the number of generations of an interleaved ring.
pub(crate) const LANES: usize = 8;

/// Bytes in a line: one cache line of the machines we know.
pub(crate) const LINE_BYTES: usize = 64;

/// One cache line.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct CacheLine(pub(crate) [AtomicU64; LANES]);

#[cfg(not(loom))]
const _: () = assert!(size_of::<CacheLine>() == LINE_BYTES && align_of::<CacheLine>() == LINE_BYTES);

/// The allocator could not provide the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

/// A fixed number of lines, zero at the start.
pub(crate) struct CacheLines(Box<[CacheLine]>);

impl CacheLines {
    /// Takes the memory at once: what the system grants now it cannot take back when ids arrive.
    pub(crate) fn zeroed(lines: usize) -> Result<Self, OutOfMemory> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(lines).map_err(|_| OutOfMemory)?;
        // Before the first touch: the system decides on the kind of page when it is first written.
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

    /// The line of an interleaved row.
    #[inline]
    pub(crate) fn row(&self, row: usize) -> &CacheLine {
        &self.0[row]
    }

    /// The word of a solid array, counted over all lines.
    #[inline]
    pub(crate) fn word(&self, word: usize) -> &AtomicU64 {
        &self.0[word / LANES].0[word % LANES]
    }
}

/// Sets the bits of `mask`; returns whether one of them was clear.
///
/// The write is left out when the bits are set already, so that repeated ids keep the line shared between the caches.
#[inline]
pub(crate) fn set_bits(word: &AtomicU64, mask: u64) -> bool {
    if word.load(Ordering::Relaxed) & mask == mask {
        return false;
    }
    word.fetch_or(mask, Ordering::Relaxed) & mask != mask
}
