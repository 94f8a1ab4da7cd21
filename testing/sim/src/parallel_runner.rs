//! Runs many seeds on several threads.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::mutation;
use crate::run::{Outcome, RunSpec, STEPS, run};
use crate::stats::Stats;

#[derive(Debug, Default)]
pub struct Tally {
    pub runs: u64,
    /// The lowest failed seed.
    pub failed: Option<(u64, Outcome)>,
    pub stats: Stats,
}

#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    pub steps: u64,
    pub threads: usize,
    pub planted: Option<mutation::KnownMutation>,
    /// Whether only the observations of clients are checked.
    pub outside: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        Self { steps: STEPS, threads, planted: None, outside: false }
    }
}

/// Runs seeds until one fails, or all have passed.
pub fn run_all(seeds: Range<u64>, options: RunOptions) -> Tally {
    let next = AtomicU64::new(seeds.start);
    let tally = Mutex::new(Tally::default());
    let work = || {
        let _planted = options.planted.map(mutation::KnownMutation::plant);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let outcome =
                run(&RunSpec { seed, steps: options.steps, outside: options.outside, ..RunSpec::default() });
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.runs += 1;
            tally.stats.add(&outcome.log.stats);
            if outcome.violation.is_some() {
                // No further seed starts. Lower seeds that are running may still fail.
                next.store(seeds.end, Ordering::Relaxed);
                if tally.failed.as_ref().is_none_or(|(failed, _)| seed < *failed) {
                    tally.failed = Some((seed, outcome));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(work);
        }
    });
    tally.into_inner().unwrap_or_else(PoisonError::into_inner)
}
