//! Why a store could not be opened, or could not go on.

use std::io;

use crate::disk::LockError;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process uses it.
    #[error("the data directory is in use by {by} (process {pid}); stop it, or choose another directory")]
    Locked {
        /// The name that it gave.
        by: String,
        /// Its process id; 0 if it could not be read.
        pid: u32,
    },
    /// Something that was durable is not there any more or is not what was written. Going on would lose it silently.
    #[error("damaged: {file} at byte {offset}: {why}")]
    Damaged {
        /// The file, below the data directory.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        why: String,
    },
    /// The store was written by another version of the program.
    #[error("{file} is of format version {found}, this program reads version {expected}")]
    Version {
        /// The file, below the data directory.
        file: String,
        /// Its version.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// The options contradict the limits.
    #[error("{0}")]
    Options(String),
    /// The disk failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl OpenError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl From<LockError> for OpenError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Held { by, pid } => Self::Locked { by, pid },
            LockError::Io(source) => Self::Io { what: "the lock file".into(), source },
        }
    }
}

/// The disk failed in a way after which nothing can be promised. The process must end; what is durable is found at the next
/// start. A failed sync is never tried again: the system may have dropped what it could not write, and say yes the second time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fatal(pub String);
