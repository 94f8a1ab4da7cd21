//! Detection of file changes without reading the file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A version of a file. It includes ctime because `chmod` changes nothing else, and the inode because a file
/// that is replaced twice within one clock tick has the same times. Two writes in place within a tick that
/// keep the length are missed; [`TokenFile`](crate::TokenFile) replaces the file instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    /// The version of the file at this path; `None` if `stat` fails. Reading the file then returns the error.
    pub fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        Some(Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}
