//! Requests in flight in a shard. Requests that arrived together are answered together, once the last of them
//! is decided and the latest batch that any of them needs is durable: a client that sends fifty requests is
//! woken once.
//!
//! A caller with thousands of requests must not delay all others: the backlog hands out small batches first,
//! and large ones piece by piece. The requests of one batch are decided in order.

use std::collections::VecDeque;
use std::ops::Range;

use tokio::sync::oneshot;

use crate::request::Request;
use crate::response::{EngineError, Response};

/// Maximum number of requests that a caller sends together.
pub const REQUESTS_MAX: usize = 4096;

/// Maximum requests of a small batch.
const SMALL_MAX: usize = 64;

/// Requests that are answered together.
#[derive(Debug)]
pub struct PendingBatch {
    pub requests: Requests,
    /// The requests that are being decided; those before them are decided.
    pub taken: Range<usize>,
    pub response: PendingResponse,
}

/// At least one request.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a heap allocation for one request costs more than moving it")]
pub enum Requests {
    One(Request),
    Many(Vec<Request>),
}

impl Requests {
    pub fn as_slice(&self) -> &[Request] {
        match self {
            Self::One(request) => std::slice::from_ref(request),
            Self::Many(requests) => requests,
        }
    }
}

#[derive(Debug)]
pub struct PendingResponse {
    /// The response may be sent only when this batch is durable.
    pub needs_batch: u64,
    to: To,
}

#[derive(Debug)]
enum To {
    One(oneshot::Sender<Response>, Option<Response>),
    /// Responses in the order of the requests.
    Many(oneshot::Sender<Vec<Response>>, Vec<Response>),
}

impl PendingBatch {
    pub fn one(request: Request, reply: oneshot::Sender<Response>) -> Self {
        Self::new(Requests::One(request), To::One(reply, None))
    }

    pub fn many(requests: Vec<Request>, reply: oneshot::Sender<Vec<Response>>) -> Self {
        assert!((1..=REQUESTS_MAX).contains(&requests.len()), "{} requests", requests.len());
        let closed = vec![Response::Applied(Err(EngineError::Closed)); requests.len()];
        Self::new(Requests::Many(requests), To::Many(reply, closed))
    }

    fn new(requests: Requests, to: To) -> Self {
        Self { requests, taken: 0..0, response: PendingResponse { needs_batch: 0, to } }
    }

    /// Number of requests that are not decided yet.
    pub fn undecided(&self) -> usize {
        self.requests.as_slice().len() - self.taken.end
    }

    pub fn is_one(&self) -> bool {
        matches!(self.requests, Requests::One(_))
    }

    fn is_large(&self) -> bool {
        self.requests.as_slice().len() > SMALL_MAX
    }
}

/// Batches with requests that are not decided yet.
#[derive(Debug, Default)]
pub struct Backlog {
    small: VecDeque<PendingBatch>,
    /// In the order of their turns.
    large: VecDeque<PendingBatch>,
    /// Number of requests that are not decided.
    requests: usize,
}

impl Backlog {
    pub fn len(&self) -> usize {
        self.small.len() + self.large.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of requests that are not decided.
    pub fn requests(&self) -> usize {
        self.requests
    }

    pub fn push(&mut self, batch: PendingBatch) {
        self.requests += batch.undecided();
        if batch.is_large() { &mut self.large } else { &mut self.small }.push_back(batch);
    }

    /// Puts a batch back that is not decided completely.
    pub fn put_back(&mut self, batch: PendingBatch) {
        self.requests += batch.undecided();
        if batch.is_large() { self.large.push_back(batch) } else { self.small.push_front(batch) }
    }

    /// The next batch: a small one, if there is one, or with `large_first` a large one.
    pub fn pop(&mut self, large_first: bool) -> Option<PendingBatch> {
        let (first, second) =
            if large_first { (&mut self.large, &mut self.small) } else { (&mut self.small, &mut self.large) };
        let batch = first.pop_front().or_else(|| second.pop_front())?;
        self.requests -= batch.undecided();
        Some(batch)
    }

    /// Number of requests that one batch may have decided in a round of `requests_max`: an equal share of
    /// the large ones, and no less than a small one.
    pub fn large_share(&self, requests_max: usize) -> usize {
        (requests_max / self.large.len().max(1)).max(SMALL_MAX)
    }
}

impl PendingResponse {
    /// Sets the response to one of the requests, and the batch that it needs.
    pub fn put(&mut self, at: usize, needs_batch: u64, response: Response) {
        self.needs_batch = self.needs_batch.max(needs_batch);
        match &mut self.to {
            To::One(_, place) => *place = Some(response),
            To::Many(_, places) => places[at] = response,
        }
    }

    /// Sends the response. A caller that is gone is not an error: it may retry.
    pub fn send(self) {
        match self.to {
            // The caller sees the dropped channel and reports that the engine is closed.
            To::One(_, None) => {}
            To::One(reply, Some(response)) => drop(reply.send(response)),
            To::Many(reply, responses) => drop(reply.send(responses)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(number: usize) -> Response {
        Response::Applied(Err(EngineError::Storage(number.to_string())))
    }

    fn pending(requests: usize) -> (PendingResponse, oneshot::Receiver<Vec<Response>>) {
        let (reply, responses) = oneshot::channel();
        let places = vec![Response::Applied(Err(EngineError::Closed)); requests];
        (PendingResponse { needs_batch: 0, to: To::Many(reply, places) }, responses)
    }

    #[test]
    fn batch_response_needs_the_latest_batch_and_keeps_order() {
        let (mut pending, mut responses) = pending(3);
        for (at, needs_batch) in [(2, 4), (0, 7), (1, 0)] {
            pending.put(at, needs_batch, response(at));
        }
        assert_eq!(pending.needs_batch, 7);
        pending.send();
        assert_eq!(responses.try_recv().expect("sent"), [response(0), response(1), response(2)]);
    }

    #[test]
    fn a_dropped_response_reports_a_closed_engine() {
        let (pending, mut responses) = pending(1);
        drop(pending);
        assert_eq!(responses.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
