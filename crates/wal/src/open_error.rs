//! Why a wal could not be opened, or had to stop.

use std::io;

use crate::disk::LockError;

/// Why a wal could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process uses the directory.
    #[error("the data directory is in use by {by} (process {pid}); stop it, or choose another directory")]
    Locked {
        /// The name that the other process gave.
        by: String,
        /// 0 if it could not be read.
        pid: u32,
    },
    /// Something that was durable is missing or changed. Opening would lose it silently.
    #[error("damaged: {file} at byte {offset}: {why}")]
    Damaged {
        /// Relative to the data directory, as in the other errors.
        file: String,
        offset: u64,
        why: String,
    },
    /// The wal was written by another version of the program.
    #[error("{file} has format version {found}, this program reads versions 1 to {expected}")]
    Version {
        file: String,
        found: u32,
        /// The newest version that this program reads.
        expected: u32,
    },
    /// The directory holds registers of transactions in the format of Jeton before `jeton-wal`.
    #[error(
        "{file} holds registers of transactions in format version 2; stop the server and convert them with `jeton migrate`"
    )]
    OldRegisters { file: String },
    /// The options contradict the limits.
    #[error("{0}")]
    Options(String),
    /// The disk failed.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

impl OpenError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
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

/// The disk failed in a way that leaves it unknown what is durable. The process must end; the next start
/// recovers. A failed fsync is never retried: the system may have dropped the pages that it could not write,
/// and report success the next time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fatal(pub String);
