//! Errors of a transaction.

use std::fmt;

use jeton_core::ErrorCode;

use crate::error;
use crate::id::Id;

/// Why an attempt got no response, or none that ends the transaction.
pub type AttemptError = error::AttemptError<ServerError>;

/// An error response of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// HTTP status code.
    pub status: u16,
    /// The error that the `type` of the problem names; `None` if a proxy or another version sent it.
    pub code: Option<ErrorCode>,
    /// Description for humans.
    pub detail: String,
}

impl ServerError {
    /// Whether the server did not start the transaction and will do so later.
    pub(super) fn is_busy(&self) -> bool {
        use ErrorCode::{Busy, Full, NotReady, Throttled};
        matches!(self.code, Some(Busy | Full | NotReady | Throttled))
    }
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
    /// The code of the server's error, if a server caused this error.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Expired { error, .. }
            | Self::Refused { error, .. }
            | Self::Unknown { last: AttemptError::Server(error), .. }
            | Self::Unreachable { last: AttemptError::Server(error), .. } => error.code,
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
