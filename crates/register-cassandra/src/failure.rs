//! The outcome of a request without a result, as an error of the register trait.

use jeton_register::Error;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

/// Why a request has no result.
#[derive(Debug, Clone)]
pub enum Failure {
    /// No server executed it.
    NotExecuted(String),
    /// A server may have executed it.
    Unknown(String),
}

impl Failure {
    pub fn of(error: &ExecutionError) -> Self {
        let text = error.to_string();
        match error {
            ExecutionError::LastAttemptError(attempt) => match attempt {
                RequestAttemptError::SerializationError(_)
                | RequestAttemptError::CqlRequestSerialization(_)
                | RequestAttemptError::UnableToAllocStreamId
                | RequestAttemptError::RepreparedIdMissingInBatch
                | RequestAttemptError::DbError(
                    DbError::SyntaxError
                    | DbError::Invalid
                    | DbError::AuthenticationError
                    | DbError::Unauthorized
                    | DbError::ConfigError
                    | DbError::IsBootstrapping
                    | DbError::Unprepared { .. },
                    _,
                ) => Self::NotExecuted(text),
                // Also an error such as "unavailable" may follow a proposal that was accepted before.
                _ => Self::Unknown(text),
            },
            ExecutionError::RequestTimeout(_) => Self::Unknown(text),
            _ => Self::NotExecuted(text),
        }
    }

    /// As the error of a request that changes nothing, or can be repeated without harm.
    pub fn unavailable(self) -> Error {
        let (Self::NotExecuted(text) | Self::Unknown(text)) = self;
        Error::Unavailable(text)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotExecuted(text) => Self::Unavailable(text),
            Failure::Unknown(text) => Self::Unknown(text),
        }
    }
}

/// Whether the node, not the request, is the likely cause.
pub fn blames_node(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::RequestTimeout(_) | ExecutionError::ConnectionPoolError(_) => true,
        ExecutionError::LastAttemptError(attempt) => matches!(
            attempt,
            RequestAttemptError::BrokenConnectionError(_)
                | RequestAttemptError::UnableToAllocStreamId
                | RequestAttemptError::DbError(DbError::IsBootstrapping | DbError::Overloaded, _)
        ),
        _ => false,
    }
}

pub fn closed() -> Error {
    Error::Unavailable("the engine is closed".into())
}
