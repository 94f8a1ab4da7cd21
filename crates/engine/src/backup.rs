//! A copy of the store as of one instant, taken while it serves.
//!
//! First an [`Instant`] is taken: the stores hold still while their files are listed and the log's ends noted, for a time that does not
//! depend on how much there is. From then on everything of that instant stays readable while the store goes on: files of the
//! stores never change, and are not removed while they are held; the log is not trimmed, and its filters not replaced, until they are
//! copied, which is first. Then the files are copied, or linked where the target is on the same file system.
//!
//! What the stores lack is in the log, up to where all partitions were at that instant. Opening the copy is a recovery like any other.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_executor::block_on;
use jeton_core::PartitionId;
use jeton_wal::disk::RealDisk;
use jeton_wal::{Batch, Blob, DurableAt, Error as LogError, Extent, LogId, Reader, Slot, Wal};

use crate::engine::Engine;
use crate::filter_store::StoredFilters;
use crate::ids;
use crate::partition_log::log_of;
use crate::recovery::{CATALOG, STORE};
use crate::trim_guard::TrimGuard;
use crate::values::{LsmFiles, ValuesError};

/// A copy that is not complete has a file of this name, and is not opened.
pub(crate) const INCOMPLETE: &str = "INCOMPLETE";

/// How long a busy log is left alone.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

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
    Ids(#[from] ids::Error),
    /// The value store.
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// The log, here or in the copy.
    #[error("log: {0}")]
    Log(#[from] LogError),
    /// The log of the copy.
    #[error("the copy's log: {0}")]
    Open(#[from] jeton_wal::OpenError),
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
    /// The directory of the store.
    pub fn folder(&self) -> &Path {
        self.disk.path()
    }

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

        let report = self.copy(self.instant()?, target)?;
        std::fs::remove_file(&mark).map_err(io_error("remove", &mark))?;
        sync_folder(target)?;
        Ok(report)
    }

    /// Holds the store still for a moment, to see what belongs to it.
    fn instant(&self) -> Result<Instant, BackupError> {
        let held = self.hold.take();
        let _alone = self.stores_in_use.write();
        let (values, ids) = (self.stores.values.files()?, self.stores.ids.files()?);
        let filters = StoredFilters::find(&*self.log)?;
        // Entries of a table or era that the copy does not know could not be read.
        let _unchanged = self.tables.hold();
        let mut blobs = Vec::new();
        for name in [STORE, CATALOG] {
            blobs.extend(self.log.get_blob(name)?.map(|blob| (name, blob)));
        }
        let (reader, extents) = self.log.snapshot(PartitionId::all().map(log_of))?;
        let extents = PartitionId::all().map(log_of).zip(extents).collect();
        Ok(Instant { values, ids, blobs, filters, reader, extents, held })
    }

    /// Makes a copy of what belongs to an instant.
    fn copy(&self, instant: Instant, target: &Path) -> Result<BackupReport, BackupError> {
        let Instant { values, ids, blobs, filters, reader, extents, held } = instant;
        let disk = RealDisk::new(target).map_err(io_error("use", target))?;
        let log = Wal::open(disk, jeton_wal::Options::default())?;
        for (name, blob) in blobs {
            log.put_blob(name, &blob)?;
        }
        for name in filters.iter().flat_map(StoredFilters::rows) {
            if let Some(blob) = self.log.get_blob(&name)? {
                log.put_blob(&name, &blob)?;
            }
        }
        let entries = copy_log(&reader, &extents, &log)?;
        log.close();
        // From here on the log may be trimmed: however long the rest takes, it does not grow for it.
        drop(held);

        let source = self.disk.path();
        let tables: Vec<PathBuf> = values.tables().map(|table| Path::new("values").join(table)).collect();
        let runs = ids.runs().iter().map(PathBuf::from);
        let mut files = 0;
        for file in tables.into_iter().chain(runs) {
            link(&source.join(&file), &target.join(&file))?;
            files += 1;
        }
        for (name, bytes) in values.small() {
            write(&target.join("values").join(name), bytes)?;
        }
        write(&target.join(ids.manifest_name()), ids.manifest())?;
        // A tree without a table has its folder all the same.
        let folders = ["values/tables", "values", "ids"].map(|folder| target.join(folder));
        for folder in &folders {
            std::fs::create_dir_all(folder).map_err(io_error("make", folder))?;
            sync_folder(folder)?;
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
    let mut entries = Entries { copy, batch: Batch::new(), in_flight: VecDeque::new(), count: 0 };
    reader.for_each(|log, slot, entry| entries.push(log, slot, entry))?;
    entries.finish()
}

/// What belongs to the store at one instant, all of it readable while this is held.
struct Instant {
    values: LsmFiles,
    ids: ids::Files<RealDisk>,
    /// The blobs that may change.
    blobs: Vec<(&'static str, Blob)>,
    filters: Option<StoredFilters>,
    /// The entries of the log, and the extents of the partitions.
    reader: Reader<std::fs::File>,
    extents: Vec<(LogId, Extent)>,
    /// What keeps the log and the filters.
    held: TrimGuard,
}

/// Entries on their way to the copy's log: nobody waits for one before the next is sent, so that few syncs do for all.
struct Entries<'a> {
    copy: &'a Wal<RealDisk>,
    batch: Batch,
    in_flight: VecDeque<DurableAt>,
    count: u64,
}

impl Entries<'_> {
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
                Err(LogError::Busy(_)) if !self.in_flight.is_empty() => self.settle()?,
                Err(LogError::Busy(_)) => std::thread::sleep(BUSY_PAUSE),
                other => break other?,
            }
        };
        self.in_flight.push_back(self.copy.append(&batch, reservation)?);
        Ok(())
    }

    /// Waits for the oldest batch that is under way.
    fn settle(&mut self) -> Result<(), LogError> {
        let Some(writing) = self.in_flight.pop_front() else { return Ok(()) };
        block_on(writing)
    }

    fn finish(mut self) -> Result<u64, LogError> {
        if !self.batch.is_empty() {
            self.send()?;
        }
        while !self.in_flight.is_empty() {
            self.settle()?;
        }
        Ok(self.count)
    }
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

