//! A frame: the bytes of one flush, starting at a block of a segment.
//!
//! ```text
//! hash u64 · magic u32 · payload length u32 · number u64 · segment u64 · hash of the previous frame u64
//!     · records · zeros to the end of the block
//! ```
//!
//! The hash covers everything after it and is seeded with the identity of the wal. Invariants:
//! - A frame is written only when the one before it is durable. So a damaged frame with a valid one after it
//!   was damaged later, and only the last frame can be torn.
//! - The number of the segment separates the frames of this use of a file from those of earlier uses; the
//!   hashes chain them.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::location::{FrameNumber, Location};
use crate::segment::BLOCK_BYTES;
use crate::{LogId, Slot};

/// The bytes of a frame before its records.
pub const HEADER_BYTES: usize = 40;

/// The most bytes of a frame besides its records.
pub const OVERHEAD_MAX: usize = HEADER_BYTES + BLOCK_BYTES as usize - 1;

const MAGIC: u32 = u32::from_le_bytes(*b"JFRM");
const HASH_BYTES: usize = 8;

/// Rounds up to a block.
pub const fn align(bytes: u32) -> u32 {
    bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

/// A frame that is being filled or written.
#[derive(Debug, Default)]
pub struct Frame {
    pub number: FrameNumber,
    pub start: Location,
    /// Space for the header, then the records. Whole blocks once sealed.
    pub bytes: Vec<u8>,
    /// The last slot of each log in the frame, in the order of the appends; a log may be repeated.
    pub lasts: Vec<(LogId, Slot)>,
    /// The trims that take effect when the frame is durable.
    pub trims: Vec<(LogId, Slot)>,
    /// The segments up to here are released when the frame is durable.
    pub released: Option<u32>,
}

impl Frame {
    /// A frame without records, in a buffer that may have been used before.
    pub fn begin(number: FrameNumber, start: Location, mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        bytes.resize(HEADER_BYTES, 0);
        Self { number, start, bytes, ..Self::default() }
    }

    /// The position of the next record.
    pub fn end(&self) -> Location {
        Location::new(self.start.segment(), self.start.offset() + self.bytes.len() as u32)
    }

    /// Notes that the frame contains this entry.
    pub fn note_entry(&mut self, log: LogId, slot: Slot) {
        match self.lasts.last_mut() {
            Some((same, last)) if *same == log => *last = slot,
            _ => self.lasts.push((log, slot)),
        }
    }

    /// Writes the header and pads to a block. Returns the hash, which the next frame contains.
    pub fn seal(&mut self, previous: u64, identity: u64) -> u64 {
        let payload = (self.bytes.len() - HEADER_BYTES) as u32;
        self.bytes[8..12].copy_from_slice(&MAGIC.to_le_bytes());
        self.bytes[12..16].copy_from_slice(&payload.to_le_bytes());
        self.bytes[16..24].copy_from_slice(&self.number.0.to_le_bytes());
        self.bytes[24..32].copy_from_slice(&u64::from(self.start.segment()).to_le_bytes());
        self.bytes[32..40].copy_from_slice(&previous.to_le_bytes());
        let hash = xxh3_64_with_seed(&self.bytes[HASH_BYTES..], identity);
        self.bytes[..HASH_BYTES].copy_from_slice(&hash.to_le_bytes());
        self.bytes.resize(align(self.bytes.len() as u32) as usize, 0);
        hash
    }
}

/// A frame found on disk.
#[derive(Debug, Clone, Copy)]
pub struct FrameFound<'a> {
    pub number: FrameNumber,
    pub previous: u64,
    pub hash: u64,
    pub payload: &'a [u8],
}

impl FrameFound<'_> {
    /// The bytes that it takes in its segment.
    pub fn bytes(&self) -> u32 {
        align((HEADER_BYTES + self.payload.len()) as u32)
    }
}

/// Why there is no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// No header of a frame of this use of the file.
    Nothing,
    /// A header, but the hash does not match.
    Broken,
}

/// The length of the payload according to the header at the start of `bytes`, if it is one of this segment.
/// The hash is not checked.
pub fn payload_bytes(bytes: &[u8], segment: u32) -> Option<u32> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let small = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    (small(8) == MAGIC && small(24) == segment && small(28) == 0).then(|| small(12))
}

/// The frame at the start of `bytes`, if a valid one of this segment is there.
pub fn find(bytes: &[u8], segment: u32, identity: u64) -> Result<FrameFound<'_>, FrameError> {
    let payload = payload_bytes(bytes, segment).ok_or(FrameError::Nothing)?;
    let end = HEADER_BYTES + payload as usize;
    let payload = bytes.get(HEADER_BYTES..end).ok_or(FrameError::Broken)?;
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let hash = word(0);
    if xxh3_64_with_seed(&bytes[HASH_BYTES..end], identity) != hash && !mutated!(UncheckedFrames) {
        return Err(FrameError::Broken);
    }
    Ok(FrameFound { number: FrameNumber(word(16)), previous: word(32), hash, payload })
}
