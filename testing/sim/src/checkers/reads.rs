//! Reads: a read returns a durable value that the counter had during the read, never older than the client
//! saw before.

use jeton_core::Cell;

use crate::model::Model;
use crate::model::value::ModelValue;
use crate::violation::{Checked, violated};

const RULE: &str = "reads";

#[derive(Debug, Clone)]
pub struct ReadStart {
    /// The last durable slot of the partition.
    pub durable: u64,
    /// The time of its last entry, in milliseconds.
    pub millis: u64,
    /// The value that the client read before.
    pub seen: Option<i64>,
}

/// Checks a read that was answered at the time `latest` or earlier.
pub fn check(
    model: &Model,
    cell: &Cell,
    (sent, latest): (&ReadStart, u64),
    held: &ModelValue,
    add_only: bool,
) -> Checked {
    let partition = cell.partition().0;
    let strict = model.table(cell.table().0).strict();
    let to = if strict { model.history.durable(partition) } else { model.history.last(partition) };
    if let Some(until) = held.until()
        && until <= sent.millis
    {
        return violated!(RULE, "{cell:?} was read as {held:?}, which had expired when the read was sent");
    }
    if !model.history.has_held(cell, (sent.durable, to), latest, held) {
        return violated!(
            RULE,
            "{cell:?} was read as {held:?}, which it was not after slots {} to {to}",
            sent.durable
        );
    }
    if let (ModelValue::Counter(value), Some(seen), true) = (held, sent.seen, add_only && strict)
        && *value < seen
    {
        return violated!(RULE, "{cell:?} was read as {value} by a client that had read {seen}");
    }
    Ok(())
}

/// Checks after a crash: an add-only counter is not below a value that a client read.
pub fn check_kept(model: &Model, cell: &Cell, seen: i64) -> Checked {
    let strict = model.table(cell.table().0).strict();
    match model.history.held(cell) {
        ModelValue::Counter(value) if value < seen && strict => {
            violated!(RULE, "{cell:?} was read as {seen}, and is {value} after a crash")
        }
        _ => Ok(()),
    }
}
