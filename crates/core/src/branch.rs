//! Branches of transactions: additions to counters that are prepared, and later committed or aborted as a
//! whole.
//!
//! A branch has a name, and each partition prepares its own part. One partition, the *home*, follows from the
//! name alone: it prepares a part of every branch, with or without additions of its own, and records which
//! other partitions have a part. So the name is enough to find all parts, and the abort of a branch that was
//! never prepared is recorded in one place.

use crate::address::{Cell, PartitionId};
use crate::codec::{DecodeError, Reader, Write};
use crate::generation::Generation;
use crate::limits::{ADDITIONS_MAX, BRANCH_NAME_BYTES_MAX, OPERATION_BYTES_MAX, PARTITIONS};
use crate::value::Value;

/// Name of a branch: 1 to [`BRANCH_NAME_BYTES_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchName(Box<[u8]>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    pub cell: Cell,
    pub delta: i64,
    /// Minimum of the counter after the addition.
    pub min: Option<i64>,
    /// Maximum of the counter after the addition.
    pub max: Option<i64>,
}

/// The part of a branch in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    name: BranchName,
    /// Sorted by cell, each cell once.
    additions: Vec<Addition>,
    /// In the home: the other partitions with a part, sorted.
    elsewhere: Vec<PartitionId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BranchOutcome {
    Commit,
    Abort,
}

/// A step of a branch in a partition's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchLogItem {
    Prepared(Branch),
    Finished {
        name: BranchName,
        outcome: BranchOutcome,
        /// The counters afterwards, in the order of the additions; empty after an abort.
        values: Vec<Value>,
        /// The outcome is recorded in this generation.
        generation: Generation,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BranchError {
    #[error("the name of a branch has 1 to {BRANCH_NAME_BYTES_MAX} bytes, not {0}")]
    Name(usize),
    #[error("a branch needs at least one addition")]
    Empty,
    #[error("a branch has at most {ADDITIONS_MAX} additions")]
    TooMany,
    #[error("the additions of a branch have at most {OPERATION_BYTES_MAX} bytes, not {0}")]
    TooLarge(usize),
    #[error("the additions to one counter leave the range of 64-bit integers")]
    Overflow,
    #[error("the bounds exclude every value: min {min} is above max {max}")]
    BoundsCrossed { min: i64, max: i64 },
    #[error("the additions of a part are in one partition")]
    SeveralPartitions,
}

impl BranchName {
    /// A name of 1 to [`BRANCH_NAME_BYTES_MAX`] bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, BranchError> {
        match bytes.len() {
            1..=BRANCH_NAME_BYTES_MAX => Ok(Self(bytes.into())),
            len => Err(BranchError::Name(len)),
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Display for BranchName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.escape_ascii().fmt(out)
    }
}

impl Branch {
    /// The part of a branch in a partition. Several additions to one counter are merged, and all their bounds
    /// apply after the merged addition. `elsewhere` are the other partitions with a part; only the home needs
    /// them.
    pub fn new(
        name: BranchName,
        mut additions: Vec<Addition>,
        mut elsewhere: Vec<PartitionId>,
    ) -> Result<Self, BranchError> {
        if additions.is_empty() && elsewhere.is_empty() {
            return Err(BranchError::Empty);
        }
        if additions.len() > ADDITIONS_MAX {
            return Err(BranchError::TooMany);
        }
        additions.sort_by(|one, other| one.cell.cmp(&other.cell));
        let mut merged: Vec<Addition> = Vec::with_capacity(additions.len());
        for one in additions {
            match merged.last_mut().filter(|last| last.cell == one.cell) {
                Some(last) => last.and(&one)?,
                None => merged.push(one),
            }
        }
        for Addition { min, max, cell, .. } in &merged {
            if let (Some(min), Some(max)) = (*min, *max)
                && min > max
            {
                return Err(BranchError::BoundsCrossed { min, max });
            }
            if cell.partition() != merged[0].cell.partition() {
                return Err(BranchError::SeveralPartitions);
            }
        }
        elsewhere.sort_unstable();
        elsewhere.dedup();
        if merged.first().is_some_and(|first| elsewhere.contains(&first.cell.partition())) {
            return Err(BranchError::SeveralPartitions);
        }
        let branch = Self { name, additions: merged, elsewhere };
        match branch.size_max() {
            size if size > OPERATION_BYTES_MAX => Err(BranchError::TooLarge(size)),
            _ => Ok(branch),
        }
    }

    pub fn name(&self) -> &BranchName {
        &self.name
    }

    /// The additions, sorted by cell.
    pub fn additions(&self) -> &[Addition] {
        &self.additions
    }

    /// The other partitions with a part; empty unless this is the home.
    pub fn elsewhere(&self) -> &[PartitionId] {
        &self.elsewhere
    }

    /// Upper bound of the encoded size.
    pub fn size_max(&self) -> usize {
        const NUMBERS: usize = 64;
        let additions: usize = self.additions.iter().map(|one| one.cell.as_bytes().len() + NUMBERS).sum();
        NUMBERS + self.name.0.len() + additions + 3 * self.elsewhere.len()
    }

    /// Upper bound of the log entry that ends the branch with this name.
    pub fn finished_size_max(name: &BranchName) -> usize {
        const VALUE: usize = 24;
        64 + name.0.len() + VALUE * ADDITIONS_MAX
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_bytes(&self.name.0);
        out.put_varint(self.elsewhere.len() as u64);
        for partition in &self.elsewhere {
            out.put_varint(u64::from(partition.0));
        }
        out.put_varint(self.additions.len() as u64);
        for Addition { cell, delta, min, max } in &self.additions {
            cell.encode(out);
            out.put_u8(u8::from(min.is_some()) | u8::from(max.is_some()) << 1);
            for number in [Some(delta), min.as_ref(), max.as_ref()].into_iter().flatten() {
                out.put_signed(*number);
            }
        }
    }

    pub fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let name = read_name(input)?;
        let elsewhere: Vec<PartitionId> = (0..input.count()?)
            .map(|_| match u16::try_from(input.varint()?) {
                Ok(number) if number < PARTITIONS => Ok(PartitionId(number)),
                _ => Err(DecodeError("an unknown partition")),
            })
            .collect::<Result<_, _>>()?;
        let count = input.count()?;
        let mut additions = Vec::with_capacity(count.min(ADDITIONS_MAX));
        for _ in 0..count {
            let (cell, bounds) = (Cell::decode(input)?, input.u8()?);
            if bounds > 3 {
                return Err(DecodeError("bounds of an unknown kind"));
            }
            let delta = input.signed()?;
            let min = if bounds & 1 != 0 { Some(input.signed()?) } else { None };
            let max = if bounds & 2 != 0 { Some(input.signed()?) } else { None };
            additions.push(Addition { cell, delta, min, max });
        }
        // Canonical order only, so that decoding and encoding again gives the same bytes.
        let cells = additions.iter().map(|one| &one.cell);
        if !cells.clone().zip(cells.skip(1)).all(|(one, next)| one < next)
            || !elsewhere.is_sorted_by(|a, b| a < b)
        {
            return Err(DecodeError("a branch out of order"));
        }
        Self::new(name, additions, elsewhere).map_err(|_| DecodeError("a branch beyond its limits"))
    }
}

