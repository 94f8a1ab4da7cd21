//! Online backup: a copy of the store as of one instant.
//!
//! A [`Snapshot`] lists the files of the stores and the extents of the log while the stores do not change;
//! that takes the same time for any amount of data. Afterwards the store continues, and the snapshot stays
//! readable: files of the stores never change and are not removed while it exists, and the log is not trimmed
//! and the filters are not replaced until both are copied. Then the files are linked, or copied to another
//! file system.
//!
//! The copied log ends at the snapshot and contains what the copied stores lack. Opening the copy is an
//! ordinary recovery.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_executor::block_on;
use jeton_core::PartitionId;
use jeton_wal::disk::{RealDisk, private_folder};
use jeton_wal::{Batch, Blob, DurableAt, Error as LogError, Extent, LogId, Reader, Slot, Wal};

use crate::engine::Engine;
use crate::ids;
use crate::partition_log::log_of;
use crate::recovery::{CATALOG, STORE};
use crate::store_files::StoreFiles;
use crate::values::ValuesError;

/// Marks an unfinished backup. A directory with a file of this name is not opened.
pub(crate) const INCOMPLETE: &str = "INCOMPLETE";

/// Pause before a retry if the log of the copy is busy.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Why a backup failed. The unfinished copy cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    #[error("{} is not empty: a backup needs an empty or new directory", .0.display())]
    NotEmpty(PathBuf),
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("id index: {0}")]
    Ids(#[from] ids::Error),
    #[error(transparent)]
    Values(#[from] ValuesError),
    #[error("log: {0}")]
    Log(#[from] LogError),
    #[error("log of the backup: {0}")]
    Open(#[from] jeton_wal::OpenError),
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::Io { what, path, source }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupReport {
    /// Files of the stores that were linked or copied.
    pub files: u64,
    /// Entries of the copied log.
    pub entries: u64,
}

impl Engine {
    pub fn folder(&self) -> &Path {
        self.disk.path()
    }

    /// Copies the store as of one instant into an empty or new directory, while requests continue. The copy
    /// is durable when this returns.
    pub fn checkpoint(&self, target: &Path) -> Result<BackupReport, BackupError> {
        // Before its permissions are changed.
        if std::fs::read_dir(target).is_ok_and(|mut inside| inside.next().is_some()) {
            return Err(BackupError::NotEmpty(target.into()));
        }
        private_folder(target).map_err(io_error("make", target))?;
        let marker = target.join(INCOMPLETE);
        write(&marker, b"this backup is unfinished\n")?;
        sync(target)?;

        let report = self.copy(self.snapshot()?, target)?;
        std::fs::remove_file(&marker).map_err(io_error("remove", &marker))?;
        sync(target)?;
        Ok(report)
    }

    fn snapshot(&self) -> Result<Snapshot, BackupError> {
        let trim_guard = self.trim_block.take();
        let _exclusive = self.stores_in_use.write();
        let files = StoreFiles::find::<_, BackupError>(&self.stores, &*self.log, trim_guard)?;
        // The copied catalogue must have every table and era of the copied entries.
        let _unchanged = self.tables.freeze();
        let mut blobs = Vec::new();
        for name in [STORE, CATALOG] {
            blobs.extend(self.log.get_blob(name)?.map(|blob| (name, blob)));
        }
        let (reader, extents) = self.log.snapshot(PartitionId::all().map(log_of))?;
        let extents = PartitionId::all().map(log_of).zip(extents).collect();
        Ok(Snapshot { files, blobs, reader, extents })
    }

    fn copy(&self, snapshot: Snapshot, target: &Path) -> Result<BackupReport, BackupError> {
        let Snapshot { files: mut stored, blobs, reader, extents } = snapshot;
        let disk = RealDisk::new(target).map_err(io_error("use", target))?;
        let log = Wal::open(disk, jeton_wal::Options::default())?;
        for (name, blob) in blobs {
            log.put_blob(name, &blob)?;
        }
        for name in stored.blobs() {
            if let Some(blob) = self.log.get_blob(&name)? {
                log.put_blob(&name, &blob)?;
            }
        }
        let entries = copy_log(&reader, &extents, &log)?;
        log.close();
        // The rest may take long: let the log be trimmed meanwhile.
        stored.release_blobs();

        let source = self.disk.path();
        let mut files = 0;
        for file in stored.immutable() {
            link(&source.join(&file), &target.join(&file))?;
            files += 1;
        }
        for (name, bytes) in stored.small() {
            write(&target.join(name), bytes)?;
        }
        // An empty tree has a directory for its tables too.
        for folder in ["values/tables", "values", "ids"].map(|folder| target.join(folder)) {
            private_folder(&folder).map_err(io_error("make", &folder))?;
            sync(&folder)?;
        }
        Ok(BackupReport { files, entries })
    }
}

/// Copies the entries of a log into an empty one, durably. Returns the number of entries.
fn copy_log(
    reader: &Reader<std::fs::File>,
    extents: &[(LogId, Extent)],
    copy: &Wal<RealDisk>,
) -> Result<u64, LogError> {
    let trimmed = extents.iter().filter(|(_, extent)| extent.trimmed > Slot::ZERO);
    let trims: Vec<(LogId, Slot)> = trimmed.map(|(log, extent)| (*log, extent.trimmed)).collect();
    // Busy while the copy creates its next segment.
    let trimmed = loop {
        match copy.trim(&trims) {
            Err(LogError::Busy(_)) => std::thread::sleep(BUSY_PAUSE),
            other => break other?,
        }
    };
    block_on(trimmed)?;
    let mut entries = LogCopy { copy, batch: Batch::new(), in_flight: VecDeque::new(), count: 0 };
    reader.for_each(|log, slot, entry| entries.push(log, slot, entry))?;
    entries.finish()
}

/// The state of the store at one instant. All of it is readable while this exists.
struct Snapshot {
    files: StoreFiles,
    /// The blobs that later changes replace.
    blobs: Vec<(&'static str, Blob)>,
    /// The entries of the log, and the extent of each partition's log.
    reader: Reader<std::fs::File>,
    extents: Vec<(LogId, Extent)>,
}

/// Appends entries to the log of the copy. Many batches are in flight, so that they share fsyncs.
struct LogCopy<'a> {
    copy: &'a Wal<RealDisk>,
    batch: Batch,
    in_flight: VecDeque<DurableAt>,
    count: u64,
}

impl LogCopy<'_> {
    fn push(&mut self, log: LogId, slot: Slot, entry: &[u8]) -> Result<(), LogError> {
        let limits = self.copy.limits();
        let bytes = self.batch.entry_bytes() + entry.len();
        if self.batch.len() >= limits.batch_entries_max || bytes > limits.batch_bytes_max {
            self.send()?;
        }
        self.batch.push(log, slot, entry);
        self.count += 1;
        Ok(())
    }

    fn send(&mut self) -> Result<(), LogError> {
        let batch = std::mem::take(&mut self.batch);
        let reservation = loop {
            match self.copy.reserve(batch.len(), batch.entry_bytes()) {
                Err(LogError::Busy(_)) if !self.in_flight.is_empty() => self.wait_for_oldest()?,
                Err(LogError::Busy(_)) => std::thread::sleep(BUSY_PAUSE),
                other => break other?,
            }
        };
        self.in_flight.push_back(self.copy.append(&batch, reservation)?);
        Ok(())
    }

    fn wait_for_oldest(&mut self) -> Result<(), LogError> {
        self.in_flight.pop_front().map_or(Ok(()), block_on)
    }

    fn finish(mut self) -> Result<u64, LogError> {
        if !self.batch.is_empty() {
            self.send()?;
        }
        while !self.in_flight.is_empty() {
            self.wait_for_oldest()?;
        }
        Ok(self.count)
    }
}

/// Links a file, or copies it to another file system. The file never changes.
fn link(from: &Path, to: &Path) -> Result<(), BackupError> {
    make_parent(to)?;
    if std::fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    std::fs::copy(from, to).map_err(io_error("copy", from))?;
    sync(to)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), BackupError> {
    make_parent(path)?;
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(bytes));
    written.map_err(io_error("write", path))?;
    sync(path)
}

fn make_parent(path: &Path) -> Result<(), BackupError> {
    let parent = path.parent().unwrap_or(path);
    private_folder(parent).map(drop).map_err(io_error("make", parent))
}

/// Makes a file or a directory durable.
fn sync(path: &Path) -> Result<(), BackupError> {
    let file = std::fs::File::open(path).map_err(io_error("open", path))?;
    file.sync_all().map_err(io_error("sync", path))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use jeton_core::{Cell, Change, Column, OpId, Operation, TableSettings, Value};

    use super::*;
    use crate::values::Values;
    use crate::{EngineError, OperationOutcome, Options};

    const ROWS: u64 = 50;

    /// Upper bound for any wait, however busy the machine is.
    const TIMEOUT: Duration = Duration::from_secs(60);

    fn open(folder: &Path) -> Engine {
        let (segment_bytes, log_bytes) = (1 << 20, 1 << 16);
        Engine::open(
            folder,
            Options { shards: 1, segment_bytes, log_bytes, recent_ids: 64, ..Options::default() },
        )
        .unwrap()
    }

    fn cell(engine: &Engine, number: u64) -> Cell {
        let table = engine.table("t").unwrap();
        engine.cell(&table, &(number % ROWS).to_be_bytes(), &Column::unnamed()).unwrap()
    }

    /// Adds 1 under the id of this number.
    fn add(engine: &Engine, millis: u64, number: u64) -> Result<OperationOutcome, EngineError> {
        let id = OpId::uuid7_from(millis, number.into());
        let operation = Operation::single(Some(id), cell(engine, number), Change::Add(1)).unwrap();
        block_on(engine.apply(operation))
    }

    /// Adds 1 under each of these numbers. Memory does not suffice for all: checkpoints must make progress.
    fn add_all(engine: &Engine, millis: u64, numbers: std::ops::Range<u64>) {
        let deadline = Instant::now() + TIMEOUT;
        for number in numbers {
            loop {
                match add(engine, millis, number) {
                    Ok(reply) => break assert!(matches!(reply, OperationOutcome::Fresh(_)), "{reply:?}"),
                    Err(EngineError::Busy(_)) => {
                        assert!(Instant::now() < deadline, "no checkpoint makes progress")
                    }
                    Err(refusal) => panic!("{refusal}"),
                }
            }
        }
    }

    fn total(engine: &Engine) -> u64 {
        let value = |number| match block_on(engine.get(cell(engine, number))).unwrap() {
            Some(Value::Counter(value)) => value as u64,
            other => panic!("{other:?}"),
        };
        (0..ROWS).map(value).sum()
    }

    /// Whether the next checkpoint of ids and values would trim entries of the snapshot.
    fn would_be_trimmed(snapshot: &Snapshot) -> bool {
        let Some(filters) = &snapshot.files.filters else { return false };
        let mut extents = snapshot.extents.iter();
        extents.any(|(log, extent)| filters.watermarks.get(PartitionId(log.0)) > extent.trimmed.0)
    }

    /// The copy is made long after the snapshot. Requests do not wait for it, and the snapshot is still
    /// complete.
    #[test]
    fn a_snapshot_stays_readable_while_the_store_continues() {
        const MORE: u64 = 3_000;
        let folder = tempfile::tempdir().unwrap();
        let engine = open(&folder.path().join("store"));
        engine.create_table("t", TableSettings::default()).unwrap();
        let millis = engine.now().as_nanos() / 1_000_000;
        let mut copied = MORE;
        add_all(&engine, millis, 0..copied);
        let deadline = Instant::now() + TIMEOUT;
        let snapshot = loop {
            let snapshot = engine.snapshot().unwrap();
            if would_be_trimmed(&snapshot) {
                break snapshot;
            }
            assert!(Instant::now() < deadline, "the filters are never ahead of the other stores");
            drop(snapshot);
            add_all(&engine, millis, copied..copied + 20);
            copied += 20;
        };

        let mut present = copied;
        loop {
            add_all(&engine, millis, present..present + MORE);
            present += MORE;
            while engine.stores.values.compact(0).unwrap() {}
            while engine.stores.ids.merge(u64::MAX).unwrap() {}
            let ids = engine.stores.ids.files().unwrap();
            let runs_merged = snapshot.files.ids.runs.iter().any(|run| !ids.runs.contains(run));
            let values = engine.stores.values.files().unwrap();
            let listed = |table: &String| values.tables().any(|other| other == *table);
            if runs_merged && snapshot.files.values.tables().any(|table| !listed(&table)) {
                break;
            }
            assert!(Instant::now() < deadline, "nothing is compacted");
        }

        let copy = folder.path().join("copy");
        engine.copy(snapshot, &copy).unwrap();
        let restored = open(&copy);
        assert_eq!(total(&restored), copied);
        for number in (0..copied).step_by(97).chain([copied - 1]) {
            let again = add(&restored, millis, number);
            assert!(matches!(again, Ok(OperationOutcome::Replayed(_))), "id {number}: {again:?}");
        }
        assert!(
            matches!(add(&restored, millis, copied), Ok(OperationOutcome::Fresh(_))),
            "later ids are new"
        );
        assert_eq!(total(&engine), present, "the store itself continued");

        // The copy releases the trim guard: the log is trimmed again.
        let trimmed = || {
            let (_, extents) = engine.log.snapshot(PartitionId::all().map(log_of)).unwrap();
            extents.iter().map(|extent| extent.trimmed.0).sum::<u64>()
        };
        let before = trimmed();
        let deadline = Instant::now() + TIMEOUT;
        let mut next = present;
        while trimmed() == before {
            assert!(Instant::now() < deadline, "the log is never trimmed");
            add_all(&engine, millis, next..next + MORE);
            next += MORE;
        }
    }
}
