//! A limit on the memory of several filters together.
//!
//! A filter is charged for its bytes, and at least for what its expected ids need, from when it is built
//! until it is dropped. So the memory for the expected ids is available when they arrive. Beyond that the
//! filter grows until the budget is exhausted; then it reports
//! [`Pressure::MemoryCap`](crate::Pressure::MemoryCap), as at its own cap.

use std::fmt;
use std::sync::Arc;
// Not of `crate::sync`: filters charge under their locks, and loom need not explore the order.
use std::sync::atomic::{AtomicUsize, Ordering};

/// A limit on the memory of all filters built with it. Clones share the limit. The default is unlimited.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: AtomicUsize,
    used: AtomicUsize,
}

/// A filter does not fit into its [`Budget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverBudget {
    /// Bytes that the filter needs, at least.
    pub needed: usize,
    /// Bytes that the other filters use.
    pub used: usize,
    /// The limit, in bytes.
    pub limit: usize,
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { needed, used, limit } = self;
        write!(f, "the filter needs {needed} bytes; {used} of the limit of {limit} bytes are in use")
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Budget {
    /// A budget of that many bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Shared { limit: limit.into(), used: 0.into() }))
    }

    /// The limit, in bytes.
    pub fn limit(&self) -> usize {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit. Filters beyond a lower limit stay and do not grow.
    pub fn set_limit(&self, limit: usize) {
        self.0.limit.store(limit, Ordering::Relaxed);
    }

    /// Bytes charged to all filters.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    fn try_add(&self, bytes: usize) -> Result<(), OverBudget> {
        let limit = self.limit();
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        let added = self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        added.map(drop).map_err(|used| OverBudget { needed: bytes, used, limit })
    }
}

/// What one filter is charged.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Budget,
    /// The minimum charge.
    promised: usize,
    charged: usize,
}

impl Account {
    pub(crate) fn open(budget: &Budget, promised: usize) -> Result<Self, OverBudget> {
        budget.try_add(promised)?;
        Ok(Self { budget: budget.clone(), promised, charged: promised })
    }

    /// Bytes that the filter may have in total.
    pub(crate) fn room(&self) -> usize {
        self.charged.saturating_add(self.budget.limit().saturating_sub(self.budget.used()))
    }

    /// Charges the filter for `bytes` in total. On an error nothing changes.
    pub(crate) fn try_charge(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if let Some(more) = bytes.checked_sub(self.charged) {
            self.budget.try_add(more).map_err(|over| OverBudget {
                needed: bytes,
                used: over.used.saturating_sub(self.charged),
                ..over
            })?;
            self.charged = bytes;
        } else {
            self.charge(bytes);
        }
        Ok(())
    }

    /// As [`try_charge`](Self::try_charge), also beyond the limit.
    pub(crate) fn charge(&mut self, bytes: usize) {
        let bytes = bytes.max(self.promised);
        self.budget.0.used.fetch_add(bytes, Ordering::Relaxed);
        self.budget.0.used.fetch_sub(self.charged, Ordering::Relaxed);
        self.charged = bytes;
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.charged, Ordering::Relaxed);
    }
}
