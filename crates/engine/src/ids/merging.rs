//! Which merge comes next, and how it is taken up, continued, listed or given up.

use std::sync::Arc;

use jeton_register::disk::Disk;

use super::index::lock;
use super::merge::{Merge, Merged};
use super::run::Run;
use super::{Error, IdIndex};

/// The merge under way, if there is one.
pub(super) struct Merging<D: Disk> {
    /// Taken out while it is worked on: one that fails, or panics, is never continued.
    task: Option<Task<D>>,
    /// Runs that were found damaged. Merging them again would fail again, and keep all others from being merged.
    damaged: Vec<u64>,
}

impl<D: Disk> Default for Merging<D> {
    fn default() -> Self {
        Self { task: None, damaged: Vec::new() }
    }
}

enum Task<D: Disk> {
    Merge(Box<Merge<D>>),
    /// All is copied; the manifest could not be replaced yet.
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
    /// Works on merging for about so many bytes, and tells whether there is more to do.
    ///
    /// After an error the index is as before. A damaged run is an error once; from then on the merges that would need it are
    /// left out, and the others go on.
    pub fn merge(&self, bytes: u64) -> Result<bool, Error> {
        let mut merging = lock(&self.merging);
        let more = self.merge_step(&mut merging, bytes);
        self.store.sweep();
        more
    }

    fn merge_step(&self, merging: &mut Merging<D>, bytes: u64) -> Result<bool, Error> {
        let task = match merging.task.take() {
            Some(task) if self.lists_all(task.inputs()) => task,
            _ => {
                let Some((tier, inputs)) = self.current.load().full_tier(&merging.damaged) else {
                    return Ok(false);
                };
                let merge = Merge::start(inputs.clone(), tier.saturating_add(1), self.next_number());
                Task::Merge(Box::new(merge.inspect_err(|error| merging.note_damage(error, &inputs))?))
            }
        };
        let merged = match task {
            Task::List(merged) => merged,
            Task::Merge(mut merge) => {
                let copied = merge.step(bytes);
                if !copied.inspect_err(|error| merging.note_damage(error, merge.inputs()))? {
                    merging.task = Some(Task::Merge(merge));
                    return Ok(true);
                }
                merge.finish()?
            }
        };
        // False if the generation was dropped meanwhile: then the merged run is dropped with it.
        let listed = self.replace(|listing| listing.merged(&merged.inputs, &merged.output, merged.tier));
        if let Err(error) = listed {
            merging.task = Some(Task::List(merged));
            return Err(error);
        }
        drop(merged);
        Ok(self.current.load().full_tier(&merging.damaged).is_some())
    }

    /// Frees what a merge holds whose runs are not live any more.
    pub(super) fn give_up_unlisted_merge(&self) {
        // If a merge is at work now, its next step finds out by itself.
        let Ok(mut merging) = self.merging.try_lock() else { return };
        if merging.task.as_ref().is_some_and(|task| !self.lists_all(task.inputs())) {
            merging.task = None;
        }
    }

    fn lists_all(&self, runs: &[Arc<Run<D>>]) -> bool {
        let listing = self.current.load();
        runs.iter().all(|run| listing.contains(run))
    }
}

impl<D: Disk> Merging<D> {
    fn note_damage(&mut self, error: &Error, inputs: &[Arc<Run<D>>]) {
        if let Error::Damaged { file, .. } = error {
            let damaged = inputs.iter().filter(|run| run.name() == *file);
            self.damaged.extend(damaged.map(|run| run.header.number));
        }
    }
}
