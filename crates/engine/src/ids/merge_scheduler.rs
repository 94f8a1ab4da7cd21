//! Chooses the next merge, and starts, continues, lists or abandons it.

use std::sync::Arc;

use jeton_wal::disk::Disk;

use super::merge::{Merge, Merged};
use super::run::Run;
use super::{Error, IdIndex};
use crate::lock::lock;

/// A merge in progress. It is taken out of its mutex for each step: a merge that fails or panics is never
/// continued.
pub(super) enum Task<D: Disk> {
    Merge(Box<Merge<D>>),
    /// Everything is copied; the manifest is not replaced yet.
    List(Merged<D>),
}

impl<D: Disk> Task<D> {
    fn inputs(&self) -> &[Arc<Run<D>>] {
        match self {
            Self::Merge(merge) => merge.inputs(),
            Self::List(merged) => &merged.inputs,
        }
    }
}

impl<D: Disk> IdIndex<D> {
    /// Merges about `bytes` bytes; true if there is more to do.
    ///
    /// After an error the index is unchanged. A damaged run is reported once; afterwards merges that need it
    /// are skipped, and the others continue.
    pub fn merge(&self, bytes: u64) -> Result<bool, Error> {
        let mut merging = lock(&self.merging);
        let more = self.merge_step(&mut merging, bytes);
        self.store.sweep();
        more
    }

    fn merge_step(&self, merging: &mut Option<Task<D>>, bytes: u64) -> Result<bool, Error> {
        let task = match merging.take() {
            Some(task) if self.lists_all(task.inputs()) => task,
            _ => {
                let Some((tier, inputs)) = self.current.load().full_tier(&lock(&self.damaged)) else {
                    return Ok(false);
                };
                let merge = Merge::start(inputs, tier.saturating_add(1), self.next_number());
                Task::Merge(Box::new(merge.inspect_err(|error| self.note_damage(error))?))
            }
        };
        let merged = match task {
            Task::List(merged) => merged,
            Task::Merge(mut merge) => {
                if !merge.step(bytes).inspect_err(|error| self.note_damage(error))? {
                    *merging = Some(Task::Merge(merge));
                    return Ok(true);
                }
                merge.finish()?
            }
        };
        if self.is_nameless(&merged.output) {
            // A sync of names failed while it was written: drop it and start again.
            return Ok(true);
        }
        // False if the generation was dropped meanwhile: then the merged run is dropped with it.
        let listed = self.replace(|version| version.merged(&merged.inputs, &merged.output, merged.tier));
        if let Err(error) = listed {
            if !self.is_nameless(&merged.output) {
                *merging = Some(Task::List(merged));
            }
            return Err(error);
        }
        drop(merged);
        Ok(self.current.load().full_tier(&lock(&self.damaged)).is_some())
    }

    /// Drops a merge whose runs are not live any more.
    pub(super) fn drop_unlisted_merge(&self) {
        // A merge that is being worked on finds out in its next step.
        let Ok(mut merging) = self.merging.try_lock() else { return };
        if merging.as_ref().is_some_and(|task| !self.lists_all(task.inputs())) {
            *merging = None;
        }
    }

    fn lists_all(&self, runs: &[Arc<Run<D>>]) -> bool {
        let version = self.current.load();
        runs.iter().all(|run| version.contains(run))
    }
}

#[cfg(test)]
mod tests {
    use jeton_wal::disk::FaultDisk;

    use super::*;
    use crate::ids::{Entry, Key, TIER_RUNS};

    /// An index with one full tier in generation 1; the keys begin with 0, 1, 2...
    fn full_tier(disk: &FaultDisk) -> IdIndex<FaultDisk> {
        let (index, _) = IdIndex::open(Arc::new(disk.clone()), "ids").unwrap();
        for run in 0..TIER_RUNS as u8 {
            let mut runs = index.add(&[Entry { generation: 1, key: key(run), value: [run] }]).unwrap();
            index.commit(&mut runs, &[]).unwrap();
        }
        index
    }

    fn key(first: u8) -> Key {
        let mut key = [0; 16];
        key[0] = first;
        key
    }

    #[test]
    fn an_old_version_can_reopen_its_files() {
        let disk = FaultDisk::new();
        let index = full_tier(&disk);
        let old = index.current.load_full();
        while index.merge(u64::MAX).unwrap() {}
        assert_eq!(index.stats().runs, 1);
        for (listed, first) in old.runs().zip(0..) {
            // As if other files had evicted it.
            index.store.handles.forget(listed.run.header.number);
            assert_eq!(listed.run.find(&key(first), &mut Vec::new()).unwrap(), Some(vec![first]));
        }
        let names: Vec<String> = old.runs().map(|listed| listed.run.name()).collect();
        assert!(names.iter().all(|name| disk.bytes(name).is_some()));
        drop(old);
        assert_eq!(index.stats().queued_removals, TIER_RUNS, "a reader removes nothing itself");
        index.merge(1).unwrap();
        assert_eq!(index.stats().queued_removals, 0);
        assert!(names.iter().all(|name| disk.bytes(name).is_none()));
    }

    #[test]
    fn merge_of_an_expired_generation_is_dropped() {
        let disk = FaultDisk::new();
        let index = full_tier(&disk);
        assert!(index.merge(1).unwrap(), "the merge has begun");
        assert_eq!(index.drop_expired(2).unwrap(), 1);
        assert!(disk.bytes("ids/manifest").is_some());
        let left: Vec<String> = jeton_wal::disk::Disk::list(&disk, "ids").unwrap();
        assert_eq!(left, ["manifest"]);
        assert!(!index.merge(1).unwrap());
    }

    #[test]
    fn an_unlisted_merge_is_listed_later_without_a_copy() {
        let disk = FaultDisk::new();
        let index = full_tier(&disk);
        // Create, records, directory, header, sync; then the manifest is created.
        disk.fail_at(6, std::io::ErrorKind::StorageFull);
        assert!(index.merge(u64::MAX).unwrap_err().is_out_of_space());
        assert_eq!(index.stats().runs, TIER_RUNS);
        let before = disk.operations();
        assert!(!index.merge(u64::MAX).unwrap());
        assert_eq!(index.stats().runs, 1);
        // Create, write, sync, names, rename, names, and the removals.
        assert_eq!(disk.operations() - before, 6 + TIER_RUNS as u64);
    }
}
