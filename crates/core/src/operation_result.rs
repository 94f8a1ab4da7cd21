//! What became of an operation: the answer that is remembered under its id, and the refusals that are not.

use std::time::Duration;

use forgetful_filter::Timestamp;

use crate::codec::{DecodeError, Reader, Write};
use crate::error_code::ErrorCode;
use crate::hash::PayloadHash;
use crate::id::{Format, Formats};

/// The first answer to an operation, given again to every retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationResult {
    /// Whether the changes were made. False if a bound refused them: then they never will be, under this id.
    pub applied: bool,
    /// The slot of the partition's log that holds the operation.
    pub slot: u64,
    /// When it was decided, on the partition's timeline, in milliseconds since 1970.
    pub millis: u64,
    /// The counters after the operation, one for each change; nothing for cells that are empty or hold bytes. After an append, the number of
    /// bytes.
    pub values: Values,
}

/// One value per change, without an allocation where there is one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    /// Of the only change.
    One(Option<i64>),
    /// Of several changes, in order.
    Many(Box<[Option<i64>]>),
}

impl Values {
    /// The values in order.
    pub fn as_slice(&self) -> &[Option<i64>] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }

    /// The values of several changes.
    pub fn from_vec(values: Vec<Option<i64>>) -> Self {
        match values[..] {
            [only] => Self::One(only),
            _ => Self::Many(values.into()),
        }
    }
}

impl OperationResult {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
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

    pub(crate) fn decode(slot: u64, millis: u64, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let head = input.varint()?;
        let count = usize::try_from(head >> 1).map_err(|_| DecodeError("a count beyond memory"))?;
        if count > input.rest().len() {
            return Err(DecodeError("a count beyond the bytes there are"));
        }
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(match input.u8()? {
                0 => None,
                1 => Some(input.signed()?),
                _ => return Err(DecodeError("an unknown kind of value")),
            });
        }
        Ok(Self { applied: head & 1 != 0, slot, millis, values: Values::from_vec(values) })
    }
}

/// What is kept of an operation under its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DedupRecord {
    /// What it asked for.
    pub payload: PayloadHash,
    /// What it was told.
    pub answer: OperationResult,
}

impl DedupRecord {
    /// Appends it as bytes, for a store.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.payload.0);
        out.put_varint(self.answer.slot);
        out.put_varint(self.answer.millis);
        self.answer.encode(out);
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        let payload = PayloadHash(input.u64()?);
        let (slot, millis) = (input.varint()?, input.varint()?);
        let answer = OperationResult::decode(slot, millis, &mut input)?;
        input.finish()?;
        Ok(Self { payload, answer })
    }
}

/// Why an operation was not taken. Nothing changed, and nothing is remembered: the same id may come again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The table wants an id on every write.
    #[error("the table wants an id on every write")]
    IdRequired,
    /// The table does not take ids of this format.
    #[error("an id of format {found} is not taken here; the table takes {taken}")]
    FormatNotTaken {
        /// The id's format.
        found: Format,
        /// What the table takes.
        taken: Formats,
    },
    /// The id was used for another operation.
    #[error("the id was used for another operation: an id stands for one operation only")]
    Mismatch,
    /// The id is older than the table remembers. It may have been counted, or not; it will not be counted now.
    #[error(
        "the id is older than the window of {window:?}: whether it was counted is no longer known, and it is not counted now"
    )]
    Expired {
        /// The table's window.
        window: Duration,
        /// The partition's time.
        now: Timestamp,
    },
    /// The sequence number is below what is remembered of its client.
    #[error(
        "the sequence number is below {low_water}, the lowest still remembered of this client; it is not counted now"
    )]
    Superseded {
        /// The lowest sequence number that can still be answered.
        low_water: u64,
    },
    /// The id is dated in the future.
    #[error("the id is dated {ahead:?} ahead, more than the allowed {skew:?}")]
    FromFuture {
        /// How far.
        ahead: Duration,
        /// How far it may be.
        skew: Duration,
        /// The partition's time.
        now: Timestamp,
    },
    /// A later life of the same client has written.
    #[error("the client has begun epoch {epoch}, which ends all epochs below")]
    Fenced {
        /// The client's present epoch.
        epoch: u64,
    },
    /// The epoch is larger than any can be yet. Were it taken, nobody could ever begin a session above it.
    #[error(
        "the epoch is above {latest}, the largest possible now: an epoch counts the lives of its client, or is the time of \
         its start in milliseconds since 1970"
    )]
    EpochAhead {
        /// The largest epoch that can be begun now: the partition's time in milliseconds, and the table's skew.
        latest: u64,
    },
    /// The client was idle for so long that its operations are forgotten, or an unknown client has an epoch of that time.
    #[error(
        "nothing is known of this session (any more): whether the operation was counted cannot be known; \
         begin a session with an epoch above {floor}, such as the present time in milliseconds since 1970"
    )]
    UnknownSession {
        /// The next epoch above this is the lowest that is taken.
        floor: u64,
    },
    /// The cell would become too large.
    #[error("a cell has at most {} bytes", crate::limits::CELL_BYTES_MAX)]
    CellTooLarge,
    /// The counter would leave the range of i64.
    #[error("the counter would leave the range of 64-bit integers")]
    Overflow,
    /// The cell holds bytes, and the change is for counters.
    #[error("the cell holds bytes, not a counter")]
    NotACounter,
    /// What a transaction holds would not be left enough. It is settled soon, one way or the other; then there is an answer.
    #[error(
        "a transaction that is not settled yet holds additions to this counter, and this would leave too little room for them; \
         retry with the same id"
    )]
    Held,
    /// A branch of a transaction asks for more than the counter has to give, or has room for.
    #[error("the counter is at {value}, and the addition would leave the bounds that came with it")]
    Bound {
        /// The counter.
        value: i64,
    },
    /// There is no memory left to remember one more id or session.
    #[error("there is no memory left to remember more {what}; retry with the same id")]
    Capacity {
        /// Of what there are too many.
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
            Self::Held => ErrorCode::Prepared,
            Self::Bound { .. } => ErrorCode::BeyondBound,
            Self::Capacity { .. } => ErrorCode::Busy,
        }
    }
}
