//! A copy of the store as of one instant, taken while it serves.
//!
//! The stores on disk hold still while they are copied (nothing is stored, merged or trimmed meanwhile); their files never change, so
//! most of the copy is hard links. What the stores lack is read from the log, up to where all partitions were at one instant, and
//! becomes the log of the copy. Opening the copy is a recovery like any other.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_executor::block_on;
use jeton_core::PartitionId;
use jeton_register::disk::RealDisk;
use jeton_register::embedded::{self, Embedded};
use jeton_register::{Batch, Extent, Failure, Log, Registers, Slot, Written};

use crate::engine::Engine;
use crate::filters::StoredFilters;
use crate::recovery::{CATALOG, STORE};

/// A copy that is not complete has a file of this name, and is not opened.
pub(crate) const INCOMPLETE: &str = "INCOMPLETE";

/// How long a busy log is left alone.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Entries that are copied at a time.
const COPY_MAX: usize = 4096;

/// Why a copy could not be made. What there is of it cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The directory is not empty.
    #[error("{} is not empty: a copy is made in an empty or new directory", .0.display())]
    NotEmpty(PathBuf),
    /// The file system.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The id index.
    #[error("id index: {0}")]
    Ids(#[from] crate::ids::Error),
    /// The log, here or in the copy.
    #[error("log: {0}")]
    Log(#[from] Failure),
    /// The log of the copy.
    #[error("the copy's log: {0}")]
    Open(#[from] embedded::OpenError),
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::Io { what, path, source }
}

/// What a copy holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupReport {
    /// Files that the copy shares with the store, as hard links, or that were copied.
    pub files: u64,
    /// Entries of its log.
    pub entries: u64,
}

impl Engine {
    /// Makes a copy of the store in an empty or new directory, as of one instant, while it serves. The copy is complete and durable
    /// when this returns.
    pub fn checkpoint(&self, target: &Path) -> Result<BackupReport, BackupError> {
        std::fs::create_dir_all(target).map_err(io_error("make", target))?;
        let mut inside = std::fs::read_dir(target).map_err(io_error("list", target))?;
        if inside.next().is_some() {
            return Err(BackupError::NotEmpty(target.into()));
        }
        let mark = target.join(INCOMPLETE);
        std::fs::write(&mark, b"a copy of a store begins with this file, and ends by removing it\n")
            .map_err(io_error("write", &mark))?;
        sync_folder(target)?;

        let mut report = BackupReport { files: 0, entries: 0 };
        {
            let _alone = self.stores_in_use.write();
            let source = self.disk.path();
            copy_folder(&source.join("values"), &target.join("values"), &mut report.files)?;
            let files = self.stores.ids.files()?;
            for run in files.runs() {
                link(&source.join(run), &target.join(run))?;
                report.files += 1;
            }
            let manifest = target.join(files.manifest_name());
            make_parent(&manifest)?;
            std::fs::write(&manifest, files.manifest()).map_err(io_error("write", &manifest))?;
            sync_file(&manifest)?;
            sync_folder(&target.join("ids"))?;
            // Entries of a table or era that the copy does not know could not be read.
            let _unchanged = self.tables.hold();
            report.entries = self.copy_log(target)?;
        }
        std::fs::remove_file(&mark).map_err(io_error("remove", &mark))?;
        sync_folder(target)?;
        Ok(report)
    }

    /// Writes the rows and what the log holds at this instant into a log of its own.
    fn copy_log(&self, target: &Path) -> Result<u64, BackupError> {
        let disk = RealDisk::new(target).map_err(io_error("use", target))?;
        let copy = Embedded::open(disk, embedded::Options::default())?;
        let filters = StoredFilters::find(&*self.registers)?;
        let filters = filters.iter().flat_map(StoredFilters::rows);
        for name in [STORE, CATALOG].into_iter().map(str::to_owned).chain(filters) {
            if let Some(row) = block_on(self.registers.get_row(&name))? {
                block_on(copy.put_row(&name, row))?;
            }
        }
        let logs = || PartitionId::all().map(|partition| Log::partition(partition.0));
        let extents = self.registers.extents(logs())?;
        let mut entries = 0;
        for (log, Extent { trimmed, last }) in logs().zip(extents) {
            if trimmed > Slot::ZERO {
                patiently(|| block_on(copy.trim(log, trimmed)))?;
            }
            let mut next = trimmed.next();
            while next <= last {
                let mut batch = Batch::new();
                for (slot, value) in block_on(self.registers.read(log, next, COPY_MAX))? {
                    if slot <= last {
                        batch.push(log, slot, &value);
                    }
                    next = slot.next();
                }
                entries += batch.len() as u64;
                let permit = patiently(|| copy.admit(batch.len(), batch.value_bytes()))?;
                let written = block_on(copy.write(batch, permit))?;
                assert!(written.iter().all(|one| *one == Written::Fresh), "the copy's log was not empty");
            }
        }
        copy.close();
        Ok(entries)
    }
}

/// Tries again as long as the copy's log is busy with making its next segment.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    loop {
        match attempt() {
            Err(Failure::Busy(_)) => std::thread::sleep(BUSY_PAUSE),
            other => return other,
        }
    }
}

/// Copies every file of a folder, and of those in it, and makes the names durable. Tables never change: they are linked.
fn copy_folder(from: &Path, to: &Path, files: &mut u64) -> Result<(), BackupError> {
    std::fs::create_dir_all(to).map_err(io_error("make", to))?;
    let tables = from.file_name().is_some_and(|name| name == "tables");
    for entry in std::fs::read_dir(from).map_err(io_error("list", from))? {
        let entry = entry.map_err(io_error("list", from))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().map_err(io_error("look at", &path))?.is_dir() {
            copy_folder(&path, &target, files)?;
        } else {
            if tables {
                link(&path, &target)?
            } else {
                copy(&path, &target)?
            }
            *files += 1;
        }
    }
    sync_folder(to)
}

/// A second name for a file that never changes; a copy, where the file system cannot do that.
fn link(from: &Path, to: &Path) -> Result<(), BackupError> {
    make_parent(to)?;
    if std::fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    copy(from, to)
}

fn copy(from: &Path, to: &Path) -> Result<(), BackupError> {
    std::fs::copy(from, to).map_err(io_error("copy", from))?;
    sync_file(to)
}

fn make_parent(path: &Path) -> Result<(), BackupError> {
    let parent = path.parent().unwrap_or(path);
    std::fs::create_dir_all(parent).map_err(io_error("make", parent))
}

fn sync_file(path: &Path) -> Result<(), BackupError> {
    let file = std::fs::File::open(path).map_err(io_error("open", path))?;
    file.sync_all().map_err(io_error("sync", path))
}

fn sync_folder(path: &Path) -> Result<(), BackupError> {
    sync_file(path)
}
