//! The checkpoint thread: stores what shards have frozen, and the filters, and removes the cells of deleted
//! tables.
//!
//! It retries until it succeeds. Meanwhile, on a full disk or without file handles, the memory of the shards
//! fills and they refuse writes with the reason. When the engine closes, every wait ends, and the log
//! contains what is not stored.

use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use jeton_wal::disk::Disk;
use tokio::sync::{mpsc, oneshot};

use crate::catalog_store::Tables;
use crate::cell_removal::{CellRemoval, RemovalStep};
use crate::checkpointer::{CheckpointError, Checkpointer};
use crate::health::Health;
use crate::partition_log::{BlobStore, PartitionLog};
use crate::shard::Slots;
use crate::values::Values;
use crate::worker::{Job, Message};

/// Interval between checks of the log size, and between retries.
const PAUSE: Duration = Duration::from_millis(100);

/// Overdue compactions of the value store beyond which checkpoints wait for them.
const PENDING_COMPACTIONS_MAX: usize = 24;

pub(crate) struct CheckpointThread<L, V: Values, D: Disk> {
    pub checkpointer: Checkpointer<L, V, D>,
    pub values: Arc<V>,
    pub tables: Arc<Tables<L>>,
    pub shards: Vec<mpsc::WeakSender<Message>>,
    pub health: Arc<Health>,
    /// Locked shared while the stores change; a backup locks it exclusively.
    pub stores_in_use: Arc<RwLock<()>>,
    pub log_bytes: u64,
    /// The deleted table whose cells are being removed.
    pub removal: Option<CellRemoval>,
}

impl<L: PartitionLog + BlobStore, V: Values, D: Disk> CheckpointThread<L, V, D> {
    /// Runs until the shards are gone.
    pub fn run(mut self, jobs: &std_mpsc::Receiver<Job>) {
        let mut filters_at = 0;
        let mut checkpoint_at = 0;
        let mut removing = false;
        loop {
            match jobs.recv_timeout(if removing { Duration::ZERO } else { PAUSE }) {
                Ok(Job::Filters(reply)) => {
                    let stored = !self.health.closing() && self.store_filters();
                    if stored {
                        filters_at = self.health.logged_bytes();
                    }
                    let _caller_gone = reply.send(stored);
                }
                Ok(job) => self.store(job),
                Err(std_mpsc::RecvTimeoutError::Timeout) => {}
                Err(std_mpsc::RecvTimeoutError::Disconnected) => return,
            }
            if self.health.closing() {
                removing = false;
                continue;
            }
            removing = self.remove_cells();
            let logged = self.health.logged_bytes();
            if logged - checkpoint_at >= self.log_bytes {
                checkpoint_at = logged;
                self.health.demand_checkpoint();
            }
            let filter_bytes = self.filter_bytes();
            if logged - filters_at >= self.log_bytes.max(2 * filter_bytes as u64) {
                // Filters that cannot be stored are retried when the log has grown: ids and values do not
                // wait for them.
                let wait = if self.store_filters() { 0 } else { self.log_bytes - self.log_bytes / 8 };
                filters_at = logged.saturating_sub(wait);
            }
        }
    }

    fn filter_bytes(&self) -> usize {
        let catalog = self.tables.catalog().load();
        catalog.iter().flat_map(|table| table.eras()).map(|era| era.filter_bytes()).sum()
    }

    fn store(&mut self, job: Job) {
        match job {
            Job::Ids { shard, frozen } => {
                if !self.until_done(|checkpointer| checkpointer.store_ids(&frozen)) {
                    return;
                }
                let freeze = frozen.freeze;
                // The shard reuses the memory if it has the only reference.
                drop(frozen);
                self.send(shard, Message::IdsStored(freeze));
            }
            Job::Values { shard, mut frozen } => {
                let values = &self.values;
                self.health.wait_for_compaction(|| values.pending_compactions() > PENDING_COMPACTIONS_MAX);
                if !self.until_done(|checkpointer| checkpointer.store_values(&mut frozen)) {
                    return;
                }
                self.health.stored(shard, frozen.time);
                self.send(shard, Message::ValuesStored(frozen.freeze));
            }
            Job::Filters(reply) => drop(reply),
        }
    }

