//! Freezing: what a checkpoint takes from a shard.

use std::sync::Arc;

use jeton_core::{Catalog, Timestamp, mutated};
use jeton_wal::disk::Disk;

use super::{Shard, Slots};
use crate::id_memtable::Ids;
use crate::values::{Rows, Values, branch_key, partition_key, session_key};

/// Ids on their way to the index.
#[derive(Debug)]
pub struct FrozenIds {
    /// Number of the freeze.
    pub freeze: u64,
    /// To be stored only when this batch is durable.
    pub batch: u64,
    /// The ids.
    pub ids: Arc<Ids>,
    /// With these ids the index contains every id up to these slots.
    pub slots: Slots,
}

/// Rows on their way to the value store.
#[derive(Debug)]
pub struct FrozenValues {
    /// Number of the freeze.
    pub freeze: u64,
    /// To be stored only when this batch is durable.
    pub batch: u64,
    /// The rows, in any order.
    pub rows: Rows,
    /// With these rows the store contains everything up to these slots.
    pub slots: Slots,
    /// Everything they lack was decided at this time or later.
    pub time: Timestamp,
}

impl<V: Values, D: Disk> Shard<V, D> {
    /// Number of ids that the index lacks: since the last freeze, and in total.
    pub fn recent_ids(&self) -> (usize, usize) {
        (self.memory.memtable.live_len(), self.memory.memtable.total_len())
    }

    /// Bytes of cells changed since the last freeze, and bytes of all cached cells.
    pub fn cell_bytes(&self) -> (usize, usize) {
        (self.memory.cache.dirty_bytes(), self.memory.cache.bytes())
    }

    /// Hands out the ids that the index lacks.
    pub fn freeze_ids(&mut self) -> FrozenIds {
        let (freeze, ids) = self.memory.memtable.freeze();
        FrozenIds { freeze, batch: self.last_batch(), ids, slots: self.slots() }
    }

    /// Reports that the ids of a freeze are in the index.
    pub fn ids_stored(&mut self, freeze: u64) {
        self.memory.memtable.complete(freeze);
    }

    /// Freezes what the value store lacks. [`copy_values`](Self::copy_values) hands it out.
    pub fn freeze_values(&mut self, catalog: &Catalog, now: Timestamp) {
        assert!(self.freezing.is_none(), "one freeze at a time");
        let mut rows = Rows::default();
        let freeze = self.memory.cache.freeze();
        for owned in self.partitions.iter_mut().flatten() {
            let id = owned.partition.id();
            owned.partition.sessions().forget_deleted(|table| catalog.was_deleted(table));
            let sessions = owned.partition.sessions().take_changed();
            // The partition's row holds the floor of expired sessions, so it is stored together with their
            // removal.
            if owned.partition.slot() > owned.frozen_slot || !sessions.is_empty() {
                owned.frozen_slot = owned.partition.slot();
                rows.push_bytes(&partition_key(id), Some(&owned.partition.encode()));
            }
            for (name, row) in owned.partition.branches().take_changed() {
                if !mutated!(BranchesNotStored) {
                    rows.push_bytes(&branch_key(id, &name), row.as_deref());
                }
            }
            if mutated!(SessionsNotStored) {
                continue;
            }
            for (client, row) in sessions {
                rows.push_bytes(&session_key(id, &client), row.as_deref());
            }
        }
        let (batch, slots) = (self.last_batch(), self.slots());
        self.freezing = Some(FrozenValues { freeze, batch, rows, slots, time: now });
    }

    /// Whether a freeze is not handed out yet.
    pub fn is_freezing(&self) -> bool {
        self.freezing.is_some()
    }

    /// Copies some of the frozen cells, and hands the freeze out when all are copied.
    pub fn copy_values(&mut self, cells: usize) -> Option<FrozenValues> {
        if self.freezing.is_none() || !self.memory.cache.copy_some(cells) {
            return None;
        }
        let mut frozen = self.freezing.take()?;
        let mut rows = self.memory.cache.take_frozen();
        rows.append(&frozen.rows);
        frozen.rows = rows;
        Some(frozen)
    }

    /// Reports that the rows of a freeze are in the value store.
    pub fn values_stored(&mut self, freeze: u64) {
        self.memory.cache.complete(freeze);
    }
}
