//! The steps in which the tree changes, and how one that failed is taken back.
//!
//! Two threads change the tree, each one step at a time: one ingests, one merges. A step writes tables, then a version that lists them,
//! then points to that version. If it fails half way, the tree in memory is as before, but
//! - its tables stay on the disk, and on a full disk every retry would take more of the room that comes back: they are removed;
//! - the pointer may name a version that the tree in memory does not know, with its name not durable. The tree would write over that
//!   version with the next step, and a crash in between would leave a pointer to half a file: the pointer is set back first, by a new
//!   file. Until that succeeds no step begins.
//!
//! Both are done while no step is under way, so that nobody's work is taken for a leftover.
//!
//! Tables that were listed once are never touched here. The tree removes them when nobody reads them any more, or holds them for a copy.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use lsm_tree::{AbstractTree, AnyTree, DescriptorTable, TableId};

use super::ValuesError;
use super::version_pointer::VersionPointer;

pub(super) struct VersionEdits {
    tree: AnyTree,
    pub(super) folder: VersionPointer,
    open_files: Arc<DescriptorTable>,
    /// Held by whoever is in a step; alone by whoever takes one back.
    under_way: RwLock<()>,
    /// Held for an ingestion.
    ingesting: Mutex<()>,
    /// Held for a merge. What merges have listed since the last ingestion began: other merges may have unlisted it again, and somebody may
    /// still read it.
    merging: Mutex<()>,
    merged: Mutex<BTreeSet<TableId>>,
    failed: Mutex<Failed>,
}

/// What steps that failed have left.
#[derive(Default)]
struct Failed {
    /// The numbers of tables that were given out during such steps; not all of them to such steps.
    numbers: Vec<Range<TableId>>,
    /// Tables that no version lists, nor ever did.
    tables: BTreeSet<TableId>,
}

impl VersionEdits {
    pub(super) fn new(tree: AnyTree, folder: VersionPointer, open_files: Arc<DescriptorTable>) -> Self {
        Self {
            tree,
            folder,
            open_files,
            under_way: RwLock::default(),
            ingesting: Mutex::default(),
            merging: Mutex::default(),
            merged: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// A step that adds tables, and takes none away.
    pub(super) fn ingest<T>(&self, step: impl FnOnce() -> Result<T, ValuesError>) -> Result<T, ValuesError> {
        let _turn = lock(&self.ingesting);
        self.take_back()?;
        lock(&self.merged).clear();
        self.attempt(step)
    }

    /// A step that puts tables in the place of others.
    pub(super) fn merge<T>(&self, step: impl FnOnce() -> Result<T, ValuesError>) -> Result<T, ValuesError> {
        let _turn = lock(&self.merging);
        self.take_back()?;
        self.attempt(|| {
            let done = step()?;
            lock(&self.merged).extend(self.listed());
            Ok(done)
        })
    }

    fn attempt<T>(&self, step: impl FnOnce() -> Result<T, ValuesError>) -> Result<T, ValuesError> {
        let first = self.tree.next_table_id();
        let done = {
            let _in_step = self.under_way.read().unwrap_or_else(PoisonError::into_inner);
            step()
        };
        if done.is_err() {
            lock(&self.failed).numbers.push(first..self.tree.next_table_id());
            // If it cannot be taken back now, the next step tries again before it begins.
            drop(self.take_back());
        }
        done
    }

    /// Takes back what failed steps have left. What cannot be removed is left for later; without a good pointer nothing may go on.
    fn take_back(&self) -> Result<(), ValuesError> {
        {
            let failed = lock(&self.failed);
            if failed.numbers.is_empty() && failed.tables.is_empty() {
                return Ok(());
            }
        }
        let _alone = self.under_way.write().unwrap_or_else(PoisonError::into_inner);
        let mut failed = lock(&self.failed);
        let Failed { numbers, tables } = &mut *failed;
        if !numbers.is_empty() {
            let present = self.tree.current_version().id();
            self.set_back(present).map_err(|error| {
                ValuesError(format!("cannot take back a step that failed half way: {error}"))
            })?;
            let mut live = lock(&self.merged).clone();
            live.extend(self.listed());
            tables.extend(numbers.drain(..).flatten().filter(|table| !live.contains(table)));
        }
        tables.retain(|table| {
            // An open file would keep its room.
            self.open_files.remove_for_table(&(self.tree.id(), *table).into());
            self.folder.remove_table(*table).is_err()
        });
        Ok(())
    }

    /// Lets the pointer name this version again, and removes what there is of the next.
    fn set_back(&self, present: u64) -> std::io::Result<()> {
        if self.folder.version()? != present {
            self.folder.point(&VersionPointer::pointer(present, &self.folder.read_version(present)?))?;
        }
        self.folder.remove_version(present + 1)
    }

    fn listed(&self) -> Vec<TableId> {
        self.tree.current_version().iter_tables().map(lsm_tree::Table::id).collect()
    }
}

/// What these locks guard is never left half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::{LsmOptions, LsmValues, Rows, Values};
    use super::*;

    fn open(folder: &Path) -> LsmValues {
        LsmValues::open(folder, &LsmOptions::default()).unwrap()
    }

    fn put(values: &LsmValues, row: u8) -> Result<(), ValuesError> {
        let mut rows = Rows::default();
        rows.push_bytes(&[1, row], Some(&[row]));
        values.replace(&rows)
    }

    fn copy_into(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let target = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                copy_into(&entry.path(), &target);
            } else {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }

    #[test]
    fn the_pointer_is_written_as_the_tree_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let values = open(folder.path());
        for row in 0..4 {
            let version = values.tree().current_version().id();
            let listing = values.steps().folder.read_version(version).unwrap();
            let pointer = fs::read(folder.path().join(VersionPointer::CURRENT)).unwrap();
            assert_eq!(VersionPointer::pointer(version, &listing), pointer);
            assert_eq!(values.steps().folder.version().unwrap(), version);
            put(&values, row).unwrap();
        }
    }

