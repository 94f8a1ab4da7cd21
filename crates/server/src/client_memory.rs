//! The memory budget of all clients: what connections, imports and watches hold is charged to an account
//! each, and the sum is limited.
//!
//! Invariants:
//! - Accounts hold more than the budget only until those that must close have closed. The largest closes
//!   first.
//! - An account above the limit of a connection closes, whatever the others hold.
//! - Values that reads bring into memory are reserved before they are read, and such reads wait.
//!
//! Accounts of less than [`CHUNK_BYTES`] are not registered. So a charge of a client with steady buffers is
//! one comparison, and an idle client costs nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use jeton_core::limits::CELL_BYTES_MAX;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// Changes of an account below this are not counted. More than the read buffer of an idle connection.
pub const CHUNK_BYTES: usize = 32 << 10;

/// The default budget is the memory of the machine or its cgroup, divided by this.
pub const BUDGET_DIVISOR: usize = 4;

/// One account may use the budget divided by this, and at most this many bytes.
pub const CONNECTION_DIVISOR: usize = 4;
pub const CONNECTION_BYTES_MAX: usize = 256 << 20;

/// Maximum of the default limit of connections.
pub const CONNECTIONS_MAX: usize = 10_000;

/// Values that were read and are not yet in a reply may use the budget divided by this.
pub const READS_DIVISOR: usize = 8;

#[derive(Debug)]
pub struct ClientMemory {
    max: usize,
    state: Mutex<State>,
    /// Reads of values that may be in flight.
    reads: Semaphore,
    reads_max: usize,
}

#[derive(Debug, Default)]
struct State {
    charged: usize,
    /// The part of `charged` of accounts that must close.
    closing: usize,
    closed: u64,
    last: u64,
    accounts: HashMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    bytes: usize,
    must_close: bool,
    wake: Arc<Notify>,
}

impl ClientMemory {
    pub fn new(max: usize) -> Self {
        let reads_max = (max / READS_DIVISOR / CELL_BYTES_MAX).clamp(1, Semaphore::MAX_PERMITS);
        Self { max, state: Mutex::default(), reads: Semaphore::new(reads_max), reads_max }
    }

    /// Bytes that one connection may hold.
    pub fn connection_max(&self) -> usize {
        (self.max / CONNECTION_DIVISOR).min(CONNECTION_BYTES_MAX)
    }

    pub fn charged(&self) -> u64 {
        self.state().charged as u64
    }

    /// Connections that had to close, so far.
    pub fn closed(&self) -> u64 {
        self.state().closed
    }

    /// Waits until this number of values of the maximum size fits into memory, and reserves it until the
    /// permit is dropped.
    pub async fn reserve_reads(&self, number: usize) -> Option<SemaphorePermit<'_>> {
        let number = u32::try_from(number.min(self.reads_max)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        if number == 0 { None } else { self.reads.acquire_many(number).await.ok() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Chooses the largest accounts to close until the others are within the budget.
    fn close_largest(&mut self, max: usize) {
        while self.charged - self.closing > max {
            let open = self.accounts.values_mut().filter(|entry| !entry.must_close);
            let Some(largest) = open.max_by_key(|entry| entry.bytes) else { return };
            self.closing += largest.bytes;
            self.closed += 1;
            largest.must_close = true;
            largest.wake.notify_one();
        }
    }
}

/// The memory that a connection or a stream is charged for, until this is dropped.
#[derive(Debug)]
pub struct Account {
    memory: Arc<ClientMemory>,
    number: Option<u64>,
    wake: Option<Arc<Notify>>,
    /// Bytes that are counted.
    charged: usize,
    /// Bytes of the last call of [`Account::charge`].
    held: usize,
    exceeded: Option<MemoryExceeded>,
}

/// Why a connection must close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemoryExceeded {
    #[error(
        "this connection needs {bytes} bytes of memory; the maximum is {max}, a part of client_memory_max"
    )]
    Connection { bytes: usize, max: usize },
    #[error("the clients exceed client_memory_max ({max} bytes), and this connection uses the most memory")]
    All { max: usize },
}

impl Account {
    pub fn new(memory: Arc<ClientMemory>) -> Self {
        Self::with_wake(memory, None)
    }

    /// As [`Account::new`]. Notifies `wake` when the connection must close because others need the memory.
    pub fn waking(memory: Arc<ClientMemory>, wake: Arc<Notify>) -> Self {
        Self::with_wake(memory, Some(wake))
    }

    fn with_wake(memory: Arc<ClientMemory>, wake: Option<Arc<Notify>>) -> Self {
        Self { memory, number: None, wake, charged: 0, held: 0, exceeded: None }
    }

    /// Charges the bytes that the connection holds in total. After an error it must close.
    #[inline]
    pub fn charge(&mut self, bytes: usize) -> Result<(), MemoryExceeded> {
        self.held = bytes;
        self.count(bytes)
    }

    /// Charges bytes on top of those of the last [`Account::charge`], before they are allocated.
    pub fn charge_more(&mut self, bytes: usize) -> Result<(), MemoryExceeded> {
        self.count(self.held.saturating_add(bytes))
    }

    /// Why the connection must close, if an earlier charge failed.
    pub fn exceeded(&self) -> Option<MemoryExceeded> {
        self.exceeded
    }

    /// Returns when the connection must close because others need the memory.
    pub async fn closing(&mut self) -> MemoryExceeded {
        match &self.wake {
            Some(wake) => wake.notified().await,
            None => std::future::pending().await,
        }
        *self.exceeded.insert(MemoryExceeded::All { max: self.memory.max })
    }

