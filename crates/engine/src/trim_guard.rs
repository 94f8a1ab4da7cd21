//! Holds back what a copy has yet to read: while somebody holds it, the log is not trimmed, and no newer filters count.
//!
//! It is taken before the stores are held still, and looked at by whoever changes them: so nobody is half way through when a copy begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shared by who copies and who trims.
#[derive(Debug, Clone, Default)]
pub(crate) struct TrimBlock(Arc<AtomicUsize>);

/// Holds until it is dropped.
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
