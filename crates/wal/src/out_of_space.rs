//! A journal whose last frame could not be written for lack of space. The frame is kept and retried.
//!
//! A request for space triggers the retry. There may be no such request, because all callers wait for the
//! frame; so the thread that drives the journal also retries periodically. On close there is one more retry,
//! then the frame is dropped.

use crate::disk::Disk;
use crate::error::Error;
use crate::journal::Journal;

impl<D: Disk> Journal<D> {
    /// Whether a frame waits for a retry.
    pub fn is_stalled(&self) -> bool {
        self.write_error.is_some() && !self.retry_write && !self.taken && self.fatal.is_none()
    }

    /// Lets [`Journal::take_flush`] return the frame that could not be written.
    pub fn retry_write(&mut self) {
        self.retry_write = true;
    }

    /// Drops the frame that could not be written and everything after it. The journal refuses everything from
    /// now on, even if space is freed. Returns the error for the waiting callers.
    pub fn give_up(&mut self) -> Error {
        let why = self.write_error.clone().unwrap_or_else(|| "no write was tried".into());
        Error::Unknown(self.die(format!("the log closed before it was durable: {why}")).0)
    }
}