    /// Sends a message to a shard, unless the shard has ended.
    fn send(&self, shard: usize, message: Message) {
        if let Some(sender) = self.shards[shard].upgrade() {
            drop(sender.blocking_send(message));
        }
    }

    /// Retries until it succeeds. Returns false if the engine closes first: then the next start replays the
    /// log.
    fn until_done(
        &mut self,
        mut attempt: impl FnMut(&mut Checkpointer<L, V, D>) -> Result<(), CheckpointError>,
    ) -> bool {
        loop {
            let done = {
                let _in_use = self.stores_in_use.read();
                attempt(&mut self.checkpointer)
            };
            match done {
                Ok(()) => {
                    self.health.set_last_error(None);
                    return true;
                }
                Err(_) if self.health.closing() => return false,
                Err(error) => self.health.set_last_error(Some(error.to_string())),
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Stores the filters while the shards continue. Returns false after an error.
    fn store_filters(&mut self) -> bool {
        // The filters contain everything that was decided before the write begins.
        let Some(slots) = self.slots(false) else { return false };
        let catalog = self.tables.catalog().load_full();
        let Some(version) = self.attempt(|it| it.write_filters(&catalog)) else { return false };
        // They may contain what was decided before the write ended. It must be durable before they are:
        // otherwise, after a crash, a retry of a lost operation would be a filter hit.
        if self.slots(true).is_none() {
            return false;
        }
        self.attempt(|it| it.commit_filters(version, &slots)).is_some()
    }

    /// Removes some cells of a deleted table. Returns whether there are more, and no reason to wait.
    fn remove_cells(&mut self) -> bool {
        let Some(removal) = &mut self.removal else {
            let catalog = self.tables.catalog().load();
            if let Some(deleted) = catalog.deleted().find(|deleted| !deleted.removed) {
                self.removal = self.flush().map(|flushes| CellRemoval::new(deleted.id, flushes));
            }
            return false;
        };
        if self.values.pending_compactions() > PENDING_COMPACTIONS_MAX {
            return false;
        }
        let step = {
            let _in_use = self.stores_in_use.read();
            removal.step(&*self.values)
        };
        let step = step.map_err(CheckpointError::from).and_then(|step| {
            if step == RemovalStep::Done {
                self.tables.set_removed(removal.table)?;
            }
            Ok(step)
        });
        match step {
            Ok(RemovalStep::Waiting) => false,
            Ok(done) => {
                self.health.set_last_error(None);
                self.removal.take_if(|_| done == RemovalStep::Done);
                true
            }
            Err(error) => {
                self.health.set_last_error(Some(error.to_string()));
                false
            }
        }
    }

    /// Asks every shard to flush. `None` if a queue is full.
    fn flush(&self) -> Option<Vec<oneshot::Receiver<()>>> {
        let flush = |shard: &mpsc::WeakSender<Message>| {
            let (reply, flushed) = oneshot::channel();
            shard.upgrade()?.try_send(Message::Flush(reply)).ok().map(|()| flushed)
        };
        self.shards.iter().map(flush).collect()
    }

    /// Tries once, and records the error.
    fn attempt<T>(
        &mut self,
        act: impl FnOnce(&mut Checkpointer<L, V, D>) -> Result<T, CheckpointError>,
    ) -> Option<T> {
        let _in_use = self.stores_in_use.read();
        let result = act(&mut self.checkpointer);
        result.map_err(|error| self.health.set_last_error(Some(error.to_string()))).ok()
    }

    /// The slots that all shards have decided; with `durable`, once they are durable. `None` if a shard has
    /// ended.
    fn slots(&self, durable: bool) -> Option<Slots> {
        let mut replies = Vec::new();
        for shard in &self.shards {
            let (reply, slots) = oneshot::channel();
            shard.upgrade()?.blocking_send(Message::Slots { durable, reply }).ok()?;
            replies.push(slots);
        }
        let mut all = Vec::new();
        for slots in replies {
            all.extend(slots.blocking_recv().ok()?);
        }
        Some(all)
    }
}
