//! Branches that a partition holds, and what it owes them.
//!
//! What must hold, of every counter with additions that are held: whichever of them are committed and in whatever order, the counter stays a counter, in the range of
//! 64 bits, and within the bounds that each of them asked for at its own commit. So whatever else is left in the cell must be a counter, or nothing, from which all of that
//! follows: the *escrow* says whether it does. A value that has an end is one that may be nothing at any time, so nothing must do too.
//!
//! Why two sums are enough: a branch of delta d and least value m, committed after any of the others, finds the counter at least at `value + down - min(d, 0)`, where `down`
//! is the sum of all that is held below zero. So it is content if `value + down` is at least `m - max(d, 0)`, its *floor*; and neither a commit nor an abort of
//! another lowers `value + down`. The same upwards.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::address::{Cell, PartitionId};
use crate::branch::{Addition, Branch, BranchName};
use crate::codec::{DecodeError, Reader, Write};
use crate::limits::{HELD_BYTES_MAX, HELD_MAX};
use crate::value::Value;

/// The branches that a partition holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PreparedBranches {
    held: BTreeMap<BranchName, PreparedBranch>,
    escrows: HashMap<Cell, Escrow>,
    bytes: usize,
    /// Branches whose stored row is out of date.
    changed: BTreeSet<BranchName>,
    /// How many rows are still to be restored.
    missing: usize,
}

/// A branch that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedBranch {
    /// The part of it in this partition.
    pub branch: Branch,
    /// Since when, on the partition's timeline, in milliseconds since 1970.
    pub since: u64,
}

/// What is owed to the additions to one counter.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Escrow {
    holders: usize,
    down: i128,
    up: i128,
    /// How many holders want each floor, and each ceiling.
    floors: BTreeMap<i128, usize>,
    ceilings: BTreeMap<i128, usize>,
}

impl Addition {
    fn floor(&self) -> Option<i128> {
        self.min.map(|min| i128::from(min) - i128::from(self.delta.max(0)))
    }

    fn ceiling(&self) -> Option<i128> {
        self.max.map(|max| i128::from(max) - i128::from(self.delta.min(0)))
    }
}

impl Escrow {
    pub(crate) fn add(&mut self, one: &Addition) {
        self.holders += 1;
        self.down += i128::from(one.delta.min(0));
        self.up += i128::from(one.delta.max(0));
        one.floor().into_iter().for_each(|floor| *self.floors.entry(floor).or_default() += 1);
        one.ceiling().into_iter().for_each(|ceiling| *self.ceilings.entry(ceiling).or_default() += 1);
    }

    fn remove(&mut self, one: &Addition) {
        let less = |bounds: &mut BTreeMap<i128, usize>, bound: i128| {
            if let Some(count) = bounds.get_mut(&bound) {
                *count -= 1;
                if *count == 0 {
                    bounds.remove(&bound);
                }
            }
        };
        self.holders -= 1;
        self.down -= i128::from(one.delta.min(0));
        self.up -= i128::from(one.delta.max(0));
        one.floor().into_iter().for_each(|floor| less(&mut self.floors, floor));
        one.ceiling().into_iter().for_each(|ceiling| less(&mut self.ceilings, ceiling));
    }

    fn bears_number(&self, number: i64) -> bool {
        let range = i128::from(i64::MIN)..=i128::from(i64::MAX);
        let (low, high) = (i128::from(number) + self.down, i128::from(number) + self.up);
        range.contains(&low)
            && range.contains(&high)
            && self.floors.last_key_value().is_none_or(|(floor, _)| low >= *floor)
            && self.ceilings.first_key_value().is_none_or(|(ceiling, _)| high <= *ceiling)
    }

    /// Whether the cell may hold this.
    pub(crate) fn allows(&self, value: Option<&Value>) -> bool {
        let Some(number) = value.map_or(Some(0), Value::counter) else { return false };
        let may_be_over = value.is_some_and(|value| value.until().is_some());
        self.bears_number(number) && (!may_be_over || self.bears_number(0)) || mutated!(NoEscrow)
    }
}

