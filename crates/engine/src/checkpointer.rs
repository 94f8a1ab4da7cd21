//! Checkpoints: writes what shards have frozen to the stores, then trims the log.
//!
//! Ids go to the id index, rows to the value store, filters to blobs; each store records its watermarks. The
//! log is trimmed to the lowest watermark, where recovery begins.
//!
//! Every method may be repeated after an error: it changed nothing or can be done again.

use std::sync::Arc;

use jeton_core::limits::PARTITIONS;
use jeton_core::{Catalog, Generation, IdKey, PartitionId};
use jeton_wal::disk::Disk;
use jeton_wal::{Error as LogError, LogId, Slot};

use crate::filter_store::{FilterVersion, StoredFilters};
use crate::ids;
use crate::partition_log::{BlobStore, PartitionLog, log_of};
use crate::shard::{FrozenIds, FrozenValues, Slots, Stores};
use crate::trim_guard::TrimBlock;
use crate::values::{Values, ValuesError};
use crate::watermarks::Watermarks;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    #[error("id index: {0}")]
    Ids(#[from] ids::Error),
    #[error(transparent)]
    Values(#[from] ValuesError),
    #[error("log: {0}")]
    Log(#[from] LogError),
}

/// The watermarks of each store.
#[derive(Debug, Clone, Default)]
pub struct CheckpointPositions {
    pub values: Watermarks,
    pub ids: Watermarks,
    pub filters: Watermarks,
}

impl CheckpointPositions {
    /// The slot up to which every store contains the log.
    pub fn least(&self, partition: PartitionId) -> u64 {
        self.values.get(partition).min(self.ids.get(partition)).min(self.filters.get(partition))
    }
}

/// Stores what shards have frozen.
pub struct Checkpointer<L, V, D: Disk> {
    log: Arc<L>,
    stores: Stores<V, D>,
    positions: CheckpointPositions,
    filters: StoredFilters,
    /// Bytes of a blob of filters.
    filter_row_bytes: usize,
    /// The slot to which the log of each partition was trimmed.
    trimmed: Vec<u64>,
    trim_block: TrimBlock,
}

impl<L: PartitionLog + BlobStore, V: Values, D: Disk> Checkpointer<L, V, D> {
    pub fn new(
        log: Arc<L>,
        stores: Stores<V, D>,
        (positions, filters): (CheckpointPositions, StoredFilters),
        filter_row_bytes: usize,
    ) -> Self {
        let trimmed = vec![0; usize::from(PARTITIONS)];
        Self { log, stores, positions, filters, filter_row_bytes, trimmed, trim_block: TrimBlock::default() }
    }

    /// Trims nothing and replaces no filters while a guard of the block exists.
    pub(crate) fn blocked_by(self, trim_block: TrimBlock) -> Self {
        Self { trim_block, ..self }
    }

    pub fn positions(&self) -> &CheckpointPositions {
        &self.positions
    }

    pub fn store_ids(&mut self, frozen: &FrozenIds) -> Result<(), CheckpointError> {
        let entry = |(key, generation, value): (IdKey, Generation, _)| ids::Entry {
            generation: generation.0,
            key: key.to_bytes(),
            value,
        };
        let mut entries: Vec<ids::Entry<&[u8]>> = frozen.ids.iter().map(entry).collect();
        ids::sort(&mut entries);
        let index = &self.stores.ids;
        let mut runs = index.add(&entries)?;
        let mut watermarks = self.positions.ids.clone();
        watermarks.raise(&frozen.slots);
        let mut note = Vec::new();
        watermarks.encode(&mut note);
        index.commit(&mut runs, &note)?;
        self.positions.ids = watermarks;
        self.trim();
        Ok(())
    }

    pub fn store_values(&mut self, frozen: &mut FrozenValues) -> Result<(), CheckpointError> {
        frozen.rows.sort();
        self.stores.values.replace(&frozen.rows)?;
        self.positions.values.raise(&frozen.slots);
        self.trim();
        Ok(())
    }

    /// Writes the filters. Recovery ignores them until they are [committed](Self::commit_filters).
    pub fn write_filters(&mut self, catalog: &Catalog) -> Result<FilterVersion, CheckpointError> {
        Ok(self.filters.write(&*self.log, catalog, self.filter_row_bytes)?)
    }

    /// Commits the filters that were written last. They contain every id up to these slots, and only ids
    /// whose entries are durable.
    pub fn commit_filters(&mut self, version: FilterVersion, slots: &Slots) -> Result<(), CheckpointError> {
        if self.trim_block.is_held() {
            // A backup copies the committed filters. The log contains what they lack, and so will the next
            // version.
            return Ok(());
        }
        let mut watermarks = self.positions.filters.clone();
        watermarks.raise(slots);
        self.filters.commit(&*self.log, version, watermarks.clone())?;
        self.positions.filters = watermarks;
        self.trim();
        Ok(())
    }

    /// Trims the log to what all stores contain. A trim that fails is repeated after the next checkpoint: a
    /// log that is too long is harmless, and a full one refuses writes.
    fn trim(&mut self) {
        if self.trim_block.is_held() {
            return;
        }
        let trims = PartitionId::all().filter_map(|partition| {
            let least = self.positions.least(partition);
            (least > self.trimmed[usize::from(partition.0)]).then_some((log_of(partition), Slot(least)))
        });
        let trims: Vec<(LogId, Slot)> = trims.collect();
        if !trims.is_empty() && self.log.trim(&trims).is_ok() {
            for (log, through) in trims {
                self.trimmed[usize::from(log.0)] = through.0;
            }
        }
    }
}
