//! Reads: a read returns a durable value that the counter had during the read, never older than the client saw before.

use jeton_core::Cell;

use crate::model::Model;
use crate::model::value::ModelValue;
use crate::violation::{Checked, Violation};

const RULE: &str = "reads";

/// What was known when a read was sent.
#[derive(Debug, Clone)]
pub struct ReadStart {
    /// Slots of the partition that were durable.
    pub durable: u64,
    /// The time of its last entry, in milliseconds.
    pub millis: u64,
    /// What the client had seen there.
    pub seen: Option<i64>,
}

/// A cell was read, when it was `latest` at the latest.
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
        let what = format!("{cell:?} was read as {held:?}, which was over when the read was sent");
        return Err(Violation::new(RULE, what));
    }
    if !model.history.has_held(cell, (sent.durable, to), latest, held) {
        let what = format!(
            "{cell:?} was read as {held:?}, which it did not hold after slots {} to {to}",
            sent.durable
        );
        return Err(Violation::new(RULE, what));
    }
    if let (ModelValue::Counter(value), Some(seen), true) = (held, sent.seen, add_only && strict)
        && *value < seen
    {
        let what = format!("{cell:?} was read as {value} by a client that had seen {seen}");
        return Err(Violation::new(RULE, what));
    }
    Ok(())
}

/// After a crash: what anybody ever read of a cell that is only added to is still in it.
pub fn check_kept(model: &Model, cell: &Cell, seen: i64) -> Checked {
    let strict = model.table(cell.table().0).strict();
    match model.history.held(cell) {
        ModelValue::Counter(value) if value < seen && strict => {
            let what = format!("{cell:?} was read as {seen}, and a crash took it back to {value}");
            Err(Violation::new(RULE, what))
        }
        _ => Ok(()),
    }
}
