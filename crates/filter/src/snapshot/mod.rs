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
//! All numbers are little-endian. A snapshot does not contain the key, only a value that identifies it.
//! Nothing in it is trusted: every length is compared with the announced bytes, and memory is allocated only
//! up to the cap that the caller of `restore` sets.
//!
//! Filters are large, so snapshots are streamed from and into the filter's words, without a second copy in
//! memory.

pub(crate) mod arrival;
pub(crate) mod dated;
mod reader;
mod settings;
mod writer;

use std::hash::Hasher;
use std::{fmt, io};

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::budget::{Budget, OverBudget};
use crate::key::Key;
use crate::settings::Settings;
use crate::timestamp::Timestamp;
use reader::Reader;
use writer::{ByteCounter, Sink, Writer};

const MAGIC: [u8; 8] = *b"fgtfilt\n";
const VERSION: u16 = 1;
const HEADER: usize = MAGIC.len() + 2 + 2 + 8;
const CHECKSUM: usize = 16;

/// Maximum of a counter. No real counter reaches it, and a forged one cannot overflow.
const COUNT_MAX: u64 = 1 << 48;

/// Why a snapshot was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The bytes do not start with the magic of a snapshot.
    NotASnapshot,
    /// Unknown version of the format.
    UnknownVersion(u16),
    /// The snapshot contains the other kind of filter (by arrival, or dated).
    OtherKind(u16),
    /// The snapshot is truncated or too long.
    WrongLength {
        /// Length in the header.
        expected: u64,
        /// Actual length.
        found: u64,
    },
    /// The bytes were changed after the snapshot was taken.
    ChecksumMismatch,
    /// The snapshot was taken under another key.
    OtherKey,
    /// The checksum matches, but a field is invalid.
    Invalid(&'static str),
    /// The filter exceeds the caller's memory cap.
    TooLarge {
        /// Bytes required, at least.
        needed: usize,
        /// The caller's memory cap, in bytes.
        memory_cap: usize,
    },
    /// The filter does not fit into its budget.
    OverBudget(OverBudget),
    /// An allocation failed.
    OutOfMemory,
    /// The reader failed with this message.
    Unreadable(String),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASnapshot => f.write_str("these bytes are not a snapshot of a filter"),
            Self::UnknownVersion(version) => {
                write!(f, "the snapshot has format version {version}, this code supports up to {VERSION}")
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
            Self::OverBudget(over) => write!(f, "{over}"),
            Self::OutOfMemory => f.write_str("no memory for the filter in the snapshot"),
            Self::Unreadable(why) => write!(f, "the snapshot cannot be read: {why}"),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl From<OverBudget> for SnapshotError {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

/// The state of a filter as the body of a snapshot.
pub(crate) trait Body {
    /// The kind of filter.
    const KIND: u16;
    type Rotator;

    fn settings(&self) -> &Settings;

    /// Passes every number after the check value of the key to the sink, in order. Called twice: first for
    /// the length.
    fn walk(&self, sink: &mut impl Sink) -> io::Result<()>;

    /// Decodes what [`walk`](Self::walk) wrote, without the content that has expired by `now`.
    fn decode(
        body: &mut Reader<'_>,
        settings: Settings,
        now: Timestamp,
        budget: &Budget,
    ) -> Result<Self::Rotator, SnapshotError>;
}

/// Passes the whole body to the sink: settings, check value of the key, state.
fn walk(body: &impl Body, key: &Key, sink: &mut impl Sink) -> io::Result<()> {
    sink.numbers(&settings::numbers(body.settings()))?;
    sink.number(key.check_value())?;
    body.walk(sink)
}

/// Writes a snapshot.
pub(crate) fn write(body: &impl Body, key: &Key, out: &mut dyn io::Write) -> io::Result<()> {
    write_measured(body, key, length(body, key)?, out)
}

/// A snapshot in memory.
pub(crate) fn to_vec(body: &impl Body, key: &Key) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = length(body, key).and_then(|length| {
        bytes.reserve_exact(HEADER + CHECKSUM + usize::try_from(length).unwrap_or(0));
        write_measured(body, key, length, &mut bytes)
    });
    assert!(written.is_ok(), "memory takes every byte");
    bytes
}

fn length(body: &impl Body, key: &Key) -> io::Result<u64> {
    let mut measure = ByteCounter::default();
    walk(body, key, &mut measure)?;
    Ok(measure.0)
}

fn write_measured<B: Body>(body: &B, key: &Key, length: u64, out: &mut dyn io::Write) -> io::Result<()> {
    let mut writer = Writer::new(out);
    writer.bytes(&MAGIC)?;
    writer.bytes(&VERSION.to_le_bytes())?;
    writer.bytes(&B::KIND.to_le_bytes())?;
    writer.bytes(&length.to_le_bytes())?;
    walk(body, key, &mut writer)?;
    assert_eq!(writer.written(), HEADER as u64 + length, "a snapshot is as long as it announces");
    writer.seal()
}

/// Reads a snapshot, and nothing after it.
pub(crate) fn read<B: Body>(
    input: &mut dyn io::Read,
    key: &Key,
    now: Timestamp,
    (memory_cap, budget): (usize, &Budget),
) -> Result<B::Rotator, SnapshotError> {
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
    if found != B::KIND {
        return Err(SnapshotError::OtherKind(found));
    }
    reader.expect(length);
    let settings = settings::decode(&mut reader, memory_cap)?;
    if reader.number("key check")? != key.check_value() {
        return Err(SnapshotError::OtherKey);
    }
    let rotator = B::decode(&mut reader, settings, now, budget)?;
    reader.end()?;
    Ok(rotator)
}

/// As [`read`], from bytes that contain only the snapshot. Checks length and checksum first, so that the
/// error describes the damage and not a single field.
pub(crate) fn from_slice<B: Body>(
    bytes: &[u8],
    key: &Key,
    now: Timestamp,
    limits: (usize, &Budget),
) -> Result<B::Rotator, SnapshotError> {
    if let Some((header, _)) = bytes.split_first_chunk::<HEADER>()
        && let Some((begin, length)) = header.split_last_chunk()
        && begin.starts_with(&MAGIC)
        && begin[MAGIC.len()..].starts_with(&VERSION.to_le_bytes())
    {
        let expected = u64::from_le_bytes(*length).saturating_add((HEADER + CHECKSUM) as u64);
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
    read::<B>(&mut &*bytes, key, now, limits)
}

fn hasher() -> SipHasher13 {
    SipHasher13::new_with_key(&[0; 16])
}
