//! Changes of the tree's version, and how a failed one is rolled back.
//!
//! Two threads change the tree, each one edit at a time: one ingests, one compacts. An edit writes tables,
//! then a version that lists them, then the pointer to that version. If it fails half way, the tree in memory
//! is unchanged, but
//! - its tables stay on disk, and on a full disk every retry would take more space: they are removed;
//! - the pointer may name a version that the tree in memory does not know, and its name may not be durable.
//!   The pointer is reset before the next edit begins. An edit of the other thread may be running then, and
//!   overwrites that version: after a crash in between the pointer names half a file, and the next start
//!   resets it ([`VersionPointer::make_durable`]).
//!
//! Both are done while no edit is in progress, so that tables of a running edit are not mistaken for
//! leftovers.
//!
//! Tables that were listed once are never touched here. The tree removes them when no reader and no copy uses
//! them any more.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use lsm_tree::{AbstractTree, AnyTree, DescriptorTable, TableId};

use super::ValuesError;
use super::version_pointer::VersionPointer;
use crate::lock::lock;

pub(super) struct VersionEdits {
    tree: AnyTree,
    pub(super) folder: VersionPointer,
    open_files: Arc<DescriptorTable>,
    /// Locked shared during an edit; exclusively during a rollback.
    in_progress: RwLock<()>,
    /// Locked during an ingestion.
    ingesting: Mutex<()>,
    /// Locked during a compaction. Tables that compactions have listed since the last ingestion began: later
    /// compactions may have unlisted them, and readers may still use them.
    merging: Mutex<()>,
    merged: Mutex<BTreeSet<TableId>>,
    failed: Mutex<Failed>,
}

/// Leftovers of failed edits.
#[derive(Default)]
struct Failed {
    /// Numbers of the tables created while such edits ran, also those of other edits.
    numbers: Vec<Range<TableId>>,
    /// Tables that no version lists or ever listed.
    tables: BTreeSet<TableId>,
}

