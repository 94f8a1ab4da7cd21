//! The registers of the simulated machine: the real journal on a disk that breaks, flushed when the scheduler says so.
//!
//! What must hold: nothing here decides anything. Batches are staged when they come, and answered when the frame that holds them is
//! settled. Whoever waits on the spot (the keeper, for a trim) flushes by itself. Everything that is staged and settled is told to
//! the model, by the [`WriteObserver`].

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use jeton_register::disk::FaultDisk;
use jeton_register::embedded::rows::{self, Trouble};
use jeton_register::embedded::{Journal, OpenError, Options, Sequence, Staged};
use jeton_register::{Batch, Extent, Failure, Limits, Log, Permit, Registers, Row, Slot, Space, Written};

/// A register that was staged.
#[derive(Debug, Clone)]
pub struct ObservedWrite {
    /// Its log.
    pub log: Log,
    /// Its slot.
    pub slot: Slot,
    /// What was written.
    pub bytes: Vec<u8>,
    /// Durable with this frame.
    pub sequence: Sequence,
}

/// What happened since it was last asked.
#[derive(Debug, Default)]
pub struct WriteObserver {
    /// Registers that were staged, in order.
    pub staged: Vec<ObservedWrite>,
    /// Everything up to here is durable.
    pub durable: Sequence,
}

/// The journal, driven by hand.
pub struct SimRegisters {
    inner: Arc<Mutex<Inner>>,
    limits: Limits,
}

struct Inner {
    journal: Journal<FaultDisk>,
    disk: FaultDisk,
    staged: Vec<ObservedWrite>,
    /// A frame that was taken and is not on the disk yet.
    flying: Option<Staged<<FaultDisk as jeton_register::disk::Disk>::File>>,
    /// Why the process must end.
    fatal: Option<String>,
}

impl SimRegisters {
    /// Opens the journal on this disk.
    pub fn open(disk: FaultDisk, segment_bytes: u32) -> Result<Self, OpenError> {
        let options = Options::small(segment_bytes);
        let limits = options.limits();
        let journal = Journal::open(disk.clone(), options)?;
        let inner = Inner { journal, disk, staged: Vec::new(), flying: None, fatal: None };
        Ok(Self { inner: Arc::new(Mutex::new(inner)), limits })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happened since this was last asked.
    pub fn tap(&self) -> WriteObserver {
        let mut inner = self.inner();
        WriteObserver { staged: std::mem::take(&mut inner.staged), durable: inner.journal.durable() }
    }

    /// Why the process must end, if it must.
    pub fn fatal(&self) -> Option<String> {
        self.inner().fatal.clone()
    }

    /// Takes the next frame, or brings the one that was taken to the disk. Whether there was anything to do.
    pub fn flush_step(&self) -> bool {
        let mut inner = self.inner();
        if inner.flying.is_some() {
            inner.land();
            return true;
        }
        if inner.journal.is_stalled() {
            // As the log's thread does after a pause.
            inner.journal.try_again();
        }
        inner.flying = inner.journal.take_staged();
        inner.flying.is_some()
    }

    /// Flushes for as long as there is something to do.
    pub fn flush(&self) {
        while self.fatal().is_none() && self.flush_step() {
            if self.inner().journal.is_stalled() {
                return;
            }
        }
    }

    /// Runs an errand, if one is due. Whether there was one.
    pub fn errand_step(&self) -> bool {
        let mut inner = self.inner();
        let Some(mut errand) = inner.journal.take_errand() else { return false };
        errand.run();
        if let Err(fatal) = inner.journal.end_errand(errand) {
            inner.die(fatal.0);
        }
        true
    }

    /// The registers of a log that are durable and not trimmed.
    pub fn durable(&self, log: Log) -> Result<(Extent, Vec<(Slot, Bytes)>), Failure> {
        let inner = self.inner();
        let extent = inner.journal.extent(log)?;
        let mut all = Vec::new();
        loop {
            let next = all.last().map_or(extent.trimmed, |(slot, _): &(Slot, Bytes)| *slot).next();
            let some = inner.journal.read(log, next, 4096)?.run()?;
            if some.is_empty() {
                return Ok((extent, all));
            }
            all.extend(some);
        }
    }
}

impl Inner {
    fn die(&mut self, why: String) {
        self.fatal.get_or_insert(why);
    }

