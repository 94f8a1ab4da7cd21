//! The entries of the log of embedded registers.
//!
//! ```text
//! format:   0 · version u8                                  first entry of the log, and of every rewrite
//! write:    1 · kind u8 · id varint · slot varint · value
//! trim:     2 · kind u8 · id varint · trimmed varint · last varint
//! retire:   3 · kind u8 · id varint
//! ```

use bytes::Bytes;
use jeton_wal::varint;

use crate::{Extent, LogId, LogKind, RegisterMap, Slot, WriteResult};

const VERSION: u8 = 1;

const FORMAT: u8 = 0;
const WRITE: u8 = 1;
const TRIM: u8 = 2;
const RETIRE: u8 = 3;

/// The most bytes of an entry besides the value.
pub const ENTRY_OVERHEAD: usize = 2 + varint::U128_BYTES_MAX + 2 * varint::U64_BYTES_MAX;

pub fn format_entry() -> Vec<u8> {
    vec![FORMAT, VERSION]
}

pub fn is_format(entry: &[u8]) -> bool {
    entry.first() == Some(&FORMAT)
}

pub fn write_entry(log: LogId, slot: Slot, value: &[u8]) -> Vec<u8> {
    let mut entry = named_entry(WRITE, log);
    varint::put(&mut entry, slot.0);
    entry.extend_from_slice(value);
    entry
}

pub fn trim_entry(log: LogId, extent: Extent) -> Vec<u8> {
    let mut entry = named_entry(TRIM, log);
    varint::put(&mut entry, extent.trimmed.0);
    varint::put(&mut entry, extent.last.0);
    entry
}

pub fn retire_entry(kind: LogKind, below: u128) -> Vec<u8> {
    named_entry(RETIRE, LogId { kind, id: below })
}

fn named_entry(what: u8, log: LogId) -> Vec<u8> {
    let mut entry = vec![what, log.kind as u8];
    varint::put_wide(&mut entry, log.id);
    entry
}

/// Applies an entry to the registers. The error says why no writer would have written it.
pub fn apply(map: &mut RegisterMap, entry: &[u8]) -> Result<(), &'static str> {
    const BROKEN: &str = "it is incomplete";
    let (&what, mut rest) = entry.split_first().ok_or(BROKEN)?;
    if what == FORMAT {
        return if rest == [VERSION] { Ok(()) } else { Err("the format has another version") };
    }
    let (&kind, after) = rest.split_first().ok_or(BROKEN)?;
    rest = after;
    let kind = LogKind::from_number(kind).ok_or("the kind of the log is unknown")?;
    let log = LogId { kind, id: varint::take_wide(&mut rest).ok_or(BROKEN)? };
    let mut slot = || varint::take(&mut rest).map(Slot).filter(|slot| *slot <= Slot::MAX).ok_or(BROKEN);
    match what {
        WRITE => {
            let slot = slot()?;
            // A rewrite puts registers after later ones of their log.
            match map.restore(log, slot, Bytes::copy_from_slice(rest)) {
                WriteResult::Fresh => Ok(()),
                WriteResult::Taken(value) if value == rest => Ok(()),
                WriteResult::Taken(_) => Err("the register has another value"),
                WriteResult::Trimmed | WriteResult::Gap => Err("the register is trimmed"),
            }
        }
        TRIM => {
            let (trimmed, last) = (slot()?, slot()?);
            map.restore_trim(log, trimmed, last);
            if rest.is_empty() { Ok(()) } else { Err("it is too long") }
        }
        RETIRE if kind.is_dated() && rest.is_empty() => {
            map.retire(kind, log.id);
            Ok(())
        }
        _ => Err("it is unknown"),
    }
}
