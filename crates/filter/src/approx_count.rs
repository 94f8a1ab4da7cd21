//! Approximate count of the ids of a generation, without a shared write per insert.
//!
//! A large generation counts only ids whose fingerprint ends in a number of zero bits, and multiplies. The
//! result is deterministic, and exact for small generations.

use crate::key::Fingerprint;
use crate::sync::{AtomicU64, Ordering};

/// With this many samples the error is about 1.5 %; smaller generations count every id.
const SAMPLES_MIN: u64 = 4_096;

/// Exact for small generations, within a few percent for large ones. On its own cache line: inserts write it,
/// while the neighbouring memory is only read.
#[repr(align(64))]
pub(crate) struct ApproxCount {
    count: AtomicU64,
    /// An id is counted if this many low bits of its fingerprint are zero.
    shift: u32,
}

impl ApproxCount {
    /// A count of zero for a generation of `ids` ids.
    pub(crate) fn for_ids(ids: u64) -> Self {
        Self { count: AtomicU64::new(0), shift: (ids / SAMPLES_MIN).max(1).ilog2() }
    }

    pub(crate) fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The count at which to report a full generation again: an eighth more.
    pub(crate) fn next_alarm(count: u64) -> u64 {
        count + count / 8 + 1
    }

    pub(crate) fn set(&self, count: u64) {
        self.count.store(count, Ordering::Relaxed);
    }

    /// Counts an id; returns the new count if the id was one of those counted.
    #[inline]
    pub(crate) fn add(&self, fingerprint: Fingerprint) -> Option<u64> {
        let sample = 1 << self.shift;
        (fingerprint.0 & (sample - 1) == 0)
            .then(|| self.count.fetch_add(sample, Ordering::Relaxed).wrapping_add(sample))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    fn count(expected: u64, ids: u64) -> u64 {
        let count = ApproxCount::for_ids(expected);
        let key = Key::new([7; 16]);
        for id in 0..ids {
            count.add(key.fingerprint(&id.to_le_bytes()));
        }
        count.get()
    }

    #[test]
    fn small_generations_are_counted_exactly() {
        assert_eq!(count(1_000, 900), 900);
    }

    #[cfg(not(miri))]
    #[test]
    fn large_generations_are_counted_within_five_percent() {
        for ids in [1_000_000_u64, 2_000_000] {
            let counted = count(1_000_000, ids);
            assert!(counted.abs_diff(ids) < ids / 20, "{ids}: {counted}");
        }
    }
}
