//! The log of the simulated machine: the real journal on a disk with faults. The scheduler decides when to
//! flush.
//!
//! Batches are appended at once and acknowledged when their frame is durable. A caller that blocks (the
//! checkpointer, in a trim) flushes itself. The [`WriteObserver`] reports all appends and the last durable
//! frame to the model.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use jeton_core::PartitionId;
use jeton_engine::{AppendError, BlobStore, EntryLocation, PartitionLog};
use jeton_wal::blobs::{self, BlobError};
use jeton_wal::disk::{Disk, FaultDisk};
use jeton_wal::{
    Batch, Blob, Error, Extent, FrameNumber, Journal, Limits, LogId, OpenError, Options, PendingFlush,
    Reservation, Slot,
};

/// Entries of a partition with their slots.
type Entries = Vec<(Slot, Vec<u8>)>;

#[derive(Debug, Clone)]
pub struct ObservedWrite {
    pub log: LogId,
    pub slot: Slot,
    pub bytes: Vec<u8>,
    /// The entry is durable when this frame is.
    pub frame: FrameNumber,
}

/// Appends since the last call, and the last durable frame.
#[derive(Debug, Default)]
pub struct WriteObserver {
    pub staged: Vec<ObservedWrite>,
    pub durable: FrameNumber,
}

/// The journal, flushed by the scheduler.
pub struct SimLog {
    inner: Arc<Mutex<Inner>>,
    limits: Limits,
}

struct Inner {
    journal: Journal<FaultDisk>,
    disk: FaultDisk,
    staged: Vec<ObservedWrite>,
    /// A frame that is taken and not written yet.
    flushing: Option<PendingFlush<<FaultDisk as Disk>::File>>,
    /// A fatal error, after which the process ends.
    fatal: Option<String>,
}

impl SimLog {
    pub fn open(disk: FaultDisk, segment_bytes: u32) -> Result<Self, OpenError> {
        let options = Options::small(segment_bytes);
        let limits = options.limits();
        let journal = Journal::open(disk.clone(), options)?;
        let inner = Inner { journal, disk, staged: Vec::new(), flushing: None, fatal: None };
        Ok(Self { inner: Arc::new(Mutex::new(inner)), limits })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn tap(&self) -> WriteObserver {
        let mut inner = self.inner();
        WriteObserver { staged: std::mem::take(&mut inner.staged), durable: inner.journal.durable() }
    }

    pub fn fatal(&self) -> Option<String> {
        self.inner().fatal.clone()
    }

    /// Takes the next frame, or writes the one that was taken. Returns whether there was one.
    pub fn flush_step(&self) -> bool {
        let mut inner = self.inner();
        if inner.flushing.is_some() {
            inner.write_flush();
            return true;
        }
        if inner.journal.is_stalled() {
            // As the log's thread does after a pause.
            inner.journal.retry_write();
        }
        inner.flushing = inner.journal.take_flush();
        inner.flushing.is_some()
    }

    /// Flushes until nothing is left or the log is stalled.
    pub fn flush(&self) {
        while self.fatal().is_none() && self.flush_step() {
            if self.inner().journal.is_stalled() {
                return;
            }
        }
    }

    /// Runs a segment task, if one is due; returns whether there was one.
    pub fn segment_step(&self) -> bool {
        let mut inner = self.inner();
        let Some(mut task) = inner.journal.take_task() else { return false };
        task.run();
        if let Err(fatal) = inner.journal.complete_task(task) {
            inner.die(fatal.0);
        }
        true
    }

    /// The durable entries of all partitions that are not trimmed, and the range of each.
    pub fn durable(&self) -> Result<Vec<(Extent, Entries)>, Error> {
        let inner = self.inner();
        let extents = PartitionId::all().map(|partition| inner.journal.extent(LogId(partition.0)));
        let mut all: Vec<_> =
            extents.map(|extent| Ok((extent?, Vec::new()))).collect::<Result<_, Error>>()?;
        inner.journal.reader()?.for_each(|log, slot, bytes| {
            all[usize::from(log.0)].1.push((slot, bytes.to_vec()));
            Ok::<_, Error>(())
        })?;
        Ok(all)
    }
}

impl Inner {
    fn die(&mut self, why: String) {
        self.fatal.get_or_insert(why);
    }

