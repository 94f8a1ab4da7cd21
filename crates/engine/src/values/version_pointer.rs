//! The tree's folder in the file system: its pointer to the current version, and files that no version lists.
//!
//! The tree keeps its tables in `tables/<number>`, lists them in `v<number>`, and names the current version
//! in `current`. A test compares the part of that format written here with what the tree writes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use lsm_tree::TableId;
use xxhash_rust::xxh3::xxh3_128;

/// File name of the next `current` before its rename.
const CURRENT_NEW: &str = "current.new";

/// The hash of the version's file in `current`.
const XXH3: u8 = 0;

#[derive(Debug)]
pub(super) struct VersionPointer(PathBuf);

impl VersionPointer {
    pub(super) const CURRENT: &str = "current";

    pub(super) const TABLES: &str = "tables";

    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Makes the content of `current` durable, even if the process that wrote it crashed: after that, files
    /// that it does not list may be removed.
    ///
    /// If the version that it names does not match its hash, the process crashed while it overwrote that
    /// version after a failed edit. Neither edit was reported as complete, and the version before both is
    /// unchanged: `current` is reset to it. If an operator restored files and the version before is an older
    /// one, its rows are older than the log begins, and recovery refuses them.
    ///
    /// A sync does not repeat one that failed in an earlier process, so the file is written anew. Without
    /// space for that, a sync is the best that can be done.
    pub(super) fn make_durable(&self) -> io::Result<()> {
        match fs::read(self.0.join(Self::CURRENT)) {
            Ok(bytes) => match self.before_overwritten(&bytes)? {
                Some(before) => self.point(&before),
                None => self.point(&bytes).or_else(|_| self.sync()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Content of `current` for the version before the named one, if that one does not match its hash and the
    /// one before exists.
    fn before_overwritten(&self, current: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let read = |version: u64| match self.read_version(version) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        };
        let Some(named) = current.first_chunk().map(|number| u64::from_le_bytes(*number)) else {
            return Ok(None);
        };
        if read(named)?.is_some_and(|bytes| Self::pointer(named, &bytes) == current) {
            return Ok(None);
        }
        let Some(before) = named.checked_sub(1) else { return Ok(None) };
        Ok(read(before)?.map(|bytes| Self::pointer(before, &bytes)))
    }

    /// The version that `current` names.
    pub(super) fn version(&self) -> io::Result<u64> {
        let bytes = fs::read(self.0.join(Self::CURRENT))?;
        let number = bytes.first_chunk().ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(u64::from_le_bytes(*number))
    }

    pub(super) fn version_file(version: u64) -> String {
        format!("v{version}")
    }

    pub(super) fn read_version(&self, version: u64) -> io::Result<Vec<u8>> {
        fs::read(self.0.join(Self::version_file(version)))
    }

    /// Content of `current` for this version.
    pub(super) fn pointer(version: u64, file: &[u8]) -> Vec<u8> {
        let mut bytes = version.to_le_bytes().to_vec();
        bytes.extend_from_slice(&xxh3_128(file).to_le_bytes());
        bytes.push(XXH3);
        bytes
    }

    /// Replaces `current` durably.
    pub(super) fn point(&self, bytes: &[u8]) -> io::Result<()> {
        let new = self.0.join(CURRENT_NEW);
        let write = || {
            remove(&new)?;
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
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

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
