//! The limit on the cells that a client may create.
//!
//! The shard charges it when it decides: only then is it known whether an operation is new and whether a cell
//! exists. So concurrent creations of one cell are charged once, and replays and refusals never. A branch is
//! charged when it is prepared, because a commit cannot be refused. Two branches may then be charged for the
//! same cell, so a commit reports which cells it created.

use std::collections::HashMap;
use std::fmt;

use jeton_core::{
    Branch, BranchLogItem, BranchOutcome, Cell, Operation, OperationDecision, StateReader, Timestamp,
    effects_of,
};

use crate::response::EngineError;

pub trait CreationQuota: fmt::Debug + Send + Sync {
    /// Takes a number of cells, all or none. The error states the limit.
    fn take(&self, cells: u64) -> Result<(), String>;

    /// Returns cells that were taken and not created.
    fn give_back(&self, _cells: u64) {}

    /// Reports the cells that a commit of a branch creates, of those that were taken when it was prepared.
    fn created(&self, _cells: u64) {}
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
    let mut after = effects_of(operation, decision).map(|(cell, value)| (cell, value.is_some()));
    let mut created = 0;
    match (after.next(), after.next()) {
        (Some((cell, exists)), None) => created += u64::from(exists && is_empty(cell, now, reader)?),
        (first, second) => {
            for (cell, exists) in first.into_iter().chain(second).chain(after).collect::<HashMap<_, _>>() {
                created += u64::from(exists && is_empty(cell, now, reader)?);
            }
        }
    }
    if created == 0 { Ok(()) } else { quota.take(created).map_err(EngineError::Withheld) }
}

/// Charges the cells that the commit of a branch would create when it is prepared, and reports those that it
/// creates when it is committed. `prepared` is the branch before the step.
pub(crate) fn charge_branch<R: StateReader<Error = EngineError>>(
    quota: &dyn CreationQuota,
    prepared: Option<&Branch>,
    step: &BranchLogItem,
    now: Timestamp,
    reader: &mut R,
) -> Result<(), EngineError> {
    let branch = match step {
        BranchLogItem::Prepared(branch) => Some(branch),
        BranchLogItem::Finished { outcome: BranchOutcome::Commit, .. } => prepared,
        BranchLogItem::Finished { .. } => None,
    };
    let mut created = 0;
    for one in branch.map_or(&[][..], Branch::additions) {
        created += u64::from(is_empty(&one.cell, now, reader)?);
    }
    match step {
        _ if created == 0 => Ok(()),
        BranchLogItem::Prepared(_) => quota.take(created).map_err(EngineError::Withheld),
        BranchLogItem::Finished { .. } => {
            quota.created(created);
            Ok(())
        }
    }
}

fn is_empty<R: StateReader<Error = EngineError>>(
    cell: &Cell,
    now: Timestamp,
    reader: &mut R,
) -> Result<bool, EngineError> {
    let value = reader.value(cell)?.and_then(|value| value.at(now.as_nanos() / 1_000_000));
    Ok(value.is_none())
}
