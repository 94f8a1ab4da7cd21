//! The keeper: brings to disk what the log no longer needs to hold, and then shortens the log.
//!
//! Three things are stored, each with the slots up to which it speaks: ids in the index, rows in the value store, filters in
//! blobs. The log is trimmed to the lowest of the three. Recovery begins there.
//!
//! Every method may be repeated after an error: nothing is lost by trying again.

use std::sync::Arc;

use jeton_core::limits::PARTITIONS;
use jeton_core::{Catalog, Generation, IdKey, PartitionId};
use jeton_wal::disk::Disk;
use jeton_wal::{Error as LogError, LogId, Slot};

use crate::filter_store::{FilterVersion, StoredFilters};
use crate::ids::{self, IdIndex, NewRun};
use crate::partition_log::{BlobStore, PartitionLog, log_of};
use crate::shard::{FrozenIds, FrozenValues, Slots, Stores};
use crate::trim_guard::TrimBlock;
use crate::values::{Values, ValuesError};
use crate::watermarks::Watermarks;

/// Why something could not be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// By the id index.
    #[error("id index: {0}")]
    Ids(#[from] ids::Error),
    /// By the value store.
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// By the log or the blobs.
    #[error("log: {0}")]
    Log(#[from] LogError),
}

/// How far each store speaks.
#[derive(Debug, Clone, Default)]
pub struct CheckpointPositions {
    /// The value store.
    pub values: Watermarks,
    /// The id index.
    pub ids: Watermarks,
    /// The filters.
    pub filters: Watermarks,
}

impl CheckpointPositions {
    /// Up to here nobody needs the log.
    pub fn least(&self, partition: PartitionId) -> u64 {
        self.values.get(partition).min(self.ids.get(partition)).min(self.filters.get(partition))
    }
}

/// Brings to disk what shards have frozen.
pub struct Checkpointer<L, V, D: Disk> {
    log: Arc<L>,
    stores: Stores<V, D>,
    kept: CheckpointPositions,
    filters: StoredFilters,
    /// The length of a row with filters.
    filter_row_bytes: usize,
    /// What the log was trimmed to, by partition.
    trimmed: Vec<u64>,
    hold: TrimBlock,
}

impl<L: PartitionLog + BlobStore, V: Values, D: Disk> Checkpointer<L, V, D> {
    /// A keeper of stores that speak so far, and of these filters.
    pub fn new(
        log: Arc<L>,
        stores: Stores<V, D>,
        (kept, filters): (CheckpointPositions, StoredFilters),
        filter_row_bytes: usize,
    ) -> Self {
        let trimmed = vec![0; usize::from(PARTITIONS)];
        Self { log, stores, kept, filters, filter_row_bytes, trimmed, hold: TrimBlock::default() }
    }

    /// The same, held back by whoever takes this.
    pub(crate) fn held_by(self, hold: TrimBlock) -> Self {
        Self { hold, ..self }
    }

    /// How far each store speaks.
    pub fn kept(&self) -> &CheckpointPositions {
        &self.kept
    }

    /// Stores ids.
    pub fn store_ids(&mut self, frozen: &FrozenIds) -> Result<(), CheckpointError> {
        let entry = |(key, generation, value): (IdKey, Generation, _)| ids::Entry {
            generation: generation.0,
            key: key.to_bytes(),
            value,
        };
        let mut entries: Vec<ids::Entry<&[u8]>> = frozen.ids.iter().map(entry).collect();
        ids::sort(&mut entries);
        let mut runs: Vec<NewRun<D>> = self.index().add(&entries)?;
        let mut marks = self.kept.ids.clone();
        marks.raise(&frozen.slots);
        let mut note = Vec::new();
        marks.encode(&mut note);
        self.index().commit(&mut runs, &note)?;
        self.kept.ids = marks;
        self.trim();
        Ok(())
    }

    fn index(&self) -> &IdIndex<D> {
        &self.stores.ids
    }

    /// Stores rows.
    pub fn store_values(&mut self, frozen: &mut FrozenValues) -> Result<(), CheckpointError> {
        frozen.rows.sort();
        self.stores.values.replace(&frozen.rows)?;
        self.kept.values.raise(&frozen.slots);
        self.trim();
        Ok(())
    }

    /// Writes the filters as they are. They do not count until they are [committed](Self::commit_filters).
    pub fn write_filters(&mut self, catalog: &Catalog) -> Result<FilterVersion, CheckpointError> {
        Ok(self.filters.write(&*self.log, catalog, self.filter_row_bytes)?)
    }

    /// Makes the filters count that were written last. They have every id up to these slots, and none that a crash could still take
    /// back.
    pub fn commit_filters(&mut self, version: FilterVersion, slots: &Slots) -> Result<(), CheckpointError> {
        if self.hold.is_held() {
            // Somebody copies the filters that count. The log has what these know more, and the next ones will have it too.
            return Ok(());
        }
        let mut marks = self.kept.filters.clone();
        marks.raise(slots);
        self.filters.commit(&*self.log, version, marks.clone())?;
        self.kept.filters = marks;
        self.trim();
        Ok(())
    }

    /// Gives back the part of the log that all stores have. What the log cannot do now is done with the next thing stored: a log
    /// that is longer than needed does no harm, and if it has no room it tells whoever writes.
    fn trim(&mut self) {
        if self.hold.is_held() {
            return;
        }
        let behind = PartitionId::all().filter_map(|partition| {
            let least = self.kept.least(partition);
            (least > self.trimmed[usize::from(partition.0)]).then_some((partition, least))
        });
        let trims: Vec<(LogId, Slot)> =
            behind.map(|(partition, least)| (log_of(partition), Slot(least))).collect();
        if !trims.is_empty() && self.log.trim(&trims).is_ok() {
            for (log, through) in trims {
                self.trimmed[usize::from(log.0)] = through.0;
            }
        }
    }
}
