//! Options of a client.

use std::fmt;
use std::time::Duration;

use crate::error::Error;
use crate::retry::{Backoff, FanOut, Policy};

/// Options of a client.
#[derive(Clone)]
pub struct Options {
    /// The servers, each as `host:port`. All of them must serve the same store: an id counts once per store.
    pub addresses: Vec<String>,
    /// Token to authenticate with.
    pub token: Option<String>,
    /// Trusted certificates; without them connections are not encrypted.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::Tls>,
    /// How long an operation is retried.
    pub deadline: Duration,
    /// How long to wait for a connection, and for the response to one attempt.
    pub attempt_timeout: Duration,
    /// After this long without a response, send a second attempt with the same id to the next address, or on
    /// another connection; the first response wins.
    pub hedge_after: Option<Duration>,
    /// How long to wait between attempts.
    pub backoff: Backoff,
    /// Connections to each address. All callers share them.
    pub connections: usize,
    /// Operations that may be queued on each connection, and as many in flight. Further callers wait.
    pub queue_max: usize,
    /// How long the tables keep dedup records. Retries stop after half of it.
    pub window: Duration,
    /// Whether generated ids start with the name of their format, as tables with several formats require.
    pub tagged_ids: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            token: None,
            #[cfg(feature = "tls")]
            tls: None,
            deadline: Duration::from_secs(10),
            attempt_timeout: Duration::from_secs(2),
            hedge_after: None,
            backoff: Backoff::default(),
            connections: 2,
            queue_max: 1024,
            window: Duration::from_secs(24 * 3600),
            tagged_ids: false,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Options may be logged; the token must not be.
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
    /// Options for these servers; all others have their defaults.
    pub fn to<A: Into<String>>(addresses: impl IntoIterator<Item = A>) -> Self {
        Self { addresses: addresses.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let invalid = |reason: &str| Err(Error::Invalid(format!("client options: {reason}")));
        if self.addresses.is_empty() || self.addresses.len() > 64 {
            return invalid("there must be 1 to 64 addresses");
        }
        if !(1..=64).contains(&self.connections) {
            return invalid("connections must be between 1 and 64");
        }
        if !(1..=1 << 16).contains(&self.queue_max) {
            return invalid("queue_max must be between 1 and 65536");
        }
        self.policy().check().or_else(invalid)
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy {
            deadline: Some(self.deadline),
            window: Some(self.window),
            attempt_timeout: self.attempt_timeout,
            fan_out: FanOut::One { hedge_after: self.hedge_after },
            backoff: self.backoff,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_options_are_rejected() {
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
