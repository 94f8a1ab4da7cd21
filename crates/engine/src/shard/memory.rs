//! The in-memory state of a shard, in front of the value store and the id index.

use std::sync::Arc;

use jeton_core::codec::Reader;
use jeton_core::{Catalog, Cell, DedupRecord, Generation, IdKey, StateReader, StateWriter, Value, mutated};
use jeton_wal::disk::Disk;

use crate::cache::Cache;
use crate::id_memtable::IdMemtable;
use crate::ids::IdIndex;
use crate::response::EngineError;
use crate::values::{Values, cell_key};

pub struct Stores<V, D: Disk> {
    pub values: Arc<V>,
    pub ids: Arc<IdIndex<D>>,
}

impl<V, D: Disk> Clone for Stores<V, D> {
    fn clone(&self) -> Self {
        Self { values: self.values.clone(), ids: self.ids.clone() }
    }
}

/// The in-memory state beside the partitions, and the stores behind it.
pub(super) struct Memory<V, D: Disk> {
    pub(super) stores: Stores<V, D>,
    pub(super) cache: Cache,
    pub(super) memtable: IdMemtable,
    pub(super) batch: u64,
    /// The latest batch that a lookup of the current request depends on; 0 if all of it is durable.
    pub(super) needs_batch: u64,
    pub(super) scratch: Vec<u8>,
}

impl<V: Values, D: Disk> StateReader for Memory<V, D> {
    type Error = EngineError;

    fn value(&mut self, cell: &Cell) -> Result<Option<Value>, EngineError> {
        if let Some((value, batch)) = self.cache.get(cell) {
            self.needs_batch = self.needs_batch.max(batch);
            return Ok(value.cloned());
        }
        self.scratch.clear();
        cell_key(cell, &mut self.scratch);
        let row =
            self.stores.values.get(&self.scratch).map_err(|error| EngineError::Storage(error.to_string()))?;
        let value = match row {
            None => None,
            Some(row) => Some(
                Value::decode(&mut Reader::new(&row))
                    .map_err(|error| EngineError::Storage(format!("the row of {cell:?}: {error}")))?,
            ),
        };
        self.cache.fill(cell, value.clone());
        Ok(value)
    }

    fn dedup_record(
        &mut self,
        key: IdKey,
        generations: impl Iterator<Item = Generation>,
    ) -> Result<Option<DedupRecord>, EngineError> {
        let read = |bytes: &[u8], source: &str| {
            DedupRecord::decode(bytes).map_err(|error| {
                EngineError::Storage(format!("the dedup record of an id in {source}: {error}"))
            })
        };
        if let Some((bytes, batch)) = self.memtable.get(key) {
            self.needs_batch = self.needs_batch.max(batch);
            return read(bytes, "memory").map(Some);
        }
        if mutated!(ForgetIndex) {
            return Ok(None);
        }
        let found = self.stores.ids.find(&key.to_bytes(), generations.map(|generation| generation.0));
        let found = found.map_err(|error| EngineError::Storage(error.to_string()))?;
        found.map(|bytes| read(&bytes, "the id index")).transpose()
    }
}

impl<V: Values, D: Disk> StateWriter for Memory<V, D> {
    fn store(&mut self, cell: &Cell, value: Option<Value>) {
        self.cache.put(cell, value, self.batch);
    }

    fn record(&mut self, key: IdKey, generation: Generation, record: DedupRecord) {
        self.memtable.put(key, generation, self.batch, &record);
    }
}

/// Receives replayed effects: they are durable, and the index may contain them already. The cells of deleted
/// tables are dropped, because their rows may be removed already.
pub(super) struct ReplayWriter<'a, V, D: Disk> {
    pub(super) catalog: &'a Catalog,
    pub(super) memory: &'a mut Memory<V, D>,
    pub(super) index_has: bool,
}

impl<V: Values, D: Disk> StateWriter for ReplayWriter<'_, V, D> {
    fn store(&mut self, cell: &Cell, value: Option<Value>) {
        if !self.catalog.was_deleted(cell.table()) {
            self.memory.cache.put(cell, value, 0);
        }
    }

    fn record(&mut self, key: IdKey, generation: Generation, record: DedupRecord) {
        if !self.index_has && !mutated!(ReplaySkipsIds) {
            self.memory.memtable.put(key, generation, 0, &record);
        }
    }
}
