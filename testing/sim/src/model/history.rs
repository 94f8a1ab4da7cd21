//! What was decided, in order: every entry of every partition's log, from the first on, trimmed or not.
//!
//! What must hold: a slot is written once, and what was durable stays. What an entry says of an operation is what the model makes of
//! it. The history receives entries when they are staged, of their durability when they are settled, and of those that a
//! crash took.

use std::collections::BTreeMap;

use jeton_core::{Addition, Cell, Change, Operation, OperationResult, Value};

use super::value::{ModelValue, effect};
use crate::violation::{Checked, Violation};

const RULE: &str = "history";

/// The history of a partition.
#[derive(Debug, Default)]
pub struct Partition {
    /// The bytes of its entries, from slot 1 on.
    pub entries: Vec<Vec<u8>>,
    /// Slots up to here are durable.
    pub durable: u64,
    /// The time of the last entry, in milliseconds.
    pub millis: u64,
}

/// What a cell came to hold.
#[derive(Debug, Clone)]
struct Past {
    slot: u64,
    held: ModelValue,
}

/// The history of all partitions and of all cells.
#[derive(Debug, Default)]
pub struct History {
    partitions: BTreeMap<u16, Partition>,
    cells: BTreeMap<Cell, Vec<Past>>,
}

impl History {
    /// A partition's history.
    pub fn partition(&self, number: u16) -> Option<&Partition> {
        self.partitions.get(&number)
    }

    /// All partitions with a history.
    pub fn partitions(&self) -> impl Iterator<Item = (u16, &Partition)> {
        self.partitions.iter().map(|(number, partition)| (*number, partition))
    }

    /// The slots of a partition that were decided.
    pub fn last(&self, number: u16) -> u64 {
        self.partition(number).map_or(0, |partition| partition.entries.len() as u64)
    }

    /// The slots of a partition that are durable.
    pub fn durable(&self, number: u16) -> u64 {
        self.partition(number).map_or(0, |partition| partition.durable)
    }

    /// The time of a partition's last entry, in milliseconds.
    pub fn millis(&self, number: u16) -> u64 {
        self.partition(number).map_or(0, |partition| partition.millis)
    }

    /// An entry was staged.
    pub fn stage(&mut self, number: u16, slot: u64, bytes: &[u8], millis: u64) -> Checked {
        let partition = self.partitions.entry(number).or_default();
        let expected = partition.entries.len() as u64 + 1;
        if slot != expected {
            return Err(Violation::new(
                RULE,
                format!("slot {slot} of partition {number} is written, but slot {expected} is the next"),
            ));
        }
        if millis < partition.millis {
            let before = partition.millis;
            let what = format!("the time of partition {number} goes back from {before} to {millis}");
            return Err(Violation::new(RULE, what));
        }
        partition.millis = millis;
        partition.entries.push(bytes.to_vec());
        Ok(())
    }

    /// An operation in the entry that was staged last: does it follow from what was before?
    pub fn apply(&mut self, number: u16, operation: &Operation, answer: &OperationResult) -> Checked {
        let (slot, millis) = (self.last(number), self.millis(number));
        let Some(effect) = effect(operation.changes(), |cell| self.held(cell).at(millis)) else {
            return Err(Violation::new(
                RULE,
                format!(
                    "an operation that cannot be made is in slot {slot} of partition {number}: {operation:?}"
                ),
            ));
        };
        if (effect.applied, &effect.values[..]) != (answer.applied, answer.values.as_slice()) {
            let what = format!(
                "slot {slot} of partition {number} says {answer:?} of {operation:?}, but it comes to applied: {}, {:?}",
                effect.applied, effect.values
            );
            return Err(Violation::new(RULE, what));
        }
        for (cell, held) in effect.cells {
            self.cells.entry(cell).or_default().push(Past { slot, held });
        }
        Ok(())
    }

    /// A branch is committed in the entry that was staged last: does it follow from what was before, and is it what was promised?
    pub fn commit(&mut self, number: u16, additions: &[Addition], values: &[Value]) -> Checked {
        let (slot, millis) = (self.last(number), self.millis(number));
        let changes: Vec<(Cell, Change)> =
            additions.iter().map(|one| (one.cell.clone(), Change::Add(one.delta))).collect();
        let effect = effect(changes.iter(), |cell| self.held(cell).at(millis));
        let after: Vec<ModelValue> = values.iter().map(|value| ModelValue::of(Some(value))).collect();
        let expected: Option<Vec<ModelValue>> =
            effect.map(|effect| additions.iter().map(|one| effect.cells[&one.cell].clone()).collect());
        if expected.as_ref() != Some(&after) {
            let what = format!(
                "the branch that slot {slot} of partition {number} commits comes to {expected:?}, not to {after:?}"
            );
            return Err(Violation::new(RULE, what));
        }
        for (one, (held, value)) in additions.iter().zip(after.into_iter().zip(values)) {
            let counter = value.counter().unwrap_or_default();
            if one.min.is_some_and(|min| counter < min) || one.max.is_some_and(|max| counter > max) {
                let what = format!(
                    "{one:?} is committed in slot {slot} of partition {number}, which makes it {counter}"
                );
                return Err(Violation::new("branches", what));
            }
            self.cells.entry(one.cell.clone()).or_default().push(Past { slot, held });
        }
        Ok(())
    }

    /// Slots up to here are durable.
    pub fn settle(&mut self, number: u16, slot: u64) {
        if let Some(partition) = self.partitions.get_mut(&number) {
            partition.durable = partition.durable.max(slot);
        }
    }

    /// The process ended, and the log holds slots up to here; the last of them is of this time.
    pub fn cut(&mut self, number: u16, last: u64, millis: impl Fn(&[u8]) -> u64) -> Checked {
        let Some(partition) = self.partitions.get_mut(&number) else {
            return match last {
                0 => Ok(()),
                _ => Err(Violation::new(RULE, format!("partition {number} has a log that nobody wrote"))),
            };
        };
        let (durable, decided) = (partition.durable, partition.entries.len() as u64);
        if last < durable || last > decided {
            let what = format!(
                "after the crash the log of partition {number} ends at slot {last}; slot {durable} was durable, {decided} decided"
            );
            return Err(Violation::new(RULE, what));
        }
        partition.entries.truncate(last as usize);
        partition.durable = last;
        partition.millis = partition.entries.last().map_or(0, |entry| millis(entry));
        for (cell, pasts) in &mut self.cells {
            if cell.partition().0 == number {
                pasts.retain(|past| past.slot <= last);
            }
        }
        Ok(())
    }

    /// What a cell holds, by all that was decided, or held until it was over.
    pub fn held(&self, cell: &Cell) -> ModelValue {
        let last = self.cells.get(cell).and_then(|pasts| pasts.last());
        last.map_or(ModelValue::Nothing, |past| past.held.clone())
    }

    /// Whether a cell held this at some time from after slot `from` to after slot `to`, if it is now `latest` at the latest.
    pub fn has_held(&self, cell: &Cell, (from, to): (u64, u64), latest: u64, held: &ModelValue) -> bool {
        let Some(pasts) = self.cells.get(cell) else { return *held == ModelValue::Nothing };
        let is_it = |past: &ModelValue| {
            past == held || *held == ModelValue::Nothing && past.clone().at(latest) == *held
        };
        let begin = pasts.iter().rposition(|past| past.slot <= from);
        let at_begin = begin.map_or(&ModelValue::Nothing, |at| &pasts[at].held);
        let after = &pasts[begin.map_or(0, |at| at + 1)..];
        is_it(at_begin) || after.iter().any(|past| past.slot <= to && is_it(&past.held))
    }
}
