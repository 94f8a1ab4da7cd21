//! The disk: the few operations that the wal and the stores need, so that tests can replace it.
//!
//! A name is a path below the data directory with `/` between its parts. An implementation guarantees:
//! - A written byte is durable once [`DiskFile::sync`] has returned after it. Before that any part of it may
//!   be lost or kept.
//! - A created, renamed or removed name is durable once [`Disk::sync_names`] of its folder has returned after
//!   it.
//! - A rename replaces its target atomically.

mod fault;
mod fault_file;
mod real;

use std::io;

pub use fault::FaultDisk;
pub use real::{RealDisk, private_folder};

/// A data directory.
pub trait Disk: Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;

    /// The lock of the directory, until it is dropped or the process ends.
    type Guard: Send + Sync + 'static;

    /// Locks the directory for this process. Another process that tries gets the name `owner`.
    fn lock(&self, owner: &str) -> Result<Self::Guard, LockError>;

    /// Creates a file of `bytes` zeros with all blocks allocated, so that writing them later takes no new
    /// space. Replaces a file of that name. Creates missing folders.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Self::File>;

    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// The names of the files in a folder, sorted, without the folder; none if the folder is not there.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Renames a file within its folder, replacing the file that had the name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn sync_names(&self, folder: &str) -> io::Result<()>;
}

/// An open file. Threads may share it: every access names an offset.
#[allow(clippy::len_without_is_empty, reason = "a file is not a collection")]
pub trait DiskFile: Send + Sync + 'static {
    fn len(&self) -> io::Result<u64>;

    /// Fills the buffer from this offset; an error if the file ends before.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all bytes at this offset. Extends the file if needed.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
}

/// Why a directory could not be locked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process holds the lock.
    #[error("in use by {by}, process {pid}")]
    Held {
        by: String,
        /// 0 if it could not be read.
        pid: u32,
    },
    /// The lock file cannot be used.
    #[error("the lock file: {0}")]
    Io(#[from] io::Error),
}

/// Whether an error means that nothing new can be written now: no space, no permission, too many open files.
/// Existing data remains usable, and the same request can succeed later.
pub fn is_out_of_space(error: &io::Error) -> bool {
    /// EMFILE and ENFILE, for which the standard library has no kind.
    const TOO_MANY_FILES: [i32; 2] = [24, 23];
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::FileTooLarge
    ) || error.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code))
}
