//! An engine that follows the log of another owner: it replays entries as they become durable and refuses
//! requests, until it takes over. Its memtables, checkpoints and limits are those of an owner.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_executor::block_on;
use jeton_core::{PartitionId, Timestamp};
use jeton_wal::disk::Disk;
use tokio::sync::oneshot;

use crate::catalog_store::TableError;
use crate::clock::{Clock, ClockAhead};
use crate::engine::{Engine, OpenError};
use crate::options::Options;
use crate::partition_log::{BlobStore, EntryLocation, PartitionLog};
use crate::response::EngineError;
use crate::values::Values;
use crate::worker::{Message, ShardQueues, Worker};

/// Entries of different shards of an owner are in the log in an order that differs from their times by less
/// than this.
const DISORDER_MAX: Duration = Duration::from_secs(60);

/// A durable entry of the log.
#[derive(Debug, Clone)]
pub struct LogEntry {
    pub location: EntryLocation,
    pub partition: PartitionId,
    pub slot: u64,
    pub bytes: Bytes,
}

impl<L: PartitionLog + BlobStore> Engine<L> {
    /// Opens a store whose log has another owner: as [`Engine::open_on`], but requests are refused as
    /// [`Moved`](EngineError::Moved) until [`serve`](Self::serve).
    pub fn follow(log: Arc<L>, folder: &Path, options: Options) -> Result<Self, OpenError> {
        Self::open_as(log, folder, options, true)
    }

    /// Applies entries that follow those of the log so far. They may be repeated after
    /// [`Busy`](EngineError::Busy) and [`Full`](EngineError::Full): checkpoints lag behind. After any other
    /// error the engine must be closed; its stores are sound. Blocks.
    pub fn replay(&self, entries: Vec<LogEntry>) -> Result<(), EngineError> {
        let shards = self.shards.load_full();
        if shards.is_empty() {
            return Err(EngineError::Closed);
        }
        let mut parts: Vec<Vec<LogEntry>> = shards.iter().map(|_| Vec::new()).collect();
        for entry in entries {
            parts[usize::from(entry.partition.0) % shards.len()].push(entry);
        }
        let mut replies = Vec::new();
        for (shard, entries) in shards.iter().zip(parts).filter(|(_, entries)| !entries.is_empty()) {
            let (reply, replayed) = oneshot::channel();
            let sent = block_on(shard.queue.send(Message::Replay { entries, reply }));
            sent.map_err(|_| EngineError::Closed)?;
            replies.push(replayed);
        }
        // A shard runs until all its senders are dropped.
        drop(shards);
        let mut all = Ok(());
        for replayed in replies {
            let replayed = block_on(replayed).unwrap_or(Err(EngineError::Closed));
            // An error that cannot be repeated prevails.
            if replayed.is_err() && !matches!(all, Err(EngineError::Closed | EngineError::Storage(_))) {
                all = replayed;
            }
        }
        all
    }

    /// The monotonic clock, for [`end_seen`](Self::end_seen).
    pub fn elapsed(&self) -> Duration {
        self.time.elapsed()
    }

    /// Reports that the log of the other owner ended at this time, and that all of it is replayed.
    pub fn end_seen(&self, at: Duration) {
        self.time.end_seen(at);
    }

    /// Reports a time that the store of the other owner has reached, after [`end_seen`](Self::end_seen).
    pub fn observe(&self, time: Timestamp) {
        self.time.observe(time.max(self.health.logged_time()));
    }

    /// Adopts a later version of a catalogue that is shared with other nodes. Returns the current version.
    /// Blocks.
    pub fn refresh_tables(&self) -> Result<u64, TableError> {
        Ok(self.tables.refresh(|| self.now())?)
    }

    /// The version of the catalogue that decisions are made under.
    pub fn tables_version(&self) -> u64 {
        self.tables.version()
    }

    /// Prepares everything that [`serve`](Self::serve) needs and that can fail. The engine goes on following.
    pub fn prepare_to_serve(&self) -> Result<(), ClockAhead> {
        self.time.take_over(self.clock_ahead_max)?;
        self.tables.take_over(self.health.logged_time());
        Ok(())
    }

    /// Serves requests from now on: this node is the owner of the log, and all of it is replayed. Blocks.
    pub fn serve(&self) -> Result<(), EngineError> {
        let shards = self.shards.load_full();
        let mut replies = Vec::new();
        for shard in shards.iter() {
            let (reply, serves) = oneshot::channel();
            block_on(shard.queue.send(Message::Serve(reply))).map_err(|_| EngineError::Closed)?;
            replies.push(serves);
        }
        drop(shards);
        self.health.set_following(false);
        replies.into_iter().try_for_each(|serves| block_on(serves).map_err(|_| EngineError::Closed))
    }
}

impl<L: PartitionLog, V: Values, D: Disk, C: Clock> Worker<L, V, D, C> {
    /// Applies entries; after an error that is not temporary the shard must end.
    pub(crate) fn replay(&mut self, entries: &[LogEntry]) -> Result<(), EngineError> {
        self.check_memory()?;
        let catalog = self.catalog.load();
        let failed = |error: crate::RecoveryError| EngineError::Storage(error.to_string());
        for LogEntry { location, partition, slot, bytes } in entries {
            let place = (*location, *partition, *slot);
            self.shard.replay(&catalog, place, bytes, false).map_err(failed)?;
            self.health.logged(bytes.len() as u64);
        }
        self.shard.finish_replay(&catalog).map_err(failed)?;
        self.health.reached(self.shard.time());
        Ok(())
    }

    /// Refuses all requests: another node is the owner.
    pub(crate) fn refuse_all(&self, queues: &mut ShardQueues) {
        let mut ready = Vec::new();
        while let Some(mut batch) = queues.backlog.pop(false) {
            for (at, request) in batch.requests.as_slice().iter().enumerate() {
                batch.response.put(at, 0, request.refused(EngineError::Moved));
            }
            if !batch.is_one() {
                self.queued_requests.fetch_sub(batch.undecided(), std::sync::atomic::Ordering::Relaxed);
            }
            ready.push(batch.response);
        }
        self.responses.send(ready);
    }

    /// No entry that is not applied yet has an earlier time.
    pub(crate) fn undecided_from(&self, queues: &ShardQueues) -> Timestamp {
        if !queues.following {
            return self.time.now();
        }
        let logged = self.health.logged_time().as_nanos();
        Timestamp::from_nanos(logged.saturating_sub(DISORDER_MAX.as_nanos() as u64))
    }
}
