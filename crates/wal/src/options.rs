//! Options of a wal, and the limits that follow from them.

use std::hash::{BuildHasher, RandomState};

use crate::frame;
use crate::open_error::OpenError;
use crate::record::{ENTRY_OVERHEAD_MAX, TRIM_BYTES_MAX};
use crate::segment::BLOCK_BYTES;

/// The largest entry, in bytes; less if segments are small.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;
/// The most entries in one batch; fewer if segments are small.
pub const BATCH_ENTRIES_MAX: usize = 65_536;
/// The most bytes of one batch, records included; fewer if segments are small.
pub const BATCH_BYTES_MAX: usize = 16 << 20;
/// The most logs in one wal; fewer if segments are small.
pub const LOGS_MAX: usize = 65_536;
/// How many files of released segments are kept for reuse.
pub const SPARES_MAX: usize = 2;

const SEGMENT_BYTES_MIN: u32 = 64 << 10;
/// Offsets fit into 31 bits.
const SEGMENT_BYTES_MAX: u32 = 1 << 31;

/// Options of a wal.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The name that a second process reports when it finds the directory in use.
    pub owner: String,
    /// The length of a segment: a multiple of 4096, from 64 KiB to 2 GiB. Existing segments keep their
    /// length.
    pub segment_bytes: u32,
    /// How many bytes may be reserved or in flight to the disk. Above this,
    /// [`Error::Busy`](crate::Error::Busy).
    pub in_flight_bytes_max: usize,
    /// A random number, used when the wal is created and stored in it.
    pub identity: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            owner: "jeton".into(),
            segment_bytes: 64 << 20,
            in_flight_bytes_max: 32 << 20,
            identity: RandomState::new().hash_one("the identity of a log"),
        }
    }
}

impl Options {
    /// The defaults with segments of this length and a constant identity, for tests and simulations.
    pub fn small(segment_bytes: u32) -> Self {
        Self { segment_bytes, identity: 0x6a65_746f_6e00_0001, ..Self::default() }
    }

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let bytes = self.segment_bytes;
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) || !bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(OpenError::Options(format!(
                "segment_bytes is {bytes}: it must be a multiple of {BLOCK_BYTES} \
                 from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}"
            )));
        }
        if self.in_flight_bytes_max < self.batch_cost_max() {
            return Err(OpenError::Options(format!(
                "in_flight_bytes_max is {}: it must hold one batch, which is {} bytes",
                self.in_flight_bytes_max,
                self.batch_cost_max()
            )));
        }
        Ok(())
    }

    /// The largest entry, in bytes.
    pub fn entry_bytes_max(&self) -> usize {
        ENTRY_BYTES_MAX.min(self.segment_bytes as usize / 8)
    }

    /// How large entries and batches may be.
    pub fn limits(&self) -> Limits {
        let cost = self.batch_cost_max() - frame::OVERHEAD_MAX;
        // A quarter for what records take beside their entries.
        let entries = cost / 4 / (ENTRY_OVERHEAD_MAX + TRIM_BYTES_MAX);
        Limits {
            entry_bytes_max: self.entry_bytes_max(),
            batch_entries_max: entries.min(BATCH_ENTRIES_MAX),
            batch_bytes_max: cost - cost / 4,
            headroom_bytes: self.headroom_bytes(),
        }
    }

    pub(crate) fn batch_cost_max(&self) -> usize {
        BATCH_BYTES_MAX.min(self.segment_bytes as usize / 4)
    }

    pub(crate) fn logs_max(&self) -> usize {
        LOGS_MAX.min(self.segment_bytes as usize / 8 / TRIM_BYTES_MAX)
    }

    /// [`Limits::headroom_bytes`]: a full wal can still be trimmed.
    pub(crate) fn headroom_bytes(&self) -> usize {
        (self.segment_bytes as usize / 16).max(6 * BLOCK_BYTES as usize)
    }
}

/// How large entries and batches may be. A batch within all limits is never refused as too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub entry_bytes_max: usize,
    pub batch_entries_max: usize,
    pub batch_bytes_max: usize,
    /// Bytes that only trims, and entries that make trims possible, may use.
    pub headroom_bytes: usize,
}

/// The most that a batch can take on disk. Each entry may be the first of its log, which adds a trim record
/// to the start of the next segment, and the batch may be alone in its frame.
pub fn cost(entries: usize, entry_bytes: usize) -> usize {
    entries
        .saturating_mul(ENTRY_OVERHEAD_MAX + TRIM_BYTES_MAX)
        .saturating_add(entry_bytes)
        .saturating_add(frame::OVERHEAD_MAX)
}
