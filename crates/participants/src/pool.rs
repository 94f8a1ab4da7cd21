//! A pool of connections that hold no branch.
//!
//! Invariant: every connection in the pool is idle and has no branch. [`PooledConnection::give_back`] returns
//! a connection; dropping a [`PooledConnection`] closes the connection.

use std::sync::{Arc, Mutex, PoisonError};

use jeton_etx::ResourceError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::settings::Settings;

/// Idle connections, and a limit of all connections.
pub struct Pool<C> {
    idle: Arc<Mutex<Vec<C>>>,
    slots: Arc<Semaphore>,
}

/// A connection in exclusive use.
pub struct PooledConnection<C> {
    pub connection: C,
    /// Whether the connection was idle in the pool before: it may be dead.
    pub was_idle: bool,
    idle: Arc<Mutex<Vec<C>>>,
    _slot: OwnedSemaphorePermit,
}

impl<C> Pool<C> {
    pub fn new(connections_max: usize) -> Self {
        Self { idle: Arc::default(), slots: Arc::new(Semaphore::new(connections_max)) }
    }

    /// Waits for a free connection. The most recently used idle one is taken first; `connect` opens another
    /// if there is none, or if it is not open any more. [`ResourceError::Unavailable`] if that fails.
    pub async fn acquire(
        &self,
        settings: &Settings,
        is_open: impl Fn(&C) -> bool,
        connect: impl Future<Output = Result<C, ResourceError>>,
    ) -> Result<PooledConnection<C>, ResourceError> {
        let wait = tokio::time::timeout(settings.wait_max, Arc::clone(&self.slots).acquire_owned()).await;
        let exhausted = || settings.transient("no connection became free in time").while_connecting();
        let slot = wait.ok().and_then(Result::ok).ok_or_else(exhausted)?;
        let idle_one = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop().filter(is_open);
        let was_idle = idle_one.is_some();
        let connection = match idle_one {
            Some(connection) => connection,
            None => connect.await.map_err(ResourceError::while_connecting)?,
        };
        Ok(PooledConnection { connection, was_idle, idle: Arc::clone(&self.idle), _slot: slot })
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
        let wait_max = std::time::Duration::from_millis(20);
        let (pool, settings) = (Pool::new(1), Settings { wait_max, ..Settings::new("a pool", 1, 0) });
        let acquire = async |name| pool.acquire(&settings, |_| true, async move { Ok(name) }).await;
        let first = acquire("first").await.unwrap();
        assert!(!first.was_idle && acquire("second").await.is_err());
        first.give_back();
        let again = acquire("second").await.unwrap();
        assert!(again.was_idle && again.connection == "first");
        drop(again);
        assert_eq!(acquire("third").await.unwrap().connection, "third");
    }
}
