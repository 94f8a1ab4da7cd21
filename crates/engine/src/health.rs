//! How the engine is doing: what its threads tell one another, and what is told to whoever asks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use jeton_core::Moment;

/// What the threads of an engine tell one another.
#[derive(Debug)]
pub struct Health {
    /// Why nothing can be stored at present, if so.
    trouble: Mutex<Option<String>>,
    /// Why nothing can be tidied up at present, if so.
    upkeep_trouble: Mutex<Option<String>>,
    logged_bytes: AtomicU64,
    /// The latest time in the durable log, in nanoseconds: no restart begins before it, whatever the clocks say.
    logged_time: AtomicU64,
    /// By shard: the log has grown long, freeze what the stores lack.
    checkpoint_due: Vec<AtomicBool>,
    closing: AtomicBool,
}

impl Health {
    /// Of an engine with so many shards, in good health.
    /// For so many shards, with so many bytes of log that some store lacks, and this as the latest time in the log.
    pub fn new(shards: usize, logged_bytes: u64, logged_time: Moment) -> Self {
        Self {
            trouble: Mutex::default(),
            upkeep_trouble: Mutex::default(),
            logged_bytes: AtomicU64::new(logged_bytes),
            logged_time: AtomicU64::new(logged_time.as_nanos()),
            checkpoint_due: (0..shards).map(|_| AtomicBool::new(false)).collect(),
            closing: AtomicBool::new(false),
        }
    }

    /// Why nothing can be stored at present, if so.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells why nothing can be stored at present, or that it can.
    pub fn set_trouble(&self, why: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Why nothing can be tidied up at present, if so.
    pub fn upkeep_trouble(&self) -> Option<String> {
        self.upkeep_trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells why nothing can be tidied up at present, or that it can.
    pub fn set_upkeep_trouble(&self, why: Option<String>) {
        *self.upkeep_trouble.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// So many bytes more were logged.
    pub fn logged(&self, bytes: u64) {
        self.logged_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A batch of this time is durable.
    pub fn reached(&self, time: Moment) {
        self.logged_time.fetch_max(time.as_nanos(), Ordering::Relaxed);
    }

    /// The latest time in the durable log.
    pub fn logged_time(&self) -> Moment {
        Moment::from_nanos(self.logged_time.load(Ordering::Relaxed))
    }

    /// How many bytes were logged that some store lacked when it was opened, or since.
    pub fn logged_bytes(&self) -> u64 {
        self.logged_bytes.load(Ordering::Relaxed)
    }

    /// Asks all shards for a checkpoint.
    pub fn demand_checkpoint(&self) {
        for due in &self.checkpoint_due {
            due.store(true, Ordering::Relaxed);
        }
    }

    /// Whether this shard was asked for a checkpoint and has not made it yet.
    pub fn checkpoint_due(&self, shard: usize) -> bool {
        self.checkpoint_due[shard].load(Ordering::Relaxed)
    }

    /// This shard has handed out all that it was asked for.
    pub fn checkpoint_begun(&self, shard: usize) {
        self.checkpoint_due[shard].store(false, Ordering::Relaxed);
    }

    /// The engine is closing.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Whether the engine is closing.
    pub fn closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }
}
