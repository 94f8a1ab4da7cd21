//! Values and dedup records in memory, for tests and fuzz targets.

use std::collections::HashMap;
use std::convert::Infallible;

use jeton_core::{Cell, DedupRecord, Generation, IdKey, StateReader, StateWriter, Timestamp, Value};

/// Values and dedup records in memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Store {
    pub values: HashMap<Cell, Value>,
    pub answers: HashMap<(Generation, IdKey), DedupRecord>,
}

impl Store {
    /// Drops expired generations, as a store on disk does.
    pub fn forget(&mut self, now: Timestamp) {
        self.answers.retain(|(generation, _), _| !generation.expired(now));
    }
}

impl StateReader for Store {
    type Error = Infallible;

    fn value(&mut self, cell: &Cell) -> Result<Option<Value>, Infallible> {
        Ok(self.values.get(cell).cloned())
    }

    fn dedup_record(
        &mut self,
        key: IdKey,
        mut generations: impl Iterator<Item = Generation>,
    ) -> Result<Option<DedupRecord>, Infallible> {
        Ok(generations.find_map(|generation| self.answers.get(&(generation, key)).cloned()))
    }
}

impl StateWriter for Store {
    fn store(&mut self, cell: &Cell, value: Option<Value>) {
        match value {
            Some(value) => self.values.insert(cell.clone(), value),
            None => self.values.remove(cell),
        };
    }

    fn record(&mut self, key: IdKey, generation: Generation, record: DedupRecord) {
        self.answers.insert((generation, key), record);
    }
}
