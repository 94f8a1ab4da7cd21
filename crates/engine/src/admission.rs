//! Which requests the next batch of a shard takes, and whether memory and log have room for it.

use std::sync::atomic::Ordering;

use jeton_wal::Error as LogError;
use jeton_wal::disk::Disk;

use crate::clock::Clock;
use crate::partition_log::{AppendError, PartitionLog};
use crate::pending::PendingBatch;
use crate::response::EngineError;
use crate::values::Values;
use crate::worker::{ShardQueues, Worker};

/// A shard whose memtable has more ids than this many times `Options::recent_ids` refuses writes: the index
/// lacks them all.
const MEMTABLE_IDS_FACTOR: usize = 8;

/// The requests of one batch.
#[derive(Default)]
pub(crate) struct BatchInput {
    pub batches: Vec<PendingBatch>,
    pub bytes: usize,
    pub writes: usize,
}

impl<L: PartitionLog, V: Values, D: Disk, C: Clock> Worker<L, V, D, C> {
    /// Takes as much from the backlog as a batch holds. Of the large ones that are taken, some requests may
    /// be left.
    pub(crate) fn take(&self, queues: &mut ShardQueues, requests_max: usize) -> BatchInput {
        let limits = self.log.limits();
        let requests_max = requests_max.min(limits.batch_entries_max);
        let share = queues.backlog.large_share(requests_max);
        let mut input = BatchInput::default();
        let (mut count, mut queued, mut full) = (0, 0, false);
        while !full && let Some(mut batch) = queues.backlog.pop(2 * count >= requests_max) {
            batch.taken.start = batch.taken.end;
            for request in batch.requests.as_slice()[batch.taken.start..].iter().take(share) {
                let size = request.value_bytes_max();
                // A single request is taken whatever its size: the shard refuses it if it is too large.
                full = count > 0 && (count >= requests_max || input.bytes + size > limits.batch_bytes_max);
                if full {
                    break;
                }
                count += 1;
                batch.taken.end += 1;
                input.bytes += size;
                input.writes += usize::from(size > 0);
            }
            if batch.taken.is_empty() {
                queues.backlog.put_back(batch);
            } else {
                queued += if batch.is_one() { 0 } else { batch.taken.len() };
                input.batches.push(batch);
            }
        }
        self.queued_requests.fetch_sub(queued, Ordering::Relaxed);
        input
    }

    /// Refuses more to remember while checkpoints lag behind.
    pub(crate) fn check_memory(&self) -> Result<(), EngineError> {
        let (_, ids) = self.shard.recent_ids();
        let (dirty, _) = self.shard.cell_bytes();
        let share = self.options.dirty_bytes_max / self.options.shards;
        if ids > MEMTABLE_IDS_FACTOR * self.options.recent_ids || dirty > share {
            return Err(match self.health.last_error() {
                Some(why) => EngineError::Full(why),
                None => EngineError::Busy("checkpoints lag behind"),
            });
        }
        Ok(())
    }

    pub(crate) fn admit(&self, writes: usize, bytes: usize) -> Result<L::Reservation, EngineError> {
        self.check_memory()?;
        self.log.reserve(writes, bytes).map_err(|error| match error {
            AppendError::Deposed => EngineError::Moved,
            AppendError::Log(LogError::Full(why)) => EngineError::Full(why),
            AppendError::Log(LogError::Busy(_)) => EngineError::Busy("the log lags behind"),
            AppendError::Log(LogError::Unavailable(_)) if self.health.closing() => EngineError::Closed,
            AppendError::Log(other) => EngineError::Storage(other.to_string()),
        })
    }
}
