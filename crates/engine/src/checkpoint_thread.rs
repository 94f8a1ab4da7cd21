//! The thread that stores what shards hand out, and the filters; in that order of urgency.
//!
//! It never gives up: what cannot be stored now (a full disk, too many open files) is tried again, and until it succeeds the
//! shards' memory fills and they refuse writes, with the reason. Nothing is dropped before the engine closes; then every wait here ends
//! by itself, or with the shard that it is for, and the log has what was not stored.

use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use jeton_core::Catalog;
use jeton_wal::disk::Disk;
use tokio::sync::{mpsc, oneshot};

use crate::checkpointer::{CheckpointError, Checkpointer};
use crate::health::Health;
use crate::partition_log::{BlobStore, PartitionLog};
use crate::shard::Slots;
use crate::values::Values;
use crate::worker::{Job, Message};

/// How long it waits for a job before it looks at the log's length, and before it tries again what failed.
const PAUSE: Duration = Duration::from_millis(100);

/// Tables of the value store that may wait to be merged, before checkpoints wait for the merging.
const UNTIDY_MAX: usize = 24;

pub(crate) struct CheckpointThread<L, V: Values, D: Disk> {
    pub keeper: Checkpointer<L, V, D>,
    pub values: Arc<V>,
    pub catalog: Arc<ArcSwap<Catalog>>,
    pub shards: Vec<mpsc::WeakSender<Message>>,
    pub health: Arc<Health>,
    /// Held by whoever changes the stores; a backup holds it alone.
    pub stores_in_use: Arc<RwLock<()>>,
    pub log_bytes: u64,
}

impl<L: PartitionLog + BlobStore, V: Values, D: Disk> CheckpointThread<L, V, D> {
    /// Works until the shards are gone.
    pub fn run(mut self, jobs: &std_mpsc::Receiver<Job>) {
        let mut filters_at = 0;
        let mut checkpoint_at = 0;
        loop {
            match jobs.recv_timeout(PAUSE) {
                Ok(job) => self.store(job),
                Err(std_mpsc::RecvTimeoutError::Timeout) => {}
                Err(std_mpsc::RecvTimeoutError::Disconnected) => return,
            }
            if self.health.closing() {
                continue;
            }
            let logged = self.health.logged_bytes();
            if logged - checkpoint_at >= self.log_bytes {
                checkpoint_at = logged;
                self.health.demand_checkpoint();
            }
            let filter_bytes: usize = self.filter_bytes();
            if logged - filters_at >= self.log_bytes.max(2 * filter_bytes as u64) {
                // Ids and values do not wait for filters that cannot be stored: those are tried again when the log has grown some more.
                let wait = if self.store_filters() { 0 } else { self.log_bytes - self.log_bytes / 8 };
                filters_at = logged.saturating_sub(wait);
            }
        }
    }

    fn filter_bytes(&self) -> usize {
        let catalog = self.catalog.load();
        catalog.iter().flat_map(|table| table.eras()).map(|era| era.filter_bytes()).sum()
    }

    fn store(&mut self, job: Job) {
        match job {
            Job::Ids { shard, frozen } => {
                if !self.until_done(|keeper| keeper.store_ids(&frozen)) {
                    return;
                }
                let freeze = frozen.freeze;
                // The shard uses the memory again if nobody else holds it.
                drop(frozen);
                self.tell(shard, Message::IdsStored(freeze));
            }
            Job::Values { shard, mut frozen } => {
                self.health.wait_for_tidying(|| self.values.pending_compactions() > UNTIDY_MAX);
                if !self.until_done(|keeper| keeper.store_values(&mut frozen)) {
                    return;
                }
                self.health.stored(shard, frozen.time);
                self.tell(shard, Message::ValuesStored(frozen.freeze));
            }
        }
    }

    fn tell(&self, shard: usize, message: Message) {
        // A shard that is gone needs to know nothing.
        if let Some(sender) = self.shards[shard].upgrade() {
            drop(sender.blocking_send(message));
        }
    }

    /// Tries until it is done, or the engine is closing: then it is false, the log has it, and the next start replays it.
    fn until_done(
        &mut self,
        mut attempt: impl FnMut(&mut Checkpointer<L, V, D>) -> Result<(), CheckpointError>,
    ) -> bool {
        loop {
            let done = {
                let _in_use = self.stores_in_use.read();
                attempt(&mut self.keeper)
            };
            match done {
                Ok(()) => {
                    self.health.set_trouble(None);
                    return true;
                }
                Err(_) if self.health.closing() => return false,
                Err(error) => self.health.set_trouble(Some(error.to_string())),
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Stores the filters while the shards go on; false if that failed.
    fn store_filters(&mut self) -> bool {
        // What was decided before the writing begins is written.
        let Some(slots) = self.marks(false) else { return false };
        let catalog = self.catalog.load_full();
        let Some(version) = self.attempt(|keeper| keeper.write_filters(&catalog)) else { return false };
        // What was decided before the writing ended may be written, and must not be lost in a crash that the filters survive: a
        // filter alone would then take a retry of it for known.
        if self.marks(true).is_none() {
            return false;
        }
        self.attempt(|keeper| keeper.commit_filters(version, &slots)).is_some()
    }

    /// Tries once, and shows the trouble if there is any.
    fn attempt<T>(
        &mut self,
        act: impl FnOnce(&mut Checkpointer<L, V, D>) -> Result<T, CheckpointError>,
    ) -> Option<T> {
        let _in_use = self.stores_in_use.read();
        act(&mut self.keeper).map_err(|error| self.health.set_trouble(Some(error.to_string()))).ok()
    }

    /// The slots that all shards have decided; when they are durable, if that is asked for. Nothing if a shard is gone.
    fn marks(&self, durable: bool) -> Option<Slots> {
        let mut replies = Vec::new();
        for shard in &self.shards {
            let (reply, slots) = oneshot::channel();
            shard.upgrade()?.blocking_send(Message::Mark { durable, reply }).ok()?;
            replies.push(slots);
        }
        let mut all = Vec::new();
        for slots in replies {
            all.extend(slots.blocking_recv().ok()?);
        }
        Some(all)
    }
}
