//! The index: adds, lists, looks up, merges and drops runs.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use jeton_core::mutated;
use jeton_wal::disk::Disk;

use super::bucket::buckets_for;
use super::directory::{Store, io_error, run_number};
use super::encoding::length_bytes;
use super::entry::out_of_order;
use super::manifest::{self, MANIFEST, MANIFEST_NEW, Manifest};
use super::merge_scheduler::Task;
use super::run::Run;
use super::scan::Scan;
use super::version::{Files, Stats, Version};
use super::writer::RunWriter;
use super::{Entry, Error, Key, NewRun};
use crate::lock::lock;

/// The id index in one folder of a disk. All methods may be called from any thread; only the folder's owner
/// may open it.
///
/// To add ids: [`sort`](super::sort), [`add`](Self::add), then [`commit`](Self::commit) the returned runs.
/// Between commits, call [`merge`](Self::merge) until nothing is left to do.
pub struct IdIndex<D: Disk> {
    pub(super) store: Arc<Store<D>>,
    pub(super) current: ArcSwap<Version<D>>,
    /// Locked while the manifest is replaced. Runs of a manifest that may or may not be on disk: they stay
    /// until another manifest is durable.
    committing: Mutex<Vec<Arc<Run<D>>>>,
    pub(super) merging: Mutex<Option<Task<D>>>,
    /// Live runs that were found damaged: lookups in them may fail, and merges skip them.
    pub(super) damaged: Mutex<BTreeSet<u64>>,
    next_run: AtomicU64,
    /// Set when a sync of names failed. New runs with lower numbers that no later sync covered may have no
    /// name on disk, whatever a later sync returns.
    nameless_below: AtomicU64,
}

impl<D: Disk> IdIndex<D> {
    /// Opens the index in a folder and returns the note of its last commit. In a new folder the note is
    /// empty.
    ///
    /// Checks that every listed run exists and is the listed one; records are checked when they are read.
    /// Removes files that were never committed.
    pub fn open(disk: Arc<D>, folder: &str) -> Result<(Self, Vec<u8>), Error> {
        let store = Arc::new(Store::new(disk, folder));
        let files = store.disk.list(folder).map_err(io_error("list", folder))?;
        let numbers: BTreeSet<u64> = files.iter().filter_map(|file| run_number(file)).collect();
        if !files.iter().any(|file| file == MANIFEST) {
            if !numbers.is_empty() {
                let why = "the manifest is not there, but runs are";
                return Err(Error::Damaged { file: store.name(MANIFEST), offset: 0, why });
            }
            manifest::prepare(&store, &Manifest::default().encode()?)?;
            manifest::publish(&store)?;
        }
        let manifest = Manifest::read(&store)?;
        let mut version = Version::new(manifest.note.clone());
        for listed in &manifest.runs {
            version.push(Arc::new(Run::open(&store, listed.number, listed.seal)?), listed.tier);
        }
        let listed: BTreeSet<u64> = manifest.runs.iter().map(|listed| listed.number).collect();
        let orphans: Vec<u64> = numbers.difference(&listed).copied().collect();
        let mut removable = true;
        if orphans.is_empty() {
            store.disk.sync_names(folder).map_err(io_error("sync the names in", folder))?;
        } else {
            // The rename of the manifest may never have been made durable. If a crash undid it, the previous
            // manifest would need the files that are orphans now. A failed sync is not repeated: write the
            // manifest anew, then remove them.
            let published =
                manifest::prepare(&store, &manifest.encode()?).and_then(|()| manifest::publish(&store));
            match published {
                // They take space but do no harm: the next start tries again.
                Err(error) if error.is_out_of_space() => removable = false,
                other => other?,
            }
        }
        if files.iter().any(|file| file == MANIFEST_NEW) {
            // Left by a crash in a commit. If it cannot be removed now, the next commit overwrites it.
            drop(store.disk.remove(&store.name(MANIFEST_NEW)));
        }
        if removable {
            orphans.iter().for_each(|orphan| store.queue_removal(*orphan));
            store.sweep();
        }
        // Above every number on disk, so that a file that could not be removed does not collide.
        let next_run = numbers.last().map_or(0, |last| last.saturating_add(1)).max(manifest.next_run);
        let index = Self {
            store,
            current: ArcSwap::from_pointee(version),
            committing: Mutex::default(),
            merging: Mutex::default(),
            damaged: Mutex::default(),
            next_run: AtomicU64::new(next_run),
            nameless_below: AtomicU64::new(0),
        };
        Ok((index, manifest.note))
    }

    /// Writes entries, sorted by generation and key, into one new run per generation. They are durable when
    /// this returns, and visible once committed. Of entries with the same generation and key the first is
    /// kept.
    pub fn add<V: AsRef<[u8]>>(&self, entries: &[Entry<V>]) -> Result<Vec<NewRun<D>>, Error> {
        if let Some(position) = out_of_order(entries) {
            return Err(Error::Unsorted { position });
        }
        let generations = entries.chunk_by(|a, b| a.generation == b.generation);
        let runs = generations.map(|entries| self.add_generation(entries)).collect();
        // After an error the earlier runs are dropped and queued for removal.
        self.store.sweep();
        runs
    }

    fn add_generation<V: AsRef<[u8]>>(&self, entries: &[Entry<V>]) -> Result<NewRun<D>, Error> {
        let bytes = entries.iter().map(|entry| {
            let value = entry.value.as_ref().len();
            (size_of::<Key>() + length_bytes(value) + value) as u64
        });
        let buckets = buckets_for(entries.len() as u64, bytes.sum());
        let mut writer = RunWriter::create(&self.store, self.next_number(), entries[0].generation, buckets)?;
        for entry in entries {
            writer.push(entry.number(), entry.value.as_ref())?;
        }
        Ok(NewRun(Arc::new(writer.finish()?)))
    }