impl VersionEdits {
    pub(super) fn new(tree: AnyTree, folder: VersionPointer, open_files: Arc<DescriptorTable>) -> Self {
        Self {
            tree,
            folder,
            open_files,
            in_progress: RwLock::default(),
            ingesting: Mutex::default(),
            merging: Mutex::default(),
            merged: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// An edit that adds tables and removes none.
    pub(super) fn ingest<T>(&self, edit: impl FnOnce() -> Result<T, ValuesError>) -> Result<T, ValuesError> {
        let _guard = lock(&self.ingesting);
        self.roll_back()?;
        lock(&self.merged).clear();
        self.attempt(edit)
    }

    /// An edit that replaces tables.
    pub(super) fn merge<T>(&self, edit: impl FnOnce() -> Result<T, ValuesError>) -> Result<T, ValuesError> {
        let _guard = lock(&self.merging);
        self.roll_back()?;
        self.attempt(|| {
            let done = edit()?;
            lock(&self.merged).extend(self.listed());
            Ok(done)
        })
    }

    fn attempt<T>(&self, edit: impl FnOnce() -> Result<T, ValuesError>) -> Result<T, ValuesError> {
        let first = self.tree.next_table_id();
        let done = {
            let _shared = self.in_progress.read().unwrap_or_else(PoisonError::into_inner);
            edit()
        };
        if done.is_err() {
            lock(&self.failed).numbers.push(first..self.tree.next_table_id());
            // If the rollback fails now, the next edit tries again before it begins.
            drop(self.roll_back());
        }
        done
    }

    /// Rolls back failed edits. Files that cannot be removed are left for later; without a valid pointer no
    /// edit may begin.
    fn roll_back(&self) -> Result<(), ValuesError> {
        {
            let failed = lock(&self.failed);
            if failed.numbers.is_empty() && failed.tables.is_empty() {
                return Ok(());
            }
        }
        let _exclusive = self.in_progress.write().unwrap_or_else(PoisonError::into_inner);
        let mut failed = lock(&self.failed);
        let Failed { numbers, tables } = &mut *failed;
        if !numbers.is_empty() {
            let present = self.tree.current_version().id();
            self.reset_pointer(present)
                .map_err(|error| ValuesError(format!("cannot roll back a failed edit: {error}")))?;
            let mut live = lock(&self.merged).clone();
            live.extend(self.listed());
            tables.extend(numbers.drain(..).flatten().filter(|table| !live.contains(table)));
        }
        tables.retain(|table| {
            // An open file would keep its space.
            self.open_files.remove_for_table(&(self.tree.id(), *table).into());
            self.folder.remove_table(*table).is_err()
        });
        Ok(())
    }

    /// Resets the pointer to this version, and removes the files of the next.
    fn reset_pointer(&self, present: u64) -> std::io::Result<()> {
        if self.folder.version()? != present {
            self.folder.point(&VersionPointer::pointer(present, &self.folder.read_version(present)?))?;
        }
        self.folder.remove_version(present + 1)
    }

    fn listed(&self) -> Vec<TableId> {
        self.tree.current_version().iter_tables().map(lsm_tree::Table::id).collect()
    }
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
    fn pointer_format_matches_the_tree() {
        let folder = tempfile::tempdir().unwrap();
        let values = open(folder.path());
        for row in 0..4 {
            let version = values.tree.current_version().id();
            let listing = values.edits.folder.read_version(version).unwrap();
            let pointer = fs::read(folder.path().join(VersionPointer::CURRENT)).unwrap();
            assert_eq!(VersionPointer::pointer(version, &listing), pointer);
            assert_eq!(values.edits.folder.version().unwrap(), version);
            put(&values, row).unwrap();
        }
    }

    /// The pointer was renamed but its name could not be made durable: the disk is one edit ahead of the tree
    /// in memory.
    #[test]
    fn an_edit_on_disk_but_not_in_memory_is_rolled_back() {
        let folder = tempfile::tempdir().unwrap();
        let (here, ahead) = (folder.path().join("here"), folder.path().join("ahead"));
        let values = open(&here);
        put(&values, 1).unwrap();
        copy_into(&here, &ahead);
        put(&open(&ahead), 2).unwrap();
        copy_into(&ahead, &here);

        // Fails, because the table that it would create exists already.
        put(&values, 3).unwrap_err();
        let crashed = folder.path().join("crashed");
        copy_into(&here, &crashed);
        let found = open(&crashed);
        assert_eq!(found.get(&[1, 1]).unwrap(), Some(vec![1]));
        assert_eq!(found.get(&[1, 2]).unwrap(), None, "the failed edit did not happen");

        put(&values, 3).unwrap();
        drop(values);
        let found = open(&here);
        assert_eq!(found.get(&[1, 1]).unwrap(), Some(vec![1]));
        assert_eq!(found.get(&[1, 3]).unwrap(), Some(vec![3]));
    }

    /// As above, and an edit of the other thread that was running then has overwritten a part of the version.
    #[test]
    fn a_crash_in_an_overwritten_version_is_rolled_back() {
        let folder = tempfile::tempdir().unwrap();
        let (failed, other) = (folder.path().join("failed"), folder.path().join("other"));
        put(&open(&failed), 1).unwrap();
        let values = open(&failed);
        let version = values.tree.current_version().id() + 1;
        put(&values, 2).unwrap();
        drop(values);
        let values = open(&other);
        (0..version).for_each(|row| put(&values, 40 + row as u8).unwrap());
        drop(values);
        let name = VersionPointer::version_file(version);
        let written = fs::read(other.join(&name)).unwrap();
        for length in (0..written.len()).step_by(7).chain([written.len()]) {
            let crashed = folder.path().join(format!("crashed-{length}"));
            copy_into(&failed, &crashed);
            fs::write(crashed.join(&name), &written[..length]).unwrap();
            for _start in 0..2 {
                let found = open(&crashed);
                assert_eq!(found.get(&[1, 1]).unwrap(), Some(vec![1]), "after {length} bytes");
                assert_eq!(found.get(&[1, 2]).unwrap(), None, "the failed edit did not happen");
            }
            put(&open(&crashed), 3).unwrap();
            assert_eq!(open(&crashed).get(&[1, 3]).unwrap(), Some(vec![3]));
        }
    }

    #[test]
    fn no_edit_begins_without_a_valid_pointer() {
        let folder = tempfile::tempdir().unwrap();
        let values = open(folder.path());
        put(&values, 1).unwrap();
        let failed = values.edits.ingest(|| -> Result<(), _> { Err(ValuesError("a failure".into())) });
        failed.unwrap_err();
        put(&values, 2).unwrap();

        let pointer = folder.path().join(VersionPointer::CURRENT);
        let good = fs::read(&pointer).unwrap();
        let spoil = || {
            fs::remove_file(&pointer).unwrap();
            Err(ValuesError("a failure".into()))
        };
        let failed: Result<(), _> = values.edits.ingest(spoil);
        failed.unwrap_err();
        for _ in 0..2 {
            let refused = put(&values, 3).unwrap_err();
            assert!(refused.0.contains("roll back"), "{refused}");
            assert!(values.compact(0).is_err());
        }
        assert_eq!(values.get(&[1, 2]).unwrap(), Some(vec![2]), "reads continue");
        fs::write(&pointer, good).unwrap();
        put(&values, 3).unwrap();
    }
}
