//! The history: every entry of every partition's log in order, trimmed or not.
//!
//! Invariants: a slot is written once, and durable entries stay. The result in an entry is the result that
//! the model computes. Entries are added when they are appended, marked when they are durable, and removed
//! when a crash lost them.

use std::collections::BTreeMap;

use jeton_core::{Addition, Cell, Change, Operation, OperationResult, Value};

use super::value::{ModelValue, effect};
use crate::violation::{Checked, violated};

const RULE: &str = "history";

#[derive(Debug, Default)]
pub struct Partition {
    pub entries: Vec<Vec<u8>>,
    pub durable: u64,
    /// The time of the last entry, in milliseconds.
    pub millis: u64,
}

/// A value of a cell.
#[derive(Debug, Clone)]
struct Past {
    slot: u64,
    held: ModelValue,
}

#[derive(Debug, Default)]
pub struct History {
    partitions: BTreeMap<u16, Partition>,
    cells: BTreeMap<Cell, Vec<Past>>,
}

impl History {
    pub fn partition(&self, number: u16) -> Option<&Partition> {
        self.partitions.get(&number)
    }

    pub fn partitions(&self) -> impl Iterator<Item = (u16, &Partition)> {
        self.partitions.iter().map(|(number, partition)| (*number, partition))
    }

    pub fn last(&self, number: u16) -> u64 {
        self.partition(number).map_or(0, |partition| partition.entries.len() as u64)
    }

    pub fn durable(&self, number: u16) -> u64 {
        self.partition(number).map_or(0, |partition| partition.durable)
    }

    /// The time of a partition's last entry, in milliseconds.
    pub fn millis(&self, number: u16) -> u64 {
        self.partition(number).map_or(0, |partition| partition.millis)
    }

    pub fn stage(&mut self, number: u16, slot: u64, bytes: &[u8], millis: u64) -> Checked {
        let partition = self.partitions.entry(number).or_default();
        let expected = partition.entries.len() as u64 + 1;
        if slot != expected {
            return violated!(
                RULE,
                "slot {slot} of partition {number} is appended, but the next slot is {expected}"
            );
        }
        if millis < partition.millis {
            let before = partition.millis;
            return violated!(RULE, "the time of partition {number} goes back from {before} to {millis}");
        }
        partition.millis = millis;
        partition.entries.push(bytes.to_vec());
        Ok(())
    }

    /// Checks an operation in the last entry against the state before it, and applies it.
    pub fn apply(&mut self, number: u16, operation: &Operation, answer: &OperationResult) -> Checked {
        let (slot, millis) = (self.last(number), self.millis(number));
        let Some(effect) = effect(operation.changes(), |cell| self.held(cell).at(millis)) else {
            return violated!(
                RULE,
                "slot {slot} of partition {number} has an operation that must be rejected: {operation:?}"
            );
        };
        if (effect.applied, &effect.values[..]) != (answer.applied, answer.values.as_slice()) {
            return violated!(
                RULE,
                "slot {slot} of partition {number} has {answer:?} for {operation:?}, expected applied: {}, {:?}",
                effect.applied,
                effect.values
            );
        }
        for (cell, held) in effect.cells {
            self.cells.entry(cell).or_default().push(Past { slot, held });
        }
        Ok(())
    }

    /// Checks a commit in the last entry against the state before it and the bounds of its additions, and
    /// applies it.
    pub fn commit(&mut self, number: u16, additions: &[Addition], values: &[Value]) -> Checked {
        let (slot, millis) = (self.last(number), self.millis(number));
        let changes: Vec<(Cell, Change)> =
            additions.iter().map(|one| (one.cell.clone(), Change::Add(one.delta))).collect();
        let effect = effect(changes.iter(), |cell| self.held(cell).at(millis));
        let after: Vec<ModelValue> = values.iter().map(|value| ModelValue::of(Some(value))).collect();
        let expected: Option<Vec<ModelValue>> =
            effect.map(|effect| additions.iter().map(|one| effect.cells[&one.cell].clone()).collect());
        if expected.as_ref() != Some(&after) {
            return violated!(
                RULE,
                "the commit in slot {slot} of partition {number} has {after:?}, expected {expected:?}"
            );
        }
        for (one, (held, value)) in additions.iter().zip(after.into_iter().zip(values)) {
            let counter = value.counter().unwrap_or_default();
            if one.min.is_some_and(|min| counter < min) || one.max.is_some_and(|max| counter > max) {
                return violated!(
                    "branches",
                    "the commit in slot {slot} of partition {number} violates {one:?}: {counter}"
                );
            }
            self.cells.entry(one.cell.clone()).or_default().push(Past { slot, held });
        }
        Ok(())
    }

    pub fn settle(&mut self, number: u16, slot: u64) {
        if let Some(partition) = self.partitions.get_mut(&number) {
            partition.durable = partition.durable.max(slot);
        }
    }

    /// The process ended, and the log ends at slot `last`. `millis` returns the time of an entry.
    pub fn cut(&mut self, number: u16, last: u64, millis: impl Fn(&[u8]) -> u64) -> Checked {
        let Some(partition) = self.partitions.get_mut(&number) else {
            return match last {
                0 => Ok(()),
                _ => violated!(RULE, "partition {number} has an unexpected log"),
            };
        };
        let (durable, decided) = (partition.durable, partition.entries.len() as u64);
        if last < durable || last > decided {
            return violated!(
                RULE,
                "after the crash the log of partition {number} ends at slot {last}; slot {durable} was durable, {decided} decided"
            );
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

    /// The value of a cell after the last entry, expired or not.
    pub fn held(&self, cell: &Cell) -> ModelValue {
        let last = self.cells.get(cell).and_then(|pasts| pasts.last());
        last.map_or(ModelValue::Nothing, |past| past.held.clone())
    }

    /// Whether a cell had this value after a slot in `from..=to`, at the time `latest` or earlier.
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
