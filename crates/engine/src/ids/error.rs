//! Why the id index could not do what it was asked.

use std::io;

use jeton_register::disk::is_want_of_room;

/// Why the id index could not do what it was asked. The index is as it was before, and asking again is safe.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Stored bytes are not what was written.
    #[error("{file} is damaged at byte {offset}: {why}")]
    Damaged {
        /// The file's name on the disk.
        file: String,
        /// Where in it.
        offset: u64,
        /// What does not fit.
        why: &'static str,
    },
    /// The disk refused. After a full disk, or too many open files, the same call works once there is room again.
    #[error("cannot {what} {file}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file's name on the disk.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// More than the named limit allows.
    #[error("{what} of {size} is beyond the limit of {max}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        size: u64,
        /// How large it may be.
        max: u64,
    },
    /// The entries to be added were not in order.
    #[error("entry {position} comes before its predecessor in the order of generation and key")]
    Unsorted {
        /// The place of the first entry that is out of order.
        position: usize,
    },
}

impl Error {
    /// Whether there was no room, or no file handle, to make something new: the same call can succeed later.
    pub fn is_want_of_room(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_want_of_room(source))
    }
}
