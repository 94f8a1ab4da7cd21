//! The disk, as little of it as the embedded engines need; so that a simulator can be one.
//!
//! A name is a path below the data directory with `/` between its parts. What must hold of an implementation:
//! - A written byte is durable once [`DiskFile::sync`] has returned after it; before that any part of it may be lost or kept.
//! - A created, renamed or removed name is durable once [`Disk::sync_names`] of its folder has returned after it.
//! - A rename replaces its target whole or not at all.

mod fault;
mod inode;
mod real;

use std::io;

pub use fault::FaultDisk;
pub use real::RealDisk;

/// A directory to keep data in.
pub trait Disk: Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;

    /// Proof that this process alone uses the directory, until it is dropped or the process ends.
    type Guard: Send + Sync + 'static;

    /// Takes the directory for this process alone. Others are told `who` has it.
    fn lock(&self, who: &str) -> Result<Self::Guard, LockError>;

    /// Makes a file of so many bytes, all zero and all really there: writing them later takes no new room. Replaces a file of
    /// that name. Folders of the name are made as needed.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Self::File>;

    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// The names of the files in a folder, sorted, without the folder; none if the folder is not there.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Gives a file another name in the same folder, replacing the file that had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn sync_names(&self, folder: &str) -> io::Result<()>;
}

/// An open file. Threads may share it: every access says where.
#[allow(clippy::len_without_is_empty, reason = "a length that can fail to be told is no collection's")]
pub trait DiskFile: Send + Sync + 'static {
    /// How long it is.
    fn len(&self) -> io::Result<u64>;

    /// Fills the buffer from this place on; an error if the file ends before.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of the bytes at this place, beyond the end too.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
}

/// Why a directory could not be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process has it.
    #[error("in use by {by}, process {pid}")]
    Held {
        /// The name it gave.
        by: String,
        /// Its process id; 0 if it could not be read.
        pid: u32,
    },
    /// The lock could not be tried.
    #[error("the lock file: {0}")]
    Io(#[from] io::Error),
}

/// Whether an error says that there is no room, or no right, to make something new. What is there already can be used as
/// before, and the same request can succeed later.
pub fn is_want_of_room(error: &io::Error) -> bool {
    /// Too many open files: in this process (EMFILE), in the system (ENFILE). The standard library has no kind for them.
    const TOO_MANY_FILES: [i32; 2] = [24, 23];
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::FileTooLarge
    ) || error.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code))
}
