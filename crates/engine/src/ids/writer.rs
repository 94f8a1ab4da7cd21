//! Writes a run from sorted records to a durable file, with a buffer of fixed size.
//!
//! The directory precedes the records, so both are written at their own offsets, and only the open bucket and
//! the buffers are in memory. The header is written last. A writer that is dropped before its end removes its
//! file.

use std::sync::Arc;

use jeton_core::codec::Write as _;
use jeton_wal::disk::{Disk, DiskFile};

use super::bucket::{Bucket, bucket_of, sum};
use super::directory::{Store, io_error};
use super::header::{Header, digest, entry_at};
use super::run::Run;
use super::{Error, VALUE_BYTES_MAX};

/// Records and directory entries are written in pieces of about this many bytes.
const PIECE_BYTES: usize = 256 * 1024;

/// A long run is synced each time after this many bytes, so that the last sync is short.
const SYNC_BYTES: u64 = 64 * 1024 * 1024;

pub(super) struct RunWriter<D: Disk> {
    store: Arc<Store<D>>,
    number: u64,
    generation: u64,
    name: String,
    /// Taken out at the end; a writer that is dropped with it was abandoned.
    file: Option<D::File>,
    buckets: u64,
    /// The open bucket; its records start at `open_at` in `records`.
    open: Bucket,
    open_index: u64,
    open_at: usize,
    /// Records not written yet, and their file offset.
    records: Vec<u8>,
    records_offset: u64,
    /// Directory entries not written yet, and their file offset.
    directory: Vec<u8>,
    directory_offset: u64,
    last: Option<u128>,
    ids: u64,
    digest: u64,
    unsynced: u64,
}

impl<D: Disk> RunWriter<D> {
    /// Creates the file of a run with this number.
    pub(super) fn create(
        store: &Arc<Store<D>>,
        number: u64,
        generation: u64,
        buckets: u64,
    ) -> Result<Self, Error> {
        let name = store.run_name(number);
        // It grows as it is written: preallocating it would write every block twice.
        let file = store.disk.create(&name, 0).map_err(io_error("create", &name))?;
        let records_offset = entry_at(buckets);
        Ok(Self {
            store: store.clone(),
            number,
            generation,
            name,
            file: Some(file),
            buckets,
            open: Bucket { start: records_offset, ..Bucket::default() },
            open_index: 0,
            open_at: 0,
            records: Vec::with_capacity(2 * PIECE_BYTES),
            records_offset,
            directory: Vec::with_capacity(PIECE_BYTES),
            directory_offset: entry_at(0),
            last: None,
            ids: 0,
            digest: 0,
            unsynced: 0,
        })
    }

    /// Appends a record. A record with the key of the one before it is skipped.
    pub(super) fn push(&mut self, key: u128, value: &[u8]) -> Result<(), Error> {
        if value.len() > VALUE_BYTES_MAX {
            let (size, max) = (value.len() as u64, VALUE_BYTES_MAX as u64);
            return Err(Error::TooLarge { what: "a value in bytes", size, max });
        }
        if self.admit(key)? {
            self.records.extend_from_slice(&key.to_be_bytes());
            self.records.put_bytes(value);
        }
        Ok(())
    }

    /// Appends an encoded record of another run.
    #[inline]
    pub(super) fn push_record(&mut self, key: u128, record: &[u8]) -> Result<(), Error> {
        if self.admit(key)? {
            self.records.extend_from_slice(record);
        }
        Ok(())
    }

    /// Opens the bucket of a key; false if the key was the last one already.
    #[inline]
    fn admit(&mut self, key: u128) -> Result<bool, Error> {
        if self.last == Some(key) {
            return Ok(false);
        }
        // A file out of order would silently lose keys.
        assert!(self.last < Some(key), "records of a run are in order");
        self.last = Some(key);
        let bucket = bucket_of(key, self.buckets);
        if bucket != self.open_index {
            self.close_buckets(bucket)?;
        }
        self.open.ids += 1;
        self.open.filter.insert(key);
        self.ids += 1;
        Ok(true)
    }

    /// Closes the open bucket and the empty ones after it, and opens this one.
    fn close_buckets(&mut self, next: u64) -> Result<(), Error> {
        while self.open_index < next {
            let records = &self.records[self.open_at..];
            self.open.bytes = u32::try_from(records.len()).map_err(|_| Error::TooLarge {
                what: "a bucket in bytes",
                size: records.len() as u64,
                max: u32::MAX.into(),
            })?;
            self.open.sum = sum(records, self.number, self.open_index);
            self.open.encode(self.number, self.open_index, &mut self.directory);
            self.digest = digest(self.digest, self.open.sum);
            self.open_index += 1;
            self.open_at = self.records.len();
            let start = self.records_offset + self.open_at as u64;
            self.open = Bucket { start, ..Bucket::default() };
            if self.records.len() >= PIECE_BYTES {
                self.write_records()?;
            }
            if self.directory.len() >= PIECE_BYTES {
                self.write_directory()?;
            }
        }
        Ok(())
    }

    fn write_records(&mut self) -> Result<(), Error> {
        debug_assert_eq!(self.open_at, self.records.len(), "an open bucket would be torn from its sum");
        self.write(&self.records, self.records_offset)?;
        self.records_offset += self.records.len() as u64;
        self.unsynced += self.records.len() as u64;
        self.records.clear();
        self.open_at = 0;
        if self.unsynced >= SYNC_BYTES {
            self.sync()?;
            self.unsynced = 0;
        }
        Ok(())
    }

    fn write_directory(&mut self) -> Result<(), Error> {
        self.write(&self.directory, self.directory_offset)?;
        self.directory_offset += self.directory.len() as u64;
        self.directory.clear();
        Ok(())
    }

    /// Finishes the run: its content is durable; its name is durable after the next sync of names.
    pub(super) fn finish(mut self) -> Result<Run<D>, Error> {
        self.close_buckets(self.buckets)?;
        self.write_records()?;
        self.write_directory()?;
        assert_eq!(
            self.directory_offset,
            entry_at(self.buckets),
            "the directory has an entry for every bucket"
        );
        let header = Header {
            number: self.number,
            generation: self.generation,
            buckets: self.buckets,
            ids: self.ids,
            size: self.records_offset,
            digest: self.digest,
        };
        self.write(&header.encode(), 0)?;
        self.sync()?;
        if let Some(file) = self.file.take() {
            self.store.handles.put(self.number, Arc::new(file));
        }
        Ok(Run::new(self.store.clone(), header))
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        let written = self.file.as_ref().map_or(Ok(()), |file| file.write_at(bytes, offset));
        written.map_err(io_error("write", &self.name))
    }

    fn sync(&self) -> Result<(), Error> {
        self.file.as_ref().map_or(Ok(()), DiskFile::sync).map_err(io_error("sync", &self.name))
    }
}

impl<D: Disk> Drop for RunWriter<D> {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            self.store.queue_removal(self.number);
            // At once: a run that failed for lack of space gives its own space back.
            self.store.sweep();
        }
    }
}
