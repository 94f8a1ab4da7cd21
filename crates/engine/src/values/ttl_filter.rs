//! Drops the rows of expired values during compaction.
//!
//! Invariant: a row is dropped only if its value has expired at a time that the durable log has reached. No
//! reader can have an earlier time, not even after a restart with the clock set back. And only if everything
//! in the log that the store lacks was decided then or later: a replay applies it to the store's rows, and an
//! entry of an earlier time may have removed the expiry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jeton_core::Value;
use jeton_core::codec::Reader;
use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Verdict};

use super::key::is_cell;

/// The time that log and store have reached, in milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub(super) struct ExpiryHorizon(Arc<AtomicU64>);

impl ExpiryHorizon {
    pub(super) fn set(&self, millis: u64) {
        self.0.fetch_max(millis, Ordering::Relaxed);
    }
}

impl Factory for ExpiryHorizon {
    fn name(&self) -> &str {
        "expired values"
    }

    fn make_filter(&self, _: &lsm_tree::compaction::filter::Context) -> Box<dyn CompactionFilter> {
        Box::new(ExpiryFilter { millis: self.0.load(Ordering::Relaxed) })
    }
}

struct ExpiryFilter {
    millis: u64,
}

impl CompactionFilter for ExpiryFilter {
    fn filter_item(
        &mut self,
        item: ItemAccessor<'_>,
        _: &lsm_tree::compaction::filter::Context,
    ) -> lsm_tree::Result<Verdict> {
        if !is_cell(item.key()) {
            return Ok(Verdict::Keep);
        }
        let expired = has_expired(item.key(), &item.value()?, self.millis);
        Ok(if expired { Verdict::Remove } else { Verdict::Keep })
    }
}

/// Whether this is the row of a cell whose value has expired at this time. A row that cannot be decoded is
/// kept, so that a read reports it.
pub(super) fn has_expired(key: &[u8], row: &[u8], millis: u64) -> bool {
    is_cell(key) && Value::decode(&mut Reader::new(row)).is_ok_and(|value| value.at(millis).is_none())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use jeton_core::{Cell, Column, PartitionId, Secret, TableId};

    use super::super::{CellKeys, LsmOptions, LsmValues, Rows, Values, cell_key};
    use super::*;

    #[test]
    fn compaction_drops_expired_values() {
        let folder = tempfile::tempdir().unwrap();
        let values = LsmValues::open(folder.path(), &LsmOptions::default()).unwrap();
        let secret = Secret::new([0; 16]);
        // In one partition, so that the rows are adjacent.
        let cell =
            |row: u8| Cell::new(&secret, TableId(1), &[b'{', b'a', b'}', row], &Column::unnamed()).unwrap();
        let partition: PartitionId = cell(0).partition();
        let left = || {
            let mut left = Vec::new();
            let keys = CellKeys::new(partition, TableId(1), b"{a}", None);
            values.keys(&keys, 100, &mut |key| left.push(key[key.len() - 3])).unwrap();
            left
        };
        // Enough overlapping tables for a compaction: they cannot just be moved.
        for table in 0..8 {
            let mut rows = Rows::default();
            for row in (1 + table..81).step_by(8) {
                let mut key = Vec::new();
                cell_key(&cell(row), &mut key);
                let mut bytes = Vec::new();
                Value::Counter(1)
                    .lasting(row.is_multiple_of(3).then_some(100 + u64::from(row % 2)))
                    .encode(&mut bytes);
                rows.push_bytes(&key, Some(&bytes));
            }
            values.replace(&rows).unwrap();
        }
        assert_eq!(left().len(), 80);
        while values.compact(100).unwrap() {}
        let gone = |row: &u8| row.is_multiple_of(6);
        assert_eq!(left(), (1..=80).filter(|row| !gone(row)).collect::<Vec<u8>>());
    }
}
