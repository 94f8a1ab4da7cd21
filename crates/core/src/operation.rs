//! Operations: changes of cells, all or none, under one id.

use crate::address::{Cell, PartitionId, TableId};
use crate::codec::{DecodeError, Reader, Write};
use crate::id::{IdError, OpId};
use crate::limits::{CELL_BYTES_MAX, CHANGES_MAX, OPERATION_BYTES_MAX};
use crate::value::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Adds to a counter. Leaving the range of i64 is an error.
    Add(i64),
    /// Adds to a counter if the sum is neither below `min` nor above `max`; otherwise the operation is
    /// refused permanently.
    AddWithin {
        delta: i64,
        /// Minimum of the sum.
        min: Option<i64>,
        /// Maximum of the sum.
        max: Option<i64>,
    },
    /// Sets the cell to a counter with this value.
    Set(i64),
    /// Sets the cell to a counter at zero.
    Reset,
    /// Empties the cell.
    Delete,
    /// Sets the cell to these bytes.
    Put(Box<[u8]>),
    /// Changes nothing. Refuses the operation permanently unless the cell meets the condition.
    Check(Check),
    /// Sets when the cell expires, in milliseconds since 1970, or never. An empty cell refuses the operation.
    Expire(Option<u64>),
    /// Appends these bytes to the cell; a counter counts as its digits. The result is the length in bytes.
    Append(Box<[u8]>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    Absent,
    Present,
    /// Holds exactly this value, expiry included.
    Holds(Value),
    /// Not empty, and expiring at `min..=max`, in milliseconds since 1970. A value without an expiry time
    /// counts as expiring at `u64::MAX`.
    ExpiresWithin {
        min: u64,
        max: u64,
    },
}

/// Changes of cells of one table and one [routing key](Cell::routing_key), all or none, under one id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    id: Option<OpId>,
    // At least one change; most operations have one, and then `rest` does not allocate.
    first: (Cell, Change),
    rest: Vec<(Cell, Change)>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    #[error("an operation needs at least one change")]
    Empty,
    #[error("an operation has at most {CHANGES_MAX} changes, not {0}")]
    TooManyChanges(usize),
    #[error("the changes of one operation are in one table")]
    SeveralTables,
    #[error(
        "the rows of one operation must have the same hash tag, as {{user7}}spent and {{user7}}left have: use one row, give \
         the rows the same text in braces, or use a transaction"
    )]
    SeveralRoutingKeys,
    #[error(transparent)]
    Id(#[from] IdError),
    #[error("a cell has at most {CELL_BYTES_MAX} bytes, not {0}")]
    CellTooLarge(usize),
    #[error("an operation has at most {OPERATION_BYTES_MAX} bytes, not {0}")]
    TooLarge(usize),
    #[error("the bounds exclude every value: min {min} is above max {max}")]
    BoundsCrossed { min: i64, max: i64 },
}

impl Operation {
    pub fn single(id: Option<OpId>, cell: Cell, change: Change) -> Result<Self, OperationError> {
        let operation = Self { id, first: (cell, change), rest: Vec::new() };
        operation.check()?;
        Ok(operation)
    }

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
        let routing_key = if self.rest.is_empty() { &[][..] } else { self.first.0.routing_key() };
        for (cell, change) in &self.rest {
            if cell.table() != self.table() {
                return Err(OperationError::SeveralTables);
            }
            if cell.routing_key() != routing_key {
                return Err(OperationError::SeveralRoutingKeys);
            }
            change.check()?;
        }
        match self.size_max() {
            size if size > OPERATION_BYTES_MAX => Err(OperationError::TooLarge(size)),
            _ => Ok(()),
        }
    }

    pub fn id(&self) -> Option<&OpId> {
        self.id.as_ref()
    }

    pub fn table(&self) -> TableId {
        self.first.0.table()
    }

    pub fn partition(&self) -> PartitionId {
        self.first.0.partition()
    }

    pub fn changes(&self) -> impl Iterator<Item = &(Cell, Change)> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    pub fn first_cell(&self) -> &Cell {
        &self.first.0
    }

    /// Number of changes, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "an operation is never empty")]
    pub fn len(&self) -> usize {
        1 + self.rest.len()
    }

    /// Upper bound of the encoded operation with its result.
    pub fn size_max(&self) -> usize {
        /// Upper bound for the numbers of a change, its result and its effect.
        const NUMBERS: usize = 80;
        let content = |change: &Change| match change {
            Change::Put(bytes) | Change::Append(bytes) => bytes.len(),
            Change::Check(Check::Holds(value)) => value.size(),
            _ => 0,
        };
        let size = |(cell, change): &(Cell, Change)| cell.as_bytes().len() + content(change) + NUMBERS;
        let changes: usize = self.changes().map(size).sum();
        let id = match &self.id {
            None => 0,
            Some(OpId::Uuid7(_) | OpId::Ulid(_)) => size_of::<u128>(),
            Some(OpId::Sequenced { client, .. }) => client.len() + NUMBERS,
            Some(OpId::Event { source, id, .. }) => source.len() + id.len() + NUMBERS,
            Some(OpId::Opaque(bytes)) => bytes.len() + NUMBERS,
        };
        changes + id + NUMBERS
    }

    /// Whether a change [depends on](Change::keeps) the old content of its cell.
    pub(crate) fn keeps(&self) -> bool {
        self.changes().any(|(_, change)| change.keeps())
    }

    pub fn encode_changes(&self, out: &mut Vec<u8>) {
        out.put_varint(self.len() as u64);
        for (cell, change) in self.changes() {
            cell.encode(out);
            change.encode(out);
        }
    }

    pub fn decode(id: Option<OpId>, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
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

    /// Whether the new content depends on the old one beyond the result, and may be large. Log entries leave
    /// it out: see [`complete`](crate::complete).
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
