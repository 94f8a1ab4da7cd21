//! Errors of one attempt, and of an operation as a whole.

use std::fmt;

use jeton_core::ErrorCode;

use crate::id::Id;
use crate::retry::AttemptResult;

/// An error reply of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The error that the first word of the message stands for. `None` for `ERR`, which many errors share,
    /// and for words that Jeton does not send.
    pub code: Option<ErrorCode>,
    /// The whole error line.
    pub message: String,
}

impl ServerError {
    pub(crate) fn new(line: &[u8]) -> Self {
        let message = String::from_utf8_lossy(line).into_owned();
        let code = ErrorCode::from_resp_prefix(message.split(' ').next().unwrap_or_default());
        Self { code, message }
    }

    /// Whether the server requires another token.
    pub(crate) fn concerns_the_token(&self) -> bool {
        matches!(self.code, Some(ErrorCode::Unauthorized | ErrorCode::TokenInvalid | ErrorCode::Forbidden))
    }

    /// What the error means for retries.
    pub(crate) fn attempt_result(&self) -> AttemptResult {
        match self.code {
            Some(ErrorCode::IdMismatch) => AttemptResult::NeverApplied,
            Some(code) if code.is_retryable() => {
                AttemptResult::Busy { may_have_applied: code.may_have_applied() }
            }
            Some(code) => AttemptResult::Refused { may_have_applied: code.may_have_applied() },
            // Older servers report errors of the disk as `ERR`.
            None => AttemptResult::Refused { may_have_applied: self.message.starts_with("ERR storage") },
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

/// Why an attempt got no response, or none that ends the request. `E` is the server's error in the protocol
/// used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttemptError<E = ServerError> {
    /// No connection could be opened. The request was not sent.
    #[error("cannot connect to {server}: {reason}")]
    Connect {
        /// Address of the server.
        server: String,
        /// The error of the operating system or of the server.
        reason: String,
    },
    /// The certificate of the server is not trusted. The request was not sent.
    #[error("the certificate of {server} is not trusted: {reason}")]
    Untrusted {
        /// Address of the server.
        server: String,
        /// The error of the TLS library.
        reason: String,
    },
    /// The connection ended before the response arrived.
    #[error("the connection to {server} was lost: {reason}")]
    Lost {
        /// Address of the server.
        server: String,
        /// The error of the operating system.
        reason: String,
    },
    /// No response arrived in time.
    #[error("no response in time")]
    TimedOut,
    /// The server responded with an error.
    #[error("{0}")]
    Server(E),
    /// The server's reply does not fit the request.
    #[error("unexpected reply: {0}")]
    UnexpectedReply(String),
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The outcome is **unknown**. A retry with the same id counts once; with another id it may count twice.
    #[error("the outcome of operation {id} is unknown ({last}); retry with the same id")]
    Unknown {
        /// The id to retry with.
        id: Id,
        /// Error of the last attempt.
        last: AttemptError,
    },
    /// The id is older than the window of the table. The operation may have been counted earlier; it is not
    /// counted now. [`Client::operation`](crate::Client::operation) returns what the server still knows of
    /// the id.
    #[error("{message} (id {id})")]
    Expired {
        /// The expired id.
        id: Id,
        /// The server's message.
        message: String,
    },
    /// The server was overloaded or full until the deadline. Nothing changed.
    #[error("{message}")]
    Busy {
        /// The server's message.
        message: String,
    },
    /// The server rejected the operation. Nothing changed.
    #[error("{0}")]
    Refused(ServerError),
    /// No server was reachable until the deadline, none has a trusted certificate, or none responded to a
    /// read. Nothing changed.
    #[error("gave up: {last}")]
    Unreachable {
        /// Error of the last attempt.
        last: AttemptError,
    },
    /// An argument is invalid. Nothing was sent.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// The code of the server's error, if a server caused this error.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(error)
            | Self::Unknown { last: AttemptError::Server(error), .. }
            | Self::Unreachable { last: AttemptError::Server(error) } => error.code,
            Self::Expired { .. } => Some(ErrorCode::IdExpired),
            Self::Busy { .. } => Some(ErrorCode::Busy),
            _ => None,
        }
    }

    /// Whether it is certain that the operation was not counted and will not be.
    pub fn is_certain(&self) -> bool {
        !matches!(self, Self::Unknown { .. } | Self::Expired { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_decide_about_retries() {
        let busy = |may_have_applied| AttemptResult::Busy { may_have_applied };
        let refused = |may_have_applied| AttemptResult::Refused { may_have_applied };
        for (text, result) in [
            ("BUSY too many requests are waiting", busy(false)),
            ("MISCONF writes are refused for now", busy(false)),
            ("LOADING the engine is closed", busy(true)),
            ("IDBUSY", busy(true)),
            ("IDMISMATCH the id was used", AttemptResult::NeverApplied),
            ("IDEXPIRED the id is older", refused(false)),
            ("NOPERM", refused(false)),
            ("ERR increment or decrement would overflow", refused(false)),
            ("ERR storage: no", refused(true)),
            ("STORAGE storage: no", refused(true)),
            ("QUOTA no more", refused(false)),
        ] {
            assert_eq!(ServerError::new(text.as_bytes()).attempt_result(), result, "{text}");
        }
        assert_eq!(ServerError::new(b"HUH what").code, None);
    }
}
