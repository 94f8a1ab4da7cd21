//! What can be chosen about a client.

use std::fmt;
use std::time::Duration;

use crate::error::Error;
use crate::retry::{Backoff, Policy};

/// What can be chosen about a client.
#[derive(Clone)]
pub struct Options {
    /// The servers, each as `host:port`. They must serve the same store: an id counts once where it is known.
    pub addresses: Vec<String>,
    /// What to show to the server.
    pub token: Option<String>,
    /// Whom to trust, if connections are to be encrypted.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::Tls>,
    /// How long an operation is tried.
    pub deadline: Duration,
    /// How long to wait for a connection, and for the answer to one attempt.
    pub attempt_timeout: Duration,
    /// After which time without an answer an operation is sent a second time, with the same id, to another address or on another
    /// connection; the first answer wins.
    pub hedge_after: Option<Duration>,
    /// How long to wait between attempts.
    pub backoff: Backoff,
    /// Connections to each address. All callers share them.
    pub connections: usize,
    /// Operations that may wait on each connection for their turn, and as many for their answers. Beyond that callers wait.
    pub queue_max: usize,
    /// How long the tables remember ids. Nothing is tried for longer than half of it.
    pub window: Duration,
    /// Whether ids are made with the name of their format before them, as tables want that take several formats.
    pub tagged_ids: bool,
}

impl Default for Options {
    fn default() -> Self {
        let policy = Policy::default();
        Self {
            addresses: Vec::new(),
            token: None,
            #[cfg(feature = "tls")]
            tls: None,
            deadline: policy.deadline,
            attempt_timeout: policy.attempt_timeout,
            hedge_after: policy.hedge_after,
            backoff: policy.backoff,
            connections: 2,
            queue_max: 1024,
            window: policy.window,
            tagged_ids: false,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Options end up in logs, and tokens must not.
        out.debug_struct("Options")
            .field("addresses", &self.addresses)
            .field("token", &self.token.as_ref().map(|_| "..."))
            .field("policy", &self.policy())
            .field("connections", &self.connections)
            .field("queue_max", &self.queue_max)
            .field("tagged_ids", &self.tagged_ids)
            .finish()
    }
}

impl Options {
    /// For these servers, with everything else as usual.
    pub fn to<A: Into<String>>(addresses: impl IntoIterator<Item = A>) -> Self {
        Self { addresses: addresses.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |what: &str| Err(Error::Invalid(format!("client options: {what}")));
        if self.addresses.is_empty() || self.addresses.len() > 64 {
            return wrong("there must be 1 to 64 addresses");
        }
        if !(1..=64).contains(&self.connections) {
            return wrong("connections must be between 1 and 64");
        }
        if !(1..=1 << 16).contains(&self.queue_max) {
            return wrong("queue_max must be between 1 and 65536");
        }
        if self.attempt_timeout.is_zero() || self.deadline.is_zero() || self.window.is_zero() {
            return wrong("deadline, attempt_timeout and window must be longer than nothing");
        }
        if self.backoff.base.is_zero() || self.backoff.cap.is_zero() {
            // A client that does not wait keeps a server down that others wait for.
            return wrong("backoff must be longer than nothing");
        }
        Ok(())
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy {
            deadline: self.deadline,
            window: self.window,
            attempt_timeout: self.attempt_timeout,
            hedge_after: self.hedge_after,
            backoff: self.backoff,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_said() {
        let good = || Options::to(["localhost:6380"]);
        assert!(good().check().is_ok());
        for bad in [
            Options::default(),
            Options { connections: 0, ..good() },
            Options { queue_max: 0, ..good() },
            Options { deadline: Duration::ZERO, ..good() },
            Options { backoff: Backoff { base: Duration::ZERO, ..Backoff::default() }, ..good() },
        ] {
            assert!(matches!(bad.check(), Err(Error::Invalid(_))), "{bad:?}");
        }
    }
}