    /// Makes new runs visible and replaces the note, atomically. The runs are taken out of `runs`; after an
    /// error they are still there, and the caller can retry. If the names of the runs could not be made
    /// durable, every retry fails, and the entries must be added again.
    pub fn commit(&self, runs: &mut Vec<NewRun<D>>, note: &[u8]) -> Result<(), Error> {
        for run in runs.iter() {
            assert!(Arc::ptr_eq(&run.0.store, &self.store), "a run is committed to the index that wrote it");
        }
        self.replace(|version| {
            let mut version = version.clone();
            version.note = note.to_vec();
            runs.iter().for_each(|run| version.push(run.0.clone(), 0));
            Some(version)
        })?;
        runs.clear();
        Ok(())
    }

    /// The record of an id in one of these generations. Searches the newest run of a generation first.
    pub fn find(
        &self,
        key: &Key,
        generations: impl IntoIterator<Item = u64>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let version = self.current.load();
        let mut scratch = Vec::new();
        for generation in generations {
            for listed in version.generations.get(&generation).into_iter().flatten().rev() {
                let found = listed.run.find(key, &mut scratch);
                if let Some(value) = found.inspect_err(|error| self.note_damage(error))? {
                    return Ok(Some(value));
                }
            }
        }
        Ok(None)
    }

    /// Drops all generations before this one and returns their number. Their files are removed once a durable
    /// manifest does not list them and no reader uses them.
    pub fn drop_expired(&self, before_generation: u64) -> Result<usize, Error> {
        let before_generation = before_generation + if mutated!(DropGenerationEarly) { 600_000 } else { 0 };
        let mut dropped = 0;
        self.replace(|version| {
            dropped = version.generations.range(..before_generation).count();
            // Called often, mostly with nothing to drop.
            (dropped > 0).then(|| version.from(before_generation))
        })?;
        self.drop_unlisted_merge();
        self.store.sweep();
        Ok(dropped)
    }

    pub fn stats(&self) -> Stats {
        let stats = self.current.load().stats();
        let damaged = lock(&self.damaged).len();
        Stats {
            queued_removals: self.store.queued_removals(),
            open_files: self.store.handles.count(),
            damaged,
            ..stats
        }
    }

    /// The live files, for a copy. None is removed while the returned value lives.
    pub fn files(&self) -> Result<Files<D>, Error> {
        let version = self.current.load_full();
        let manifest = version.manifest(self.next_run.load(Ordering::Relaxed)).encode()?;
        Ok(Files {
            runs: version.runs().map(|listed| self.store.run_name(listed.run.header.number)).collect(),
            manifest: (self.store.name(MANIFEST), manifest),
            note: version.note.clone(),
            _version: version,
        })
    }

    /// Reads and checks every record of every run.
    pub fn verify(&self) -> Result<(), Error> {
        let version = self.current.load_full();
        for listed in version.runs() {
            Scan::new(&listed.run).and_then(Scan::finish).inspect_err(|error| self.note_damage(error))?;
        }
        Ok(())
    }

    /// Replaces the current version, on disk first; false if `change` returns none.
    pub(super) fn replace(
        &self,
        change: impl FnOnce(&Version<D>) -> Option<Version<D>>,
    ) -> Result<bool, Error> {
        let mut committing = lock(&self.committing);
        let before = self.current.load_full();
        let Some(after) = change(&before) else { return Ok(false) };
        if after.runs().any(|listed| self.is_nameless(&listed.run)) {
            let source = io::Error::other("its name could not be made durable, it must be written again");
            return Err(io_error("list a new run in", &self.store.folder)(source));
        }
        manifest::prepare(&self.store, &after.manifest(self.next_run.load(Ordering::Relaxed)).encode()?)?;
        // The names of new runs are durable before a manifest that lists them.
        let folder = &self.store.folder;
        self.named(self.store.disk.sync_names(folder).map_err(io_error("sync the names in", folder)))?;
        // From here on a manifest on disk may list them, even if this call fails.
        after.runs().for_each(|listed| listed.run.keep(true));
        if let Err(error) = self.named(manifest::publish(&self.store)) {
            committing.extend(after.runs().map(|listed| listed.run.clone()));
            return Err(error);
        }
        let live: BTreeSet<u64> = after.runs().map(|listed| listed.run.header.number).collect();
        let gone = before.runs().map(|listed| &listed.run).chain(committing.iter());
        gone.filter(|run| !live.contains(&run.header.number)).for_each(|run| run.keep(false));
        committing.clear();
        lock(&self.damaged).retain(|number| live.contains(number));
        self.current.store(Arc::new(after));
        drop(committing);
        drop(before);
        self.store.sweep();
        Ok(true)
    }

    /// Records that names could not be made durable.
    fn named(&self, synced: Result<(), Error>) -> Result<(), Error> {
        synced.inspect_err(|_| {
            self.nameless_below.fetch_max(self.next_run.load(Ordering::SeqCst), Ordering::SeqCst);
        })
    }

    /// Whether a run that is not listed can no longer be listed: it must be written again.
    pub(super) fn is_nameless(&self, run: &Run<D>) -> bool {
        !run.is_kept() && run.header.number < self.nameless_below.load(Ordering::SeqCst)
    }

    /// Records the run that an error is about, if it is damage.
    pub(super) fn note_damage(&self, error: &Error) {
        if let Error::Damaged { file, .. } = error
            && let Some(number) = file.rsplit('/').next().and_then(run_number)
        {
            lock(&self.damaged).insert(number);
        }
    }

    pub(super) fn next_number(&self) -> u64 {
        self.next_run.fetch_add(1, Ordering::SeqCst)
    }
}
