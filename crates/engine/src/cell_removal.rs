//! Removes the cells of deleted tables from the value store, in steps.
//!
//! The catalogue lists a deleted table until its cells are removed, so a restart begins again. No shard adds
//! rows of the table later: shards refuse its operations, a replay drops its cells, and the removal begins
//! when the store contains what was decided before the deletion.

use jeton_core::{Cell, PartitionId, TableId};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::values::{CellKeys, Rows, Values, ValuesError};

/// Maximum number of rows that a step removes.
const STEP_ROWS: usize = 4096;

pub(crate) struct CellRemoval {
    pub table: TableId,
    /// One for each shard: received when the store contains everything decided before the removal began.
    flushes: Vec<oneshot::Receiver<()>>,
    /// The partition of the next row, and the last removed row in it.
    partition: u16,
    after: Option<Cell>,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemovalStep {
    /// The store lacks decided changes.
    Waiting,
    /// There may be more rows.
    Removed,
    /// There are no rows left.
    Done,
}

impl CellRemoval {
    pub fn new(table: TableId, flushes: Vec<oneshot::Receiver<()>>) -> Self {
        Self { table, flushes, partition: 0, after: None }
    }

    /// Removes some rows, durably. After an error it can be repeated.
    pub fn step<V: Values>(&mut self, values: &V) -> Result<RemovalStep, ValuesError> {
        while let Some(flush) = self.flushes.last_mut() {
            match flush.try_recv() {
                Ok(()) => drop(self.flushes.pop()),
                // A shard that has ended: the engine closes.
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(RemovalStep::Waiting),
            }
        }
        let (mut rows, mut count, mut last) = (Rows::default(), 0, self.after.take());
        let mut place = self.partition;
        for partition in PartitionId::all().skip(self.partition.into()) {
            let keys = CellKeys::new(partition, self.table, b"", last.as_ref());
            let mut failed = None;
            place = partition.0;
            last = None;
            values.keys(&keys, STEP_ROWS - count, &mut |key| {
                rows.push_bytes(key, None);
                count += 1;
                match keys.cell(key) {
                    Ok(cell) => last = Some(cell),
                    Err(error) => failed = Some(ValuesError(format!("the key of a cell: {error}"))),
                }
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
            if count >= STEP_ROWS {
                break;
            }
        }
        if rows.is_empty() {
            return Ok(RemovalStep::Done);
        }
        values.replace(&rows)?;
        (self.partition, self.after) = (place, last);
        Ok(RemovalStep::Removed)
    }
}
