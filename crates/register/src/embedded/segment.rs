//! A segment: a file of fixed length that holds a stretch of the log.
//!
//! ```text
//! block 0:  magic 8 · version u32 · 0 u32 · bytes u64 · number u64 · identity u64 · hash u64 · zeros
//! block 1…: frames, each beginning at a block
//! ```
//!
//! What must hold: a file has the name of a segment only while its header, durable, says the same number. So a name whose
//! header says something else was damaged, never half made.

use std::collections::VecDeque;

use xxhash_rust::xxh3::xxh3_64;

use super::tally::Tally;

/// Frames begin at multiples of this: the page of the system, so that overwriting one never needs to read it first.
pub const BLOCK_BYTES: u32 = 4096;

/// The folder of the segments.
pub const FOLDER: &str = "log";

/// The name of a file that is to become a segment.
pub const MAKING: &str = "log/making";

/// The beginning of the names of files that were segments and can be again.
pub const SPARE: &str = "spare-";

const MAGIC: &[u8; 8] = b"JETONLOG";
/// The version of the format that is written. Version 1 is read as well: it lacks two kinds of records. A segment of version 1 that is not full is filled on.
pub const VERSION: u32 = 2;
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=VERSION;
const HEADER_BYTES: usize = 48;

/// A segment in use or ready to be.
#[derive(Debug)]
pub struct Segment<F> {
    pub number: u32,
    /// Its length, with the header.
    pub bytes: u32,
    pub file: std::sync::Arc<F>,
    /// What in it is needed.
    pub tally: Tally,
}

/// A segment among those in use, which are numbered without gaps.
pub fn of<F>(segments: &mut VecDeque<Segment<F>>, number: u32) -> &mut Segment<F> {
    let first = segments.front().map_or(0, |segment| segment.number);
    &mut segments[(number - first) as usize]
}

/// The name of a segment's file.
pub fn name(number: u32) -> String {
    format!("{FOLDER}/{number:010}.log")
}

/// The name of a segment's file after its life.
pub fn spare_name(number: u32) -> String {
    format!("{FOLDER}/{SPARE}{number:010}")
}

/// The number in the name of a segment's file, given without its folder.
pub fn number_of(file: &str) -> Option<u32> {
    let digits = file.strip_suffix(".log")?;
    let number = digits.parse().ok().filter(|&number| number > 0)?;
    (name(number).rsplit('/').next() == Some(file)).then_some(number)
}

/// What a segment's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub number: u32,
    pub bytes: u32,
    /// Seeds the hashes of all frames: nobody who only chooses values can make something that looks like a frame.
    pub identity: u64,
}

impl Header {
    /// The header's block.
    pub fn block(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK_BYTES as usize);
        block.extend_from_slice(MAGIC);
        block.extend_from_slice(&VERSION.to_le_bytes());
        block.extend_from_slice(&0u32.to_le_bytes());
        block.extend_from_slice(&u64::from(self.bytes).to_le_bytes());
        block.extend_from_slice(&u64::from(self.number).to_le_bytes());
        block.extend_from_slice(&self.identity.to_le_bytes());
        let hash = xxh3_64(&block);
        block.extend_from_slice(&hash.to_le_bytes());
        debug_assert_eq!(block.len(), HEADER_BYTES);
        block.resize(BLOCK_BYTES as usize, 0);
        block
    }

    /// Reads a header's block.
    pub fn read(block: &[u8]) -> Result<Self, HeaderError> {
        let header =
            block.get(..HEADER_BYTES).ok_or(HeaderError::Bad("the file is too short for a header"))?;
        let word = |at: usize| -> u64 {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        if &header[..8] != MAGIC {
            return Err(HeaderError::Bad("this is not the header of a log segment"));
        }
        let version = word(8) as u32;
        if !VERSIONS.contains(&version) {
            return Err(HeaderError::Version(version));
        }
        if word(40) != xxh3_64(&header[..40]) {
            return Err(HeaderError::Bad("the header does not match its checksum"));
        }
        let small = |at: usize| {
            u32::try_from(word(at)).map_err(|_| HeaderError::Bad("a number in the header is too large"))
        };
        Ok(Self { bytes: small(16)?, number: small(24)?, identity: word(32) })
    }
}

/// Why a header cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// It is of another version of the format.
    Version(u32),
    /// It is not what was written.
    Bad(&'static str),
}
