//! The change feed: committed changes of this server as a stream.
//!
//! Each durable change is published once. Changes of one connection to a partition are in the order of its
//! log slots. A subscriber that lags loses changes and is informed of their number, so that it can read the
//! counters again.

use std::sync::Arc;

use jeton_core::Cell;
use tokio::sync::broadcast;

/// Changes that a subscriber may lag behind.
const LAG_MAX: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeEvent {
    pub cell: Cell,
    /// The counter after the change; `None` if the cell is empty or holds bytes.
    pub value: Option<i64>,
    pub slot: u64,
    /// Time of the decision, in milliseconds since 1970.
    pub millis: u64,
}

#[derive(Debug)]
pub struct ChangeFeed(broadcast::Sender<Arc<ChangeEvent>>);

impl Default for ChangeFeed {
    fn default() -> Self {
        Self(broadcast::Sender::new(LAG_MAX))
    }
}

impl ChangeFeed {
    /// Whether there are subscribers. Without any, nothing needs to be published.
    pub fn has_subscribers(&self) -> bool {
        self.0.receiver_count() > 0
    }

    pub fn publish(&self, event: ChangeEvent) {
        // Fails if the last subscriber is gone.
        let _receivers = self.0.send(Arc::new(event));
    }

    /// Subscribes to all changes from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<ChangeEvent>> {
        self.0.subscribe()
    }
}
