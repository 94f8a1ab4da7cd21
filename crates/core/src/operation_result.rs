//! The result of an operation, recorded under its id; and rejections, which are not recorded.

use std::time::Duration;

use forgetful_filter::Timestamp;

use crate::codec::{DecodeError, Reader, Write};
use crate::error_code::ErrorCode;
use crate::hash::PayloadHash;
use crate::id::{Format, Formats};

/// The first result of an operation. Every retry gets it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationResult {
    /// Whether the changes were made. False if a bound or check refused them: permanently, under this id.
    pub applied: bool,
    /// Slot of the partition's log that holds the operation.
    pub slot: u64,
    /// Time of the decision on the partition's clock, in milliseconds since 1970.
    pub millis: u64,
    /// The counters after the operation, one for each change; `None` for cells that are empty or hold bytes.
    /// After an append, the length in bytes.
    pub values: Values,
}

/// One value per change, without an allocation for a single change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    One(Option<i64>),
    Many(Box<[Option<i64>]>),
}

impl Values {
    pub fn as_slice(&self) -> &[Option<i64>] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }

    pub fn from_vec(values: Vec<Option<i64>>) -> Self {
        match values[..] {
            [only] => Self::One(only),
            _ => Self::Many(values.into()),
        }
    }
}

impl OperationResult {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let values = self.values.as_slice();
        out.put_varint((values.len() as u64) << 1 | u64::from(self.applied));
        for value in values {
            match value {
                Some(value) => {
                    out.put_u8(1);
                    out.put_signed(*value);
                }
                None => out.put_u8(0),
            }
        }
    }

    pub fn decode(slot: u64, millis: u64, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let head = input.varint()?;
        let count = input.check_count(head >> 1)?;
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(if input.flag()? { Some(input.signed()?) } else { None });
        }
        Ok(Self { applied: head & 1 != 0, slot, millis, values: Values::from_vec(values) })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DedupRecord {
    pub payload: PayloadHash,
    pub answer: OperationResult,
}

impl DedupRecord {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.payload.0);
        out.put_varint(self.answer.slot);
        out.put_varint(self.answer.millis);
        self.answer.encode(out);
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        let payload = PayloadHash(input.u64()?);
        let (slot, millis) = (input.varint()?, input.varint()?);
        let answer = OperationResult::decode(slot, millis, &mut input)?;
        input.finish()?;
        Ok(Self { payload, answer })
    }
}

/// Why an operation was rejected. Nothing changed and nothing was recorded: the id can be used again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    #[error("the table requires an id on every write")]
    IdRequired,
    #[error("the table does not accept ids of format {found}; it accepts {taken}")]
    FormatNotTaken { found: Format, taken: Formats },
    #[error("the id was used for another operation: an id names one operation")]
    Mismatch,
    /// The id is older than the table's window. It may have been applied before; it is not applied now.
    #[error(
        "the id is older than the window of {window:?}: whether it was counted is no longer known, and it is not counted now"
    )]
    Expired { window: Duration, now: Timestamp },
    #[error(
        "the sequence number is below {low_water}, the lowest that can still be counted; it is not counted now"
    )]
    Superseded {
        /// The lowest sequence number that can still be counted.
        low_water: u64,
    },
    #[error("the id is dated {ahead:?} ahead, more than the allowed {skew:?}")]
    FromFuture {
        /// How far ahead it is dated.
        ahead: Duration,
        /// The table's limit.
        skew: Duration,
        now: Timestamp,
    },
    #[error("the client has begun epoch {epoch}, which fences all lower epochs")]
    Fenced { epoch: u64 },
    /// The epoch is too large. If it were accepted, no client could begin a session above it later.
    #[error(
        "the epoch is above {latest}, the largest possible now: an epoch is the incarnation of the client, or its start \
         time in milliseconds since 1970"
    )]
    EpochAhead {
        /// The largest epoch that can begin now: the partition's time in milliseconds plus the table's skew.
        latest: u64,
    },
    /// The client's session has expired, or the epoch of an unknown client is not above those of expired
    /// sessions.
    #[error(
        "the session is unknown or has expired, so it is unknown whether the operation was counted; \
         begin a session with an epoch above {floor}, such as the current time in milliseconds since 1970"
    )]
    UnknownSession {
        /// The epoch must be above this.
        floor: u64,
    },
    #[error("a cell has at most {} bytes", crate::limits::CELL_BYTES_MAX)]
    CellTooLarge,
    #[error("the counter would leave the range of 64-bit integers")]
    Overflow,
    #[error("the cell holds bytes, not a counter")]
    NotACounter,
    /// Escrow of prepared transactions reserves the value. They finish soon; retry then.
    #[error("prepared transactions reserve the value of this counter; retry with the same id")]
    Reserved,
    #[error("the counter is at {value}, and the addition would leave its bounds")]
    Bound { value: i64 },
    #[error("no memory is left to record more {what}; retry with the same id")]
    Capacity {
        /// The resource that is exhausted.
        what: &'static str,
    },
}

impl Rejection {
    /// The row of the table of errors.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::IdRequired => ErrorCode::IdRequired,
            Self::FormatNotTaken { .. } => ErrorCode::IdInvalid,
            Self::Mismatch => ErrorCode::IdMismatch,
            Self::Expired { .. } | Self::Superseded { .. } => ErrorCode::IdExpired,
            Self::FromFuture { .. } => ErrorCode::IdFromFuture,
            Self::Fenced { .. } => ErrorCode::Fenced,
            Self::EpochAhead { .. } => ErrorCode::EpochAhead,
            Self::UnknownSession { .. } => ErrorCode::UnknownSession,
            Self::CellTooLarge => ErrorCode::CellTooLarge,
            Self::Overflow => ErrorCode::Overflow,
            Self::NotACounter => ErrorCode::NotACounter,
            Self::Reserved => ErrorCode::Prepared,
            Self::Bound { .. } => ErrorCode::BeyondBound,
            Self::Capacity { .. } => ErrorCode::Busy,
        }
    }
}
