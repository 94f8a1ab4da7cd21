//! Errors of a register engine.

use crate::{LogId, Slot};

/// Why a request failed. Nothing has happened, except with [`Error::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine has no space. Retry later.
    #[error("no space: {0}")]
    Full(String),
    /// Too many requests are in flight. Retry soon.
    #[error("busy: {0}")]
    Busy(String),
    /// A value or a batch above the limits.
    #[error("too large: {0}")]
    TooLarge(String),
    /// The request can never succeed.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// The requested slots are trimmed.
    #[error("{log} is trimmed up to {through}")]
    Trimmed { log: LogId, through: Slot },
    /// Stored bytes differ from the written ones. The message names the file and the offset.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The engine is unreachable or closed.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The engine did not respond in time: the request may have been executed. Repeat it with the same value.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

impl From<jeton_wal::Error> for Error {
    fn from(error: jeton_wal::Error) -> Self {
        use jeton_wal::Error as Wal;
        match error {
            Wal::Full(why) => Self::Full(why),
            Wal::Busy(why) => Self::Busy(why),
            Wal::TooLarge(why) => Self::TooLarge(why),
            Wal::Invalid(why) => Self::Invalid(why),
            Wal::Damaged(why) => Self::Damaged(why),
            Wal::Unknown(why) => Self::Unknown(why),
            other => Self::Unavailable(other.to_string()),
        }
    }
}
