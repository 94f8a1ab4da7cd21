//! A small disk, and a file on it that takes a given amount of space.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use crate::mounts::mount_tmpfs;

pub struct SmallDisk {
    folder: PathBuf,
    ballast: File,
}

impl SmallDisk {
    /// In a process that has mounts of its own.
    pub fn mount(folder: &Path) -> Self {
        mount_tmpfs("16m", folder);
        let ballast = File::create_new(folder.join("ballast")).unwrap();
        Self { folder: folder.into(), ballast }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn page_bytes(&self) -> u64 {
        statvfs(&self.folder).unwrap().f_frsize
    }

    /// Free bytes.
    pub fn free(&self) -> u64 {
        let stats = statvfs(&self.folder).unwrap();
        stats.f_bavail * stats.f_frsize
    }

    /// Leaves this much free space, or all there is.
    pub fn leave(&self, bytes: Option<u64>) {
        self.ballast.set_len(0).unwrap();
        let Some(bytes) = bytes else { return };
        loop {
            let taken = self.free().saturating_sub(bytes);
            // Another process may have taken some of it meanwhile: check again.
            if taken == 0 || fallocate(&self.ballast, FallocateFlags::empty(), 0, taken).is_ok() {
                return;
            }
        }
    }
}
