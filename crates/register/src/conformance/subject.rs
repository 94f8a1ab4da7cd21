//! An engine under test, asked again when it says that asking again may help.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::{Batch, Extent, Failure, Log, Registers, Row, Slot, Space, Written};

/// How often a request is made before the check gives up.
const TRIES_MAX: usize = 100_000;

/// An engine, and the name of the check that it stands.
pub struct Subject<R> {
    engine: Arc<R>,
    pub check: &'static str,
}

impl<R> Clone for Subject<R> {
    fn clone(&self) -> Self {
        Self { engine: Arc::clone(&self.engine), check: self.check }
    }
}

/// What a write led to in the end.
#[derive(Debug)]
pub struct Outcome {
    pub written: Vec<Written>,
    /// An earlier try ended in doubt: then what is taken may have been taken by it.
    pub doubted: bool,
}

impl<R: Registers> Subject<R> {
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

    /// Admits and writes a batch, until there is an answer.
    pub async fn write(&self, batch: &Batch) -> Outcome {
        let mut doubted = false;
        for _ in 0..TRIES_MAX {
            let answer = match self.engine.admit(batch.len(), batch.value_bytes()) {
                Ok(permit) => self.engine.write(batch.clone(), permit).await,
                Err(failure) => Err(failure),
            };
            match answer {
                Ok(written) => {
                    self.ensure_eq(written.len(), batch.len(), "answers to a batch");
                    return Outcome { written, doubted };
                }
                Err(failure) => {
                    doubted |= matches!(failure, Failure::Unknown(_));
                    self.pause(failure).await;
                }
            }
        }
        self.give_up("write")
    }

    /// Writes one register.
    pub async fn write_one(&self, log: Log, slot: Slot, value: &[u8]) -> (Written, bool) {
        let mut batch = Batch::new();
        batch.push(log, slot, value);
        let mut outcome = self.write(&batch).await;
        (outcome.written.remove(0), outcome.doubted)
    }

    /// Writes one register that is empty.
    pub async fn write_fresh(&self, log: Log, slot: Slot, value: &[u8]) {
        let (written, doubted) = self.write_one(log, slot, value).await;
        let ours =
            written == Written::Fresh || doubted && written == Written::Taken(Bytes::copy_from_slice(value));
        self.ensure(ours, || format!("{log} slot {slot} was empty, but a write to it says {written:?}"));
    }

    /// Begins to write one register, and does not wait for the answer.
    pub fn write_and_leave(&self, log: Log, slot: Slot, value: &[u8]) {
        let mut batch = Batch::new();
        batch.push(log, slot, value);
        if let Ok(permit) = self.engine.admit(1, value.len()) {
            drop(self.engine.write(batch, permit));
        }
    }

    /// The answer to a read; the only failure is that the slots are trimmed.
    pub async fn read(&self, log: Log, from: Slot, limit: usize) -> Result<Vec<(Slot, Bytes)>, Slot> {
        self.insist("read", async || match self.engine.read(log, from, limit).await {
            Ok(registers) => Ok(Ok(registers)),
            Err(Failure::Trimmed { log: its_log, through }) if its_log == log => Ok(Err(through)),
            Err(failure) => Err(failure),
        })
        .await
    }

    /// Everything that a log has, read in small parts.
    pub async fn read_all(&self, log: Log) -> Vec<(Slot, Bytes)> {
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

    pub async fn extent(&self, log: Log) -> Extent {
        self.insist("extent", async || self.engine.extent(log).await).await
    }

    pub async fn trim(&self, log: Log, through: Slot) {
        self.insist("trim", async || self.engine.trim(log, through).await).await;
    }

    pub async fn retire(&self, space: Space, below: u128) {
        self.insist("retire", async || self.engine.retire(space, below).await).await;
    }

    /// That logs of this space cannot be retired.
    pub async fn ensure_invalid(&self, space: Space, below: u128) {
        self.insist("retire", async || match self.engine.retire(space, below).await {
            Err(Failure::Invalid(_)) => Ok(()),
            Err(failure) => Err(failure),
            Ok(()) => panic!("conformance: {}: logs of {space:?} were retired", self.check),
        })
        .await;
    }

    /// The answer, which counts for nothing if an earlier try ended in doubt.
    pub async fn put_row(&self, name: &str, slot: u64, content: &'static str) -> bool {
        let row = Row { slot: Slot(slot), bytes: content.into() };
        self.insist("put_row", async || self.engine.put_row(name, row.clone()).await).await
    }

    pub async fn get_row(&self, name: &str) -> Option<(u64, Bytes)> {
        let row = self.insist("get_row", async || self.engine.get_row(name).await).await;
        row.map(|row| (row.slot.0, row.bytes))
    }

    async fn insist<T>(&self, what: &str, ask: impl AsyncFn() -> Result<T, Failure>) -> T {
        for _ in 0..TRIES_MAX {
            match ask().await {
                Ok(answer) => return answer,
                Err(failure) => self.pause(failure).await,
            }
        }
        self.give_up(what)
    }

    async fn pause(&self, failure: Failure) {
        match failure {
            Failure::Busy(_) | Failure::Unavailable(_) | Failure::Unknown(_) => Yield(false).await,
            other => panic!("conformance: {}: {other}", self.check),
        }
    }

    fn give_up(&self, what: &str) -> ! {
        panic!("conformance: {}: {what} had no answer after {TRIES_MAX} tries", self.check)
    }
}

/// Lets others go first, once.
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
