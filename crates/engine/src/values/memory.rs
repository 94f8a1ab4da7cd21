//! Rows in memory, for tests and the simulator: implements [`Values`] without persistence.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::ttl_filter::has_expired;
use super::{CellKeys, Rows, Values, ValuesError};
use crate::lock::lock;

#[derive(Debug, Default)]
pub struct MemoryValues {
    rows: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    unreadable: AtomicBool,
}

impl MemoryValues {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Vec<u8>>> {
        lock(&self.rows)
    }

    /// Sets whether every [`get`](Values::get) fails.
    pub fn set_unreadable(&self, unreadable: bool) {
        self.unreadable.store(unreadable, Ordering::Relaxed);
    }

    #[must_use]
    pub fn copy(&self) -> Self {
        Self { rows: Mutex::new(self.rows().clone()), unreadable: AtomicBool::new(false) }
    }
}

impl Values for MemoryValues {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ValuesError> {
        if self.unreadable.load(Ordering::Relaxed) {
            return Err(ValuesError("unreadable".into()));
        }
        Ok(self.rows().get(key).cloned())
    }

    fn scan(&self, first: u8, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), ValuesError> {
        for (key, row) in self.rows().range(vec![first]..vec![first + 1]) {
            each(key, row);
        }
        Ok(())
    }

    fn keys(&self, keys: &CellKeys, limit: usize, each: &mut dyn FnMut(&[u8])) -> Result<(), ValuesError> {
        let rows = self.rows();
        let range = rows.range::<[u8], _>((keys.begin(), Bound::Unbounded));
        let alike = range.take_while(|(key, _)| key.starts_with(keys.prefix()));
        alike.take(limit).for_each(|(key, _)| each(key));
        Ok(())
    }

    fn replace(&self, changes: &Rows) -> Result<(), ValuesError> {
        assert!(changes.iter().is_sorted_by(|a, b| a.0 < b.0), "rows are stored in order");
        let mut rows = self.rows();
        for (key, row) in changes.iter() {
            match row {
                Some(row) => rows.insert(key.into(), row.into()),
                None => rows.remove(key),
            };
        }
        Ok(())
    }

    fn compact(&self, expired: u64) -> Result<bool, ValuesError> {
        self.rows().retain(|key, row| !has_expired(key, row, expired));
        Ok(false)
    }

    fn pending_compactions(&self) -> usize {
        0
    }
}
