//! How the engine is doing: what its threads tell one another, and what is told to whoever asks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use jeton_core::{Timestamp, mutated};

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
    /// By shard: what the value store lacks of it was decided at this time or later, in nanoseconds.
    stored_time: Vec<AtomicU64>,
    /// By shard: the log has grown long, freeze what the stores lack.
    checkpoint_due: Vec<AtomicBool>,
    closing: AtomicBool,
    /// Whoever waits for tidying up waits here, with the lock held while it looks.
    tidying: (Mutex<()>, Condvar),
}

impl Health {
    /// Of an engine with so many shards, in good health.
    /// For so many shards, with so many bytes of log that some store lacks, and this as the latest time in the log.
    pub fn new(shards: usize, logged_bytes: u64, logged_time: Timestamp) -> Self {
        Self {
            trouble: Mutex::default(),
            upkeep_trouble: Mutex::default(),
            logged_bytes: AtomicU64::new(logged_bytes),
            logged_time: AtomicU64::new(logged_time.as_nanos()),
            // What was replayed is not stored, and may be of any time.
            stored_time: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            checkpoint_due: (0..shards).map(|_| AtomicBool::new(false)).collect(),
            closing: AtomicBool::new(false),
            tidying: Default::default(),
        }
    }

    /// Why nothing can be stored at present, if so.
    pub fn last_error(&self) -> Option<String> {
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

    /// Something was tidied up, or could not be: who waits for it may look again.
    pub fn tidied(&self) {
        let (lock, looked_at) = &self.tidying;
        // Not between somebody's look and its wait: the news would be missed.
        drop(lock.lock().unwrap_or_else(PoisonError::into_inner));
        looked_at.notify_all();
    }

    /// Waits as long as it is untidy, or until the engine is closing.
    pub fn wait_for_tidying(&self, untidy: impl Fn() -> bool) {
        let (lock, looked_at) = &self.tidying;
        let look = lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(looked_at.wait_while(look, |()| !self.closing() && untidy()));
    }

    /// So many bytes more were logged.
    pub fn logged(&self, bytes: u64) {
        self.logged_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A batch of this time is durable.
    pub fn reached(&self, time: Timestamp) {
        self.logged_time.fetch_max(time.as_nanos(), Ordering::Relaxed);
    }

    /// The latest time in the durable log.
    pub fn logged_time(&self) -> Timestamp {
        Timestamp::from_nanos(self.logged_time.load(Ordering::Relaxed))
    }

    /// Rows of this shard are in the value store, and whatever they lack was decided at this time or later.
    pub fn stored(&self, shard: usize, time: Timestamp) {
        self.stored_time[shard].fetch_max(time.as_nanos(), Ordering::Relaxed);
    }

    /// What is over at this time is over for every reader, and for everything that a replay would apply to what the value store has. A
    /// shard that rests holds it back until its next checkpoint.
    pub fn over_time(&self) -> Timestamp {
        let stored = self.stored_time.iter().map(|time| time.load(Ordering::Relaxed)).min().unwrap_or(0);
        let logged = self.logged_time();
        if mutated!(OverBeforeStored) { logged } else { logged.min(Timestamp::from_nanos(stored)) }
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
        self.tidied();
    }

    /// Whether the engine is closing.
    pub fn closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::*;

    /// Nothing that is awaited takes as long as this, whatever else the machine does.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_over_may_go_when_the_log_and_the_stores_of_all_shards_have_come_so_far() {
        let at = Timestamp::from_secs;
        let health = Health::new(2, 0, at(50));
        assert_eq!(health.over_time(), at(0), "nothing is stored of what was replayed");
        health.stored(0, at(60));
        assert_eq!(health.over_time(), at(0));
        health.stored(1, at(40));
        assert_eq!(health.over_time(), at(40));
        health.stored(1, at(70));
        assert_eq!(health.over_time(), at(50), "a restart may begin there");
        health.reached(at(65));
        assert_eq!(health.over_time(), at(60));
    }

    /// Somebody waits for tidying up, has looked once, and is let go by what `news` does.
    fn is_let_go(news: impl FnOnce(&Health, &AtomicBool)) {
        let health = Arc::new(Health::new(1, 0, Timestamp::ZERO));
        let untidy = Arc::new(AtomicBool::new(true));
        let (events, told) = mpsc::channel();
        let waiting = (health.clone(), untidy.clone());
        std::thread::spawn(move || {
            let (health, untidy) = waiting;
            health.wait_for_tidying(|| {
                events.send("looked").unwrap();
                untidy.load(Ordering::Relaxed)
            });
            events.send("done").unwrap();
        });
        assert_eq!(told.recv_timeout(PATIENCE), Ok("looked"));
        news(&health, &untidy);
        loop {
            match told.recv_timeout(PATIENCE) {
                Ok("done") => return,
                Ok(_) => {}
                Err(_) => panic!("it waits on"),
            }
        }
    }

    #[test]
    fn who_waits_for_tidying_looks_again_when_something_was_tidied_up() {
        is_let_go(|health, untidy| {
            health.tidied();
            untidy.store(false, Ordering::Relaxed);
            health.tidied();
        });
    }

    #[test]
    fn who_waits_for_tidying_is_let_go_when_the_engine_closes() {
        is_let_go(|health, _| health.close());
    }
}
