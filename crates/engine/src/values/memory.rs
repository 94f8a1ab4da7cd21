//! Rows in memory, for tests and the simulator: implements [`Values`] without persistence.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ttl_filter::is_over;
use super::{CellKeys, Rows, Values, ValuesError};

/// Rows in memory.
#[derive(Debug, Default)]
pub struct MemoryValues {
    rows: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    failing: Mutex<Option<String>>,
}

impl MemoryValues {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Vec<u8>>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes every change fail with this message from now on, or succeed again.
    pub fn set_failing(&self, why: Option<&str>) {
        *self.failing.lock().unwrap_or_else(PoisonError::into_inner) = why.map(Into::into);
    }

    /// A store with the same rows.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self { rows: Mutex::new(self.rows().clone()), failing: Mutex::default() }
    }
}

impl Values for MemoryValues {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ValuesError> {
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
        if let Some(why) = &*self.failing.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(ValuesError(why.clone()));
        }
        let mut rows = self.rows();
        for (key, row) in changes.iter() {
            match row {
                Some(row) => rows.insert(key.into(), row.into()),
                None => rows.remove(key),
            };
        }
        Ok(())
    }

    fn compact(&self, reached: u64) -> Result<bool, ValuesError> {
        self.rows().retain(|key, row| !is_over(key, row, reached));
        Ok(false)
    }

    fn pending_compactions(&self) -> usize {
        0
    }
}
