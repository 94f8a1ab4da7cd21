//! A session: numbered requests, so that servers can drop the outcomes that were acknowledged.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio::time::Instant;

use super::Transactions;
use super::ack_watermark::AckWatermark;
use super::execute::Execute;
use crate::id::Id;

/// A session numbers its requests 0, 1, 2, ... under one id. Each request acknowledges the outcomes that
/// arrived, so that the servers can drop them. Requests of a session may be in flight together, and take
/// effect in any order.
///
/// A session has no end: it continues under a new id from time to time, because servers reject sessions older
/// than their window.
pub struct Session {
    transactions: Transactions,
    /// The id in use. Requests in flight keep the acknowledgements of their own id.
    current: Mutex<Current>,
}

struct Current {
    id: u128,
    started: Instant,
    acks: Arc<Mutex<AckWatermark>>,
}

/// The number of a request in its session.
pub(super) struct RequestNumber {
    acks: Arc<Mutex<AckWatermark>>,
    number: u32,
    /// All requests up to this number are answered.
    pub acknowledged: Option<u32>,
}

impl RequestNumber {
    /// Records that the request is answered.
    pub fn answered(&self) {
        lock(&self.acks).answered(self.number);
    }
}

impl Session {
    pub(super) fn new(transactions: Transactions) -> Self {
        let current = Mutex::new(Current::new(&transactions));
        Self { transactions, current }
    }

    /// Executes a procedure. The parameters must serialize to a JSON object. The request is sent when the
    /// result is awaited.
    pub fn execute<P: Serialize + ?Sized>(&self, procedure: &str, parameters: &P) -> Execute {
        let (id, number) = self.next();
        Execute::new(self.transactions.clone(), id, Some(number), procedure, parameters)
    }

    fn next(&self) -> (Id, RequestNumber) {
        let mut current = lock(&self.current);
        if current.started.elapsed() >= self.transactions.0.options.renew_after {
            *current = Current::new(&self.transactions);
        }
        loop {
            let next = lock(&current.acks).next();
            if let Some((number, acknowledged)) = next {
                let id = Id::numbered(current.id, number);
                return (id, RequestNumber { acks: Arc::clone(&current.acks), number, acknowledged });
            }
            *current = Current::new(&self.transactions);
        }
    }
}

impl Current {
    fn new(transactions: &Transactions) -> Self {
        Self { id: transactions.new_session_id(), started: Instant::now(), acks: Arc::default() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // No code panics while it holds the lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