fn write(path: &Path, bytes: &[u8]) -> Result<(), BackupError> {
    make_parent(path)?;
    std::fs::write(path, bytes).map_err(io_error("write", path))?;
    sync_file(path)
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

#[cfg(test)]
mod tests {
    use std::time::Instant as Time;

    use jeton_core::{Cell, Change, Column, OpId, Operation, TableSettings, Value};

    use super::*;
    use crate::values::Values;
    use crate::{EngineError, OperationOutcome, Options};

    const ROWS: u64 = 50;

    /// Nothing that is awaited takes as long as this, whatever else the machine does.
    const PATIENCE: Duration = Duration::from_secs(60);

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

    /// Adds one, under the id of this number.
    fn add(engine: &Engine, millis: u64, number: u64) -> Result<OperationOutcome, EngineError> {
        let id = OpId::uuid7(u128::from(millis) << 80 | 7 << 76 | 0b10 << 62 | u128::from(number)).unwrap();
        let operation = Operation::single(Some(id), cell(engine, number), Change::Add(1)).unwrap();
        block_on(engine.apply(operation))
    }

    /// Adds one under each of these numbers; far more than memory takes unless they are stored.
    fn add_all(engine: &Engine, millis: u64, numbers: std::ops::Range<u64>) {
        let deadline = Time::now() + PATIENCE;
        for number in numbers {
            loop {
                match add(engine, millis, number) {
                    Ok(reply) => break assert!(matches!(reply, OperationOutcome::Fresh(_)), "{reply:?}"),
                    Err(EngineError::Busy(_)) => {
                        assert!(Time::now() < deadline, "nothing is stored any more")
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

    /// Whether the log would lose something that belongs to this instant as soon as ids and values are stored.
    fn would_be_trimmed(instant: &Instant) -> bool {
        let speaks = |log: usize| {
            instant.filters.as_ref().map_or(0, |filters| filters.marks.get(PartitionId(log as u16)))
        };
        instant.extents.iter().enumerate().any(|(number, (_, extent))| speaks(number) > extent.trimmed.0)
    }

    /// The copy is made long after its instant: nobody waits for it, and what belongs to it is still there.
    #[test]
    fn a_store_goes_on_between_the_instant_of_a_copy_and_its_end() {
        const MORE: u64 = 3_000;
        let folder = tempfile::tempdir().unwrap();
        let engine = open(&folder.path().join("store"));
        engine.create_table("t", TableSettings::default()).unwrap();
        let millis = engine.now().as_nanos() / 1_000_000;
        let mut held = MORE;
        add_all(&engine, millis, 0..held);
        let deadline = Time::now() + PATIENCE;
        let instant = loop {
            let instant = engine.instant().unwrap();
            if would_be_trimmed(&instant) {
                break instant;
            }
            assert!(Time::now() < deadline, "the filters never were ahead of the rest");
            drop(instant);
            add_all(&engine, millis, held..held + 20);
            held += 20;
        };

        let mut present = held;
        loop {
            add_all(&engine, millis, present..present + MORE);
            present += MORE;
            while engine.stores.values.compact(0).unwrap() {}
            while engine.stores.ids.merge(u64::MAX).unwrap() {}
            let ids = engine.stores.ids.files().unwrap();
            let runs_merged = instant.ids.runs().iter().any(|run| !ids.runs().contains(run));
            let values = engine.stores.values.files().unwrap();
            let listed = |table: &String| values.tables().any(|other| other == *table);
            if runs_merged && instant.values.tables().any(|table| !listed(&table)) {
                break;
            }
            assert!(Time::now() < deadline, "nothing is merged any more");
        }

        let copy = folder.path().join("copy");
        engine.copy(instant, &copy).unwrap();
        let restored = open(&copy);
        assert_eq!(total(&restored), held);
        for number in (0..held).step_by(97).chain([held - 1]) {
            let again = add(&restored, millis, number);
            assert!(matches!(again, Ok(OperationOutcome::Replayed(_))), "id {number}: {again:?}");
        }
        assert!(matches!(add(&restored, millis, held), Ok(OperationOutcome::Fresh(_))), "later ids are new");
        assert_eq!(total(&engine), present, "the store itself went on");

        // What was held back is let go with the copy: the log is trimmed again.
        let begins = || {
            let (_, extents) = engine.log.snapshot(PartitionId::all().map(log_of)).unwrap();
            extents.iter().map(|extent| extent.trimmed.0).sum::<u64>()
        };
        let before = begins();
        let deadline = Time::now() + PATIENCE;
        let mut next = present;
        while begins() == before {
            assert!(Time::now() < deadline, "the log is never trimmed");
            add_all(&engine, millis, next..next + MORE);
            next += MORE;
        }
    }
}
