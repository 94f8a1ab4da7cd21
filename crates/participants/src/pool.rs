//! A pool of connections that hold no branch.
//!
//! Invariant: every connection in the pool is idle and has no branch. [`PooledConnection::give_back`] returns a
//! connection; dropping a [`PooledConnection`] closes the connection.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Idle connections, and a limit of all connections.
pub struct Pool<C> {
    idle: Arc<Mutex<Vec<C>>>,
    slots: Arc<Semaphore>,
    wait_max: Duration,
}

/// A connection in exclusive use.
pub struct PooledConnection<C> {
    pub connection: C,
    /// Whether the connection was idle in the pool before: it may be dead.
    pub was_idle: bool,
    idle: Arc<Mutex<Vec<C>>>,
    _slot: OwnedSemaphorePermit,
}

/// No connection became free within the timeout.
#[derive(Debug)]
pub struct Exhausted;

/// Permission for one connection, and an idle connection if there was one.
pub struct PoolSlot<C> {
    pub idle_one: Option<C>,
    idle: Arc<Mutex<Vec<C>>>,
    slot: OwnedSemaphorePermit,
}

impl<C> Pool<C> {
    pub fn new(connections_max: usize, wait_max: Duration) -> Self {
        Self { idle: Arc::default(), slots: Arc::new(Semaphore::new(connections_max)), wait_max }
    }

    /// Waits for a slot. The most recently used connection is taken first.
    pub async fn slot(&self) -> Result<PoolSlot<C>, Exhausted> {
        let wait = tokio::time::timeout(self.wait_max, Arc::clone(&self.slots).acquire_owned());
        let slot = wait.await.map_err(|_| Exhausted)?.map_err(|_| Exhausted)?;
        let idle_one = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Ok(PoolSlot { idle_one, idle: Arc::clone(&self.idle), slot })
    }
}

impl<C> PoolSlot<C> {
    pub fn fill(self, connection: C, was_idle: bool) -> PooledConnection<C> {
        PooledConnection { connection, was_idle, idle: self.idle, _slot: self.slot }
    }
}

impl<C> PooledConnection<C> {
    /// Returns a connection that is idle and has no branch.
    pub fn give_back(self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(self.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pool_is_bounded_and_drops_unreturned_connections() {
        let pool = Pool::new(1, Duration::from_millis(20));
        let slot = pool.slot().await.unwrap();
        assert!(slot.idle_one.is_none() && pool.slot().await.is_err());
        slot.fill("first", false).give_back();
        let slot = pool.slot().await.unwrap();
        assert_eq!(slot.idle_one, Some("first"));
        drop(slot.fill("first", true));
        assert!(pool.slot().await.unwrap().idle_one.is_none());
    }
}
