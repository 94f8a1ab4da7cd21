//! Reads a run sequentially in large pieces, and checks everything.

use std::ops::Range;
use std::sync::Arc;

use jeton_wal::disk::Disk;

use super::Error;
use super::bucket::{ENTRY_BYTES, Record};
use super::header::{digest, entry_at};
use super::run::Run;

/// Buckets read at once; about 256 KiB.
const PIECE_BUCKETS: u64 = 96;

/// A cursor in a run: at a record, before the first, or after the last.
pub(super) struct Scan<D: Disk> {
    run: Arc<Run<D>>,
    /// Kept open until the end: a merge must not compete with lookups for the file cache.
    file: Arc<D::File>,
    next_bucket: u64,
    /// File offset of the next piece of records.
    next_offset: u64,
    entries: Vec<u8>,
    records: Vec<u8>,
    /// Position of the current record in `records`, and file offset of `records`.
    place: Range<usize>,
    offset: u64,
    key: Option<u128>,
    ids: u64,
    digest: u64,
}

impl<D: Disk> Scan<D> {
    /// Starts before the first record.
    pub(super) fn new(run: &Arc<Run<D>>) -> Result<Self, Error> {
        let first = entry_at(run.header.buckets);
        Ok(Self {
            run: run.clone(),
            file: run.file()?,
            next_bucket: 0,
            next_offset: first,
            entries: Vec::new(),
            records: Vec::new(),
            place: 0..0,
            offset: first,
            key: None,
            ids: 0,
            digest: 0,
        })
    }

    /// Advances to the next record and returns its key. `None` after the last: then the whole run was read
    /// and is valid.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<Option<u128>, Error> {
        while self.place.end == self.records.len() {
            if self.next_bucket == self.run.header.buckets {
                return self.check_whole();
            }
            self.read_piece()?;
        }
        let start = self.place.end;
        let Some(record) = Record::first(&self.records[start..]) else {
            return Err(self.damaged_here("there is no record where one should be"));
        };
        let key = u128::from_be_bytes(*record.key);
        self.place = start..start + record.bytes;
        if self.key >= Some(key) {
            return Err(self.damaged_here("the records are not in order"));
        }
        self.key = Some(key);
        self.ids += 1;
        Ok(self.key)
    }

    /// The current record: key, length and value as in the file.
    #[inline]
    pub(super) fn record(&self) -> &[u8] {
        &self.records[self.place.clone()]
    }

    /// Reads and checks the rest.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        while self.advance()?.is_some() {}
        Ok(())
    }

    /// Reads and checks the next buckets.
    fn read_piece(&mut self) -> Result<(), Error> {
        let run = &self.run;
        let count = PIECE_BUCKETS.min(run.header.buckets - self.next_bucket);
        self.entries.resize(count as usize * ENTRY_BYTES, 0);
        run.read(&self.file, &mut self.entries, entry_at(self.next_bucket))?;
        let mut end = self.next_offset;
        let mut buckets = Vec::with_capacity(count as usize);
        for (entry, index) in self.entries.chunks_exact(ENTRY_BYTES).zip(self.next_bucket..) {
            let bucket = run.bucket(entry, index)?;
            if bucket.start != end {
                return Err(run.damaged(entry_at(index), "the buckets do not join"));
            }
            end += u64::from(bucket.bytes);
            self.digest = digest(self.digest, bucket.sum);
            buckets.push((index, bucket));
        }
        self.records.resize((end - self.next_offset) as usize, 0);
        run.read(&self.file, &mut self.records, self.next_offset)?;
        for (index, bucket) in &buckets {
            let start = (bucket.start - self.next_offset) as usize;
            run.check_records(&self.records[start..start + bucket.bytes as usize], bucket, *index)?;
        }
        self.place = 0..0;
        self.offset = self.next_offset;
        self.next_offset = end;
        self.next_bucket += count;
        Ok(())
    }

    /// An error unless the records match the count in the header.
    fn check_whole(&self) -> Result<Option<u128>, Error> {
        let header = &self.run.header;
        if (self.ids, self.digest, self.next_offset) != (header.ids, header.digest, header.size) {
            return Err(self.run.damaged(0, "the records are not those that the header counts"));
        }
        Ok(None)
    }

    fn damaged_here(&self, why: &'static str) -> Error {
        self.run.damaged(self.offset + self.place.start as u64, why)
    }
}
