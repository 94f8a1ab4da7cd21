//! The attempts of one operation that are in flight, and their results.
//!
//! Invariants:
//! - An attempt that was abandoned before its connection claimed it is never sent.
//! - An attempt that its connection claimed counts as sent, even if its bytes never left.
//! - Every attempt produces one event, also when its connection ends; unless it was abandoned.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jeton_resp::reply_parser::Value;
use tokio::sync::Notify;

use crate::error::AttemptError;

/// The end of an attempt.
#[derive(Debug)]
pub(crate) enum AttemptEvent {
    /// A reply, which may be an error reply.
    Reply(Value),
    /// No reply.
    Failed { sent: bool, error: AttemptError },
}

#[derive(Debug, Default)]
struct State {
    /// Attempts without an event, and whether their connection claimed them.
    attempts: Vec<(u32, bool)>,
    events: Vec<(u32, AttemptEvent)>,
}

/// The attempts of one operation that are in flight, and the events of those that ended.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    state: Mutex<State>,
    has_event: Notify,
}

impl InFlight {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock leaves the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn start(self: &Arc<Self>, attempt: u32, command: Bytes) -> PendingAttempt {
        self.state().attempts.push((attempt, false));
        PendingAttempt { in_flight: Arc::clone(self), attempt, command, is_open: true }
    }

    /// Abandons an attempt. Returns whether it may have been sent.
    pub fn abandon(&self, attempt: u32) -> bool {
        let mut state = self.state();
        match state.attempts.iter().position(|(other, _)| *other == attempt) {
            Some(at) => state.attempts.swap_remove(at).1,
            None => true,
        }
    }

    /// Abandons all attempts.
    pub fn close(&self) {
        self.state().attempts.clear();
    }

    /// Returns an event if there is one.
    pub fn try_next(&self) -> Option<(u32, AttemptEvent)> {
        self.state().events.pop()
    }

    /// Waits until there may be an event.
    pub async fn wait(&self) {
        self.has_event.notified().await;
    }

    fn finish(&self, attempt: u32, event: impl FnOnce(bool) -> AttemptEvent) {
        let mut state = self.state();
        // The events of abandoned attempts are dropped.
        let Some(at) = state.attempts.iter().position(|(other, _)| *other == attempt) else { return };
        let (_, sent) = state.attempts.swap_remove(at);
        state.events.push((attempt, event(sent)));
        drop(state);
        self.has_event.notify_one();
    }
}

/// An attempt that is queued or sent on a connection.
#[derive(Debug)]
pub(crate) struct PendingAttempt {
    in_flight: Arc<InFlight>,
    attempt: u32,
    pub command: Bytes,
    is_open: bool,
}

impl PendingAttempt {
    /// Marks the attempt as sent. Returns false if it was abandoned: then it must not be sent.
    pub fn claim(&self) -> bool {
        let mut state = self.in_flight.state();
        match state.attempts.iter_mut().find(|(attempt, _)| *attempt == self.attempt) {
            Some((_, sent)) => {
                *sent = true;
                true
            }
            None => false,
        }
    }

    /// Whether the caller still waits for it.
    pub fn is_awaited(&self) -> bool {
        self.in_flight.state().attempts.iter().any(|(attempt, _)| *attempt == self.attempt)
    }

    /// Ends the attempt with a reply.
    pub fn reply(mut self, value: Value) {
        self.is_open = false;
        self.in_flight.finish(self.attempt, |_| AttemptEvent::Reply(value));
    }

    /// Ends the attempt without a reply.
    pub fn fail(mut self, error: AttemptError) {
        self.is_open = false;
        self.in_flight.finish(self.attempt, |sent| AttemptEvent::Failed { sent, error });
    }
}

impl Drop for PendingAttempt {
    fn drop(&mut self) {
        if self.is_open {
            let closed = |sent| AttemptEvent::Failed { sent, error: AttemptError::Closed };
            self.in_flight.finish(self.attempt, closed);
        }
    }
}
