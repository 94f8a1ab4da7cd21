//! Errors of one attempt, and of an operation as a whole.

use std::fmt;

use crate::id::Id;
use crate::retry::AttemptResult;

/// The error code: the first word of an error reply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// `BUSY`: too many requests are in flight. Nothing changed.
    Busy,
    /// `MISCONF`: the server's disk is full. Nothing changed.
    NoRoom,
    /// `STORAGE`: a read or write of the server's disk failed. The outcome is unknown.
    Storage,
    /// `QUOTA`: the token may create no more rows or tables. Nothing changed.
    Quota,
    /// `LOADING`: the server is starting or stopping. The outcome is unknown.
    Loading,
    /// `IDBUSY`: the outcome is not known yet.
    IdBusy,
    /// `IDEXPIRED`: the id is older than the window of the table.
    IdExpired,
    /// `IDMISMATCH`: the id was used for another operation.
    IdMismatch,
    /// `IDFUTURE`: the id is dated in the future; the client's or the server's clock is wrong.
    IdFuture,
    /// `IDREQUIRED`: the table requires an id on every write.
    IdRequired,
    /// `IDFORMAT`: the table does not accept ids of this format.
    IdFormat,
    /// `NOSESSION`: the server does not know the session of a sequenced id.
    NoSession,
    /// `FENCED`: a later incarnation of the same client has written.
    Fenced,
    /// `NOAUTH`: the server requires a token.
    NoAuth,
    /// `WRONGPASS`: the server does not know the token.
    WrongPass,
    /// `NOPERM`: the token lacks the right.
    NoPermission,
    /// `NOTABLE`: the table does not exist.
    NoTable,
    /// Any other, such as `ERR`.
    Other(Box<str>),
}

/// An error reply of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The first word of the message.
    pub code: Code,
    /// The whole error line.
    pub message: String,
}

impl ServerError {
    pub(crate) fn new(line: &[u8]) -> Self {
        let message = String::from_utf8_lossy(line).into_owned();
        let code = match message.split(' ').next().unwrap_or_default() {
            "BUSY" => Code::Busy,
            "MISCONF" => Code::NoRoom,
            "STORAGE" => Code::Storage,
            "QUOTA" => Code::Quota,
            "LOADING" => Code::Loading,
            "IDBUSY" => Code::IdBusy,
            "IDEXPIRED" => Code::IdExpired,
            "IDMISMATCH" => Code::IdMismatch,
            "IDFUTURE" => Code::IdFuture,
            "IDREQUIRED" => Code::IdRequired,
            "IDFORMAT" => Code::IdFormat,
            "NOSESSION" => Code::NoSession,
            "FENCED" => Code::Fenced,
            "NOAUTH" => Code::NoAuth,
            "WRONGPASS" => Code::WrongPass,
            "NOPERM" => Code::NoPermission,
            "NOTABLE" => Code::NoTable,
            other => Code::Other(other.into()),
        };
        Self { code, message }
    }

    /// What the error means for retries.
    pub(crate) fn attempt_result(&self) -> AttemptResult {
        match self.code {
            Code::Busy | Code::NoRoom => AttemptResult::Busy { may_have_applied: false },
            // A server that stops drops the operations in flight, and does not know their outcome.
            Code::Loading | Code::IdBusy => AttemptResult::Busy { may_have_applied: true },
            Code::IdMismatch => AttemptResult::NeverApplied,
            // A write that failed may still be on disk after a restart. Older servers send it as `ERR`.
            Code::Storage => AttemptResult::Refused { may_have_applied: true },
            Code::Other(_) if self.message.starts_with("ERR storage") => {
                AttemptResult::Refused { may_have_applied: true }
            }
            _ => AttemptResult::Refused { may_have_applied: false },
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
    pub fn code(&self) -> Option<&Code> {
        match self {
            Self::Refused(error)
            | Self::Unknown { last: AttemptError::Server(error), .. }
            | Self::Unreachable { last: AttemptError::Server(error) } => Some(&error.code),
            Self::Expired { .. } => Some(&Code::IdExpired),
            Self::Busy { .. } => Some(&Code::Busy),
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
        assert_eq!(ServerError::new(b"HUH what").code, Code::Other("HUH".into()));
    }
}
