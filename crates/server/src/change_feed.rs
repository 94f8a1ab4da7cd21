//! Who watches: every change that this server has acknowledged is told to those who asked for it.
//!
//! Told is what became durable, once, in the order of the slots of a partition as far as one connection made the changes. A watcher that
//! is too slow loses changes and is told how many: it reads the counters again.

use std::sync::Arc;

use jeton_core::Cell;
use tokio::sync::broadcast;

/// Changes that a slow watcher may lag behind.
const BEHIND_MAX: usize = 4096;

/// A change of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeEvent {
    /// Which cell.
    pub cell: Cell,
    /// The counter afterwards; nothing if the cell is empty or holds bytes.
    pub value: Option<i64>,
    /// The slot of the partition's log.
    pub slot: u64,
    /// When, in milliseconds since 1970.
    pub millis: u64,
}

/// Where changes are told.
#[derive(Debug)]
pub struct ChangeFeed(broadcast::Sender<Arc<ChangeEvent>>);

impl Default for ChangeFeed {
    fn default() -> Self {
        Self(broadcast::Sender::new(BEHIND_MAX))
    }
}

impl ChangeFeed {
    /// Whether anybody watches. If not, there is nothing to be told.
    pub fn are_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Tells a change.
    pub fn tell(&self, changed: ChangeEvent) {
        // Nobody may be left to hear it.
        let _heard_by = self.0.send(Arc::new(changed));
    }

    /// Hears all changes from now on.
    pub fn watch(&self) -> broadcast::Receiver<Arc<ChangeEvent>> {
        self.0.subscribe()
    }
}