    /// Brings the frame that was taken to the disk.
    fn land(&mut self) {
        if let Some(mut staged) = self.flying.take() {
            staged.persist();
            if let Err(fatal) = self.journal.settle(staged) {
                self.die(fatal.0);
            }
        }
    }

    /// Flushes until this frame is durable.
    fn flush_until(&mut self, sequence: Sequence) -> Result<(), Failure> {
        while self.journal.durable() < sequence {
            if self.flying.is_none() {
                self.flying = self.journal.take_staged();
            }
            if self.flying.is_none() {
                return Err(Failure::Full("the log is stalled".into()));
            }
            self.land();
            if let Some(why) = &self.fatal {
                return Err(Failure::Unknown(why.clone()));
            }
        }
        Ok(())
    }
}

/// Waits for a frame to become durable. After the end of the process nothing does.
struct Writing {
    inner: Arc<Mutex<Inner>>,
    staged: Option<Result<(Vec<Written>, Sequence), Failure>>,
}

impl Future for Writing {
    type Output = Result<Vec<Written>, Failure>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let durable = self.inner.lock().unwrap_or_else(PoisonError::into_inner).journal.durable();
        match self.staged.take_if(|staged| staged.as_ref().map_or(true, |(_, sequence)| *sequence <= durable))
        {
            Some(staged) => Poll::Ready(staged.map(|(written, _)| written)),
            None => Poll::Pending,
        }
    }
}

impl Registers for SimRegisters {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn admit(&self, writes: usize, value_bytes: usize) -> Result<Permit, Failure> {
        self.inner().journal.admit(writes, value_bytes)
    }

    fn write(
        &self,
        batch: Batch,
        permit: Permit,
    ) -> impl Future<Output = Result<Vec<Written>, Failure>> + Send + 'static {
        let mut inner = self.inner();
        let staged = inner.journal.stage(&batch, permit);
        if let Ok((written, sequence)) = &staged {
            for ((log, slot, bytes), written) in batch.iter().zip(written) {
                if *written == Written::Fresh {
                    inner.staged.push(ObservedWrite {
                        log,
                        slot,
                        bytes: bytes.to_vec(),
                        sequence: *sequence,
                    });
                }
            }
        }
        drop(inner);
        Writing { inner: Arc::clone(&self.inner), staged: Some(staged) }
    }

    fn read(
        &self,
        log: Log,
        from: Slot,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Slot, Bytes)>, Failure>> + Send {
        let plan = self.inner().journal.read(log, from, limit);
        std::future::ready(plan.and_then(|plan| plan.run()))
    }

    fn extent(&self, log: Log) -> impl Future<Output = Result<Extent, Failure>> + Send {
        std::future::ready(self.inner().journal.extent(log))
    }

    fn trim(&self, log: Log, through: Slot) -> impl Future<Output = Result<(), Failure>> + Send {
        let staged = self.inner().journal.trim(log, through);
        async move { staged.and_then(|sequence| self.inner().flush_until(sequence)) }
    }

    fn retire(&self, space: Space, below: u128) -> impl Future<Output = Result<(), Failure>> + Send {
        let staged = self.inner().journal.retire(space, below);
        async move { staged.and_then(|sequence| self.inner().flush_until(sequence)) }
    }

    fn put_row(&self, name: &str, row: Row) -> impl Future<Output = Result<bool, Failure>> + Send {
        let mut inner = self.inner();
        std::future::ready(match rows::put(&inner.disk, name, &row) {
            Ok(stored) => Ok(stored),
            Err(Trouble::Refused(failure)) => Err(failure),
            Err(Trouble::Fatal(fatal)) => {
                inner.die(fatal.0.clone());
                Err(Failure::Unknown(fatal.0))
            }
        })
    }

    fn get_row(&self, name: &str) -> impl Future<Output = Result<Option<Row>, Failure>> + Send {
        std::future::ready(rows::get(&self.inner().disk, name))
    }
}
