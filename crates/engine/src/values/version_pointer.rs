//! The tree's folder on the file system: its pointer to the present version, and files that no version lists.
//!
//! The tree keeps its tables in `tables/<number>`, lists them in `v<number>`, and names the version that counts in `current`. The
//! little of that format that is written here is checked against what the tree writes by a test.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lsm_tree::TableId;
use xxhash_rust::xxh3::xxh3_128;

/// The file that will be `current`.
const CURRENT_NEW: &str = "current.new";

/// The hash that `current` has of the version's file.
const XXH3: u8 = 0;

#[derive(Debug)]
pub(super) struct VersionPointer(PathBuf);

impl VersionPointer {
    /// The file that names the version that counts.
    pub(super) const CURRENT: &str = "current";

    /// The folder of the tables.
    pub(super) const TABLES: &str = "tables";

    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Makes what `current` says durable, whatever became of the process that wrote it: after that, what it does not list may go.
    ///
    /// A sync that failed in a process before this one would not be repeated by a sync: so the file is written anew. Without room for that,
    /// a sync is the most that can be had.
    pub(super) fn settle(&self) -> io::Result<()> {
        match fs::read(self.0.join(Self::CURRENT)) {
            Ok(bytes) => self.point(&bytes).or_else(|_| self.sync()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Which version `current` names.
    pub(super) fn version(&self) -> io::Result<u64> {
        let bytes = fs::read(self.0.join(Self::CURRENT))?;
        let number = bytes.first_chunk().ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(u64::from_le_bytes(*number))
    }

    /// The file of a version.
    pub(super) fn version_file(version: u64) -> String {
        format!("v{version}")
    }

    /// What is in the file of a version.
    pub(super) fn read_version(&self, version: u64) -> io::Result<Vec<u8>> {
        fs::read(self.0.join(Self::version_file(version)))
    }

    /// What `current` says if this version counts.
    pub(super) fn pointer(version: u64, file: &[u8]) -> Vec<u8> {
        let mut bytes = version.to_le_bytes().to_vec();
        bytes.extend_from_slice(&xxh3_128(file).to_le_bytes());
        bytes.push(XXH3);
        bytes
    }

    /// Replaces `current`, durably.
    pub(super) fn point(&self, bytes: &[u8]) -> io::Result<()> {
        let new = self.0.join(CURRENT_NEW);
        let write = || {
            remove(&new)?;
            let mut file = File::create_new(&new)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().inspect_err(|_| drop(fs::remove_file(&new)))?;
        fs::rename(&new, self.0.join(Self::CURRENT))?;
        self.sync()
    }

    pub(super) fn remove_version(&self, version: u64) -> io::Result<()> {
        remove(&self.0.join(Self::version_file(version)))
    }

    pub(super) fn remove_table(&self, table: TableId) -> io::Result<()> {
        remove(&self.0.join(Self::TABLES).join(table.to_string()))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }
}

/// Removes a file that may not be there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