    /// As when the pointer is renamed and its name cannot be made durable: the disk is a step ahead of the tree in memory.
    #[test]
    fn a_step_that_is_on_the_disk_and_not_in_memory_is_taken_back_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (here, ahead) = (folder.path().join("here"), folder.path().join("ahead"));
        let values = open(&here);
        put(&values, 1).unwrap();
        copy_into(&here, &ahead);
        put(&open(&ahead), 2).unwrap();
        copy_into(&ahead, &here);

        // Fails, because the table that it would make is there already.
        put(&values, 3).unwrap_err();
        let crashed = folder.path().join("crashed");
        copy_into(&here, &crashed);
        let found = open(&crashed);
        assert_eq!(found.get(&[1, 1]).unwrap(), Some(vec![1]));
        assert_eq!(found.get(&[1, 2]).unwrap(), None, "the step that failed did not happen");

        put(&values, 3).unwrap();
        drop(values);
        let found = open(&here);
        assert_eq!(found.get(&[1, 1]).unwrap(), Some(vec![1]));
        assert_eq!(found.get(&[1, 3]).unwrap(), Some(vec![3]));
    }

    #[test]
    fn without_a_good_pointer_no_step_begins() {
        let folder = tempfile::tempdir().unwrap();
        let values = open(folder.path());
        put(&values, 1).unwrap();
        let failed = values.steps().ingest(|| -> Result<(), _> { Err(ValuesError("a failure".into())) });
        failed.unwrap_err();
        put(&values, 2).unwrap();

        let pointer = folder.path().join(VersionPointer::CURRENT);
        let good = fs::read(&pointer).unwrap();
        let spoil = || {
            fs::remove_file(&pointer).unwrap();
            Err(ValuesError("a failure".into()))
        };
        let failed: Result<(), _> = values.steps().ingest(spoil);
        failed.unwrap_err();
        for _ in 0..2 {
            let refused = put(&values, 3).unwrap_err();
            assert!(refused.0.contains("take back"), "{refused}");
            assert!(values.compact(0).is_err());
        }
        assert_eq!(values.get(&[1, 2]).unwrap(), Some(vec![2]), "reads go on");
        fs::write(&pointer, good).unwrap();
        put(&values, 3).unwrap();
    }
}
