//! The limit on the cells that a client may create.
//!
//! The shard charges it when it decides: only then is it known whether an operation is new and whether a cell
//! exists. So concurrent creations of one cell are charged once, and replays and refusals never.

use std::collections::HashMap;
use std::fmt;

use jeton_core::{Cell, Operation, OperationDecision, StateReader, Timestamp, effects_of};

use crate::response::EngineError;

pub trait CreationQuota: fmt::Debug + Send + Sync {
    /// Takes a number of cells, all or none. The error states the limit.
    fn take(&self, cells: u64) -> Result<(), String>;
}

/// Charges the cells that a decision creates: those that exist after it and not before.
pub(crate) fn charge<R: StateReader<Error = EngineError>>(
    quota: &dyn CreationQuota,
    operation: &Operation,
    decision: &OperationDecision,
    now: Timestamp,
    reader: &mut R,
) -> Result<(), EngineError> {
    if !decision.answer.applied {
        return Ok(());
    }
    let after = effects_of(operation, decision).map(|(cell, value)| (cell, value.is_some()));
    let mut created = 0;
    for (cell, exists) in after.collect::<HashMap<&Cell, bool>>() {
        if exists {
            let before = reader.value(cell)?.and_then(|value| value.at(now.as_nanos() / 1_000_000));
            created += u64::from(before.is_none());
        }
    }
    if created == 0 { Ok(()) } else { quota.take(created).map_err(EngineError::Withheld) }
}
