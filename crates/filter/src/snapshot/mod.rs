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
//! Nothing in it is believed: every length is compared with the bytes that are announced, and memory is taken only up to
//! the cap that the caller of `restore` names.
//!
//! Filters are large. So a snapshot is written and read in passing, from the filter's words and into them: neither
//! takes memory for a second copy.

pub(crate) mod arrival;
pub(crate) mod dated;
mod reader;
mod settings;
mod writer;

use std::{fmt, io};

use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;

use reader::Reader;
use writer::{ByteCounter, Sink, Writer};

const MAGIC: [u8; 8] = *b"fgtfilt\n";
const VERSION: u16 = 1;
const HEADER: usize = MAGIC.len() + 2 + 2 + 8;
const CHECKSUM: usize = 16;

/// The largest count of things that happened. No real one is near it, and a forged one overflows nothing.
const COUNT_MAX: u64 = 1 << 48;

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
    /// Where it was to be read from failed, and said this.
    Unreadable(String),
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
            Self::Unreadable(why) => write!(f, "the snapshot cannot be read: {why}"),
        }
    }
}

impl std::error::Error for SnapshotError {}

/// The state of a filter, as it goes into the body of a snapshot.
pub(crate) trait Body {
    const KIND: Kind;

    /// Gives every number of the body to the sink, in order. Asked twice: first for the length.
    fn walk(&self, sink: &mut impl Sink) -> io::Result<()>;
}

/// Writes a snapshot.
pub(crate) fn write(body: &impl Body, out: &mut dyn io::Write) -> io::Result<()> {
    write_measured(body, length(body)?, out)
}

/// A snapshot in memory.
pub(crate) fn to_vec(body: &impl Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = length(body).and_then(|length| {
        bytes.reserve_exact(HEADER + CHECKSUM + usize::try_from(length).unwrap_or(0));
        write_measured(body, length, &mut bytes)
    });
    assert!(written.is_ok(), "memory takes every byte");
    bytes
}

fn length<B: Body>(body: &B) -> io::Result<u64> {
    let mut measure = ByteCounter::default();
    body.walk(&mut measure)?;
    Ok(measure.0)
}

fn write_measured<B: Body>(body: &B, length: u64, out: &mut dyn io::Write) -> io::Result<()> {
    let mut writer = Writer::new(out);
    writer.bytes(&MAGIC)?;
    writer.bytes(&VERSION.to_le_bytes())?;
    writer.bytes(&(B::KIND as u16).to_le_bytes())?;
    writer.bytes(&length.to_le_bytes())?;
    body.walk(&mut writer)?;
    assert_eq!(writer.written(), HEADER as u64 + length, "a snapshot is as long as it announces");
    writer.seal()
}

/// Reads the snapshot of a filter of this kind: `decode` makes the filter from the body. Nothing after the snapshot is touched.
pub(crate) fn read<T>(
    kind: Kind,
    input: &mut dyn io::Read,
    decode: impl FnOnce(&mut Reader<'_>) -> Result<T, SnapshotError>,
) -> Result<T, SnapshotError> {
    let mut reader = Reader::new(input);
    match reader.array() {
        Ok(MAGIC) => {}
        Ok(_) | Err(SnapshotError::WrongLength { .. }) => return Err(SnapshotError::NotASnapshot),
        Err(error) => return Err(error),
    }
    let version = u16::from_le_bytes(reader.array()?);
    if version != VERSION {
        return Err(SnapshotError::UnknownVersion(version));
    }
    let found = u16::from_le_bytes(reader.array()?);
    let length = u64::from_le_bytes(reader.array()?);
    if found != kind as u16 {
        return Err(SnapshotError::OtherKind(found));
    }
    reader.expect(length);
    let filter = decode(&mut reader)?;
    reader.end()?;
    Ok(filter)
}

/// As [`read`], from bytes that are the snapshot and nothing else. They are looked at as a whole first, so that the
/// error says what happened to them and not what a single field looks like since.
pub(crate) fn from_slice<T>(
    kind: Kind,
    bytes: &[u8],
    decode: impl FnOnce(&mut Reader<'_>) -> Result<T, SnapshotError>,
) -> Result<T, SnapshotError> {
    if let Some(length) = bytes.get(HEADER - 8..HEADER)
        && bytes.starts_with(&MAGIC)
        && bytes[MAGIC.len()..].starts_with(&VERSION.to_le_bytes())
    {
        let length = length.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
        let expected = length.saturating_add((HEADER + CHECKSUM) as u64);
        if bytes.len() as u64 != expected {
            return Err(SnapshotError::WrongLength { expected, found: bytes.len() as u64 });
        }
        let (covered, sum) = bytes.split_at(bytes.len() - CHECKSUM);
        let mut hasher = hasher();
        hasher.write(covered);
        if hasher.finish128().as_bytes() != sum {
            return Err(SnapshotError::ChecksumMismatch);
        }
    }
    read(kind, &mut &*bytes, decode)
}

fn hasher() -> SipHasher13 {
    SipHasher13::new_with_key(&[0; 16])
}
