//! Reserved space: the caller reserves the bytes of an append before it computes the entries.
//!
//! Invariant: the bytes reserved and not yet appended fit into the rest of the current segment and the next
//! one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Reserved bytes of a wal, released on drop.
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    bytes: usize,
    total: Arc<AtomicUsize>,
}

impl Reservation {
    pub(crate) fn new(bytes: usize, total: &Arc<AtomicUsize>) -> Self {
        total.fetch_add(bytes, Ordering::Relaxed);
        Self { bytes, total: Arc::clone(total) }
    }

    /// Whether it is of this wal and large enough.
    pub(crate) fn covers(&self, bytes: usize, total: &Arc<AtomicUsize>) -> bool {
        Arc::ptr_eq(&self.total, total) && self.bytes >= bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