impl PreparedBranches {
    /// How many are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// All that are held, by name.
    pub fn iter(&self) -> impl Iterator<Item = &PreparedBranch> {
        self.held.values()
    }

    /// The branch of this name, if it is held.
    pub fn get(&self, name: &BranchName) -> Option<&PreparedBranch> {
        self.held.get(name)
    }

    /// What is owed to the additions to this counter.
    pub(crate) fn escrow(&self, cell: &Cell) -> Option<&Escrow> {
        self.escrows.get(cell)
    }

    /// Whether there is room for one more.
    pub(crate) fn has_room(&self, branch: &Branch) -> bool {
        self.held.len() < HELD_MAX && self.bytes + branch.size_max() <= HELD_BYTES_MAX
    }

    pub(crate) fn insert(&mut self, held: PreparedBranch) {
        self.bytes += held.branch.size_max();
        for one in held.branch.additions() {
            self.escrows.entry(one.cell.clone()).or_default().add(one);
        }
        self.changed.insert(held.branch.name().clone());
        self.held.insert(held.branch.name().clone(), held);
    }

    pub(crate) fn release(&mut self, name: &BranchName) -> Option<PreparedBranch> {
        let held = self.held.remove(name)?;
        self.bytes -= held.branch.size_max();
        for one in held.branch.additions() {
            let Some(escrow) = self.escrows.get_mut(&one.cell) else {
                unreachable!("it was put there with it")
            };
            escrow.remove(one);
            if escrow.holders == 0 {
                self.escrows.remove(&one.cell);
            }
        }
        self.changed.insert(name.clone());
        Some(held)
    }

    /// The branches whose stored rows are out of date, with their new rows; no row for one that is not held any more. They count as stored from now on.
    pub fn take_changed(&mut self) -> Vec<(BranchName, Option<Vec<u8>>)> {
        let row = |held: &PreparedBranch| {
            let mut row = Vec::new();
            row.put_varint(held.since);
            held.branch.encode(&mut row);
            row
        };
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|name| (name.clone(), self.held.get(&name).map(row))).collect()
    }

    /// Takes up a branch of this partition from its stored row.
    pub fn restore(&mut self, partition: PartitionId, name: &[u8], row: &[u8]) -> Result<(), DecodeError> {
        let mut input = Reader::new(row);
        let (since, branch) = (input.varint()?, Branch::decode(&mut input)?);
        input.finish()?;
        let elsewhere = branch.additions().iter().any(|one| one.cell.partition() != partition);
        if branch.name().as_bytes() != name || elsewhere {
            return Err(DecodeError("the branch of another row"));
        }
        self.missing = self.missing.checked_sub(1).ok_or(DecodeError("a branch that is not held"))?;
        self.insert(PreparedBranch { branch, since });
        self.changed.clear();
        Ok(())
    }

    /// An error unless all rows are restored that there must be.
    pub fn restored(&self) -> Result<(), DecodeError> {
        if self.missing == 0 { Ok(()) } else { Err(DecodeError("a branch that is held has no row")) }
    }

    /// How many are held, at the end of a partition's row. Of none nothing is said: such a row is as it was before there were branches, and a program of
    /// that time, which would forget them, refuses every other.
    pub(crate) fn encode_count(&self, out: &mut Vec<u8>) {
        let count = self.held.len() + self.missing;
        if count > 0 {
            out.put_varint(count as u64);
        }
    }

    pub(crate) fn decode_count(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let missing = match input.rest() {
            [] => 0,
            _ => usize::try_from(input.varint()?)
                .ok()
                .filter(|count| (1..=HELD_MAX).contains(count))
                .ok_or(DecodeError("more branches than a partition holds"))?,
        };
        Ok(Self { missing, ..Self::default() })
    }
}
