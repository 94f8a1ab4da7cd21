//! Errors of a transaction.

use std::fmt;

use crate::error;
use crate::id::Id;

/// Why an attempt got no response, or none that ends the transaction.
pub type AttemptError = error::AttemptError<ServerError>;

/// The kind of problem: the last segment of the problem's `type` URI.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// `bad-parameters`: a parameter is missing, unknown, of the wrong type or out of range.
    BadParameters,
    /// `unknown-procedure`: the server has no procedure of this name.
    UnknownProcedure,
    /// `id-invalid`, `id-required`: not the id of a transaction.
    IdInvalid,
    /// `id-from-future`: the client's or the server's clock is wrong.
    IdFromFuture,
    /// `id-expired`: the id is older than the window, or was acknowledged.
    IdExpired,
    /// `id-mismatch`: the id belongs to another transaction.
    IdMismatch,
    /// `unauthorized`, `token-invalid`: the server requires a valid token.
    Unauthorized,
    /// `forbidden`: the token lacks the right.
    Forbidden,
    /// `outcome-unknown`: the transaction is in flight and has no outcome yet.
    OutcomeUnknown,
    /// `busy`, `not-ready`, `full`, `throttled`: the server did not start the transaction.
    Busy,
    /// Any other.
    Other(Box<str>),
}

/// An error response of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// HTTP status code.
    pub status: u16,
    /// The kind of problem.
    pub problem: Problem,
    /// Description for humans.
    pub detail: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.detail, self.status)
    }
}

/// Why a transaction has no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The outcome is **unknown**. A retry with the same id
    /// ([`Transactions::execute_with_id`](super::Transactions::execute_with_id)) takes effect once; with
    /// another id it may take effect twice.
    #[error("the outcome of transaction {id} is unknown ({last}); retry with the same id")]
    Unknown {
        /// The id to retry with.
        id: Id,
        /// Error of the last attempt.
        last: AttemptError,
    },
    /// The servers have dropped the outcome: the session is older than the window, or the outcome was
    /// acknowledged. The transaction may have taken effect earlier; it is not executed now.
    #[error("{error} (id {id})")]
    Expired {
        /// The expired id.
        id: Id,
        /// The server's error.
        error: ServerError,
    },
    /// The server rejected the request. This request has not taken effect under this id.
    #[error("{error} (id {id})")]
    Refused {
        /// Id of the transaction.
        id: Id,
        /// The server's error.
        error: ServerError,
    },
    /// Until the deadline no server was reachable, or all were busy. Nothing has taken effect.
    #[error("gave up at the deadline: {last}")]
    Unreachable {
        /// Id of the transaction.
        id: Id,
        /// Error of the last attempt.
        last: AttemptError,
    },
    /// An argument is invalid. Nothing was sent.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// The server's problem, if a server caused this error.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Expired { error, .. }
            | Self::Refused { error, .. }
            | Self::Unknown { last: AttemptError::Server(error), .. }
            | Self::Unreachable { last: AttemptError::Server(error), .. } => Some(&error.problem),
            _ => None,
        }
    }

    /// The id of the transaction, if the error has one.
    pub fn id(&self) -> Option<&Id> {
        match self {
            Self::Unknown { id, .. }
            | Self::Expired { id, .. }
            | Self::Refused { id, .. }
            | Self::Unreachable { id, .. } => Some(id),
            Self::Invalid(_) => None,
        }
    }

    /// Whether it is certain that the transaction has not taken effect and will not.
    pub fn is_certain(&self) -> bool {
        !matches!(self, Self::Unknown { .. } | Self::Expired { .. })
    }
}
