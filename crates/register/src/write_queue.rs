//! The queue of writes of a remote engine. Writes are executed in groups, one group after the other; a group
//! is what arrived during the previous one. There is no timer.
//!
//! Invariants:
//! - *In order.* When a group fails, everything that was submitted before its callers could learn of the
//!   failure is refused. Otherwise a later write of a caller could take effect without an earlier one.
//! - *Nothing else.* A write that is submitted because of the failure is not refused for it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use crate::{Error, WritePermit};

/// A write in the queue.
#[derive(Debug)]
pub struct QueuedWrite<T, R> {
    pub request: T,
    pub submitted: Instant,
    /// Counted as in flight until the response is sent.
    permit: WritePermit,
    response: oneshot::Sender<Result<R, Error>>,
}

impl<T, R> QueuedWrite<T, R> {
    pub fn respond(self, result: Result<R, Error>) {
        drop(self.permit);
        // A caller that no longer waits learns the outcome by writing again.
        drop(self.response.send(result));
    }
}

/// The end of the queue at which writes are submitted.
#[derive(Debug, Clone)]
pub struct WriteQueue<T, R> {
    sender: mpsc::UnboundedSender<QueuedWrite<T, R>>,
    /// Held while a write is submitted, and while a failure is sent to all writes that it concerns.
    order: Arc<Mutex<()>>,
}

impl<T, R> WriteQueue<T, R> {
    pub fn new() -> (Self, WriteQueueReceiver<T, R>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let order = Arc::<Mutex<()>>::default();
        (Self { sender, order: Arc::clone(&order) }, WriteQueueReceiver { receiver, next: None, order })
    }

    /// Submits a write, and returns where its response will be.
    pub fn submit(
        &self,
        request: T,
        permit: WritePermit,
    ) -> Result<oneshot::Receiver<Result<R, Error>>, Error> {
        let (response, receiver) = oneshot::channel();
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let queued = QueuedWrite { request, submitted: Instant::now(), permit, response };
        self.sender.send(queued).map_err(|_| Error::Unavailable("the engine is closed".into()))?;
        Ok(receiver)
    }
}

/// The end of the queue at which groups are taken out.
#[derive(Debug)]
pub struct WriteQueueReceiver<T, R> {
    receiver: mpsc::UnboundedReceiver<QueuedWrite<T, R>>,
    /// The write that did not fit into the last group.
    next: Option<QueuedWrite<T, R>>,
    order: Arc<Mutex<()>>,
}

impl<T, R> WriteQueueReceiver<T, R> {
    /// The next group; `None` when the queue is closed. `fits` is called for each write in order, and returns
    /// whether it still fits into the group. The first one always does.
    pub async fn next_group(&mut self, mut fits: impl FnMut(&T) -> bool) -> Option<Vec<QueuedWrite<T, R>>> {
        let first = match self.next.take() {
            Some(first) => first,
            None => self.receiver.recv().await?,
        };
        let _always = fits(&first.request);
        let mut group = vec![first];
        while let Ok(queued) = self.receiver.try_recv() {
            if !fits(&queued.request) {
                self.next = Some(queued);
                break;
            }
            group.push(queued);
        }
        Some(group)
    }

    /// Fails a group, and refuses everything that was submitted before its callers could know.
    pub fn fail(&mut self, group: Vec<QueuedWrite<T, R>>, error: &Error) {
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        for queued in group {
            queued.respond(Err(error.clone()));
        }
        let refusal = Error::Unavailable(format!("an earlier write failed: {error}"));
        for queued in self.next.take().into_iter().chain(std::iter::from_fn(|| self.receiver.try_recv().ok()))
        {
            queued.respond(Err(refusal.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_executor::block_on;

    use super::*;

    /// The group is large, so that the first caller submits its next write while the others are still being
    /// failed.
    #[test]
    fn failure_refuses_only_writes_submitted_before_it() {
        for _ in 0..10 {
            let (queue, mut receiver) = WriteQueue::<u32, ()>::new();
            let submit = |number| queue.submit(number, WritePermit::unlimited()).unwrap();
            let failed = submit(0);
            let _others: Vec<_> = (1..5_000).map(&submit).collect();
            let refused = submit(5_000);
            let group = block_on(receiver.next_group(|number| *number < 5_000)).unwrap();
            assert_eq!(group.len(), 5_000);
            let queue = queue.clone();
            let caller = std::thread::spawn(move || {
                assert!(matches!(block_on(failed), Ok(Err(Error::Full(_)))));
                queue.submit(5_001, WritePermit::unlimited()).unwrap()
            });
            receiver.fail(group, &Error::Full("no space".into()));
            assert!(matches!(block_on(refused), Ok(Err(Error::Unavailable(_)))));
            let mut later = caller.join().unwrap();
            assert!(later.try_recv().is_err(), "it was refused");
            assert_eq!(block_on(receiver.next_group(|_| true)).unwrap().len(), 1);
        }
    }
}
