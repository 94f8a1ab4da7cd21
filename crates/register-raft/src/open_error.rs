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
    /// The log could not be opened: it is in use, or damaged at the place that is named.
    #[error(transparent)]
    Log(#[from] jeton_wal::OpenError),
    /// What is stored is not what a member stores, or it is another member's.
    #[error("damaged: {0}")]
    Damaged(String),
    /// What is stored could not be read, or not be made.
    #[error("the store of the log: {0}")]
    Store(Error),
    /// Raft did not start.
    #[error("raft: {0}")]
    Raft(String),
    /// The system refused: a thread, an address to listen at, a folder.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl OpenError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl From<Error> for OpenError {
    fn from(failure: Error) -> Self {
        match failure {
            Error::Damaged(why) => Self::Damaged(why),
            other => Self::Store(other),
        }
    }
}
