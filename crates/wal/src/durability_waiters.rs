//! Tasks that wait for a frame to become durable. They are woken together, once.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::Error;
use crate::location::FrameNumber;

/// Tasks that wait for frames.
#[derive(Debug, Default)]
pub struct DurabilityWaiters {
    durable: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By frame, then by arrival.
    wakers: BTreeMap<(FrameNumber, u64), Waker>,
    next: u64,
    /// Why no further frame will become durable.
    ended: Option<Error>,
}

impl DurabilityWaiters {
    pub fn new(durable: FrameNumber) -> Self {
        Self { durable: AtomicU64::new(durable.0), waiting: Mutex::default() }
    }

    /// Resolves when the frame is durable.
    pub fn wait(self: &Arc<Self>, frame: FrameNumber) -> DurableAt {
        DurableAt { waiters: Arc::clone(self), frame, ticket: None }
    }

    /// Wakes the tasks that wait for frames up to this one.
    pub fn wake_through(&self, durable: FrameNumber) {
        let woken = {
            let mut waiting = self.waiting();
            self.durable.store(durable.0, Ordering::Release);
            let later = waiting.wakers.split_off(&(durable.next(), 0));
            std::mem::replace(&mut waiting.wakers, later)
        };
        woken.into_values().for_each(Waker::wake);
    }

    /// Fails all waiting tasks, now and later.
    pub fn fail(&self, error: Error) {
        let woken = {
            let mut waiting = self.waiting();
            waiting.ended.get_or_insert(error);
            std::mem::take(&mut waiting.wakers)
        };
        woken.into_values().for_each(Waker::wake);
    }

    fn is_durable(&self, frame: FrameNumber) -> bool {
        self.durable.load(Ordering::Acquire) >= frame.0
    }

    /// No panic leaves the state inconsistent.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resolves when a frame is durable. Dropping it does not undo the append.
#[derive(Debug)]
#[must_use = "an append is not durable before this resolves"]
pub struct DurableAt {
    waiters: Arc<DurabilityWaiters>,
    frame: FrameNumber,
    ticket: Option<u64>,
}

impl Future for DurableAt {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.waiters.is_durable(self.frame) {
            return Poll::Ready(Ok(()));
        }
        let waiters = Arc::clone(&self.waiters);
        let mut waiting = waiters.waiting();
        // Checked again under the lock: the frame may have become durable in between.
        if waiters.is_durable(self.frame) {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = &waiting.ended {
            return Poll::Ready(Err(error.clone()));
        }
        let ticket = *self.ticket.get_or_insert_with(|| {
            waiting.next += 1;
            waiting.next
        });
        waiting.wakers.insert((self.frame, ticket), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for DurableAt {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket
            && !self.waiters.is_durable(self.frame)
        {
            self.waiters.waiting().wakers.remove(&(self.frame, ticket));
        }
    }
}
