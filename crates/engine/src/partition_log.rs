//! The log of the partitions and the blobs beside it, as the engine uses them.
//!
//! On one machine both are a [`Wal`]. The traits are small so that the log can also be kept elsewhere.

use std::future::Future;
use std::sync::atomic::AtomicU64;

use jeton_core::{PartitionId, Timestamp};
use jeton_wal::disk::Disk;
use jeton_wal::{Batch, Blob, Error, Extent, Limits, Location, LogId, Reservation, Slot, Wal};

/// Why a log does not accept a batch, or why a batch is not durable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Another owner has taken over the log, which accepts nothing more from this one. The batch may be in
    /// the log.
    #[error("another owner has taken over the log")]
    Deposed,
    #[error(transparent)]
    Log(#[from] Error),
}

/// The time of a store.
pub type LogClock = Box<dyn Fn() -> Timestamp + Send + Sync>;

/// Where a log keeps an entry, for error messages.
#[derive(Debug, Clone, Copy)]
pub enum EntryLocation {
    File(Location),
    /// The register of a stripe.
    Register(Slot),
}

impl std::fmt::Display for EntryLocation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(location) => location.fmt(out),
            Self::Register(slot) => write!(out, "slot {slot} of the stripe"),
        }
    }
}

/// The logs of all partitions. Each has a single writer, so that appends need no agreement.
pub trait PartitionLog: Send + Sync + 'static {
    /// Space for a batch, released on drop.
    type Reservation: Send;

    /// How large entries and batches may be.
    fn limits(&self) -> Limits;

    /// Reserves space for a batch of `entries` entries with `bytes` bytes together, so that the append is not
    /// refused.
    fn reserve(&self, entries: usize, bytes: usize) -> Result<Self::Reservation, AppendError>;

    /// Appends a batch, and resolves when it is durable. Batches become durable in the order of the calls.
    fn append(
        &self,
        batch: &Batch,
        reservation: Self::Reservation,
    ) -> impl Future<Output = Result<(), AppendError>> + Send + 'static;

    /// Visits all durable entries that are not trimmed, in the order in which they were appended.
    /// The location is for error messages.
    fn replay<E: From<Error>>(
        &self,
        visit: impl FnMut(EntryLocation, LogId, Slot, &[u8]) -> Result<(), E>,
    ) -> Result<(), E>;

    /// The durable range of the log of a partition.
    fn extent(&self, partition: PartitionId) -> Result<Extent, Error>;

    /// Trims the logs of partitions, each up to and including a slot. Blocks until that is durable.
    fn trim(&self, trims: &[(LogId, Slot)]) -> Result<(), Error>;

    /// Sets the clock of the store. A log that others follow names the time in what it writes.
    fn set_clock(&self, _clock: LogClock) {}

    /// From now on batches that cannot be written are dropped: their appends fail.
    fn stop_waiting(&self);

    /// Ends the threads of the log.
    fn close(&self);
}

/// Small named files, each replaced atomically.
pub trait BlobStore: Send + Sync + 'static {
    /// Stores a blob, durably and atomically, unless it has a higher version. Returns whether it was stored.
    /// Blocks.
    fn put_blob(&self, name: &str, blob: &Blob) -> Result<bool, Error>;

    /// The blob with this name. Blocks.
    fn get_blob(&self, name: &str) -> Result<Option<Blob>, Error>;

    /// If other stores share the blob of the catalogue: its version for the next entries of the log. Then
    /// [`put_blob`](Self::put_blob) stores no catalogue of a version that exists.
    fn shared_catalog(&self) -> Option<&AtomicU64> {
        None
    }
}

pub fn log_of(partition: PartitionId) -> LogId {
    LogId(partition.0)
}

impl<D: Disk> PartitionLog for Wal<D> {
    type Reservation = Reservation;

    fn limits(&self) -> Limits {
        self.limits()
    }

    fn reserve(&self, entries: usize, bytes: usize) -> Result<Reservation, AppendError> {
        Ok(self.reserve(entries, bytes)?)
    }

    fn append(
        &self,
        batch: &Batch,
        reservation: Reservation,
    ) -> impl Future<Output = Result<(), AppendError>> + Send + 'static {
        let appended = self.append(batch, reservation);
        async move { Ok(appended?.await?) }
    }

    fn replay<E: From<Error>>(
        &self,
        mut visit: impl FnMut(EntryLocation, LogId, Slot, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (reader, _) = self.snapshot([])?;
        reader.for_each_at(|at, log, slot, entry| visit(EntryLocation::File(at), log, slot, entry))
    }

    fn extent(&self, partition: PartitionId) -> Result<Extent, Error> {
        self.extent(log_of(partition))
    }

    fn trim(&self, trims: &[(LogId, Slot)]) -> Result<(), Error> {
        futures_executor::block_on(self.trim(trims)?)
    }

    fn stop_waiting(&self) {
        self.stop_waiting_for_space();
    }

    fn close(&self) {
        self.close();
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
