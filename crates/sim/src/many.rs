//! Many seeds, on several threads: each seed is a run of its own, and none knows of another.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::mutation;
use crate::run::{Outcome, Script, run};
use crate::stats::Stats;

/// What became of many seeds.
#[derive(Debug, Default)]
pub struct Tally {
    /// How many were run.
    pub runs: u64,
    /// The lowest seed that broke a promise, among those that were run.
    pub failed: Option<(u64, Outcome)>,
    /// What happened, in numbers.
    pub stats: Stats,
}

/// Runs seeds until one fails, or all have passed. `mutation` plants a bug.
pub fn run_all(seeds: Range<u64>, steps: u64, threads: usize, mutation: Option<mutation::Planted>) -> Tally {
    let next = AtomicU64::new(seeds.start);
    let tally = Mutex::new(Tally::default());
    let work = || {
        let _planted = mutation.map(mutation::Planted::plant);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let outcome = run(&Script { seed, steps, ..Script::default() });
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.runs += 1;
            tally.stats.add(&outcome.told.stats);
            if outcome.violation.is_some() {
                // No more are begun; the lower ones that are under way are heard.
                next.store(seeds.end, Ordering::Relaxed);
                if tally.failed.as_ref().is_none_or(|(failed, _)| seed < *failed) {
                    tally.failed = Some((seed, outcome));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    tally.into_inner().unwrap_or_else(PoisonError::into_inner)
}
