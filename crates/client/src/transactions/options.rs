//! Options of a transaction client.

use std::fmt;
use std::time::Duration;

use super::error::Error;
use crate::retry::{Backoff, FanOut, Policy};

/// Options of a transaction client.
#[derive(Clone)]
pub struct Options {
    /// The servers of the cluster, each as `http://host:port`, or `https://host:port` with the feature `tls`.
    /// All of them must serve the same databases with the same registers.
    pub servers: Vec<String>,
    /// Token to authenticate with.
    pub token: Option<String>,
    /// Trusted certificates; without them, those of the operating system.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::Tls>,
    /// How long a transaction is retried; without it, as long as the caller waits. At the deadline an unknown
    /// outcome becomes [`Error::Unknown`].
    pub deadline: Option<Duration>,
    /// How long to wait for the first server before all servers receive the request.
    pub widen_after: Duration,
    /// How long to wait for the response to one attempt. Should exceed the server's own `request_timeout`.
    pub attempt_timeout: Duration,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// How long to wait before a failed server receives the request again.
    pub backoff: Backoff,
    /// Age at which a [`Session`](super::Session) continues under a new id. Servers reject sessions older
    /// than their window, and drop the records of a session together: shorter sessions free memory earlier.
    pub renew_after: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            token: None,
            #[cfg(feature = "tls")]
            tls: None,
            deadline: None,
            widen_after: Duration::from_millis(500),
            // The server itself responds after 30 s by default if the outcome is still unknown.
            attempt_timeout: Duration::from_secs(40),
            connect_timeout: Duration::from_secs(2),
            backoff: Backoff { base: Duration::from_millis(50), cap: Duration::from_secs(5) },
            renew_after: Duration::from_secs(3600),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Options may be logged; the token must not be.
        out.debug_struct("Options")
            .field("servers", &self.servers)
            .field("token", &self.token.as_ref().map(|_| "..."))
            .field("policy", &self.policy())
            .field("connect_timeout", &self.connect_timeout)
            .field("renew_after", &self.renew_after)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Options for these servers; all others have their defaults.
    pub fn to<A: Into<String>>(servers: impl IntoIterator<Item = A>) -> Self {
        Self { servers: servers.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let invalid = |reason: &str| Err(Error::Invalid(format!("client options: {reason}")));
        if self.servers.is_empty() || self.servers.len() > 64 {
            return invalid("there must be 1 to 64 servers");
        }
        if self.token.as_ref().is_some_and(|token| token.bytes().any(|byte| !byte.is_ascii_graphic())) {
            return invalid("the token contains invalid characters");
        }
        if self.connect_timeout.is_zero() || self.renew_after.is_zero() {
            return invalid("connect_timeout and renew_after must not be zero");
        }
        self.policy().check().or_else(invalid)
    }

    pub(super) fn policy(&self) -> Policy {
        Policy {
            deadline: self.deadline,
            window: None,
            attempt_timeout: self.attempt_timeout,
            fan_out: FanOut::All { widen_after: self.widen_after },
            backoff: self.backoff,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_options_are_rejected() {
        let good = || Options::to(["http://localhost:6381"]);
        assert!(good().check().is_ok());
        for bad in [
            Options::default(),
            Options { token: Some("a b".into()), ..good() },
            Options { deadline: Some(Duration::ZERO), ..good() },
            Options { backoff: Backoff { base: Duration::ZERO, ..Backoff::default() }, ..good() },
        ] {
            assert!(matches!(bad.check(), Err(Error::Invalid(_))), "{bad:?}");
        }
        assert!(!format!("{:?}", Options { token: Some("secret".into()), ..good() }).contains("secret"));
    }
}
