//! Why a log entry that decodes cannot be applied.

use crate::address::{PartitionId, TableId};
use crate::branch::BranchName;
use crate::id::Format;

/// Why a log entry cannot be applied to the state before it. The entry decodes, but it contradicts the
/// partition, the catalogue or an earlier entry: the log, the stores and the catalogue do not belong
/// together, or one is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    #[error("the slot is {found}, but the next slot is {expected}")]
    Slot {
        /// The slot that follows the last applied one.
        expected: u64,
        found: u64,
    },
    #[error("the time goes back: {found} ms after an entry at {last} ms since 1970")]
    Time {
        /// Time of the entry before, in milliseconds since 1970.
        last: u64,
        /// Time of the entry, in milliseconds since 1970.
        found: u64,
    },
    #[error("an operation changes cells of partition {}", .0.0)]
    OtherPartition(PartitionId),
    /// The catalogue is older than the entry.
    #[error("era {era} of {table} is unknown: the newest era in the catalogue is {newest}")]
    UnknownEra { table: TableId, era: u32, newest: u32 },
    #[error("era {era} of {table} does not accept ids of the format {format}")]
    Format { table: TableId, era: u32, format: Format },
    /// The operation belongs to an epoch that a later epoch of the same client ended.
    #[error("epoch {epoch} of a client has ended: its epoch is {current}")]
    EndedEpoch { epoch: u64, current: u64 },
    #[error("branch {0} is prepared already")]
    PreparedTwice(BranchName),
    /// A commit of a branch that is not prepared, or with a number of values that does not match it.
    #[error("branch {0} is committed, but it is not prepared with these counters")]
    NotPrepared(BranchName),
}
