//! The log of the partitions and the blobs beside it, as the engine uses them.
//!
//! On one machine both are a [`Wal`]. The traits are small so that the log can also be kept elsewhere.

use std::future::Future;

use jeton_core::PartitionId;
use jeton_wal::disk::Disk;
use jeton_wal::{Batch, Blob, Error, Extent, Limits, Location, LogId, Reservation, Slot, Wal};

/// The logs of all partitions. Each has a single writer, so that appends need no agreement.
pub trait PartitionLog: Send + Sync + 'static {
    /// How large entries and batches may be.
    fn limits(&self) -> Limits;

    /// Reserves space for a batch of `entries` entries with `bytes` bytes together, so that the append is not
    /// refused.
    fn reserve(&self, entries: usize, bytes: usize) -> Result<Reservation, Error>;

    /// Appends a batch, and resolves when it is durable. Batches become durable in the order of the calls.
    fn append(
        &self,
        batch: &Batch,
        reservation: Reservation,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static;

    /// Visits all durable entries that are not trimmed, in the order in which they were appended.
    /// The location is for error messages.
    fn replay<E: From<Error>>(
        &self,
        visit: impl FnMut(Location, LogId, Slot, &[u8]) -> Result<(), E>,
    ) -> Result<(), E>;

    /// The durable range of the log of a partition.
    fn extent(&self, partition: PartitionId) -> Result<Extent, Error>;

    /// Trims the logs of partitions, each up to and including a slot. Blocks until that is durable.
    fn trim(&self, trims: &[(LogId, Slot)]) -> Result<(), Error>;
}

/// Small named files, each replaced atomically.
pub trait BlobStore: Send + Sync + 'static {
    /// Stores a blob, durably and atomically, unless it has a higher version. Returns whether it was stored.
    /// Blocks.
    fn put_blob(&self, name: &str, blob: &Blob) -> Result<bool, Error>;

    /// The blob with this name. Blocks.
    fn get_blob(&self, name: &str) -> Result<Option<Blob>, Error>;
}

pub fn log_of(partition: PartitionId) -> LogId {
    LogId(partition.0)
}

impl<D: Disk> PartitionLog for Wal<D> {
    fn limits(&self) -> Limits {
        self.limits()
    }

    fn reserve(&self, entries: usize, bytes: usize) -> Result<Reservation, Error> {
        self.reserve(entries, bytes)
    }

    fn append(
        &self,
        batch: &Batch,
        reservation: Reservation,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let appended = self.append(batch, reservation);
        async move { appended?.await }
    }

    fn replay<E: From<Error>>(
        &self,
        visit: impl FnMut(Location, LogId, Slot, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (reader, _) = self.snapshot([])?;
        reader.for_each_at(visit)
    }

    fn extent(&self, partition: PartitionId) -> Result<Extent, Error> {
        self.extent(log_of(partition))
    }

    fn trim(&self, trims: &[(LogId, Slot)]) -> Result<(), Error> {
        futures_executor::block_on(self.trim(trims)?)
    }
}

impl<D: Disk> BlobStore for Wal<D> {
    fn put_blob(&self, name: &str, blob: &Blob) -> Result<bool, Error> {
        self.put_blob(name, blob)
    }

    fn get_blob(&self, name: &str) -> Result<Option<Blob>, Error> {
        self.get_blob(name)
    }
}
