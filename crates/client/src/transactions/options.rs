//! What can be chosen about a client of transactions.

use std::fmt;
use std::time::Duration;

use super::error::Error;
use super::retry::Policy;
use crate::retry::Backoff;

/// What can be chosen about a client of transactions.
#[derive(Clone)]
pub struct Options {
    /// The servers of the cluster, each as `http://host:port`. They must be those that work on the same databases with the same registers.
    pub servers: Vec<String>,
    /// What to show to the server.
    pub token: Option<String>,
    /// How long a transaction is asked for; nothing for as long as the caller waits. Then it ends with [`Error::Unknown`].
    pub deadline: Option<Duration>,
    /// After which silence of one server all are asked.
    pub widen_after: Duration,
    /// How long to wait for the answer to one question. Should be longer than the server's own `request_timeout`.
    pub attempt_timeout: Duration,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// How long to wait before a server that failed is asked again.
    pub backoff: Backoff,
    /// After which age a [`Session`](super::Session) goes on under a new id. Servers refuse sessions that are older than their window, and forget together what was begun
    /// together: the younger, the better.
    pub renew_after: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let Policy { deadline, widen_after, attempt_timeout, backoff } = Policy::default();
        Self {
            servers: Vec::new(),
            token: None,
            deadline,
            widen_after,
            attempt_timeout,
            connect_timeout: Duration::from_secs(2),
            backoff,
            renew_after: Duration::from_secs(3600),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Options end up in logs, and tokens must not.
        out.debug_struct("Options")
            .field("servers", &self.servers)
            .field("token", &self.token.as_ref().map(|_| "..."))
            .field("policy", &self.policy())
            .field("connect_timeout", &self.connect_timeout)
            .field("renew_after", &self.renew_after)
            .finish()
    }
}

impl Options {
    /// For these servers, with everything else as usual.
    pub fn to<A: Into<String>>(servers: impl IntoIterator<Item = A>) -> Self {
        Self { servers: servers.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let wrong = |what: &str| Err(Error::Invalid(format!("client options: {what}")));
        if self.servers.is_empty() || self.servers.len() > 64 {
            return wrong("there must be 1 to 64 servers");
        }
        if self.token.as_ref().is_some_and(|token| token.bytes().any(|byte| !byte.is_ascii_graphic())) {
            return wrong("the token has characters that no token has");
        }
        let times = [self.attempt_timeout, self.connect_timeout, self.renew_after];
        if times.iter().any(Duration::is_zero) || self.deadline.is_some_and(|deadline| deadline.is_zero()) {
            return wrong(
                "deadline, attempt_timeout, connect_timeout and renew_after must be longer than nothing",
            );
        }
        if self.backoff.base.is_zero() || self.backoff.cap.is_zero() {
            // A client that does not wait keeps a server down that others wait for.
            return wrong("backoff must be longer than nothing");
        }
        Ok(())
    }

    pub(super) fn policy(&self) -> Policy {
        Policy {
            deadline: self.deadline,
            widen_after: self.widen_after,
            attempt_timeout: self.attempt_timeout,
            backoff: self.backoff,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_said() {
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
