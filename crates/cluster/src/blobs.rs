//! The blobs of a stripe: the catalogue is in registers, for all nodes; the filters are in the directory,
//! which is a cache.

use std::fs::File;
use std::path::Path;

use futures_executor::block_on;
use jeton_register::{Batch, Error, LogId, Registers, Slot, WriteResult};
use jeton_wal::disk::{Disk, RealDisk};
use jeton_wal::{Blob, Error as LogError, abort_process, blobs};

use crate::open_error::OpenError;
use crate::register_error::log_error;

/// Reads of a catalogue that is being replaced.
const READS_MAX: usize = 8;

/// The blob that names the stripe that a directory belongs to.
const STRIPE: &str = "stripe";

/// The latest catalogue. Blocks.
pub(crate) fn read_catalog<R: Registers>(registers: &R) -> Result<Option<Blob>, LogError> {
    for _ in 0..READS_MAX {
        let last = block_on(registers.extent(LogId::CATALOG)).map_err(log_error)?.last;
        if last == Slot::ZERO {
            return Ok(None);
        }
        match block_on(registers.read(LogId::CATALOG, last, 1)) {
            Ok(mut found) => {
                let found = found.pop().filter(|(slot, _)| *slot == last);
                let lost = || LogError::Damaged(format!("version {last} of the catalogue is missing"));
                return found.map(|(slot, bytes)| Some(Blob { version: slot.0, bytes })).ok_or_else(lost);
            }
            // A later version replaced it.
            Err(Error::Trimmed { .. }) => {}
            Err(error) => return Err(log_error(error)),
        }
    }
    Err(LogError::Busy("the catalogue is being changed".into()))
}

/// Stores the next version of the catalogue. Fails if another node has stored one of that version. Blocks.
pub(crate) fn write_catalog<R: Registers>(registers: &R, blob: &Blob) -> Result<(), LogError> {
    let mut batch = Batch::new();
    batch.push(LogId::CATALOG, Slot(blob.version), &blob.bytes);
    let permit = registers.admit(1, blob.bytes.len()).map_err(log_error)?;
    match block_on(registers.write(batch, permit)).map_err(log_error)?.pop() {
        Some(WriteResult::Fresh) => {}
        Some(WriteResult::Taken(stored)) if stored == blob.bytes => {}
        _ => {
            let why = "another node has changed the tables: the stripe must be opened again";
            return Err(LogError::Unavailable(why.into()));
        }
    }
    // If it fails, the old versions take space until the next change.
    let before = Slot(blob.version - 1);
    drop(block_on(registers.trim(LogId::CATALOG, before)));
    Ok(())
}

/// The directory of a stripe, locked.
pub(crate) struct CacheFolder {
    disk: RealDisk,
    _lock: File,
}

impl CacheFolder {
    /// Opens or creates the directory of the stripe with this identity.
    pub(crate) fn open(path: &Path, identity: u128) -> Result<Self, OpenError> {
        let io_error = |source| OpenError::Io { path: path.to_owned(), source };
        let disk = RealDisk::new(path).map_err(io_error)?;
        let folder = Self { _lock: disk.lock("jeton")?, disk };
        let expected = Blob { version: 1, bytes: identity.to_le_bytes().to_vec().into() };
        match folder.get(STRIPE)? {
            Some(found) if found != expected => return Err(OpenError::Foreign(path.to_owned())),
            Some(_) => {}
            None => drop(folder.put(STRIPE, &expected)?),
        }
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.disk.path()
    }

    pub(crate) fn get(&self, name: &str) -> Result<Option<Blob>, LogError> {
        blobs::get(&self.disk, name)
    }

    pub(crate) fn put(&self, name: &str, blob: &Blob) -> Result<bool, LogError> {
        blobs::put(&self.disk, name, blob).map_err(|error| match error {
            blobs::BlobError::Refused(error) => error,
            blobs::BlobError::Fatal(fatal) => abort_process(&fatal.0),
        })
    }
}
