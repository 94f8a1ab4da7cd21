//! A segment: a file of fixed length that holds a part of the wal.
//!
//! ```text
//! block 0:  magic 8 · version u32 · 0 u32 · bytes u64 · number u64 · identity u64 · hash u64 · zeros
//! block 1…: frames, each starting at a block
//! ```
//!
//! Invariant: a file has the name of a segment only while its durable header has the same number. If the
//! header differs from the name, the file was damaged; an interrupted creation cannot cause this.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::Slot;

/// Frames start at multiples of this: the page size, so that overwriting a block never reads it first.
pub const BLOCK_BYTES: u32 = 4096;

/// The folder of the segments.
pub const FOLDER: &str = "log";

/// The name of a file that will become a segment.
pub const NEW_FILE: &str = "log/making";

/// The start of the names of files of released segments.
pub const SPARE: &str = "spare-";

const MAGIC: &[u8; 8] = b"JETONLOG";
/// The format version of new segments. Versions 1 and 2 are read too. A last segment of an older version is
/// filled up.
pub const VERSION: u32 = 3;
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=VERSION;
const HEADER_BYTES: usize = 48;

/// A segment in use, or the next one.
#[derive(Debug)]
pub struct Segment<F> {
    pub number: u32,
    /// The length of the file.
    pub bytes: u32,
    pub file: Arc<F>,
    /// Where its frames end, once a later segment is in use.
    pub end: u32,
    /// The last slot of every log, by id, when the segment was full. It can be released when all logs are
    /// trimmed up to these.
    pub lasts: Vec<Slot>,
}

impl<F> Segment<F> {
    pub fn new(number: u32, bytes: u32, file: Arc<F>) -> Self {
        Self { number, bytes, file, end: bytes, lasts: Vec::new() }
    }
}

pub fn name(number: u32) -> String {
    format!("{FOLDER}/{number:010}.log")
}

pub fn spare_name(number: u32) -> String {
    format!("{FOLDER}/{SPARE}{number:010}")
}

/// The number in the name of a segment's file, given without its folder.
pub fn number_of(file: &str) -> Option<u32> {
    let digits = file.strip_suffix(".log")?;
    let number = digits.parse().ok().filter(|&number| number > 0)?;
    (name(number).rsplit('/').next() == Some(file)).then_some(number)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub version: u32,
    pub number: u32,
    pub bytes: u32,
    /// Seeds the hashes of all frames: clients who choose entries cannot forge frames.
    pub identity: u64,
}

impl Header {
    /// The first block of the file.
    pub fn block(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK_BYTES as usize);
        block.extend_from_slice(MAGIC);
        block.extend_from_slice(&self.version.to_le_bytes());
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

    /// Decodes the first block of a file.
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
        Ok(Self { version, bytes: small(16)?, number: small(24)?, identity: word(32) })
    }
}

/// Why a header cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Another version of the format.
    Version(u32),
    /// Not what was written.
    Bad(&'static str),
}
