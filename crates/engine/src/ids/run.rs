//! A run: an immutable file of sorted records, with a few numbers in memory.
//!
//! A run is *kept* from the moment a manifest may list it. The file of a run that is not kept is removed when
//! its last user drops it; until then it can be opened again, so a reader of an old version can finish.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jeton_wal::disk::{Disk, DiskFile};

use super::bucket::{self, Bucket, ENTRY_BYTES, bucket_of, sum};
use super::directory::{Store, read_error};
use super::header::{HEADER_BYTES, Header, entry_at};
use super::{Error, Key};

/// A run that no manifest lists yet. If it is dropped before the commit, its file is removed.
pub struct NewRun<D: Disk>(pub(super) Arc<Run<D>>);

impl<D: Disk> NewRun<D> {
    pub fn generation(&self) -> u64 {
        self.0.header.generation
    }

    pub fn ids(&self) -> u64 {
        self.0.header.ids
    }

    pub fn bytes(&self) -> u64 {
        self.0.header.size
    }
}

pub(super) struct Run<D: Disk> {
    pub(super) store: Arc<Store<D>>,
    pub(super) header: Header,
    kept: AtomicBool,
}

impl<D: Disk> Run<D> {
    /// A run whose file was just written.
    pub(super) fn new(store: Arc<Store<D>>, header: Header) -> Self {
        Self { store, header, kept: AtomicBool::new(false) }
    }

    /// Opens the run that a manifest lists: its header must have this checksum.
    pub(super) fn open(store: &Arc<Store<D>>, number: u64, seal: u64) -> Result<Self, Error> {
        let file = open_file(store, number)?;
        let header = read_header(&file, &store.run_name(number))?;
        if header.seal() != seal || header.number != number {
            let file = store.run_name(number);
            return Err(Error::Damaged {
                file,
                offset: 0,
                why: "this is not the run that the manifest lists",
            });
        }
        store.handles.put(number, Arc::new(file));
        Ok(Self { store: store.clone(), header, kept: AtomicBool::new(true) })
    }

    /// Sets whether the file outlives the last user of this run.
    pub(super) fn keep(&self, kept: bool) {
        // The `Arc` counter, through which every user goes, gives release here and acquire in `drop`.
        self.kept.store(kept, Ordering::Relaxed);
    }

    /// Whether a manifest may list it.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Relaxed)
    }

    /// The file, opened and checked again if it was closed meanwhile.
    pub(super) fn file(&self) -> Result<Arc<D::File>, Error> {
        self.store.handles.get(self.header.number, || {
            let file = open_file(&self.store, self.header.number)?;
            if read_header(&file, &self.name())? != self.header {
                return Err(self.damaged(0, "this is not the run that it was before"));
            }
            Ok(file)
        })
    }

    /// The value of a key. `scratch` is the buffer for the bucket.
    pub(super) fn find(&self, key: &Key, scratch: &mut Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
        let number = u128::from_be_bytes(*key);
        let file = self.file()?;
        let index = bucket_of(number, self.header.buckets);
        let mut entry = [0; ENTRY_BYTES];
        self.read(&file, &mut entry, entry_at(index))?;
        let bucket = self.bucket(&entry, index)?;
        if bucket.ids == 0 || !bucket.filter.may_contain(number) {
            return Ok(None);
        }
        scratch.resize(bucket.bytes as usize, 0);
        self.read(&file, scratch, bucket.start)?;
        self.check_records(scratch, &bucket, index)?;
        let value = bucket::find(scratch, key)
            .map_err(|at| self.damaged(bucket.start + at as u64, "there is no record where one should be"))?;
        Ok(value.map(<[u8]>::to_vec))
    }

    pub(super) fn bucket(&self, entry: &[u8], index: u64) -> Result<Bucket, Error> {
        let at = entry_at(index);
        let bucket = Bucket::decode(entry, self.header.number, index)
            .ok_or_else(|| self.damaged(at, "the checksum of the directory entry does not fit"))?;
        let end = bucket.start.checked_add(bucket.bytes.into());
        if bucket.start < entry_at(self.header.buckets) || end.is_none_or(|end| end > self.header.size) {
            return Err(self.damaged(at, "the directory entry leads out of the file"));
        }
        Ok(bucket)
    }

    /// An error unless these are the records of the bucket.
    pub(super) fn check_records(&self, records: &[u8], bucket: &Bucket, index: u64) -> Result<(), Error> {
        if sum(records, self.header.number, index) != bucket.sum {
            return Err(self.damaged(bucket.start, "the checksum of the records does not fit"));
        }
        Ok(())
    }

    pub(super) fn read(&self, file: &D::File, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        // The name is built only for an error, not for each lookup.
        file.read_at(buffer, offset).map_err(|error| read_error(&self.name(), offset)(error))
    }

    pub(super) fn damaged(&self, offset: u64, why: &'static str) -> Error {
        Error::Damaged { file: self.name(), offset, why }
    }

    pub(super) fn name(&self) -> String {
        self.store.run_name(self.header.number)
    }
}

impl<D: Disk> Drop for Run<D> {
    fn drop(&mut self) {
        if !self.is_kept() {
            self.store.queue_removal(self.header.number);
        }
    }
}

fn open_file<D: Disk>(store: &Store<D>, number: u64) -> Result<D::File, Error> {
    let name = store.run_name(number);
    store.disk.open(&name).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => {
            Error::Damaged { file: name, offset: 0, why: "the file is not there" }
        }
        _ => Error::Io { what: "open", file: name, source },
    })
}

fn read_header(file: &impl DiskFile, name: &str) -> Result<Header, Error> {
    let damaged = |offset, why| Error::Damaged { file: name.into(), offset, why };
    let mut bytes = [0; HEADER_BYTES];
    file.read_at(&mut bytes, 0).map_err(read_error(name, 0))?;
    let header = Header::decode(&bytes).map_err(|why| damaged(0, why))?;
    let size = file.len().map_err(read_error(name, 0))?;
    if size != header.size {
        return Err(damaged(size, "the file's size is not what its header says"));
    }
    Ok(header)
}
