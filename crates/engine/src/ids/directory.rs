//! Where the files are: the folder on the disk, the open handles, and the files that wait for their removal.
//!
//! A run that nobody needs any more ends in the graves, and [`Store::sweep`] removes it: the last to let go of a run may be a
//! reader in a hurry, and removing a large file can take long. What cannot be removed now is tried again at the next sweep, and
//! what is left at the end is removed by the next start.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use jeton_register::disk::Disk;

use super::file_cache::FileCache;
use super::{Error, OPEN_FILES_MAX};

const RUN_SUFFIX: &str = ".run";

pub(super) struct Store<D: Disk> {
    pub(super) disk: Arc<D>,
    pub(super) folder: String,
    pub(super) handles: FileCache<D::File>,
    graves: Mutex<Vec<u64>>,
}

impl<D: Disk> Store<D> {
    pub(super) fn new(disk: Arc<D>, folder: &str) -> Self {
        let handles = FileCache::new(OPEN_FILES_MAX);
        Self { disk, folder: folder.into(), handles, graves: Mutex::default() }
    }

    /// The name on the disk of a file in the folder.
    pub(super) fn name(&self, file: &str) -> String {
        format!("{}/{file}", self.folder)
    }

    /// The name on the disk of a run.
    pub(super) fn run_name(&self, number: u64) -> String {
        self.name(&run_file(number))
    }

    /// Leaves the file of a run to the next sweep.
    pub(super) fn bury(&self, number: u64) {
        self.handles.forget(number);
        self.graves().push(number);
    }

    /// Removes what is buried. What the disk refuses to remove stays buried.
    pub(super) fn sweep(&self) {
        let mut graves = std::mem::take(&mut *self.graves());
        graves.retain(|number| match self.disk.remove(&self.run_name(*number)) {
            Ok(()) => false,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        });
        self.graves().append(&mut graves);
    }

    /// How many files wait for their removal.
    pub(super) fn buried(&self) -> usize {
        self.graves().len()
    }

    fn graves(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.graves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file of a run in its folder.
pub(super) fn run_file(number: u64) -> String {
    format!("{number:010}{RUN_SUFFIX}")
}

/// The number of the run in a file of this name.
pub(super) fn run_number(file: &str) -> Option<u64> {
    let number = file.strip_suffix(RUN_SUFFIX)?.parse().ok()?;
    (run_file(number) == file).then_some(number)
}

/// For `map_err`: what was tried with which file.
pub(super) fn io_error(what: &'static str, file: &str) -> impl FnOnce(io::Error) -> Error {
    let file = file.to_string();
    move |source| Error::Io { what, file, source }
}

/// For `map_err` of a read: a file that ends too soon is damaged, anything else is the disk's refusal.
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
    fn only_our_own_names_are_runs() {
        for number in [0, 7, 9_999_999_999, u64::MAX] {
            assert_eq!(run_number(&run_file(number)), Some(number));
        }
        for stranger in ["7.run", "+000000007.run", "0000000007.run.bak", "manifest", ".run", "0000000007"] {
            assert_eq!(run_number(stranger), None, "{stranger}");
        }
    }
}
