//! Where the answers to the attempts of one operation come in, and how far each attempt is.
//!
//! What must hold:
//! - An attempt that was given up before its connection took it is never sent.
//! - An attempt that its connection took counts as sent, whatever became of the bytes.
//! - Every attempt ends with one letter, also when its connection dies; unless it was given up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jeton_resp::reply_parser::Value;
use tokio::sync::Notify;

use crate::error::AttemptError;

/// What came of an attempt.
#[derive(Debug)]
pub(crate) enum AttemptEvent {
    /// An answer, or an error as an answer.
    Answer(Value),
    /// No answer. Whether the attempt was sent, and why.
    Failed { sent: bool, failure: AttemptError },
}

#[derive(Debug, Default)]
struct Inside {
    /// Attempts that are not over, and whether their connection took them.
    flying: Vec<(u32, bool)>,
    letters: Vec<(u32, AttemptEvent)>,
}

/// Where the answers to the attempts of one operation come in.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    inside: Mutex<Inside>,
    bell: Notify,
}

impl InFlight {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        // Nothing is left half changed in there.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an attempt.
    pub fn ticket(self: &Arc<Self>, attempt: u32, command: Bytes) -> PendingAttempt {
        self.inside().flying.push((attempt, false));
        PendingAttempt { mailbox: Arc::clone(self), attempt, command, open: true }
    }

    /// Gives an attempt up. Whether it may have been sent.
    pub fn abandon(&self, attempt: u32) -> bool {
        let mut inside = self.inside();
        match inside.flying.iter().position(|(other, _)| *other == attempt) {
            Some(at) => inside.flying.swap_remove(at).1,
            None => true,
        }
    }

    /// Gives all attempts up.
    pub fn close(&self) {
        self.inside().flying.clear();
    }

    /// The next letter, without waiting.
    pub fn take(&self) -> Option<(u32, AttemptEvent)> {
        self.inside().letters.pop()
    }

    /// Comes back when there may be a letter.
    pub async fn rung(&self) {
        self.bell.notified().await;
    }

    fn post(&self, attempt: u32, letter: impl FnOnce(bool) -> AttemptEvent) {
        let mut inside = self.inside();
        // Nobody waits for an attempt that was given up.
        let Some(at) = inside.flying.iter().position(|(other, _)| *other == attempt) else { return };
        let (_, sent) = inside.flying.swap_remove(at);
        inside.letters.push((attempt, letter(sent)));
        drop(inside);
        self.bell.notify_one();
    }
}

/// An attempt, on its way through a connection.
#[derive(Debug)]
pub(crate) struct PendingAttempt {
    mailbox: Arc<InFlight>,
    attempt: u32,
    pub command: Bytes,
    open: bool,
}

impl PendingAttempt {
    /// Takes it, to be sent. False if it was given up: then it must not be sent.
    pub fn claim(&self) -> bool {
        let mut inside = self.mailbox.inside();
        match inside.flying.iter_mut().find(|(attempt, _)| *attempt == self.attempt) {
            Some((_, sent)) => {
                *sent = true;
                true
            }
            None => false,
        }
    }

    /// Whether somebody still waits for it.
    pub fn is_awaited(&self) -> bool {
        self.mailbox.inside().flying.iter().any(|(attempt, _)| *attempt == self.attempt)
    }

    /// Ends it with an answer.
    pub fn answer(mut self, value: Value) {
        self.open = false;
        self.mailbox.post(self.attempt, |_| AttemptEvent::Answer(value));
    }

    /// Ends it without an answer.
    pub fn fail(mut self, failure: AttemptError) {
        self.open = false;
        self.mailbox.post(self.attempt, |sent| AttemptEvent::Failed { sent, failure });
    }
}

impl Drop for PendingAttempt {
    fn drop(&mut self) {
        if self.open {
            self.mailbox
                .post(self.attempt, |sent| AttemptEvent::Failed { sent, failure: AttemptError::Closed });
        }
    }
}
