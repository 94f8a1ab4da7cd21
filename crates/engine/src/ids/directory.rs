//! The folder of the index: its disk, its open files, and the files to be removed.
//!
//! A run that is not needed any more is queued, and [`Store::sweep`] removes its file: the last user of a run
//! may be a lookup, and removing a large file takes long. A removal that fails is tried again at the next
//! sweep; the next start removes what is left.

use std::io;
use std::sync::{Arc, Mutex};

use jeton_wal::disk::Disk;

use super::file_cache::FileCache;
use super::{Error, OPEN_FILES_MAX};
use crate::lock::lock;

const RUN_SUFFIX: &str = ".run";

/// Maximum number in the name of a file. The next numbers do not overflow.
pub(super) const RUN_NUMBER_MAX: u64 = u64::MAX / 4;

pub(super) struct Store<D: Disk> {
    pub(super) disk: Arc<D>,
    pub(super) folder: String,
    pub(super) handles: FileCache<D::File>,
    /// Numbers of the runs whose files are to be removed.
    removals: Mutex<Vec<u64>>,
}

impl<D: Disk> Store<D> {
    pub(super) fn new(disk: Arc<D>, folder: &str) -> Self {
        let handles = FileCache::new(OPEN_FILES_MAX);
        Self { disk, folder: folder.into(), handles, removals: Mutex::default() }
    }

    pub(super) fn name(&self, file: &str) -> String {
        format!("{}/{file}", self.folder)
    }

    pub(super) fn run_name(&self, number: u64) -> String {
        self.name(&run_file(number))
    }

    /// Queues the file of a run for the next sweep.
    pub(super) fn queue_removal(&self, number: u64) {
        self.handles.forget(number);
        lock(&self.removals).push(number);
    }

    /// Removes the queued files. Files that cannot be removed stay queued.
    pub(super) fn sweep(&self) {
        let mut removals = std::mem::take(&mut *lock(&self.removals));
        removals.retain(|number| match self.disk.remove(&self.run_name(*number)) {
            Ok(()) => false,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        });
        lock(&self.removals).append(&mut removals);
    }

    pub(super) fn queued_removals(&self) -> usize {
        lock(&self.removals).len()
    }
}

pub(super) fn run_file(number: u64) -> String {
    format!("{number:010}{RUN_SUFFIX}")
}

pub(super) fn run_number(file: &str) -> Option<u64> {
    let number = file.strip_suffix(RUN_SUFFIX)?.parse().ok()?;
    (number <= RUN_NUMBER_MAX && run_file(number) == file).then_some(number)
}

/// For `map_err`: what failed with which file.
pub(super) fn io_error(what: &'static str, file: &str) -> impl FnOnce(io::Error) -> Error {
    let file = file.to_string();
    move |source| Error::Io { what, file, source }
}

/// For `map_err` of a read: a file that ends too soon is damaged; anything else is an I/O error.
pub(super) fn read_error(file: &str, offset: u64) -> impl FnOnce(io::Error) -> Error {
    let file = file.to_string();
    move |source| match source.kind() {
        io::ErrorKind::UnexpectedEof => Error::Damaged { file, offset, why: "the file ends too soon" },
        _ => Error::Io { what: "read", file, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_run_file_names_are_runs() {
        for number in [0, 7, 9_999_999_999, RUN_NUMBER_MAX] {
            assert_eq!(run_number(&run_file(number)), Some(number));
        }
        for name in [
            "7.run",
            "+000000007.run",
            "0000000007.run.bak",
            "manifest",
            ".run",
            "0000000007",
            "18446744073709551615.run",
        ] {
            assert_eq!(run_number(name), None, "{name}");
        }
    }
}
