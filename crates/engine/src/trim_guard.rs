//! Trim guard: while a backup holds it, the log is not trimmed and no newer filters are committed.
//!
//! A backup takes it before it pauses the stores; the checkpointer checks it before it changes them. So no
//! change is half done when a copy begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shared by the backup and the checkpointer.
#[derive(Debug, Clone, Default)]
pub(crate) struct TrimBlock(Arc<AtomicUsize>);

/// Blocks trimming until it is dropped.
#[derive(Debug)]
pub(crate) struct TrimGuard(TrimBlock);

impl TrimBlock {
    pub fn take(&self) -> TrimGuard {
        self.0.fetch_add(1, Ordering::SeqCst);
        TrimGuard(self.clone())
    }

    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

impl Drop for TrimGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}
