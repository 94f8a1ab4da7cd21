//! Errors of an open wal.

/// Why a request to a wal failed. Nothing has changed, except with [`Error::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk has no space. Retry later.
    #[error("no space: {0}")]
    Full(String),
    /// Too many bytes are in flight, or the next segment is still being created. Retry soon.
    #[error("busy: {0}")]
    Busy(String),
    /// An entry, a batch or a blob above the limits.
    #[error("too large: {0}")]
    TooLarge(String),
    /// The request can never succeed.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// An entry is not at the next slot of its log.
    #[error("{0}")]
    OutOfOrder(String),
    /// Stored bytes differ from the written ones. The message names the file and the offset.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The wal is closed, or the disk failed before.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The disk failed, or the wal closed, before the request was durable. It may or may not be found after a
    /// restart.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}
