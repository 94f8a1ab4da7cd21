//! A disk that loses data after a failed sync, as real systems do: it drops what it could not write, and the
//! next sync of the same file succeeds. Names that were new when a sync of names failed are never durable
//! unless they are made again.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard};

use jeton_engine::ids::{Error, IdIndex};
use jeton_wal::disk::{Disk, DiskFile, LockError};

use super::common::*;

#[derive(Clone, Default)]
struct LyingDisk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    files: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    unsynced_names: Vec<(String, Option<usize>)>,
    syncs: u64,
    fails_at: u64,
}

#[derive(Clone, Default)]
struct Inode {
    issued: Vec<u8>,
    durable: Vec<u8>,
    /// Nothing of it becomes durable any more.
    dropped: bool,
}

impl LyingDisk {
    /// The sync with this number fails, of a file or of names.
    fn failing_at(sync: u64) -> Self {
        let disk = Self::default();
        disk.state().fails_at = sync;
        disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Power failure: all data that is not durable is lost.
    fn crash(&self) -> Self {
        let state = self.state();
        let kept = |file: &Inode| Inode { issued: file.durable.clone(), ..file.clone() };
        let after = State {
            files: state.files.iter().map(kept).collect(),
            names: state.durable_names.clone(),
            durable_names: state.durable_names.clone(),
            ..State::default()
        };
        Self(Arc::new(Mutex::new(after)))
    }
}

impl State {
    fn rename(&mut self, name: &str, file: Option<usize>) {
        match file {
            Some(file) => self.names.insert(name.into(), file),
            None => self.names.remove(name),
        };
        self.unsynced_names.push((name.into(), file));
    }

    fn file(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn fails(&mut self) -> bool {
        self.syncs += 1;
        self.syncs == self.fails_at
    }
}

impl Disk for LyingDisk {
    type File = LyingFile;
    type Guard = ();

    fn lock(&self, _who: &str) -> Result<(), LockError> {
        Ok(())
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<LyingFile> {
        let mut state = self.state();
        state.files.push(Inode { issued: vec![0; bytes as usize], ..Inode::default() });
        let file = state.files.len() - 1;
        state.rename(name, Some(file));
        Ok(LyingFile(self.clone(), file))
    }

    fn open(&self, name: &str) -> io::Result<LyingFile> {
        let file = self.state().file(name)?;
        Ok(LyingFile(self.clone(), file))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        let inside = state.names.keys().filter_map(|name| name.strip_prefix(folder)?.strip_prefix('/'));
        Ok(inside.map(str::to_owned).collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let file = state.file(from)?;
        state.rename(from, None);
        state.rename(to, Some(file));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.file(name)?;
        state.rename(name, None);
        // Without a sync it may be durable or not: assume the worse.
        state.durable_names.remove(name);
        Ok(())
    }

    fn sync_names(&self, _folder: &str) -> io::Result<()> {
        let mut state = self.state();
        let names = std::mem::take(&mut state.unsynced_names);
        if state.fails() {
            return Err(io::Error::other("the names could not be written"));
        }
        for (name, file) in names {
            match file {
                Some(file) => state.durable_names.insert(name, file),
                None => state.durable_names.remove(&name),
            };
        }
        Ok(())
    }
}

struct LyingFile(LyingDisk, usize);

impl DiskFile for LyingFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.state().files[self.1].issued.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.0.state();
        let bytes = state.files[self.1].issued.get(offset as usize..).unwrap_or_default();
        buffer.copy_from_slice(bytes.get(..buffer.len()).ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let issued = &mut self.0.state().files[self.1].issued;
        let end = offset as usize + bytes.len();
        issued.resize(issued.len().max(end), 0);
        issued[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.state();
        let fails = state.fails();
        let file = &mut state.files[self.1];
        if fails {
            file.dropped = true;
            return Err(io::Error::other("the file could not be written"));
        }
        if !file.dropped {
            file.durable = file.issued.clone();
        }
        Ok(())
    }
}

/// Retries until it succeeds, as the checkpointer does.
fn retry<T>(mut call: impl FnMut() -> Result<T, Error>) -> T {
    for _ in 0..3 {
        if let Ok(done) = call() {
            return done;
        }
    }
    call().unwrap()
}

/// Commits, merges and drops. A merge is in progress before each commit, as with another thread.
fn work(index: &IdIndex<LyingDisk>) -> Contents {
    let mut contents = Contents::new();
    for commit in 0..18u64 {
        let mut all = entries(0, [commit]);
        all.extend(entries(1, commit * 8..commit * 8 + 10));
        remember(&mut contents, &all);
        retry(|| {
            let mut runs = index.add(&all)?;
            drop(index.merge(60));
            index.commit(&mut runs, &commit.to_le_bytes())
        });
    }
    while retry(|| index.merge(u64::MAX)) {}
    retry(|| index.drop_expired(1));
    contents.retain(|(generation, _), _| *generation >= 1);
    contents
}

fn check(disk: &LyingDisk, contents: &Contents, context: &str) {
    let (index, note) = IdIndex::open(Arc::new(disk.clone()), FOLDER)
        .unwrap_or_else(|error| panic!("{context}: it does not open: {error}"));
    assert_eq!(note, 17u64.to_le_bytes(), "{context}");
    assert_eq!(difference(&index, contents, 2, 150), None, "{context}");
}

#[test]
fn a_failed_sync_is_not_trusted_when_repeated() {
    let disk = LyingDisk::default();
    let (index, _) = IdIndex::open(Arc::new(disk.clone()), FOLDER).unwrap();
    work(&index);
    let syncs = disk.state().syncs;
    assert!(syncs > 80, "{syncs}");
    for at in 1..=syncs {
        let disk = LyingDisk::failing_at(at);
        let (index, _) = retry(|| IdIndex::open(Arc::new(disk.clone()), FOLDER));
        let contents = work(&index);
        drop(index);
        check(&disk.crash(), &contents, &format!("sync {at} failed, then the power"));
        // Another process takes over in between, and removes files that are not listed.
        drop(retry(|| IdIndex::open(Arc::new(disk.clone()), FOLDER)));
        check(&disk.crash(), &contents, &format!("sync {at} failed, then a restart, then the power failed"));
    }
}

/// The process ends with the failure, and the next one finds a manifest that is not durable.
#[test]
fn a_restart_after_a_failed_sync_keeps_listed_runs() {
    let whole = LyingDisk::default();
    let (index, _) = IdIndex::open(Arc::new(whole.clone()), FOLDER).unwrap();
    work(&index);
    for at in 1..=whole.state().syncs {
        let disk = LyingDisk::failing_at(at);
        let run = || -> Result<(), Error> {
            let (index, _) = IdIndex::open(Arc::new(disk.clone()), FOLDER)?;
            for commit in 0..18u64 {
                let mut runs = index.add(&entries(1, commit * 8..commit * 8 + 10))?;
                index.commit(&mut runs, &commit.to_le_bytes())?;
                while index.merge(u64::MAX)? {}
            }
            Ok(())
        };
        drop(run());
        drop(retry(|| IdIndex::open(Arc::new(disk.clone()), FOLDER)));
        let opened = IdIndex::open(Arc::new(disk.crash()), FOLDER);
        opened.map(drop).unwrap_or_else(|error| panic!("sync {at} failed: {error}"));
    }
}
