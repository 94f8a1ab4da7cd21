//! Why an engine could not answer.

use crate::{Log, Slot};

/// Why an engine could not answer. Nothing of what was asked has happened, except with [`Failure::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// There is no room for more. It comes back when room does.
    #[error("no room to write: {0}")]
    Full(String),
    /// Too much is under way already. It can be asked again as soon as some of that has ended.
    #[error("busy: {0}")]
    Busy(String),
    /// A value, a batch or a gap beyond the engine's limits.
    #[error("too large: {0}")]
    TooLarge(String),
    /// What was asked can never be done, whatever the state of the engine.
    #[error("not possible: {0}")]
    Invalid(String),
    /// The slots asked for are trimmed up to here.
    #[error("{log} is trimmed up to {through}")]
    Trimmed {
        /// The log.
        log: Log,
        /// Its trim point.
        through: Slot,
    },
    /// Stored bytes are not what was written. The message names the file and the place.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The engine cannot be reached or is closed. What was asked did not happen.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The engine did not answer in time: what was asked may have happened. Ask again, with the same value.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}
