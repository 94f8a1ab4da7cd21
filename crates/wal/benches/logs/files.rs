//! A bare file: what the disk allows, and what preparing a file is worth.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use jeton_wal::disk::{Disk, RealDisk};

use crate::{GROUP, Subject, VALUE};

/// As long as a segment.
const BYTES: u64 = 64 << 20;

/// A file to which each group is appended, padded to a page, and synced.
pub struct Bare {
    name: &'static str,
    file: File,
    group: Vec<u8>,
    at: u64,
    /// Where it begins again.
    end: u64,
}

impl Bare {
    /// Filled with zeros before, as our segments are.
    pub fn zeroed(folder: &Path) -> Self {
        let disk = RealDisk::new(folder).expect("the folder can be made");
        let file = disk.create("zeroed", BYTES).expect("the file can be made");
        file.sync_all().expect("the disk works");
        Self::new("a bare file, filled with zeros before", file, BYTES)
    }

    /// Its blocks allotted, and nothing written to them.
    pub fn allotted(folder: &Path) -> Self {
        let file = open(&folder.join("allotted"));
        #[cfg(target_os = "linux")]
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, BYTES)
            .expect("the disk has room");
        file.sync_all().expect("the disk works");
        // It is as if new only once.
        Self::new("a bare file, allotted before", file, u64::MAX)
    }

    /// Grows with every group.
    pub fn growing(folder: &Path) -> Self {
        Self::new("a bare file that grows", open(&folder.join("growing")), u64::MAX)
    }

    fn new(name: &'static str, file: File, end: u64) -> Self {
        let mut group = VALUE.repeat(GROUP);
        group.resize(group.len().next_multiple_of(4096), 0);
        Self { name, file, group, at: 0, end }
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .expect("the file can be made")
}

impl Subject for Bare {
    fn name(&self) -> &str {
        self.name
    }

    fn group(&mut self) -> usize {
        if self.at + self.group.len() as u64 > self.end {
            self.at = 0;
        }
        #[cfg(target_os = "linux")]
        if self.end == u64::MAX && self.name.contains("allotted") && self.at.is_multiple_of(BYTES / 2) {
            use rustix::fs::{FallocateFlags, fallocate};
            fallocate(&self.file, FallocateFlags::empty(), self.at, BYTES).expect("the disk has room");
        }
        self.file.write_all_at(&self.group, self.at).expect("the disk works");
        self.file.sync_data().expect("the disk works");
        self.at += self.group.len() as u64;
        GROUP
    }
}
