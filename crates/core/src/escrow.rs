//! Prepared branches of a partition, and the escrow that guarantees that they can commit.
//!
//! Invariant, for every counter with prepared additions: whichever of them commit, in any order, the counter
//! stays a counter in the range of 64 bits, and within the bounds of each addition at its commit. Any other
//! write must leave a counter, or an empty cell, from which this follows; the *escrow* checks it. A value
//! with an expiry time may become empty at any time, so an empty cell must satisfy the escrow too.
//!
//! Two sums are enough. A branch with delta d and minimum m that commits after any of the others finds the
//! counter at `value + down - min(d, 0)` or above, where `down` is the sum of all negative prepared deltas.
//! Its bound holds if `value + down` is at least `m - max(d, 0)`, its *floor*; and no commit or abort of
//! another branch lowers `value + down`. The same holds upwards.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::address::{Cell, PartitionId};
use crate::branch::{Addition, Branch, BranchName};
use crate::codec::{DecodeError, Reader, Write};
use crate::limits::{PREPARED_BYTES_MAX, PREPARED_MAX};
use crate::value::Value;

#[derive(Debug, Clone, PartialEq)]
pub struct PreparedBranches {
    branches: BTreeMap<BranchName, PreparedBranch>,
    escrows: HashMap<Cell, Escrow>,
    bytes: usize,
    bytes_max: usize,
    /// Branches whose stored row is out of date.
    changed: BTreeSet<BranchName>,
    /// Number of rows that are not restored yet.
    missing: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedBranch {
    pub branch: Branch,
    /// Time of the prepare on the partition's clock, in milliseconds since 1970.
    pub since: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Escrow {
    additions: usize,
    down: i128,
    up: i128,
    /// Number of additions with each floor, and with each ceiling.
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
        self.additions += 1;
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
        self.additions -= 1;
        self.down -= i128::from(one.delta.min(0));
        self.up -= i128::from(one.delta.max(0));
        one.floor().into_iter().for_each(|floor| less(&mut self.floors, floor));
        one.ceiling().into_iter().for_each(|ceiling| less(&mut self.ceilings, ceiling));
    }

    fn allows_number(&self, number: i64) -> bool {
        let range = i128::from(i64::MIN)..=i128::from(i64::MAX);
        let (low, high) = (i128::from(number) + self.down, i128::from(number) + self.up);
        range.contains(&low)
            && range.contains(&high)
            && self.floors.last_key_value().is_none_or(|(floor, _)| low >= *floor)
            && self.ceilings.first_key_value().is_none_or(|(ceiling, _)| high <= *ceiling)
    }

    /// Whether the cell may hold this value.
    pub(crate) fn allows(&self, value: Option<&Value>) -> bool {
        let Some(number) = value.map_or(Some(0), Value::counter) else { return false };
        let may_expire = value.is_some_and(|value| value.until().is_some());
        self.allows_number(number) && (!may_expire || self.allows_number(0)) || mutated!(NoEscrow)
    }
}

impl Default for PreparedBranches {
    fn default() -> Self {
        Self {
            branches: BTreeMap::new(),
            escrows: HashMap::new(),
            bytes: 0,
            bytes_max: PREPARED_BYTES_MAX,
            changed: BTreeSet::new(),
            missing: 0,
        }
    }
}

impl PreparedBranches {
    pub fn len(&self) -> usize {
        self.branches.len()
    }

    pub fn is_empty(&self) -> bool {
        self.branches.is_empty()
    }

    /// All prepared branches, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &PreparedBranch> {
        self.branches.values()
    }

    pub fn get(&self, name: &BranchName) -> Option<&PreparedBranch> {
        self.branches.get(name)
    }

    pub(crate) fn escrow(&self, cell: &Cell) -> Option<&Escrow> {
        self.escrows.get(cell)
    }

    /// Limits the bytes of all prepared branches. A single branch may have more.
    pub fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Whether the limits allow one more branch.
    pub(crate) fn has_room(&self, branch: &Branch) -> bool {
        let fits = self.is_empty() || self.bytes + branch.size_max() <= self.bytes_max;
        self.branches.len() < PREPARED_MAX && fits
    }

    pub(crate) fn insert(&mut self, prepared: PreparedBranch) {
        self.bytes += prepared.branch.size_max();
        for one in prepared.branch.additions() {
            self.escrows.entry(one.cell.clone()).or_default().add(one);
        }
        self.changed.insert(prepared.branch.name().clone());
        self.branches.insert(prepared.branch.name().clone(), prepared);
    }

    pub(crate) fn release(&mut self, name: &BranchName) -> Option<PreparedBranch> {
        let prepared = self.branches.remove(name)?;
        self.bytes -= prepared.branch.size_max();
        for one in prepared.branch.additions() {
            let Some(escrow) = self.escrows.get_mut(&one.cell) else {
                unreachable!("insert added an escrow for every addition")
            };
            escrow.remove(one);
            if escrow.additions == 0 {
                self.escrows.remove(&one.cell);
            }
        }
        self.changed.insert(name.clone());
        Some(prepared)
    }

    /// The branches whose stored rows are out of date, with their new rows; `None` for a branch that has
    /// ended. They count as stored from now on.
    pub fn take_changed(&mut self) -> Vec<(BranchName, Option<Vec<u8>>)> {
        let row = |prepared: &PreparedBranch| {
            let mut row = Vec::new();
            row.put_varint(prepared.since);
            prepared.branch.encode(&mut row);
            row
        };
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|name| (name.clone(), self.branches.get(&name).map(row))).collect()
    }

    /// Restores a branch of this partition from its stored row.
    pub fn restore(&mut self, partition: PartitionId, name: &[u8], row: &[u8]) -> Result<(), DecodeError> {
        let mut input = Reader::new(row);
        let (since, branch) = (input.varint()?, Branch::decode(&mut input)?);
        input.finish()?;
        let elsewhere = branch.additions().iter().any(|one| one.cell.partition() != partition);
        if branch.name().as_bytes() != name || elsewhere {
            return Err(DecodeError("a branch of another row"));
        }
        self.missing = self.missing.checked_sub(1).ok_or(DecodeError("a branch that is not prepared"))?;
        self.insert(PreparedBranch { branch, since });
        self.changed.clear();
        Ok(())
    }

    /// An error unless all rows were restored.
    pub fn restored(&self) -> Result<(), DecodeError> {
        if self.missing == 0 { Ok(()) } else { Err(DecodeError("a branch that is prepared has no row")) }
    }

    /// The number of branches, at the end of a partition's row. Zero is left out: such a row is as it was
    /// before branches existed. An older program, which would lose the branches, rejects any other row.
    pub(crate) fn encode_count(&self, out: &mut Vec<u8>) {
        let count = self.branches.len() + self.missing;
        if count > 0 {
            out.put_varint(count as u64);
        }
    }

    pub(crate) fn decode_count(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let missing = match input.rest() {
            [] => 0,
            _ => usize::try_from(input.varint()?)
                .ok()
                .filter(|count| (1..=PREPARED_MAX).contains(count))
                .ok_or(DecodeError("more branches than a partition holds"))?,
        };
        Ok(Self { missing, ..Self::default() })
    }
}
