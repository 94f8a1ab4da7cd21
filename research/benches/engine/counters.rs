//! More counters than memory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use jeton_engine::Options;
use jeton_engine::values::LsmOptions;

use crate::bulk::each_counter;
use crate::callers::{runtime, scatter, throughput};
use crate::jeton::{Memory, Ours};
use crate::report::{load, resident_bytes};

pub fn run(folder: &Path, counters: u64, cache_bytes: usize) {
    println!("\n## {counters} counters with a cache of {} MB\n\nBefore: {}.\n", cache_bytes >> 20, load());
    let options = Options {
        cache_bytes: cache_bytes / 2,
        lsm: LsmOptions { block_cache_bytes: (cache_bytes / 2) as u64, ..LsmOptions::default() },
        ..Options::default()
    };
    let ours = Arc::new(Ours::open(&folder.join("counters"), Memory::Exact, counters, options));
    let names = resident_bytes();
    let started = Instant::now();
    each_counter(&ours);
    let filled = started.elapsed();
    let runtime = runtime();
    let numbers = Arc::new(AtomicU64::new(1));
    let rate = throughput(&runtime, &ours, &numbers, counters, Duration::from_secs(20));
    let mut reads: Vec<Duration> = (0..20_000)
        .map(|number| {
            let cell = ours.cells[(scatter(number) % counters) as usize].clone();
            let started = Instant::now();
            block_on(ours.engine.get(cell)).expect("a value");
            started.elapsed()
        })
        .collect();
    reads.sort_unstable();
    println!("| what | measured |\n|---|---|");
    println!("| first addition to each, per second | {:.0} |", counters as f64 / filled.as_secs_f64());
    println!("| durable exact additions to random counters, per second | {rate:.0} |");
    println!(
        "| read of a random counter, median and p99, µs | {} and {} |",
        reads[10_000].as_micros(),
        reads[19_800].as_micros()
    );
    println!("| on disk, MB | {} |", ours.engine.stats().value_bytes >> 20);
    println!("| memory without the benchmark's own, MB | {} |", resident_bytes().saturating_sub(names) >> 20);
}
