//! Errors of the id index.

use std::io;

use jeton_wal::disk::is_out_of_space;

/// An error of the id index. The index is unchanged, and a retry is safe.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Stored bytes are not what was written.
    #[error("{file} is damaged at byte {offset}: {why}")]
    Damaged { file: String, offset: u64, why: &'static str },
    /// The disk failed. After a full disk, or too many open files, a retry succeeds once there is space.
    #[error("cannot {what} {file}: {source}")]
    Io { what: &'static str, file: String, source: io::Error },
    #[error("{what} of {size} is beyond the limit of {max}")]
    TooLarge { what: &'static str, size: u64, max: u64 },
    #[error("entry {position} comes before its predecessor in the order of generation and key")]
    Unsorted {
        /// Position of the first entry that is out of order.
        position: usize,
    },
}

impl Error {
    /// Whether space or file handles ran out: the same call can succeed later.
    pub fn is_out_of_space(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_out_of_space(source))
    }
}
