//! A bounded LRU cache of open files.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::Error;
use crate::lock::lock;

/// Open files by run number. A file that is evicted while in use stays open until its user drops it.
pub(super) struct FileCache<F> {
    max: usize,
    open: Mutex<Open<F>>,
}

struct Open<F> {
    uses: u64,
    files: BTreeMap<u64, (u64, Arc<F>)>,
}

impl<F> FileCache<F> {
    pub(super) fn new(max: usize) -> Self {
        assert!(max > 0, "nothing can be read with no file open");
        Self { max, open: Mutex::new(Open { uses: 0, files: BTreeMap::new() }) }
    }

    /// The file of a run, opened by `open` if it is not cached.
    pub(super) fn get(&self, run: u64, open: impl FnOnce() -> Result<F, Error>) -> Result<Arc<F>, Error> {
        if let Some(file) = lock(&self.open).used(run) {
            return Ok(file);
        }
        // Two readers may both open the file: the second replaces the first, at the cost of one call.
        let file = Arc::new(open()?);
        self.put(run, file.clone());
        Ok(file)
    }

    pub(super) fn put(&self, run: u64, file: Arc<F>) {
        let mut open = lock(&self.open);
        open.uses += 1;
        let used = open.uses;
        let replaced = open.files.insert(run, (used, file));
        let evicted = if open.files.len() > self.max { open.evict() } else { None };
        // Closing a file may take a while: do it without the lock.
        drop(open);
        drop((replaced, evicted));
    }

    /// Closes the file of a removed run.
    pub(super) fn forget(&self, run: u64) {
        let file = lock(&self.open).files.remove(&run);
        drop(file);
    }

    pub(super) fn count(&self) -> usize {
        lock(&self.open).files.len()
    }
}

impl<F> Open<F> {
    fn used(&mut self, run: u64) -> Option<Arc<F>> {
        self.uses += 1;
        let (used, file) = self.files.get_mut(&run)?;
        *used = self.uses;
        Some(file.clone())
    }

    fn evict(&mut self) -> Option<Arc<F>> {
        let oldest = self.files.iter().min_by_key(|(_, (used, _))| *used).map(|(run, _)| *run)?;
        self.files.remove(&oldest).map(|(_, file)| file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_file_is_closed() {
        let handles = FileCache::new(2);
        let get = |run| {
            let mut opened = false;
            let file = handles.get(run, || {
                opened = true;
                Ok(run)
            });
            assert_eq!(*file.unwrap(), run);
            opened
        };
        assert!(get(1) && get(2));
        assert!(!get(1));
        assert!(get(3), "3 is new and evicts 2");
        assert!(!get(1));
        assert!(get(2));
        assert_eq!(handles.count(), 2);
        handles.forget(2);
        assert_eq!(handles.count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_opened_now_can_be_later() {
        let handles = FileCache::new(2);
        let refused = || Err(Error::TooLarge { what: "test", size: 1, max: 0 });
        assert!(handles.get(1, refused).is_err());
        assert_eq!(handles.count(), 0);
        assert_eq!(*handles.get(1, || Ok('a')).unwrap(), 'a');
    }
}
