//! An engine under test. Requests that can succeed later are repeated.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::{Batch, Blob, Error, Extent, LogId, LogKind, Registers, Slot, WriteResult};

/// Attempts of a request before the check fails.
const ATTEMPTS_MAX: usize = 100_000;

/// An engine and the name of the present check.
pub struct EngineUnderTest<R> {
    engine: Arc<R>,
    pub check: &'static str,
}

impl<R> Clone for EngineUnderTest<R> {
    fn clone(&self) -> Self {
        Self { engine: Arc::clone(&self.engine), check: self.check }
    }
}

/// The result of a write.
#[derive(Debug)]
pub struct Outcome {
    pub written: Vec<WriteResult>,
    /// An earlier attempt had an unknown outcome, so that a taken register may have been taken by it.
    pub uncertain: bool,
}

impl<R: Registers> EngineUnderTest<R> {
    pub fn new(engine: &Arc<R>, check: &'static str) -> Self {
        Self { engine: Arc::clone(engine), check }
    }

    /// Fails the check unless the condition holds.
    #[track_caller]
    pub fn ensure(&self, condition: bool, what: impl FnOnce() -> String) {
        assert!(condition, "conformance: {}: {}", self.check, what());
    }

    #[track_caller]
    pub fn ensure_eq<T: PartialEq + std::fmt::Debug>(&self, got: T, expected: T, what: &str) {
        self.ensure(got == expected, || format!("{what}: got {got:?}, expected {expected:?}"));
    }

    /// Writes a batch, with retries.
    pub async fn write(&self, batch: &Batch) -> Outcome {
        let mut uncertain = false;
        for _ in 0..ATTEMPTS_MAX {
            let answer = match self.engine.admit(batch.len(), batch.value_bytes()) {
                Ok(permit) => self.engine.write(batch.clone(), permit).await,
                Err(failure) => Err(failure),
            };
            match answer {
                Ok(written) => {
                    self.ensure_eq(written.len(), batch.len(), "results of a batch");
                    return Outcome { written, uncertain };
                }
                Err(failure) => {
                    uncertain |= matches!(failure, Error::Unknown(_));
                    self.pause(failure).await;
                }
            }
        }
        self.give_up("write")
    }

    pub async fn write_one(&self, log: LogId, slot: Slot, value: &[u8]) -> (WriteResult, bool) {
        let mut batch = Batch::new();
        batch.push(log, slot, value);
        let mut outcome = self.write(&batch).await;
        (outcome.written.remove(0), outcome.uncertain)
    }

    /// Writes one register that is empty.
    pub async fn write_fresh(&self, log: LogId, slot: Slot, value: &[u8]) {
        let (written, uncertain) = self.write_one(log, slot, value).await;
        let ours = written == WriteResult::Fresh
            || uncertain && written == WriteResult::Taken(Bytes::copy_from_slice(value));
        self.ensure(ours, || format!("{log} slot {slot} was empty, but a write to it says {written:?}"));
    }

    /// Starts a write and drops its future.
    pub fn write_and_drop(&self, log: LogId, slot: Slot, value: &[u8]) {
        let mut batch = Batch::new();
        batch.push(log, slot, value);
        if let Ok(permit) = self.engine.admit(1, value.len()) {
            drop(self.engine.write(batch, permit));
        }
    }

    /// Reads a range. The error is the trim point.
    pub async fn read(&self, log: LogId, from: Slot, limit: usize) -> Result<Vec<(Slot, Bytes)>, Slot> {
        self.insist("read", async || match self.engine.read(log, from, limit).await {
            Ok(registers) => Ok(Ok(registers)),
            Err(Error::Trimmed { log: its_log, through }) if its_log == log => Ok(Err(through)),
            Err(failure) => Err(failure),
        })
        .await
    }

    /// Everything that a log has, read in small parts.
    pub async fn read_all(&self, log: LogId) -> Vec<(Slot, Bytes)> {
        let mut from = self.extent(log).await.trimmed.next();
        let mut all = Vec::new();
        loop {
            match self.read(log, from, 7).await {
                Err(trimmed) => from = trimmed.next(),
                Ok(part) => {
                    let Some((last, _)) = part.last() else { return all };
                    from = last.next();
                    all.extend(part);
                }
            }
        }
    }

    pub async fn extent(&self, log: LogId) -> Extent {
        self.insist("extent", async || self.engine.extent(log).await).await
    }

    pub async fn trim(&self, log: LogId, through: Slot) {
        self.insist("trim", async || self.engine.trim(log, through).await).await;
    }

    pub async fn retire(&self, space: LogKind, below: u128) {
        self.insist("retire", async || self.engine.retire(space, below).await).await;
    }

    /// Fails the check if logs of this kind can be retired.
    pub async fn ensure_invalid(&self, space: LogKind, below: u128) {
        self.insist("retire", async || match self.engine.retire(space, below).await {
            Err(Error::Invalid(_)) => Ok(()),
            Err(failure) => Err(failure),
            Ok(()) => panic!("conformance: {}: logs of {space:?} were retired", self.check),
        })
        .await;
    }

    /// Stores a blob. The result is meaningless if an earlier attempt had an unknown outcome.
    pub async fn put_blob(&self, name: &str, slot: u64, content: &'static str) -> bool {
        let row = Blob { version: slot, bytes: content.into() };
        self.insist("put_blob", async || self.engine.put_blob(name, row.clone()).await).await
    }

    pub async fn get_blob(&self, name: &str) -> Option<(u64, Bytes)> {
        let row = self.insist("get_blob", async || self.engine.get_blob(name).await).await;
        row.map(|row| (row.version, row.bytes))
    }

    pub async fn put_object(&self, name: &str, bytes: Bytes) {
        self.insist("put_object", async || self.engine.put_object(name, bytes.clone()).await).await;
    }

    /// Without retries, unless nothing is known about the request.
    pub async fn put_object_once(&self, name: &str, bytes: Bytes) -> Result<(), Error> {
        self.insist("put_object", async || match self.engine.put_object(name, bytes.clone()).await {
            Err(failure @ (Error::Invalid(_) | Error::TooLarge(_))) => Ok(Err(failure)),
            other => other.map(Ok),
        })
        .await
    }

    pub async fn get_object(&self, name: &str) -> Option<Bytes> {
        self.insist("get_object", async || self.engine.get_object(name).await).await
    }

    pub async fn delete_objects(&self, names: &[String]) {
        self.insist("delete_objects", async || self.engine.delete_objects(names.to_vec()).await).await;
    }

    pub async fn list_objects(&self, prefix: &str, after: &str, limit: usize) -> Vec<String> {
        self.insist("list_objects", async || self.engine.list_objects(prefix, after, limit).await).await
    }

    async fn insist<T>(&self, what: &str, ask: impl AsyncFn() -> Result<T, Error>) -> T {
        for _ in 0..ATTEMPTS_MAX {
            match ask().await {
                Ok(answer) => return answer,
                Err(failure) => self.pause(failure).await,
            }
        }
        self.give_up(what)
    }

    async fn pause(&self, failure: Error) {
        match failure {
            Error::Busy(_) | Error::Unavailable(_) | Error::Unknown(_) => Yield(false).await,
            other => panic!("conformance: {}: {other}", self.check),
        }
    }

    fn give_up(&self, what: &str) -> ! {
        panic!("conformance: {}: {what} had no result after {ATTEMPTS_MAX} attempts", self.check)
    }
}

/// Yields once.
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        std::thread::yield_now();
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
