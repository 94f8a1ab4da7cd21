//! What a client asks for: changes of cells, all or none, under one id.

use crate::address::{Cell, PartitionId, TableId};
use crate::codec::{DecodeError, Reader, Write};
use crate::id::{IdError, OpId};
use crate::limits::{CELL_BYTES_MAX, CHANGES_MAX, OPERATION_BYTES_MAX};
use crate::value::Value;

/// A change of one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Adds to a counter. Beyond the range of i64 it is an error.
    Add(i64),
    /// Adds to a counter if the sum is neither below `min` nor above `max`; otherwise the operation is refused, for good.
    AddWithin {
        /// What to add.
        delta: i64,
        /// The least sum.
        min: Option<i64>,
        /// The greatest sum.
        max: Option<i64>,
    },
    /// Makes the cell a counter with this value.
    Set(i64),
    /// Makes the cell a counter at zero.
    Reset,
    /// Empties the cell.
    Delete,
    /// Makes the cell hold these bytes.
    Put(Box<[u8]>),
    /// Changes nothing. The operation is refused, for good, unless the cell is as it says.
    Check(Check),
    /// Makes what the cell holds last until this time, in milliseconds since 1970, or for ever. A cell that holds nothing refuses the operation.
    Expire(Option<u64>),
    /// Appends these bytes to the cell; those of a counter are its digits. Its answer is the number of bytes.
    Append(Box<[u8]>),
}

/// What a cell must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// Empty.
    Absent,
    /// Not empty.
    Present,
    /// Holding just this, its end included.
    Holds(Value),
    /// Not empty, and expiring at `min..=max`, in milliseconds since 1970. A value without an expiry time counts as
    /// expiring at `u64::MAX`.
    ExpiresWithin {
        /// The earliest expiry time.
        min: u64,
        /// The latest expiry time.
        max: u64,
    },
}

/// Changes of cells of one table and one partition, all or none, under one id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    id: Option<OpId>,
    // At least one change; most operations have just one, and then `rest` takes no memory.
    first: (Cell, Change),
    rest: Vec<(Cell, Change)>,
}

/// Why changes cannot be one operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// There is nothing to change.
    #[error("an operation needs at least one change")]
    Empty,
    /// There are too many changes.
    #[error("an operation has at most {CHANGES_MAX} changes, not {0}")]
    TooManyChanges(usize),
    /// The changes concern several tables.
    #[error("the changes of one operation are in one table; an id counts once per table")]
    SeveralTables,
    /// The changes concern several partitions.
    #[error(
        "the changes of one operation must be in one partition (put them in one row to be sure): \
         changing several partitions at once takes a transaction, and this store has none yet"
    )]
    SeveralPartitions,
    /// The id cannot be.
    #[error(transparent)]
    Id(#[from] IdError),
    /// A plain cell is too large.
    #[error("a cell has at most {CELL_BYTES_MAX} bytes, not {0}")]
    CellTooLarge(usize),
    /// All changes together are too large.
    #[error("an operation has at most {OPERATION_BYTES_MAX} bytes, not {0}")]
    TooLarge(usize),
    /// Bounds that no sum can meet.
    #[error("the bounds exclude every value: min {min} is above max {max}")]
    BoundsCrossed {
        /// The least sum.
        min: i64,
        /// The greatest sum.
        max: i64,
    },
}

impl Operation {
    /// An operation of one change.
    pub fn single(id: Option<OpId>, cell: Cell, change: Change) -> Result<Self, OperationError> {
        let operation = Self { id, first: (cell, change), rest: Vec::new() };
        operation.check()?;
        Ok(operation)
    }

    /// An operation of several changes.
    pub fn batch(id: Option<OpId>, changes: Vec<(Cell, Change)>) -> Result<Self, OperationError> {
        if changes.len() > CHANGES_MAX {
            return Err(OperationError::TooManyChanges(changes.len()));
        }
        let mut changes = changes.into_iter();
        let first = changes.next().ok_or(OperationError::Empty)?;
        let operation = Self { id, first, rest: changes.collect() };
        operation.check()?;
        Ok(operation)
    }

    fn check(&self) -> Result<(), OperationError> {
        if let Some(id) = &self.id {
            id.check()?;
        }
        self.first.1.check()?;
        for (cell, change) in &self.rest {
            if cell.table() != self.table() {
                return Err(OperationError::SeveralTables);
            }
            if cell.partition() != self.partition() {
                return Err(OperationError::SeveralPartitions);
            }
            change.check()?;
        }
        match self.size_max() {
            size if size > OPERATION_BYTES_MAX => Err(OperationError::TooLarge(size)),
            _ => Ok(()),
        }
    }

    /// The id.
    pub fn id(&self) -> Option<&OpId> {
        self.id.as_ref()
    }

    /// The table.
    pub fn table(&self) -> TableId {
        self.first.0.table()
    }

    /// The partition.
    pub fn partition(&self) -> PartitionId {
        self.first.0.partition()
    }

    /// The changes, in order.
    pub fn changes(&self) -> impl Iterator<Item = &(Cell, Change)> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// The cell of the first change.
    pub fn first_cell(&self) -> &Cell {
        &self.first.0
    }

