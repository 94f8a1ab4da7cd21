//! Why a member could not be started.

use std::io;

use jeton_wal::Error;

/// Why a member could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The settings contradict each other or the limits.
    #[error("{0}")]
    Settings(String),
    /// The log could not be opened: it is in use, or damaged at the place that the message names.
    #[error(transparent)]
    Log(#[from] jeton_wal::OpenError),
    /// The content of the directory is not what a member writes.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The log could not be read or written.
    #[error("the Raft log: {0}")]
    Store(Error),
    /// openraft did not start.
    #[error("raft: {0}")]
    Raft(String),
    /// The system refused a thread, an address or a directory.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

impl OpenError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        match error {
            Error::Damaged(why) => Self::Damaged(why),
            other => Self::Store(other),
        }
    }
}
