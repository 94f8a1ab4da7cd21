//! Those who wait for a frame to become durable: woken once, together, when it is.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::location::Sequence;
use crate::Failure;

/// Who waits for which frame.
#[derive(Debug, Default)]
pub struct Waiters {
    durable: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By the frame, then by arrival.
    wakers: BTreeMap<(Sequence, u64), Waker>,
    next: u64,
    /// Why nothing will become durable any more.
    ended: Option<Failure>,
}

impl Waiters {
    /// Where a store that was just opened begins.
    pub fn new(durable: Sequence) -> Self {
        Self { durable: AtomicU64::new(durable.0), waiting: Mutex::default() }
    }

    /// Waits until a frame is durable.
    pub fn wait(self: &Arc<Self>, sequence: Sequence) -> Wait {
        Wait { waiters: Arc::clone(self), sequence, ticket: None }
    }

    /// Everything up to here is durable.
    pub fn settle(&self, durable: Sequence) {
        let woken = {
            let mut waiting = self.waiting();
            self.durable.store(durable.0, Ordering::Release);
            let later = waiting.wakers.split_off(&(durable.next(), 0));
            std::mem::replace(&mut waiting.wakers, later)
        };
        woken.into_values().for_each(Waker::wake);
    }

    /// Nothing will become durable any more.
    pub fn end(&self, why: Failure) {
        let woken = {
            let mut waiting = self.waiting();
            waiting.ended.get_or_insert(why);
            std::mem::take(&mut waiting.wakers)
        };
        woken.into_values().for_each(Waker::wake);
    }

    fn is_durable(&self, sequence: Sequence) -> bool {
        self.durable.load(Ordering::Acquire) >= sequence.0
    }

    /// Nothing in here is left half done by a panic.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for one frame.
#[derive(Debug)]
pub struct Wait {
    waiters: Arc<Waiters>,
    sequence: Sequence,
    ticket: Option<u64>,
}

impl Future for Wait {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.waiters.is_durable(self.sequence) {
            return Poll::Ready(Ok(()));
        }
        let waiters = Arc::clone(&self.waiters);
        let mut waiting = waiters.waiting();
        // Once more, because it may have become durable before we could say that we wait.
        if waiters.is_durable(self.sequence) {
            return Poll::Ready(Ok(()));
        }
        if let Some(why) = &waiting.ended {
            return Poll::Ready(Err(why.clone()));
        }
        let ticket = *self.ticket.get_or_insert_with(|| {
            waiting.next += 1;
            waiting.next
        });
        waiting.wakers.insert((self.sequence, ticket), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket
            && !self.waiters.is_durable(self.sequence)
        {
            self.waiters.waiting().wakers.remove(&(self.sequence, ticket));
        }
    }
}
