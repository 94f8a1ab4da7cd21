//! What can be chosen about an embedded store, and the limits that follow.

use std::hash::{BuildHasher, RandomState};

use super::frame;
use super::open_error::OpenError;
use super::record::{REGISTER_OVERHEAD_MAX, TRIM_BYTES_MAX};
use super::segment::BLOCK_BYTES;
use crate::Limits;

/// The largest value of a register, in bytes; less if segments are small.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// The most writes in one batch; fewer if segments are small.
pub const BATCH_WRITES_MAX: usize = 65_536;
/// The most bytes of one batch, counting what its records take; fewer if segments are small.
pub const BATCH_BYTES_MAX: usize = 16 << 20;
/// How many slots may be left empty between the highest register of a log that is not dated and the next one written.
pub const GAP_SLOTS_MAX: u64 = 4096;
/// The most logs in one store that are not dated; fewer if segments are small.
pub const LOGS_MAX: usize = 65_536;
/// The most dated logs in one store that are not retired: each takes some two hundred bytes of memory.
pub const DATED_LOGS_MAX: usize = 4 << 20;
/// The most registers that one read returns.
pub const READ_REGISTERS_MAX: usize = 65_536;
/// The most bytes of values that one read returns, except that it returns one register whatever its size.
pub const READ_BYTES_MAX: usize = 4 << 20;
/// How many files of trimmed segments are kept to be used again.
pub const SPARES_MAX: usize = 2;

/// The smallest segment, in bytes.
const SEGMENT_BYTES_MIN: u32 = 64 << 10;
/// The largest segment, in bytes: offsets fit in 31 bits.
const SEGMENT_BYTES_MAX: u32 = 1 << 31;

/// What can be chosen about an embedded store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The name that a second process is told when it finds the store in use.
    pub who: String,
    /// How long a segment is. A multiple of 4096, from 64 KiB to 2 GiB. Existing segments keep their length.
    pub segment_bytes: u32,
    /// How many bytes may be promised or on their way to the disk. Beyond that callers are told that the store is busy.
    pub staged_bytes_max: usize,
    /// A number that nobody can guess; only used when the store is made, and kept in it then.
    pub identity: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            who: "jeton".into(),
            segment_bytes: 64 << 20,
            staged_bytes_max: 32 << 20,
            identity: RandomState::new().hash_one("the identity of a log"),
        }
    }
}

impl Options {
    /// The defaults, except that segments are of this length and the identity is a constant: for tests and simulations.
    pub fn small(segment_bytes: u32) -> Self {
        Self { segment_bytes, identity: 0x6a65_746f_6e00_0001, ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<(), OpenError> {
        let bytes = self.segment_bytes;
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) || !bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(OpenError::Options(format!(
                "segment_bytes is {bytes}: it must be a multiple of {BLOCK_BYTES} from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}"
            )));
        }
        if self.staged_bytes_max < self.batch_cost_max() {
            return Err(OpenError::Options(format!(
                "staged_bytes_max is {}: it must have room for one batch, which is {} bytes",
                self.staged_bytes_max,
                self.batch_cost_max()
            )));
        }
        Ok(())
    }

    /// The largest value that a store with these options takes, in bytes.
    pub fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX.min(self.segment_bytes as usize / 8)
    }

    /// How large values and batches may be.
    pub fn limits(&self) -> Limits {
        let cost = self.batch_cost_max() - frame::OVERHEAD_MAX;
        // A quarter for what records take beside their values, the rest for values.
        let writes = cost / 4 / (REGISTER_OVERHEAD_MAX + TRIM_BYTES_MAX);
        Limits {
            value_bytes_max: self.value_bytes_max(),
            batch_writes_max: writes.min(BATCH_WRITES_MAX),
            batch_bytes_max: cost - cost / 4,
        }
    }

    /// The most that a batch may cost.
    pub(super) fn batch_cost_max(&self) -> usize {
        BATCH_BYTES_MAX.min(self.segment_bytes as usize / 4)
    }

    pub(super) fn logs_max(&self) -> usize {
        LOGS_MAX.min(self.segment_bytes as usize / 8 / TRIM_BYTES_MAX)
    }

    /// What is kept back in the last segment so that a full store can still be trimmed.
    pub(super) fn reserve_bytes(&self) -> usize {
        (self.segment_bytes as usize / 16).max(3 * BLOCK_BYTES as usize)
    }
}

/// What a batch takes in the log at most: each write may be the first of its log, which then takes a trim record at the start of
/// the next segment; and the batch may be alone in its frame.
pub fn cost(writes: usize, value_bytes: usize) -> usize {
    writes
        .saturating_mul(REGISTER_OVERHEAD_MAX + TRIM_BYTES_MAX)
        .saturating_add(value_bytes)
        .saturating_add(frame::OVERHEAD_MAX)
}