impl Addition {
    fn and(&mut self, other: &Self) -> Result<(), BranchError> {
        self.delta = self.delta.checked_add(other.delta).ok_or(BranchError::Overflow)?;
        self.min = self.min.into_iter().chain(other.min).max();
        self.max = self.max.into_iter().chain(other.max).min();
        Ok(())
    }
}

fn read_name(input: &mut Reader<'_>) -> Result<BranchName, DecodeError> {
    BranchName::new(input.bytes()?).map_err(|_| DecodeError("an invalid name of a branch"))
}

const PREPARED: u8 = 0;
const COMMITTED: u8 = 1;
const ABORTED: u8 = 2;

impl BranchLogItem {
    pub fn name(&self) -> &BranchName {
        match self {
            Self::Prepared(branch) => &branch.name,
            Self::Finished { name, .. } => name,
        }
    }

    /// Kind of the step, in two bits.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Self::Prepared(_) => PREPARED,
            Self::Finished { outcome: BranchOutcome::Commit, .. } => COMMITTED,
            Self::Finished { outcome: BranchOutcome::Abort, .. } => ABORTED,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Prepared(branch) => branch.encode(out),
            Self::Finished { name, values, generation, .. } => {
                out.put_bytes(&name.0);
                out.put_varint(generation.0);
                out.put_varint(values.len() as u64);
                values.iter().for_each(|value| value.encode(out));
            }
        }
    }

    pub(crate) fn decode(kind: u8, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let outcome = match kind {
            PREPARED => return Ok(Self::Prepared(Branch::decode(input)?)),
            COMMITTED => BranchOutcome::Commit,
            ABORTED => BranchOutcome::Abort,
            _ => return Err(DecodeError("an unknown step of a branch")),
        };
        let (name, generation) = (read_name(input)?, Generation(input.varint()?));
        let count = input.count()?;
        if count > ADDITIONS_MAX || outcome == BranchOutcome::Abort && count > 0 {
            return Err(DecodeError("more values than the branch has additions"));
        }
        let values = (0..count).map(|_| Value::decode(input)).collect::<Result<_, _>>()?;
        Ok(Self::Finished { name, outcome, values, generation })
    }
}
