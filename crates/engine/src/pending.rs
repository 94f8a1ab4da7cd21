//! Requests that arrived together and are answered together, once the last of them is decided and the latest
//! batch that any of them needs is durable. A client that sends fifty requests at once is woken once.

use tokio::sync::oneshot;

use crate::request::Request;
use crate::response::{EngineError, Response};

/// Maximum number of requests in a batch from one caller.
pub const BURST_MAX: usize = 4096;

/// Requests in flight in a shard.
#[derive(Debug)]
pub struct PendingBatch {
    pub requests: Requests,
    /// Number of requests decided so far.
    pub decided: usize,
    pub due: PendingResponse,
}

/// At least one request.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "memory of its own for one request costs more than moving it")]
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

/// The response to the caller.
#[derive(Debug)]
pub struct PendingResponse {
    /// It may be sent only when this batch is durable.
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
    /// One request.
    pub fn one(request: Request, reply: oneshot::Sender<Response>) -> Self {
        Self {
            requests: Requests::One(request),
            decided: 0,
            due: PendingResponse { needs_batch: 0, to: To::One(reply, None) },
        }
    }

    /// A batch of at least one request.
    pub fn many(requests: Vec<Request>, reply: oneshot::Sender<Vec<Response>>) -> Self {
        assert!((1..=BURST_MAX).contains(&requests.len()), "a burst of {}", requests.len());
        let nothing_yet = vec![Response::Applied(Err(EngineError::Closed)); requests.len()];
        Self {
            requests: Requests::Many(requests),
            decided: 0,
            due: PendingResponse { needs_batch: 0, to: To::Many(reply, nothing_yet) },
        }
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
    pub fn give(self) {
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

    fn due(requests: usize) -> (PendingResponse, oneshot::Receiver<Vec<Response>>) {
        let (reply, answer) = oneshot::channel();
        let places = vec![Response::Applied(Err(EngineError::Closed)); requests];
        (PendingResponse { needs_batch: 0, to: To::Many(reply, places) }, answer)
    }

    #[test]
    fn batch_response_needs_the_latest_batch_and_keeps_order() {
        let (mut due, mut answer) = due(3);
        for (at, needs_batch) in [(2, 4), (0, 7), (1, 0)] {
            due.put(at, needs_batch, response(at));
        }
        assert_eq!(due.needs_batch, 7);
        due.give();
        assert_eq!(answer.try_recv().expect("it is given"), [response(0), response(1), response(2)]);
    }

    #[test]
    fn a_dropped_response_reports_a_closed_engine() {
        let (due, mut answer) = due(1);
        drop(due);
        assert_eq!(answer.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
