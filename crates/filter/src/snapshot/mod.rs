//! Filters as bytes: a versioned envelope with a checksum around the state of either kind of filter.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | magic `fgtfilt\n` |
//! | 2 | version of the format |
//! | 2 | kind: 1 arrival, 2 dated |
//! | 8 | length of the body |
//! | n | body, see [`arrival`] and [`dated`] |
//! | 16 | checksum of everything before |
//!
//! All numbers are little-endian. The key is not in a snapshot, only a value that tells whether it is the same one.
//! Nothing in it is believed: every length is compared with the bytes that are there, and memory is taken only up to
//! the cap that the caller of `restore` names.

pub(crate) mod arrival;
mod bytes;
pub(crate) mod dated;
mod settings;

use std::fmt;

use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;

const MAGIC: [u8; 8] = *b"fgtfilt\n";
const VERSION: u16 = 1;
const HEADER: usize = MAGIC.len() + 2 + 2 + 8;
const CHECKSUM: usize = 16;

/// Which filter a snapshot is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Arrival = 1,
    Dated = 2,
}

/// Why bytes could not be taken up as a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The bytes do not begin like a snapshot.
    NotASnapshot,
    /// The format is of a version that this code does not know.
    UnknownVersion(u16),
    /// The snapshot is of the other kind of filter (by arrival, or dated).
    OtherKind(u16),
    /// Bytes are missing at the end, or there are too many.
    WrongLength {
        /// The length that the header announces.
        expected: u64,
        /// The length that is there.
        found: u64,
    },
    /// The bytes were changed since the snapshot was taken.
    ChecksumMismatch,
    /// The snapshot was taken under another key: none of its ids would be recognised.
    OtherKey,
    /// The checksum is right, yet a field is impossible.
    Invalid(&'static str),
    /// The filter in it is larger than the caller allows.
    TooLarge {
        /// The bytes that it needs at least.
        needed: usize,
        /// The bytes that the caller allows.
        memory_cap: usize,
    },
    /// The allocator refused the memory for it.
    OutOfMemory,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASnapshot => f.write_str("these bytes are not a snapshot of a filter"),
            Self::UnknownVersion(version) => {
                write!(f, "the snapshot has format version {version}, this code knows up to {VERSION}")
            }
            Self::OtherKind(kind) => write!(f, "the snapshot is of another kind of filter ({kind})"),
            Self::WrongLength { expected, found } => {
                write!(f, "the snapshot announces {expected} bytes, there are {found}")
            }
            Self::ChecksumMismatch => f.write_str("the snapshot is damaged: its checksum does not match"),
            Self::OtherKey => f.write_str("the snapshot was taken under another key"),
            Self::Invalid(field) => write!(f, "the snapshot has an impossible value: {field}"),
            Self::TooLarge { needed, memory_cap } => {
                write!(f, "the filter in the snapshot needs {needed} bytes, the memory cap is {memory_cap}")
            }
            Self::OutOfMemory => f.write_str("the allocator refused the memory for the snapshot"),
        }
    }
}

impl std::error::Error for SnapshotError {}

/// A body with its envelope.
fn seal(kind: Kind, body: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(HEADER + body.len() + CHECKSUM);
    sealed.extend_from_slice(&MAGIC);
    sealed.extend_from_slice(&VERSION.to_le_bytes());
    sealed.extend_from_slice(&(kind as u16).to_le_bytes());
    sealed.extend_from_slice(&(body.len() as u64).to_le_bytes());
    sealed.extend_from_slice(body);
    let checksum = checksum(&sealed);
    sealed.extend_from_slice(&checksum);
    sealed
}

/// The body in an envelope, after every check that does not need to understand it.
fn open(kind: Kind, sealed: &[u8]) -> Result<&[u8], SnapshotError> {
    let mut header = bytes::Reader::new(sealed);
    if header.array::<8>() != Some(MAGIC) {
        return Err(SnapshotError::NotASnapshot);
    }
    let truncated =
        || SnapshotError::WrongLength { expected: (HEADER + CHECKSUM) as u64, found: sealed.len() as u64 };
    let version = header.u16().ok_or_else(truncated)?;
    if version != VERSION {
        return Err(SnapshotError::UnknownVersion(version));
    }
    let found = header.u16().ok_or_else(truncated)?;
    let length = header.u64().ok_or_else(truncated)?;
    let expected = length.saturating_add((HEADER + CHECKSUM) as u64);
    if sealed.len() as u64 != expected {
        return Err(SnapshotError::WrongLength { expected, found: sealed.len() as u64 });
    }
    let (covered, sum) = sealed.split_at(sealed.len() - CHECKSUM);
    if checksum(covered) != sum {
        return Err(SnapshotError::ChecksumMismatch);
    }
    if found != kind as u16 {
        return Err(SnapshotError::OtherKind(found));
    }
    Ok(&covered[HEADER..])
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = SipHasher13::new_with_key(&[0; 16]);
    hasher.write(bytes);
    hasher.finish128().as_bytes()
}
