//! Connections that hold no branch.
//!
//! What must hold: a connection in here is idle and branchless. Whoever takes one gives it back in words ([`PooledConnection::give_back`]); one that is only dropped is closed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Idle connections, and how many more there may be.
pub struct Pool<C> {
    idle: Arc<Mutex<Vec<C>>>,
    room: Arc<Semaphore>,
    wait_max: Duration,
}

/// A connection that one has for oneself.
pub struct PooledConnection<C> {
    pub connection: C,
    /// Whether it lay idle before: it may be dead without our knowing.
    pub was_idle: bool,
    idle: Arc<Mutex<Vec<C>>>,
    _room: OwnedSemaphorePermit,
}

/// No connection came free in time.
#[derive(Debug)]
pub struct Exhausted;

/// Room for one connection, and one that lay idle if there was one.
pub struct PoolSlot<C> {
    pub idle_one: Option<C>,
    idle: Arc<Mutex<Vec<C>>>,
    room: OwnedSemaphorePermit,
}

impl<C> Pool<C> {
    pub fn new(connections_max: usize, wait_max: Duration) -> Self {
        Self { idle: Arc::default(), room: Arc::new(Semaphore::new(connections_max)), wait_max }
    }

    /// Waits for room. The connection that was used last comes first, so that those which are not needed grow old.
    pub async fn room(&self) -> Result<PoolSlot<C>, Exhausted> {
        let wait = tokio::time::timeout(self.wait_max, Arc::clone(&self.room).acquire_owned());
        let room = wait.await.map_err(|_| Exhausted)?.map_err(|_| Exhausted)?;
        let idle_one = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Ok(PoolSlot { idle_one, idle: Arc::clone(&self.idle), room })
    }
}

impl<C> PoolSlot<C> {
    pub fn lease(self, connection: C, was_idle: bool) -> PooledConnection<C> {
        PooledConnection { connection, was_idle, idle: self.idle, _room: self.room }
    }
}

impl<C> PooledConnection<C> {
    /// The connection is idle and branchless.
    pub fn give_back(self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(self.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn room_is_bounded_and_what_is_dropped_does_not_come_back() {
        let pool = Pool::new(1, Duration::from_millis(20));
        let room = pool.room().await.unwrap();
        assert!(room.idle_one.is_none() && pool.room().await.is_err());
        room.lease("first", false).give_back();
        let room = pool.room().await.unwrap();
        assert_eq!(room.idle_one, Some("first"));
        drop(room.lease("first", true));
        assert!(pool.room().await.unwrap().idle_one.is_none());
    }
}
