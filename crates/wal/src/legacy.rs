//! Reads registers of transactions from a directory of format version 1 or 2, for `jeton migrate`.
//!
//! Those versions kept write-once registers, trim points and retirement marks as records of the log itself.

use crate::Slot;
use crate::disk::Disk;
use crate::location::Location;
use crate::open_error::OpenError;
use crate::record::Record;
use crate::recovery::{self, ApplyError, Found};

/// The kind and the id of a log of registers.
pub type OldLog = (u8, u128);

/// A record of registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldRecord<'a> {
    /// A register was written.
    Register {
        log: OldLog,
        slot: Slot,
        value: &'a [u8],
        /// Whether it was copied from an older segment.
        moved: bool,
    },
    /// The registers of a log up to `trimmed` are trimmed.
    Trim { log: OldLog, trimmed: Slot, last: Slot },
    /// All logs of a kind with ids below this one are retired.
    Retired { kind: u8, below: u128 },
}

/// Visits all records of registers in the order in which they were written. Changes nothing. The caller holds
/// the lock of the directory.
pub fn read_registers<D: Disk>(disk: &D, mut visit: impl FnMut(OldRecord<'_>)) -> Result<(), OpenError> {
    let Found { numbers, mut segments, identity } = recovery::find_segments(disk)?;
    let mut released = 0;
    recovery::scan(&mut segments, identity.unwrap_or_default(), |record, at: Location| {
        match record {
            Record::Entry { log, slot, entry, moved } => {
                visit(OldRecord::Register { log: (log.kind, log.id), slot, value: entry, moved });
            }
            Record::Trim { log, trimmed, last } => {
                visit(OldRecord::Trim { log: (log.kind, log.id), trimmed, last });
            }
            Record::Retired { kind, below } => visit(OldRecord::Retired { kind, below }),
            Record::Released { through } if through < at.segment() => released = released.max(through),
            Record::Released { .. } => return Err(ApplyError::Damage("a segment releases itself")),
        }
        Ok(())
    })?;
    recovery::check_start(&numbers, &segments, released)
}
