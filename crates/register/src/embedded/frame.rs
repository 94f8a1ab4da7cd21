//! A frame: what one flush writes, at a block of a segment.
//!
//! ```text
//! hash u64 · magic u32 · payload length u32 · sequence u64 · segment u64 · previous frame's hash u64 · records · zeros to the block's end
//! ```
//!
//! The hash is over all after it, seeded with the identity of the log. What must hold:
//! - A frame is written only when the one before it is durable. So a damaged frame with a good one after it was damaged later, and only
//!   the last can be torn.
//! - The segment's number tells the frames of this life of a file from those of earlier ones; the hashes chain them.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::location::{Location, Sequence};
use super::segment::BLOCK_BYTES;
use crate::{Log, Slot, Space};

/// The bytes of a frame before its records.
pub const HEADER_BYTES: usize = 40;

/// What a frame takes besides its records, at most.
pub const OVERHEAD_MAX: usize = HEADER_BYTES + BLOCK_BYTES as usize - 1;

const MAGIC: u32 = u32::from_le_bytes(*b"JFRM");
const HASH_BYTES: usize = 8;

/// Up to the next block.
pub const fn align(bytes: u32) -> u32 {
    bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

/// A frame on its way to the disk.
#[derive(Debug, Default)]
pub struct Frame {
    pub sequence: Sequence,
    /// Where it begins.
    pub at: Location,
    /// The header's place, and the records so far. Whole blocks once sealed.
    pub bytes: Vec<u8>,
    /// The trims that take effect when it is durable.
    pub trims: Vec<Trim>,
    /// The registers that are where they were carried to when it is durable.
    pub carried: Vec<Carried>,
    /// The logs that are retired when it is durable.
    pub retired: Vec<(Space, u128)>,
    /// The segments that may go when it is durable.
    pub released: Option<u32>,
}

/// A trim that was staged.
#[derive(Debug, Clone, Copy)]
pub struct Trim {
    pub log: Log,
    pub through: Slot,
    /// Where its record is.
    pub at: Location,
}

/// A register whose copy was staged.
#[derive(Debug, Clone, Copy)]
pub struct Carried {
    pub log: Log,
    pub slot: Slot,
    pub from: Location,
    pub to: Location,
}

impl Frame {
    /// A frame without records, in a buffer that may have been used before.
    pub fn begin(sequence: Sequence, at: Location, mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        bytes.resize(HEADER_BYTES, 0);
        Self { sequence, at, bytes, ..Self::default() }
    }

    /// Where the next record would be.
    pub fn end(&self) -> Location {
        Location::new(self.at.segment(), self.at.offset() + self.bytes.len() as u32)
    }

    /// Fills in the header and the zeros at the end. The hash, for the next frame.
    pub fn seal(&mut self, previous: u64, identity: u64) -> u64 {
        let payload = (self.bytes.len() - HEADER_BYTES) as u32;
        self.bytes[8..12].copy_from_slice(&MAGIC.to_le_bytes());
        self.bytes[12..16].copy_from_slice(&payload.to_le_bytes());
        self.bytes[16..24].copy_from_slice(&self.sequence.0.to_le_bytes());
        self.bytes[24..32].copy_from_slice(&u64::from(self.at.segment()).to_le_bytes());
        self.bytes[32..40].copy_from_slice(&previous.to_le_bytes());
        let hash = xxh3_64_with_seed(&self.bytes[HASH_BYTES..], identity);
        self.bytes[..HASH_BYTES].copy_from_slice(&hash.to_le_bytes());
        self.bytes.resize(align(self.bytes.len() as u32) as usize, 0);
        hash
    }
}

/// A frame found on the disk.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    pub sequence: Sequence,
    pub previous: u64,
    pub hash: u64,
    pub payload: &'a [u8],
}

impl Found<'_> {
    /// How many bytes it takes in its segment.
    pub fn bytes(&self) -> u32 {
        align((HEADER_BYTES + self.payload.len()) as u32)
    }
}

/// Why there is no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// Nothing here looks like a frame of this life of the segment.
    Nothing,
    /// A frame was here, or a part of one.
    Broken,
}

/// The bytes of records in the frame whose header this is, unless it is none of this life of this segment. Its hash is not looked at.
pub fn payload_bytes(header: &[u8; HEADER_BYTES], segment: u32) -> Option<u32> {
    let small = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    (small(8) == MAGIC && small(24) == segment && small(28) == 0).then(|| small(12))
}

/// The frame at the start of these bytes, if a whole one of this life of this segment is there.
pub fn find(bytes: &[u8], segment: u32, identity: u64) -> Result<Found<'_>, Absent> {
    let header = bytes.get(..HEADER_BYTES).ok_or(Absent::Nothing)?;
    let small = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let word = |at: usize| u64::from(small(at)) | u64::from(small(at + 4)) << 32;
    if small(8) != MAGIC || word(24) != u64::from(segment) {
        return Err(Absent::Nothing);
    }
    let end = HEADER_BYTES + small(12) as usize;
    let payload = bytes.get(HEADER_BYTES..end).ok_or(Absent::Broken)?;
    let hash = word(0);
    if xxh3_64_with_seed(&bytes[HASH_BYTES..end], identity) != hash && !mutated!(UncheckedFrames) {
        return Err(Absent::Broken);
    }
    Ok(Found { sequence: Sequence(word(16)), previous: word(32), hash, payload })
}