    /// Writes the frame that was taken.
    fn write_flush(&mut self) {
        if let Some(mut flush) = self.flushing.take() {
            flush.run();
            if let Err(fatal) = self.journal.complete(flush) {
                self.die(fatal.0);
            }
        }
    }

    fn flush_until(&mut self, frame: FrameNumber) -> Result<(), Error> {
        while self.journal.durable() < frame {
            if self.flushing.is_none() {
                self.flushing = self.journal.take_flush();
            }
            if self.flushing.is_none() {
                return Err(Error::Full("the log is stalled".into()));
            }
            self.write_flush();
            if let Some(why) = &self.fatal {
                return Err(Error::Unknown(why.clone()));
            }
        }
        Ok(())
    }
}

/// Resolves when a frame is durable; never after the process ended.
struct Durable {
    inner: Arc<Mutex<Inner>>,
    appended: Option<Result<FrameNumber, Error>>,
}

impl Future for Durable {
    type Output = Result<(), AppendError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let durable = self.inner.lock().unwrap_or_else(PoisonError::into_inner).journal.durable();
        let ready = |appended: &mut Result<FrameNumber, Error>| {
            appended.as_ref().map_or(true, |frame| *frame <= durable)
        };
        match self.appended.take_if(ready) {
            Some(appended) => Poll::Ready(appended.map(drop).map_err(AppendError::from)),
            None => Poll::Pending,
        }
    }
}

impl PartitionLog for SimLog {
    type Reservation = Reservation;

    fn limits(&self) -> Limits {
        self.limits
    }

    fn reserve(&self, entries: usize, bytes: usize) -> Result<Reservation, AppendError> {
        Ok(self.inner().journal.reserve(entries, bytes)?)
    }

    fn append(
        &self,
        batch: &Batch,
        reservation: Reservation,
    ) -> impl Future<Output = Result<(), AppendError>> + Send + 'static {
        let mut inner = self.inner();
        let appended = inner.journal.append(batch, reservation);
        if let Ok(frame) = appended {
            for (log, slot, bytes) in batch.iter() {
                inner.staged.push(ObservedWrite { log, slot, bytes: bytes.to_vec(), frame });
            }
        }
        drop(inner);
        Durable { inner: Arc::clone(&self.inner), appended: Some(appended) }
    }

    fn replay<E: From<Error>>(
        &self,
        mut visit: impl FnMut(EntryLocation, LogId, Slot, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let reader = self.inner().journal.reader()?;
        reader.for_each_at(|at, log, slot, entry| visit(EntryLocation::File(at), log, slot, entry))
    }

    fn extent(&self, partition: PartitionId) -> Result<Extent, Error> {
        self.inner().journal.extent(LogId(partition.0))
    }

    fn trim(&self, trims: &[(LogId, Slot)]) -> Result<(), Error> {
        let mut inner = self.inner();
        let mut frame = FrameNumber::ZERO;
        for &(log, through) in trims {
            frame = frame.max(inner.journal.trim(log, through)?);
        }
        inner.flush_until(frame)
    }

    /// Nothing waits in a simulation.
    fn stop_waiting(&self) {}

    fn close(&self) {}
}

impl BlobStore for SimLog {
    fn put_blob(&self, name: &str, blob: &Blob) -> Result<bool, Error> {
        let mut inner = self.inner();
        match blobs::put(&inner.disk, name, blob) {
            Ok(stored) => Ok(stored),
            Err(BlobError::Refused(error)) => Err(error),
            Err(BlobError::Fatal(fatal)) => {
                inner.die(fatal.0.clone());
                Err(Error::Unknown(fatal.0))
            }
        }
    }

    fn get_blob(&self, name: &str) -> Result<Option<Blob>, Error> {
        blobs::get(&self.inner().disk, name)
    }
}
