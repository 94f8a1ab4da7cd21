//! What a frame holds: registers, trim points, which logs are retired, and the segments that are no longer needed.
//!
//! ```text
//! register:  check u32 · 1 · space u8 · id varint · slot varint · length varint · value
//! trim:      check u32 · 2 · space u8 · id varint · trimmed varint · last varint
//! released:  check u32 · 3 · segment varint
//! retired:   check u32 · 4 · space u8 · id varint
//! carried:   check u32 · 5 · as a register
//! ```
//!
//! The last two are of version 2 of the format. A register that is *carried* was written before, in a segment that is to be released.
//!
//! The check is over everything in the record after it. The frame has a hash of its own; the check is for readers of a single
//! register, who must notice a disk that went bad since the start.

use xxhash_rust::xxh3::xxh3_64;

use super::varint;
use crate::{Log, Slot, Space};

const REGISTER: u8 = 1;
const TRIM: u8 = 2;
const RELEASED: u8 = 3;
const RETIRED: u8 = 4;
const CARRIED: u8 = 5;

const CHECK_BYTES: usize = 4;

/// The most bytes of a log's name.
const LOG_BYTES_MAX: usize = 1 + varint::U128_BYTES_MAX;

/// The most bytes that a register's record takes besides its value.
pub const REGISTER_OVERHEAD_MAX: usize = CHECK_BYTES + 1 + LOG_BYTES_MAX + 2 * varint::U64_BYTES_MAX;

/// The most bytes of a trim record; others without a value take no more.
pub const TRIM_BYTES_MAX: usize = CHECK_BYTES + 1 + LOG_BYTES_MAX + 2 * varint::U64_BYTES_MAX;

/// A record, read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// A register was written; or carried here from where it was written.
    Register { log: Log, slot: Slot, value: &'a [u8], carried: bool },
    /// A log is trimmed up to here; `last` is the highest slot that was ever written in it before this record.
    Trim { log: Log, trimmed: Slot, last: Slot },
    /// The segments up to this number are no longer needed.
    Released { through: u32 },
    /// The logs of a dated space whose ids are below this one are retired.
    Retired { space: Space, below: u128 },
}

pub fn put_register(bytes: &mut Vec<u8>, log: Log, slot: Slot, value: &[u8], carried: bool) {
    put(bytes, if carried { CARRIED } else { REGISTER }, |bytes| {
        put_log(bytes, log);
        varint::put(bytes, slot.0);
        varint::put(bytes, value.len() as u64);
        bytes.extend_from_slice(value);
    });
}

pub fn put_trim(bytes: &mut Vec<u8>, log: Log, trimmed: Slot, last: Slot) {
    put(bytes, TRIM, |bytes| {
        put_log(bytes, log);
        varint::put(bytes, trimmed.0);
        varint::put(bytes, last.0);
    });
}

pub fn put_released(bytes: &mut Vec<u8>, through: u32) {
    put(bytes, RELEASED, |bytes| varint::put(bytes, through.into()));
}

pub fn put_retired(bytes: &mut Vec<u8>, space: Space, below: u128) {
    put(bytes, RETIRED, |bytes| put_log(bytes, Log { space, id: below }));
}

fn put(bytes: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; CHECK_BYTES]);
    bytes.push(kind);
    fill(bytes);
    let check = check(&bytes[start + CHECK_BYTES..]);
    bytes[start..start + CHECK_BYTES].copy_from_slice(&check.to_le_bytes());
}

fn put_log(bytes: &mut Vec<u8>, log: Log) {
    bytes.push(log.space as u8);
    varint::put_wide(bytes, log.id);
}

fn check(bytes: &[u8]) -> u32 {
    xxh3_64(bytes) as u32
}

/// What the start of a buffer is.
pub enum Taken<'a> {
    /// A record, which was taken off the front.
    Record(Record<'a>),
    /// The beginning of a record that needs so many bytes in all.
    Cut(usize),
    /// No record.
    Bad,
}

/// Takes a record off the front.
pub fn take<'a>(bytes: &mut &'a [u8]) -> Taken<'a> {
    let whole = *bytes;
    let Some((&expected, body)) = whole.split_first_chunk::<CHECK_BYTES>() else {
        return Taken::Cut(CHECK_BYTES + 1);
    };
    let mut rest = body;
    // A number that cannot be read for want of bytes is cut, not bad; only a reader of one register meets this.
    let parsed = match parse(&mut rest) {
        Ok(parsed) => parsed,
        Err(Some(more)) => return Taken::Cut(more.saturating_add(CHECK_BYTES)),
        Err(None) if whole.len() < REGISTER_OVERHEAD_MAX => return Taken::Cut(REGISTER_OVERHEAD_MAX),
        Err(None) => return Taken::Bad,
    };
    if check(&body[..body.len() - rest.len()]) != u32::from_le_bytes(expected) {
        return Taken::Bad;
    }
    *bytes = rest;
    Taken::Record(parsed)
}

/// The error is how many bytes the body needs, if that is known.
fn parse<'a>(rest: &mut &'a [u8]) -> Result<Record<'a>, Option<usize>> {
    let whole = rest.len();
    match take_byte(rest)? {
        kind @ (REGISTER | CARRIED) => {
            let log = take_log(rest)?;
            let slot = Slot(varint::take(rest).ok_or(None)?);
            let len = varint::take(rest).and_then(|len| usize::try_from(len).ok()).ok_or(None)?;
            if len > rest.len() {
                return Err(Some((whole - rest.len()).saturating_add(len)));
            }
            let (value, after) = rest.split_at(len);
            *rest = after;
            Ok(Record::Register { log, slot, value, carried: kind == CARRIED })
        }
        TRIM => {
            let log = take_log(rest)?;
            let trimmed = Slot(varint::take(rest).ok_or(None)?);
            let last = Slot(varint::take(rest).ok_or(None)?);
            Ok(Record::Trim { log, trimmed, last })
        }
        RELEASED => {
            let through = varint::take(rest).and_then(|number| u32::try_from(number).ok()).ok_or(None)?;
            Ok(Record::Released { through })
        }
        RETIRED => {
            let Log { space, id } = take_log(rest)?;
            Ok(Record::Retired { space, below: id })
        }
        _ => Err(None),
    }
}

fn take_byte(rest: &mut &[u8]) -> Result<u8, Option<usize>> {
    let (&byte, after) = rest.split_first().ok_or(None)?;
    *rest = after;
    Ok(byte)
}

fn take_log(rest: &mut &[u8]) -> Result<Log, Option<usize>> {
    let space = Space::from_number(take_byte(rest)?).ok_or(None)?;
    Ok(Log { space, id: varint::take_wide(rest).ok_or(None)? })
}