    #[inline]
    fn count(&mut self, bytes: usize) -> Result<(), MemoryExceeded> {
        if bytes.abs_diff(self.charged) < CHUNK_BYTES {
            return self.exceeded.map_or(Ok(()), Err);
        }
        self.update(bytes)
    }

    #[cold]
    fn update(&mut self, bytes: usize) -> Result<(), MemoryExceeded> {
        let max = self.memory.connection_max();
        let mut state = self.memory.state();
        let number = self.number.get_or_insert_with(|| {
            state.last += 1;
            state.last
        });
        let wake = self.wake.get_or_insert_default();
        let new = || Entry { bytes: 0, must_close: false, wake: Arc::clone(wake) };
        let State { charged, closing, closed, accounts, .. } = &mut *state;
        let entry = accounts.entry(*number).or_insert_with(new);
        // The charge of an account that must close stays as it is, and so does the sum of them.
        if !entry.must_close {
            *charged = *charged - entry.bytes + bytes;
            entry.bytes = bytes;
            self.charged = bytes;
            if bytes > max {
                entry.must_close = true;
                *closing += bytes;
                *closed += 1;
                self.exceeded = Some(MemoryExceeded::Connection { bytes, max });
            }
            state.close_largest(self.memory.max);
        }
        if state.accounts[number].must_close {
            self.exceeded.get_or_insert(MemoryExceeded::All { max: self.memory.max });
        }
        self.exceeded.map_or(Ok(()), Err)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let Some(number) = &self.number else { return };
        let mut state = self.memory.state();
        if let Some(entry) = state.accounts.remove(number) {
            state.charged -= entry.bytes;
            state.closing -= if entry.must_close { entry.bytes } else { 0 };
        }
    }
}

/// The default budget: a fraction of the memory of this machine or of its cgroup, in whole MiB.
pub fn default_max() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| jeton_engine::memory_fraction(BUDGET_DIVISOR))
}

/// The default limit of connections of a protocol. What they hold without a charge fits into the budget too.
pub fn default_connections() -> usize {
    CONNECTIONS_MAX.min(default_max() / (2 * CHUNK_BYTES)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn accounts<const N: usize>(max: usize) -> (Arc<ClientMemory>, [Account; N]) {
        let memory = Arc::new(ClientMemory::new(max));
        let accounts = std::array::from_fn(|_| Account::new(memory.clone()));
        (memory, accounts)
    }

    #[tokio::test]
    async fn the_largest_account_closes_first() {
        let (memory, [mut small, mut large, mut other]) = accounts(100 * MIB);
        for (account, bytes) in [(&mut small, 15), (&mut large, 24), (&mut other, 20)] {
            account.charge(bytes * MIB).unwrap();
        }
        let mut others: Vec<_> = (0..3).map(|_| Account::new(memory.clone())).collect();
        others.iter_mut().for_each(|account| account.charge(13 * MIB).unwrap());
        assert_eq!((memory.charged(), memory.closed()), (98 << 20, 0));
        // The account that exceeds the budget stays open if another is larger.
        small.charge(18 * MIB).unwrap();
        assert_eq!(memory.closed(), 1);
        let exceeded = MemoryExceeded::All { max: 100 * MIB };
        assert_eq!(large.closing().await, exceeded);
        assert_eq!((large.charge(0), large.exceeded()), (Err(exceeded), Some(exceeded)));
        // What it holds until it has closed closes no further account.
        small.charge(19 * MIB).unwrap();
        assert_eq!(memory.charged(), 102 << 20);
        drop(large);
        assert_eq!((memory.charged(), memory.closed()), (78 << 20, 1));
        // The account that grows is the largest.
        others[0].charge(20 * MIB).unwrap();
        others[1].charge(20 * MIB).unwrap();
        assert_eq!(others[2].charge_more(11 * MIB), Err(exceeded));
        drop((small, other, others));
        assert_eq!(memory.charged(), 0);
    }

    #[test]
    fn an_account_above_the_connection_limit_closes() {
        let (memory, [mut one, mut two]) = accounts(100 * MIB);
        one.charge(20 * MIB).unwrap();
        let exceeded = MemoryExceeded::Connection { bytes: 26 * MIB, max: 25 * MIB };
        assert_eq!(one.charge_more(6 * MIB), Err(exceeded));
        assert_eq!(one.charge(0), Err(exceeded), "it cannot recover");
        two.charge(25 * MIB).unwrap();
        assert_eq!(memory.closed(), 1);
        assert_eq!(ClientMemory::new(usize::MAX).connection_max(), CONNECTION_BYTES_MAX);
    }

    #[test]
    fn small_changes_are_not_counted() {
        let (memory, [mut account]) = accounts(MIB);
        for bytes in [0, CHUNK_BYTES - 1, 1] {
            account.charge(bytes).unwrap();
            assert!(account.number.is_none() && memory.charged() == 0);
        }
        account.charge(CHUNK_BYTES).unwrap();
        account.charge(2 * CHUNK_BYTES - 1).unwrap();
        assert_eq!(memory.charged(), CHUNK_BYTES as u64);
        account.charge(0).unwrap();
        assert_eq!(memory.charged(), 0);
    }

    #[tokio::test]
    async fn reads_wait_for_memory() {
        let memory = ClientMemory::new(READS_DIVISOR * CELL_BYTES_MAX * 10);
        assert!(memory.reserve_reads(0).await.is_none());
        let all = memory.reserve_reads(1000).await;
        let mut next = std::pin::pin!(memory.reserve_reads(1));
        assert!(futures_util::poll!(&mut next).is_pending());
        drop(all);
        assert!(next.await.is_some());
    }
}
