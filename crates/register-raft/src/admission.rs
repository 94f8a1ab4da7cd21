//! How much may wait: so many requests, so many bytes. What is beyond is told so at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jeton_register::{Error, ReservedSpace};

/// How much may wait, and how much does.
#[derive(Debug)]
pub struct Budget {
    requests_max: usize,
    bytes_max: usize,
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

impl Budget {
    pub fn new(requests_max: usize, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { requests_max, bytes_max, requests: AtomicUsize::new(0), bytes: AtomicUsize::new(0) })
    }

    /// ReservedSpace for a request of so many bytes, until it is dropped.
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reserved, Error> {
        // Taken first and looked at then: two that come together may both be refused, but never both get the last room.
        let requests = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let waiting = self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let reserved = Reserved { budget: Arc::clone(self), bytes };
        if requests > self.requests_max || waiting > self.bytes_max {
            let before = requests - 1;
            return Err(Error::Busy(format!("{before} requests of {} bytes wait", waiting - bytes)));
        }
        Ok(reserved)
    }
}

/// ReservedSpace that is held.
#[derive(Debug)]
pub struct Reserved {
    budget: Arc<Budget>,
    pub bytes: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.budget.requests.fetch_sub(1, Ordering::Relaxed);
        self.budget.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl ReservedSpace for Reserved {}
