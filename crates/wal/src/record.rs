//! Records: the content of frames.
//!
//! ```text
//! entry:     check u32 · 1 · kind u8 · id varint · slot varint · length varint · entry
//! trim:      check u32 · 2 · kind u8 · id varint · trimmed varint · last varint
//! released:  check u32 · 3 · segment varint
//! retired:   check u32 · 4 · kind u8 · id varint                      (versions 1 and 2 only)
//! moved:     check u32 · 5 · as an entry                              (version 2 only)
//! ```
//!
//! The kind of a log is always 1 in version 3. Versions 1 and 2 also stored registers of transactions (kinds
//! 2 and 3), which only [`legacy`](crate::legacy) reads.
//!
//! The check covers the record after it. The frame has a hash of its own; the check finds damage inside a
//! verified frame.

use xxhash_rust::xxh3::xxh3_64;

use crate::varint;
use crate::{LogId, Slot};

const ENTRY: u8 = 1;
const TRIM: u8 = 2;
const RELEASED: u8 = 3;
const RETIRED: u8 = 4;
const MOVED: u8 = 5;

/// The kind of all logs since version 3.
pub const LOG_KIND: u8 = 1;

const CHECK_BYTES: usize = 4;
/// The most bytes of a log's name.
const LOG_BYTES_MAX: usize = 1 + varint::U16_BYTES_MAX;

/// The most bytes that an entry's record takes besides the entry.
pub const ENTRY_OVERHEAD_MAX: usize = CHECK_BYTES + 1 + LOG_BYTES_MAX + 2 * varint::U64_BYTES_MAX;

/// The most bytes of a record without an entry.
pub const TRIM_BYTES_MAX: usize = CHECK_BYTES + 1 + LOG_BYTES_MAX + 2 * varint::U64_BYTES_MAX;

/// The name of a log as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredLog {
    /// 1; in versions 1 and 2 also 2 or 3.
    pub kind: u8,
    /// At most `u16::MAX` if the kind is 1.
    pub id: u128,
}

impl StoredLog {
    /// The log of a wal with this name, if it is one.
    pub fn log_id(self) -> Option<LogId> {
        (self.kind == LOG_KIND).then_some(self.id).and_then(|id| u16::try_from(id).ok()).map(LogId)
    }
}

/// A record, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// An entry; `moved` if it was copied from an older segment (version 2).
    Entry { log: StoredLog, slot: Slot, entry: &'a [u8], moved: bool },
    /// A log is trimmed up to `trimmed`; `last` is the highest slot written before this record.
    Trim { log: StoredLog, trimmed: Slot, last: Slot },
    /// The segments up to this number are no longer needed.
    Released { through: u32 },
    /// All logs of a kind with lower ids are trimmed completely (versions 1 and 2).
    Retired { kind: u8, below: u128 },
}

pub fn put_entry(bytes: &mut Vec<u8>, log: LogId, slot: Slot, entry: &[u8]) {
    put(bytes, ENTRY, |bytes| {
        put_log(bytes, log);
        varint::put(bytes, slot.0);
        varint::put(bytes, entry.len() as u64);
        bytes.extend_from_slice(entry);
    });
}

pub fn put_trim(bytes: &mut Vec<u8>, log: LogId, trimmed: Slot, last: Slot) {
    put(bytes, TRIM, |bytes| {
        put_log(bytes, log);
        varint::put(bytes, trimmed.0);
        varint::put(bytes, last.0);
    });
}

pub fn put_released(bytes: &mut Vec<u8>, through: u32) {
    put(bytes, RELEASED, |bytes| varint::put(bytes, through.into()));
}

fn put(bytes: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; CHECK_BYTES]);
    bytes.push(kind);
    fill(bytes);
    let check = check(&bytes[start + CHECK_BYTES..]);
    bytes[start..start + CHECK_BYTES].copy_from_slice(&check.to_le_bytes());
}

fn put_log(bytes: &mut Vec<u8>, log: LogId) {
    bytes.push(LOG_KIND);
    varint::put(bytes, log.0.into());
}

fn check(bytes: &[u8]) -> u32 {
    xxh3_64(bytes) as u32
}

/// Takes a record off the front; `None` if there is no valid one.
pub fn take<'a>(bytes: &mut &'a [u8]) -> Option<Record<'a>> {
    let (&expected, body) = bytes.split_first_chunk::<CHECK_BYTES>()?;
    let mut rest = body;
    let record = parse(&mut rest)?;
    if check(&body[..body.len() - rest.len()]) != u32::from_le_bytes(expected) {
        return None;
    }
    *bytes = rest;
    Some(record)
}

fn parse<'a>(rest: &mut &'a [u8]) -> Option<Record<'a>> {
    match take_byte(rest)? {
        kind @ (ENTRY | MOVED) => {
            let log = take_log(rest)?;
            let slot = Slot(varint::take(rest)?);
            let len = usize::try_from(varint::take(rest)?).ok()?;
            let (entry, after) = rest.split_at_checked(len)?;
            *rest = after;
            Some(Record::Entry { log, slot, entry, moved: kind == MOVED })
        }
        TRIM => {
            let log = take_log(rest)?;
            let trimmed = Slot(varint::take(rest)?);
            let last = Slot(varint::take(rest)?);
            Some(Record::Trim { log, trimmed, last })
        }
        RELEASED => Some(Record::Released { through: u32::try_from(varint::take(rest)?).ok()? }),
        RETIRED => {
            let StoredLog { kind, id } = take_log(rest)?;
            Some(Record::Retired { kind, below: id })
        }
        _ => None,
    }
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, after) = rest.split_first()?;
    *rest = after;
    Some(byte)
}

fn take_log(rest: &mut &[u8]) -> Option<StoredLog> {
    let kind = take_byte(rest).filter(|kind| (1..=3).contains(kind))?;
    Some(StoredLog { kind, id: varint::take_wide(rest)? })
}
