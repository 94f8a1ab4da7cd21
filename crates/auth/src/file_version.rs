//! What tells one version of a file from another without reading it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A version of a file. The time of change (ctime) is in it because `chmod` changes nothing else, and the inode because a
/// file that is replaced twice within one tick of the clock has the same times. Somebody who writes into the file in
/// place, twice within a tick and with the same length, is missed; [`TokenFile`](crate::BookFile) replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileVersion {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    /// Of the file that is there now; `None` if none can be seen. Why not, reading it will tell.
    pub(crate) fn of(path: &Path) -> Option<Self> {
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
