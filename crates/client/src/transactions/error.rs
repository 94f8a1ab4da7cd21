//! What goes wrong: with one question, and with a transaction as a whole.

use std::fmt;

use crate::id::Id;

/// What kind of problem a server named, by the last part of its address.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// `bad-parameters`: one is missing, unknown, of another kind or beyond its bounds.
    BadParameters,
    /// `unknown-procedure`.
    UnknownProcedure,
    /// `id-invalid`, `id-required`: not the id of a transaction.
    IdInvalid,
    /// `id-from-future`: the clock here or there is wrong.
    IdFromFuture,
    /// `id-expired`: it is older than the window, or was acknowledged.
    IdExpired,
    /// `id-mismatch`: the id stands for another transaction.
    IdMismatch,
    /// `unauthorized`: the server wants a valid token.
    Unauthorized,
    /// `forbidden`: the token does not give this right.
    Forbidden,
    /// `no-answer-yet`.
    NoAnswerYet,
    /// `busy`, `not-ready`, `full`, `throttled`: nothing was taken up.
    Busy,
    /// Any other.
    Other(Box<str>),
}

/// What the server said instead of an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The status of its answer.
    pub status: u16,
    /// The kind of problem.
    pub problem: Problem,
    /// What it said, in words.
    pub detail: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.detail, self.status)
    }
}

/// Why a question had no answer, or none that ends the transaction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttemptError {
    /// There was no connection. It was not sent.
    #[error("cannot connect to {server}: {why}")]
    Connect {
        /// Where to.
        server: String,
        /// What the system said.
        why: String,
    },
    /// The connection ended before the answer came.
    #[error("the connection to {server} was lost: {why}")]
    Lost {
        /// Where to.
        server: String,
        /// What the system said.
        why: String,
    },
    /// No answer came in time.
    #[error("no answer in time")]
    TimedOut,
    /// The server said this.
    #[error("{0}")]
    Said(ServerError),
    /// The server answered something that is no answer to this.
    #[error("an answer that makes no sense: {0}")]
    Nonsense(String),
}

/// Why there is no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Whether it takes effect is **not known**. Ask again with the same id, [`Transactions::issue_with`](super::Transactions::issue_with): it takes effect once. With another
    /// id it may take effect twice.
    #[error("whether the transaction {id} takes effect is not known ({last}); ask again with the same id")]
    Unknown {
        /// The id to ask again with.
        id: Id,
        /// What the last question met with.
        last: AttemptError,
    },
    /// What became of it is forgotten: its session is older than the window, or its answer was acknowledged. It may have taken effect, or not, and is not done now.
    #[error("{said} (id {id})")]
    Expired {
        /// The id.
        id: Id,
        /// What the server said.
        said: ServerError,
    },
    /// The server refused it. Nothing has taken effect under this id for what was asked.
    #[error("{said} (id {id})")]
    Refused {
        /// The id.
        id: Id,
        /// What the server said.
        said: ServerError,
    },
    /// Up to the deadline no server could be asked, or all were busy. Nothing has taken effect.
    #[error("gave up at the deadline: {last}")]
    Unreachable {
        /// The id.
        id: Id,
        /// What the last question met with.
        last: AttemptError,
    },
    /// It cannot be sent as it is. Nothing was sent.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// The kind of problem that the server named, if that is the reason.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Expired { said, .. }
            | Self::Refused { said, .. }
            | Self::Unknown { last: AttemptError::Said(said), .. }
            | Self::Unreachable { last: AttemptError::Said(said), .. } => Some(&said.problem),
            _ => None,
        }
    }

    /// The id of the transaction, if it has one.
    pub fn id(&self) -> Option<&Id> {
        match self {
            Self::Unknown { id, .. }
            | Self::Expired { id, .. }
            | Self::Refused { id, .. }
            | Self::Unreachable { id, .. } => Some(id),
            Self::Invalid(_) => None,
        }
    }

    /// Whether it is certain that nothing has taken effect, and that nothing will.
    pub fn is_certain(&self) -> bool {
        !matches!(self, Self::Unknown { .. } | Self::Expired { .. })
    }
}
