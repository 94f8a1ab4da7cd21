//! State that the threads of an engine share: errors, log size, times, due checkpoints.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use jeton_core::{Timestamp, mutated};

use crate::lock::lock;

/// What the threads of an engine report to one another.
#[derive(Debug)]
pub struct Health {
    /// Why checkpoints fail, if they do.
    last_error: Mutex<Option<String>>,
    /// Why maintenance fails, if it does.
    maintenance_error: Mutex<Option<String>>,
    logged_bytes: AtomicU64,
    /// The latest time in the durable log, in nanoseconds. No restart begins before it.
    logged_time: AtomicU64,
    /// By shard: what the value store lacks was decided at this time or later, in nanoseconds.
    stored_time: Vec<AtomicU64>,
    checkpoint_due: Vec<AtomicBool>,
    /// By shard: when its oldest batch that is not durable was appended, in nanoseconds of the monotonic
    /// clock; `u64::MAX` if there is none.
    undurable_since: Vec<AtomicU64>,
    closing: AtomicBool,
    /// Whether the log has another owner.
    following: AtomicBool,
    /// Whether other stores change the tables, too.
    shares_tables: AtomicBool,
    /// Whether a request named a table that a shared catalogue may have by now.
    tables_behind: AtomicBool,
    /// Signalled after every compaction. The lock is held between a check of the condition and the wait.
    compacted: (Mutex<()>, Condvar),
}

impl Health {
    /// `logged_bytes` are the bytes of log that some store lacks, `logged_time` is the latest time in the
    /// log.
    pub fn new(shards: usize, logged_bytes: u64, logged_time: Timestamp) -> Self {
        Self {
            last_error: Mutex::default(),
            maintenance_error: Mutex::default(),
            logged_bytes: AtomicU64::new(logged_bytes),
            logged_time: AtomicU64::new(logged_time.as_nanos()),
            // Replayed entries are not stored yet, and may have any time.
            stored_time: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            checkpoint_due: (0..shards).map(|_| AtomicBool::new(false)).collect(),
            undurable_since: (0..shards).map(|_| AtomicU64::new(u64::MAX)).collect(),
            closing: AtomicBool::new(false),
            following: AtomicBool::new(false),
            shares_tables: AtomicBool::new(false),
            tables_behind: AtomicBool::new(false),
            compacted: Default::default(),
        }
    }

