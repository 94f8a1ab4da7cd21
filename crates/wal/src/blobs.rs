//! Blobs: small named files beside the log, each replaced atomically.
//!
//! ```text
//! magic 8 · version u32 · 0 u32 · blob version u64 · length u64 · hash of the content u64 ·
//! hash of all before u64 · content
//! ```

use std::io;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use crate::disk::{Disk, DiskFile, is_out_of_space};
use crate::error::Error;
use crate::open_error::Fatal;

/// The longest name of a blob, in bytes.
pub const BLOB_NAME_BYTES_MAX: usize = 64;
/// The largest blob, in bytes.
pub const BLOB_BYTES_MAX: usize = 4 << 30;

const FOLDER: &str = "rows";
/// The first character of the name of a file that is being written. No name of a blob starts with it.
const UNFINISHED: char = '~';
const MAGIC: &[u8; 8] = b"JETONROW";
const FORMAT: u32 = 1;
const HEADER_BYTES: usize = 48;

/// The content of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Orders the contents of a blob: a lower version never replaces a higher one.
    pub version: u64,
    pub bytes: Bytes,
}

/// Why a blob was not stored.
#[derive(Debug)]
pub enum BlobError {
    /// Nothing was changed.
    Refused(Error),
    /// It is unknown which content is durable. The process must end.
    Fatal(Fatal),
}

impl From<Error> for BlobError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// Whether this can be the name of a blob.
pub fn check_name(name: &str) -> Result<(), Error> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let starts_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if name.len() > BLOB_NAME_BYTES_MAX {
        let len = name.len();
        return Err(Error::TooLarge(format!(
            "a blob name of {len} bytes; the limit is {BLOB_NAME_BYTES_MAX}"
        )));
    }
    if !starts_well || !name.bytes().all(allowed) {
        return Err(Error::Invalid(format!(
            "{name:?} is not a blob name: allowed are a to z, 0 to 9 and . _ -, starting with a letter or digit"
        )));
    }
    Ok(())
}

/// Stores a blob, durably and atomically, unless it has a higher version. Returns whether it was stored.
pub fn put<D: Disk>(disk: &D, name: &str, blob: &Blob) -> Result<bool, BlobError> {
    check_name(name)?;
    if blob.bytes.len() > BLOB_BYTES_MAX {
        let len = blob.bytes.len();
        return Err(Error::TooLarge(format!("a blob of {len} bytes; the limit is {BLOB_BYTES_MAX}")).into());
    }
    if let Some((_, header)) = open(disk, name)?
        && header.version > blob.version
    {
        return Ok(false);
    }
    let unfinished = format!("{FOLDER}/{UNFINISHED}{name}");
    let written = disk.create(&unfinished, 0).and_then(|file| {
        file.write_at(&header_of(blob), 0)?;
        file.write_at(&blob.bytes, HEADER_BYTES as u64)?;
        Ok(file)
    });
    let refused = |error: io::Error| {
        // If the file cannot be removed now, the next start removes it.
        let _ = disk.remove(&unfinished);
        let text = format!("blob {name}: {error}");
        if is_out_of_space(&error) { Error::Full(text) } else { Error::Unavailable(text) }
    };
    let file = written.map_err(refused)?;
    let fatal =
        |error: io::Error| BlobError::Fatal(Fatal(format!("cannot make blob {name} durable: {error}")));
    file.sync().map_err(fatal)?;
    disk.rename(&unfinished, &path(name)).map_err(refused)?;
    disk.sync_names(FOLDER).map_err(fatal)?;
    Ok(true)
}

/// The blob with this name.
pub fn get<D: Disk>(disk: &D, name: &str) -> Result<Option<Blob>, Error> {
    check_name(name)?;
    let Some((file, header)) = open(disk, name)? else { return Ok(None) };
    let mut bytes = vec![0; header.len];
    file.read_at(&mut bytes, HEADER_BYTES as u64).map_err(|error| unreadable(name, &error))?;
    if xxh3_64(&bytes) != header.content_hash {
        return Err(Error::Damaged(format!("{}: the content does not match its checksum", path(name))));
    }
    Ok(Some(Blob { version: header.version, bytes: Bytes::from(bytes) }))
}

pub fn list<D: Disk>(disk: &D) -> io::Result<Vec<String>> {
    Ok(disk.list(FOLDER)?.into_iter().filter(|name| check_name(name).is_ok()).collect())
}

/// Removes blobs, durably. Names without a blob are skipped.
pub fn remove<D: Disk>(disk: &D, names: &[String]) -> Result<(), Error> {
    let failed = |error: io::Error| Error::Unavailable(format!("cannot remove blobs: {error}"));
    for name in names {
        check_name(name)?;
        match disk.remove(&path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    disk.sync_names(FOLDER).map_err(failed)
}

/// Removes unfinished files, and makes renames durable that a killed process left in the page cache.
pub(crate) fn clean<D: Disk>(disk: &D) -> io::Result<()> {
    let names = disk.list(FOLDER)?;
    for name in names.iter().filter(|name| name.starts_with(UNFINISHED)) {
        disk.remove(&format!("{FOLDER}/{name}"))?;
    }
    if names.is_empty() { Ok(()) } else { disk.sync_names(FOLDER) }
}

struct Header {
    version: u64,
    len: usize,
    content_hash: u64,
}

fn path(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

fn unreadable(name: &str, error: &io::Error) -> Error {
    let text = format!("{} cannot be read: {error}", path(name));
    if is_out_of_space(error) { Error::Unavailable(text) } else { Error::Damaged(text) }
}

fn header_of(blob: &Blob) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&FORMAT.to_le_bytes());
    header.extend_from_slice(&0u32.to_le_bytes());
    header.extend_from_slice(&blob.version.to_le_bytes());
    header.extend_from_slice(&(blob.bytes.len() as u64).to_le_bytes());
    header.extend_from_slice(&xxh3_64(&blob.bytes).to_le_bytes());
    header.extend_from_slice(&xxh3_64(&header).to_le_bytes());
    header
}

fn open<D: Disk>(disk: &D, name: &str) -> Result<Option<(D::File, Header)>, Error> {
    let file = match disk.open(&path(name)) {
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
    let bad = |why: &str| Error::Damaged(format!("{}: {why}", path(name)));
    if &bytes[..8] != MAGIC || word(40) != xxh3_64(&bytes[..40]) {
        return Err(bad("the header is not that of a blob"));
    }
    if word(8) as u32 != FORMAT {
        return Err(bad("the format has another version"));
    }
    let len = file.len().map_err(|error| unreadable(name, &error))?;
    if word(24).checked_add(HEADER_BYTES as u64) != Some(len) {
        return Err(bad("the length of the file differs from the header"));
    }
    Ok(Some((file, Header { version: word(16), len: word(24) as usize, content_hash: word(32) })))
}
