//! The disk, as little of it as the embedded engines need; so that a simulator can be one.
//!
//! A name is a path below the data directory with `/` between its parts. What must hold of an implementation:
//! - A written byte is durable once [`DiskFile::sync`] has returned after it; before that any part of it may be lost or kept.
//! - A created, renamed or removed name is durable once [`Disk::sync_names`] of its folder has returned after it.
//! - A rename replaces its target whole or not at all.

use std::io;

/// A directory to keep data in.
pub trait Disk: Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;

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