    pub fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }

    pub fn set_last_error(&self, why: Option<String>) {
        *lock(&self.last_error) = why;
    }

    pub fn maintenance_error(&self) -> Option<String> {
        lock(&self.maintenance_error).clone()
    }

    pub fn set_maintenance_error(&self, why: Option<String>) {
        *lock(&self.maintenance_error) = why;
    }

    /// Reports that a compaction ended or failed.
    pub fn compacted(&self) {
        let (mutex, signal) = &self.compacted;
        // Not between the check and the wait of a waiter, which would miss the signal.
        drop(lock(mutex));
        signal.notify_all();
    }

    /// Waits while `overdue` returns true, or until the engine closes.
    pub fn wait_for_compaction(&self, overdue: impl Fn() -> bool) {
        let (mutex, signal) = &self.compacted;
        drop(signal.wait_while(lock(mutex), |()| !self.closing() && overdue()));
    }

    /// Adds to the logged bytes.
    pub fn logged(&self, bytes: u64) {
        self.logged_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Reports that a batch of this time is durable.
    pub fn reached(&self, time: Timestamp) {
        self.logged_time.fetch_max(time.as_nanos(), Ordering::Relaxed);
    }

    /// The latest time in the durable log.
    pub fn logged_time(&self) -> Timestamp {
        Timestamp::from_nanos(self.logged_time.load(Ordering::Relaxed))
    }

    /// Reports that the value store lacks nothing of the shard that was decided before this time.
    pub fn stored(&self, shard: usize, time: Timestamp) {
        self.stored_time[shard].fetch_max(time.as_nanos(), Ordering::Relaxed);
    }

    /// A value that has expired by this time has expired for every reader, and for every entry that a replay
    /// would apply to the value store. An idle shard holds the time back until its next checkpoint.
    pub fn expiry_horizon(&self) -> Timestamp {
        let stored = self.stored_time.iter().map(|time| time.load(Ordering::Relaxed)).min().unwrap_or(0);
        let logged = self.logged_time();
        if mutated!(OverBeforeStored) { logged } else { logged.min(Timestamp::from_nanos(stored)) }
    }

    /// Bytes of log that some store lacked at the start, and bytes logged since.
    pub fn logged_bytes(&self) -> u64 {
        self.logged_bytes.load(Ordering::Relaxed)
    }

    /// Reports when the oldest batch of a shard that is not durable was appended, if there is one.
    pub fn set_undurable_since(&self, shard: usize, since: Option<Duration>) {
        let nanos = since.map_or(u64::MAX, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        self.undurable_since[shard].store(nanos, Ordering::Relaxed);
    }

    /// How long the oldest batch of all shards that is not durable has been in flight.
    pub fn undurable_for(&self, now: Duration) -> Duration {
        let since = self.undurable_since.iter().map(|since| since.load(Ordering::Relaxed)).min();
        now.saturating_sub(Duration::from_nanos(since.unwrap_or(u64::MAX)))
    }

    /// Asks all shards for a checkpoint.
    pub fn demand_checkpoint(&self) {
        self.checkpoint_due.iter().for_each(|due| due.store(true, Ordering::Relaxed));
    }

    pub fn checkpoint_due(&self, shard: usize) -> bool {
        self.checkpoint_due[shard].load(Ordering::Relaxed)
    }

    pub fn checkpoint_begun(&self, shard: usize) {
        self.checkpoint_due[shard].store(false, Ordering::Relaxed);
    }

    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.compacted();
    }

    pub fn closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    pub fn set_following(&self, following: bool) {
        self.following.store(following, Ordering::Relaxed);
    }

    pub fn following(&self) -> bool {
        self.following.load(Ordering::Relaxed)
    }

    pub fn set_shares_tables(&self) {
        self.shares_tables.store(true, Ordering::Relaxed);
    }

    pub fn shares_tables(&self) -> bool {
        self.shares_tables.load(Ordering::Relaxed)
    }

    pub fn set_tables_behind(&self) {
        self.tables_behind.store(true, Ordering::Relaxed);
    }

    /// Whether the tables must be read again; true once for each report.
    pub fn take_tables_behind(&self) -> bool {
        self.tables_behind.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::*;

    /// Upper bound for any wait, however busy the machine is.
    const TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn expiry_horizon_waits_for_the_log_and_all_shards() {
        let at = Timestamp::from_secs;
        let health = Health::new(2, 0, at(50));
        assert_eq!(health.expiry_horizon(), at(0), "replayed entries are not stored");
        health.stored(0, at(60));
        assert_eq!(health.expiry_horizon(), at(0));
        health.stored(1, at(40));
        assert_eq!(health.expiry_horizon(), at(40));
        health.stored(1, at(70));
        assert_eq!(health.expiry_horizon(), at(50), "a restart may begin there");
        health.reached(at(65));
        assert_eq!(health.expiry_horizon(), at(60));
    }

    /// A thread waits for a compaction and has checked the condition once. Then `signal` must wake it.
    fn wakes(signal: impl FnOnce(&Health, &AtomicBool)) {
        let health = Arc::new(Health::new(1, 0, Timestamp::ZERO));
        let overdue = Arc::new(AtomicBool::new(true));
        let (events, received) = mpsc::channel();
        let waiter = (health.clone(), overdue.clone());
        std::thread::spawn(move || {
            let (health, overdue) = waiter;
            health.wait_for_compaction(|| {
                events.send("checked").unwrap();
                overdue.load(Ordering::Relaxed)
            });
            events.send("done").unwrap();
        });
        assert_eq!(received.recv_timeout(TIMEOUT), Ok("checked"));
        signal(&health, &overdue);
        while received.recv_timeout(TIMEOUT).expect("the waiter is not woken") != "done" {}
    }

    #[test]
    fn a_compaction_wakes_its_waiters() {
        wakes(|health, overdue| {
            health.compacted();
            overdue.store(false, Ordering::Relaxed);
            health.compacted();
        });
    }

    #[test]
    fn close_wakes_waiters_for_a_compaction() {
        wakes(|health, _| health.close());
    }
}