    /// How many changes.
    pub fn len(&self) -> usize {
        1 + self.rest.len()
    }

    /// Never: an operation has at least one change.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// No encoding of the operation with its answer is longer than this.
    pub fn size_max(&self) -> usize {
        /// The numbers of a change, its answer and its effect, at most.
        const NUMBERS: usize = 80;
        let changes: usize = self
            .changes()
            .map(|(cell, change)| {
                let content = match change {
                    Change::Put(bytes) | Change::Append(bytes) => bytes.len(),
                    Change::Check(Check::Holds(value)) => value.size(),
                    _ => 0,
                };
                cell.as_bytes().len() + content + NUMBERS
            })
            .sum();
        let id = match &self.id {
            None => 0,
            Some(OpId::Uuid7(_) | OpId::Ulid(_)) => size_of::<u128>(),
            Some(OpId::Sequenced { client, .. }) => client.len() + NUMBERS,
            Some(OpId::Event { source, id, .. }) => source.len() + id.len() + NUMBERS,
            Some(OpId::Opaque(bytes)) => bytes.len() + NUMBERS,
        };
        changes + id + NUMBERS
    }

    /// Whether a change [keeps](Change::keeps) some of what its cell held.
    pub(crate) fn keeps(&self) -> bool {
        self.changes().any(|(_, change)| change.keeps())
    }

    pub(crate) fn encode_changes(&self, out: &mut Vec<u8>) {
        out.put_varint(self.len() as u64);
        for (cell, change) in self.changes() {
            cell.encode(out);
            change.encode(out);
        }
    }

    pub(crate) fn decode(id: Option<OpId>, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = input.count()?;
        let mut changes = Vec::with_capacity(count.min(CHANGES_MAX));
        for _ in 0..count {
            changes.push((Cell::decode(input)?, Change::decode(input)?));
        }
        Self::batch(id, changes).map_err(|_| DecodeError("an operation beyond its limits"))
    }
}

impl Change {
    fn check(&self) -> Result<(), OperationError> {
        match self {
            Self::Put(bytes) | Self::Append(bytes) if bytes.len() > CELL_BYTES_MAX => {
                Err(OperationError::CellTooLarge(bytes.len()))
            }
            Self::AddWithin { min: Some(min), max: Some(max), .. } if min > max => {
                Err(OperationError::BoundsCrossed { min: *min, max: *max })
            }
            _ => Ok(()),
        }
    }

    /// Whether it keeps some of what the cell held, so that what the cell holds afterwards is in neither change nor answer, and may be
    /// large. Entries do not hold it: see [`complete`](crate::complete).
    pub(crate) fn keeps(&self) -> bool {
        matches!(self, Self::Expire(_) | Self::Append(_))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Add(delta) => {
                out.put_u8(1);
                out.put_signed(*delta);
            }
            Self::AddWithin { delta, min, max } => {
                out.put_u8(2 + u8::from(min.is_some()) + 2 * u8::from(max.is_some()));
                out.put_signed(*delta);
                for bound in [min, max].into_iter().flatten() {
                    out.put_signed(*bound);
                }
            }
            Self::Set(value) => {
                out.put_u8(6);
                out.put_signed(*value);
            }
            Self::Reset => out.put_u8(7),
            Self::Delete => out.put_u8(8),
            Self::Put(bytes) => {
                out.put_u8(9);
                out.put_bytes(bytes);
            }
            Self::Check(Check::Absent) => out.put_u8(10),
            Self::Check(Check::Present) => out.put_u8(11),
            Self::Check(Check::Holds(value)) => {
                out.put_u8(12);
                value.encode(out);
            }
            Self::Check(Check::ExpiresWithin { min, max }) => {
                out.put_u8(16);
                out.put_varint(*min);
                out.put_varint(*max);
            }
            Self::Expire(None) => out.put_u8(13),
            Self::Expire(Some(until)) => {
                out.put_u8(14);
                out.put_varint(*until);
            }
            Self::Append(bytes) => {
                out.put_u8(15);
                out.put_bytes(bytes);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match input.u8()? {
            1 => Self::Add(input.signed()?),
            kind @ 2..=5 => {
                let delta = input.signed()?;
                let min = if (kind - 2) & 1 != 0 { Some(input.signed()?) } else { None };
                let max = if (kind - 2) & 2 != 0 { Some(input.signed()?) } else { None };
                Self::AddWithin { delta, min, max }
            }
            6 => Self::Set(input.signed()?),
            7 => Self::Reset,
            8 => Self::Delete,
            9 => Self::Put(input.bytes()?.into()),
            10 => Self::Check(Check::Absent),
            11 => Self::Check(Check::Present),
            12 => Self::Check(Check::Holds(Value::decode(input)?)),
            13 => Self::Expire(None),
            14 => Self::Expire(Some(input.varint()?)),
            15 => Self::Append(input.bytes()?.into()),
            16 => Self::Check(Check::ExpiresWithin { min: input.varint()?, max: input.varint()? }),
            _ => return Err(DecodeError("an unknown kind of change")),
        })
    }
}
