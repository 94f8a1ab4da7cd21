//! Plain rows: each a file of its own, replaced whole.
//!
//! ```text
//! magic 8 · version u32 · 0 u32 · slot u64 · length u64 · content's hash u64 · hash of all before u64 · content
//! ```

use std::io;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::open_error::Fatal;
use crate::disk::{Disk, DiskFile, is_want_of_room};
use crate::{Failure, Row, Slot};

/// The longest name of a row, in bytes.
pub const ROW_NAME_BYTES_MAX: usize = 64;
/// The largest row, in bytes.
pub const ROW_BYTES_MAX: usize = 4 << 30;

const FOLDER: &str = "rows";
/// Marks a row that is being written: no name of a row begins so.
const WRITING: char = '~';
const MAGIC: &[u8; 8] = b"JETONROW";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 48;

/// How storing a row can fail.
pub enum Trouble {
    /// Nothing was stored.
    Refused(Failure),
    /// It is not known what is there now.
    Fatal(Fatal),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}

/// Whether a name can be that of a row.
pub fn check_name(name: &str) -> Result<(), Failure> {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let starts_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if name.len() > ROW_NAME_BYTES_MAX {
        let len = name.len();
        return Err(Failure::TooLarge(format!("a row's name of {len} bytes; at most {ROW_NAME_BYTES_MAX}")));
    }
    if !starts_well || !name.bytes().all(good) {
        return Err(Failure::Invalid(format!(
            "{name:?} cannot name a row: a to z, 0 to 9 and . _ - may, beginning with a letter or digit"
        )));
    }
    Ok(())
}

/// Stores a row, unless one with a higher slot is there.
pub fn put<D: Disk>(disk: &D, name: &str, row: &Row) -> Result<bool, Trouble> {
    check_name(name)?;
    if row.bytes.len() > ROW_BYTES_MAX {
        let len = row.bytes.len();
        return Err(Failure::TooLarge(format!("a row of {len} bytes; at most {ROW_BYTES_MAX}")).into());
    }
    if let Some((_, header)) = open(disk, name)?
        && header.slot > row.slot
    {
        return Ok(false);
    }
    let writing = format!("{FOLDER}/{WRITING}{name}");
    let written = disk.create(&writing, 0).and_then(|file| {
        file.write_at(&header_of(row), 0)?;
        file.write_at(&row.bytes, HEADER_BYTES as u64)?;
        Ok(file)
    });
    let refused = |error: io::Error| {
        // Whatever is there of it holds room, and is removed at the next start if not now.
        let _ = disk.remove(&writing);
        let text = format!("row {name}: {error}");
        if is_want_of_room(&error) { Failure::Full(text) } else { Failure::Unavailable(text) }
    };
    let file = written.map_err(refused)?;
    let fatal = |error: io::Error| Trouble::Fatal(Fatal(format!("cannot make row {name} durable: {error}")));
    file.sync().map_err(fatal)?;
    disk.rename(&writing, &place(name)).map_err(refused)?;
    disk.sync_names(FOLDER).map_err(fatal)?;
    Ok(true)
}

/// The row of this name.
pub fn get<D: Disk>(disk: &D, name: &str) -> Result<Option<Row>, Failure> {
    check_name(name)?;
    let Some((file, header)) = open(disk, name)? else { return Ok(None) };
    let mut bytes = vec![0; header.len];
    file.read_at(&mut bytes, HEADER_BYTES as u64).map_err(|error| unreadable(name, &error))?;
    if xxh3_64(&bytes) != header.content_hash {
        return Err(Failure::Damaged(format!("{}: the content does not match its checksum", place(name))));
    }
    Ok(Some(Row { slot: header.slot, bytes: Bytes::from(bytes) }))
}

/// Removes what was being written when the process ended, and makes durable what it had just renamed.
pub fn clean<D: Disk>(disk: &D) -> io::Result<()> {
    let names = disk.list(FOLDER)?;
    for name in names.iter().filter(|name| name.starts_with(WRITING)) {
        disk.remove(&format!("{FOLDER}/{name}"))?;
    }
    if names.is_empty() { Ok(()) } else { disk.sync_names(FOLDER) }
}

struct Header {
    slot: Slot,
    len: usize,
    content_hash: u64,
}

fn place(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    let text = format!("{} cannot be read: {error}", place(name));
    if is_want_of_room(error) { Failure::Unavailable(text) } else { Failure::Damaged(text) }
}

fn header_of(row: &Row) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&0u32.to_le_bytes());
    header.extend_from_slice(&row.slot.0.to_le_bytes());
    header.extend_from_slice(&(row.bytes.len() as u64).to_le_bytes());
    header.extend_from_slice(&xxh3_64(&row.bytes).to_le_bytes());
    header.extend_from_slice(&xxh3_64(&header).to_le_bytes());
    header
}

fn open<D: Disk>(disk: &D, name: &str) -> Result<Option<(D::File, Header)>, Failure> {
    let file = match disk.open(&place(name)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(name, &error)),
    };
    let mut bytes = [0; HEADER_BYTES];
    file.read_at(&mut bytes, 0).map_err(|error| unreadable(name, &error))?;
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let bad = |why: &str| Failure::Damaged(format!("{}: {why}", place(name)));
    if &bytes[..8] != MAGIC || word(40) != xxh3_64(&bytes[..40]) {
        return Err(bad("the header is not that of a row"));
    }
    if word(8) as u32 != VERSION {
        return Err(bad("the format is of another version"));
    }
    let there = file.len().map_err(|error| unreadable(name, &error))?;
    if word(24).checked_add(HEADER_BYTES as u64) != Some(there) {
        return Err(bad("the file is not as long as its header says"));
    }
    Ok(Some((file, Header { slot: Slot(word(16)), len: word(24) as usize, content_hash: word(32) })))
}
