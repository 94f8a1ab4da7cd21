//! A session: requests that are numbered, so that servers can forget what has been answered.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio::time::Instant;

use super::Transactions;
use super::ack_watermark::AckWatermark;
use super::issue::Issue;
use crate::id::Id;

/// A session: its requests are numbered 0, 1, 2, ... under one id, and with each the servers are told which answers have arrived, so that they may forget them. Requests of a session may be
/// under way at the same time, and take effect in any order.
///
/// A session goes on for as long as one likes: under a new id from time to time, because servers refuse what is older than their window.
pub struct Session {
    transactions: Transactions,
    /// What stands for the numbers of now. Requests of before hold on to theirs.
    current: Mutex<Current>,
}

struct Current {
    id: u128,
    begun: Instant,
    numbers: Arc<Mutex<AckWatermark>>,
}

/// The place of a request in its session.
pub(super) struct RequestNumber {
    numbers: Arc<Mutex<AckWatermark>>,
    number: u32,
    /// Up to which number all answers have arrived.
    pub acknowledged: Option<u32>,
}

impl RequestNumber {
    /// That the answer has arrived.
    pub fn answered(&self) {
        lock(&self.numbers).answered(self.number);
    }
}

impl Session {
    pub(super) fn new(transactions: Transactions) -> Self {
        let current = Mutex::new(Current::new(&transactions));
        Self { transactions, current }
    }

    /// Asks for a transaction: the procedure, and its parameters as what becomes a JSON object. It is sent when the result is awaited.
    pub fn issue<P: Serialize + ?Sized>(&self, procedure: &str, parameters: &P) -> Issue {
        let (id, place) = self.next();
        Issue::new(self.transactions.clone(), id, Some(place), procedure, parameters)
    }

    fn next(&self) -> (Id, RequestNumber) {
        let mut current = lock(&self.current);
        if current.begun.elapsed() >= self.transactions.options().renew_after {
            *current = Current::new(&self.transactions);
        }
        loop {
            let next = lock(&current.numbers).next();
            if let Some((number, acknowledged)) = next {
                let id = Id::numbered(current.id, number);
                return (id, RequestNumber { numbers: Arc::clone(&current.numbers), number, acknowledged });
            }
            *current = Current::new(&self.transactions);
        }
    }
}

impl Current {
    fn new(transactions: &Transactions) -> Self {
        Self { id: transactions.mint(), begun: Instant::now(), numbers: Arc::default() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Nothing panics while it is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
