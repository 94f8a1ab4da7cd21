//! A version: the immutable list of live runs. A commit replaces it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jeton_wal::disk::Disk;

use super::TIER_RUNS;
use super::manifest::{Manifest, ManifestEntry};
use super::run::Run;

/// A live run and its tier: the number of merges that its oldest ids went through.
pub(super) struct TieredRun<D: Disk> {
    pub(super) run: Arc<Run<D>>,
    pub(super) tier: u8,
}

impl<D: Disk> Clone for TieredRun<D> {
    fn clone(&self) -> Self {
        Self { run: self.run.clone(), tier: self.tier }
    }
}

/// The live runs of each generation, oldest first, and the caller's note.
///
/// In a generation the tiers never rise from older to newer: new runs are appended with tier 0, and a merge
/// takes the oldest runs of a tier. So the inputs of a merge are adjacent, and the merged run takes their
/// place.
pub(super) struct Version<D: Disk> {
    pub(super) generations: BTreeMap<u64, Vec<TieredRun<D>>>,
    pub(super) note: Vec<u8>,
}

impl<D: Disk> Clone for Version<D> {
    fn clone(&self) -> Self {
        Self { generations: self.generations.clone(), note: self.note.clone() }
    }
}

impl<D: Disk> Version<D> {
    pub(super) fn new(note: Vec<u8>) -> Self {
        Self { generations: BTreeMap::new(), note }
    }

    /// Adds a run as the newest of its generation.
    pub(super) fn push(&mut self, run: Arc<Run<D>>, tier: u8) {
        self.generations.entry(run.header.generation).or_default().push(TieredRun { run, tier });
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = &TieredRun<D>> {
        self.generations.values().flatten()
    }

    pub(super) fn contains(&self, run: &Run<D>) -> bool {
        let runs = self.generations.get(&run.header.generation);
        runs.is_some_and(|runs| runs.iter().any(|listed| listed.run.header.number == run.header.number))
    }

    /// The runs to be merged next, oldest first: the lowest full tier first, because it is the cheapest and
    /// helps most, and the oldest generation among equals. Skips tiers that have a run in `without`.
    pub(super) fn full_tier(&self, without: &BTreeSet<u64>) -> Option<(u8, Vec<Arc<Run<D>>>)> {
        let tiers = self.generations.values().flat_map(|runs| runs.chunk_by(|a, b| a.tier == b.tier));
        let full = tiers
            .filter(|runs| runs.len() >= TIER_RUNS)
            .filter(|runs| !runs.iter().any(|listed| without.contains(&listed.run.header.number)))
            .min_by_key(|runs| runs[0].tier)?;
        Some((full[0].tier, full[..TIER_RUNS].iter().map(|listed| listed.run.clone()).collect()))
    }

    /// The version with one run in place of those it was merged from; `None` if they are not all listed any
    /// more.
    pub(super) fn merged(&self, inputs: &[Arc<Run<D>>], output: &Arc<Run<D>>, tier: u8) -> Option<Self> {
        let mut version = self.clone();
        let runs = version.generations.get_mut(&output.header.generation)?;
        let first = inputs.first()?.header.number;
        let at = runs.iter().position(|listed| listed.run.header.number == first)?;
        let numbers = runs.get(at..at + inputs.len())?.iter().map(|listed| listed.run.header.number);
        if !numbers.eq(inputs.iter().map(|run| run.header.number)) {
            return None;
        }
        runs.splice(at..at + inputs.len(), [TieredRun { run: output.clone(), tier }]);
        Some(version)
    }

    pub(super) fn from(&self, generation: u64) -> Self {
        let live = self.generations.range(generation..);
        Self { generations: live.map(|(of, runs)| (*of, runs.clone())).collect(), note: self.note.clone() }
    }

    pub(super) fn manifest(&self, next_run: u64) -> Manifest {
        let listed = |listed: &TieredRun<D>| {
            let header = &listed.run.header;
            ManifestEntry {
                number: header.number,
                generation: header.generation,
                tier: listed.tier,
                seal: header.seal(),
            }
        };
        Manifest { next_run, note: self.note.clone(), runs: self.runs().map(listed).collect() }
    }

    pub(super) fn stats(&self) -> Stats {
        let mut stats = Stats { generations: self.generations.len(), ..Stats::default() };
        for listed in self.runs() {
            stats.runs += 1;
            stats.ids += listed.run.header.ids;
            stats.bytes += listed.run.header.size;
        }
        stats
    }
}

/// Statistics of the index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    pub runs: usize,
    pub bytes: u64,
    /// Number of ids in them. An id that was added twice counts twice until its runs are merged.
    pub ids: u64,
    pub generations: usize,
    /// Live runs found damaged since the index was opened.
    pub damaged: usize,
    /// Files to be removed.
    pub queued_removals: usize,
    pub open_files: usize,
}

/// The live files at one moment. While this value exists, none of them is removed; none ever changes.
///
/// A backup copies the runs, then writes the manifest's bytes under the manifest's name: the manifest on disk
/// may be a later one by then.
pub struct Files<D: Disk> {
    /// Paths of the runs.
    pub runs: Vec<String>,
    /// Path and content of the manifest that lists exactly these runs.
    pub manifest: (String, Vec<u8>),
    /// The caller's note in it.
    pub note: Vec<u8>,
    /// Keeps the files.
    pub(super) _version: Arc<Version<D>>,
}
