//! The queue of rows to be stored and fetched: filled by callers, emptied by one thread.
//!
//! It has a lock of its own: neither the log nor its keeper ever waits for a row.
//!
//! What must hold: what was taken into the queue is answered, also when the store closes.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::open_error::Fatal;
use super::rows::{self, Trouble};
use crate::disk::Disk;
use crate::{Failure, Row};

/// How many rows may wait to be stored or fetched.
pub const ROWS_WAITING_MAX: usize = 256;

/// Rows that wait.
#[derive(Default)]
pub struct RowQueue {
    waiting: Mutex<Waiting>,
    /// The thread that empties it waits here.
    filled: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// What is to be done with a row.
pub enum Job {
    /// Store it.
    Put(String, Row, Arc<Reply<bool>>),
    /// Fetch it.
    Get(String, Arc<Reply<Option<Row>>>),
}

impl RowQueue {
    /// Takes in a row to be stored.
    pub fn put(&self, name: &str, row: Row) -> Result<Receive<bool>, Failure> {
        self.add(name, |reply| Job::Put(name.into(), row, reply))
    }

    /// Takes in the name of a row to be fetched.
    pub fn get(&self, name: &str) -> Result<Receive<Option<Row>>, Failure> {
        self.add(name, |reply| Job::Get(name.into(), reply))
    }

    fn add<T>(&self, name: &str, job: impl FnOnce(Arc<Reply<T>>) -> Job) -> Result<Receive<T>, Failure> {
        rows::check_name(name)?;
        let mut waiting = self.waiting();
        if waiting.closed {
            return Err(Failure::Unavailable("the store is closed".into()));
        }
        if waiting.jobs.len() >= ROWS_WAITING_MAX {
            return Err(Failure::Busy(format!("{ROWS_WAITING_MAX} rows are waiting already")));
        }
        let reply = Arc::new(Reply::default());
        waiting.jobs.push_back(job(Arc::clone(&reply)));
        self.filled.notify_one();
        Ok(Receive(reply))
    }

    /// The next one, waiting for it if need be. Nothing if there is none and none will come.
    pub fn next(&self) -> Option<Job> {
        let idle = |waiting: &mut Waiting| waiting.jobs.is_empty() && !waiting.closed;
        let waited = self.filled.wait_while(self.waiting(), idle);
        waited.unwrap_or_else(PoisonError::into_inner).jobs.pop_front()
    }

    /// Takes in nothing more. What is in it is still given out.
    pub fn close(&self) {
        self.waiting().closed = true;
        self.filled.notify_all();
    }

    /// Nothing in here is left half done by a panic.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    /// Does it, and answers. On a store that is dead it is refused. The error is the end of the store.
    pub fn run<D: Disk>(self, disk: &D, dead: Option<Fatal>) -> Result<(), Fatal> {
        let refused = dead.map(|fatal| Failure::Unavailable(fatal.0));
        match self {
            Self::Get(name, reply) => reply.give(refused.map_or_else(|| rows::get(disk, &name), Err)),
            Self::Put(name, row, reply) => {
                let stored = match refused {
                    Some(failure) => Err(Trouble::Refused(failure)),
                    None => rows::put(disk, &name, &row),
                };
                match stored {
                    Ok(stored) => reply.give(Ok(stored)),
                    Err(Trouble::Refused(failure)) => reply.give(Err(failure)),
                    Err(Trouble::Fatal(fatal)) => {
                        reply.give(Err(Failure::Unknown(fatal.0.clone())));
                        return Err(fatal);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The place for one answer.
pub struct Reply<T>(Mutex<Answer<T>>);

enum Answer<T> {
    Open(Option<Waker>),
    Given(Option<Result<T, Failure>>),
}

impl<T> Default for Reply<T> {
    fn default() -> Self {
        Self(Mutex::new(Answer::Open(None)))
    }
}

impl<T> Reply<T> {
    fn give(&self, result: Result<T, Failure>) {
        let before = std::mem::replace(&mut *self.answer(), Answer::Given(Some(result)));
        if let Answer::Open(Some(waker)) = before {
            waker.wake();
        }
    }

    fn answer(&self) -> MutexGuard<'_, Answer<T>> {
        self.0.lock().expect("giving an answer does not panic")
    }
}

/// Waits for the answer.
pub struct Receive<T>(Arc<Reply<T>>);

impl<T> Future for Receive<T> {
    type Output = Result<T, Failure>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self.0.answer() {
            Answer::Open(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            Answer::Given(result) => Poll::Ready(result.take().expect("an answer is taken once")),
        }
    }
}
