//! Latency of a durable addition at half of the engine's throughput.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use jeton_engine::Options;

use crate::callers::{CALLERS, COUNTERS, latencies, runtime};
use crate::jeton::{Memory, Ours};
use crate::report::{load, quantile, spread};

/// Durations of consecutive fdatasyncs of 4 KiB, as the log makes them.
fn fdatasyncs(folder: &Path) -> Vec<Duration> {
    let file = std::fs::File::create(folder.join("probe")).expect("a file");
    file.write_all_at(&vec![0; 4 << 20], 0).expect("written");
    file.sync_all().expect("synced");
    let sync = |number: u64| {
        let started = Instant::now();
        file.write_all_at(&[7; 4096], number % 1024 * 4096).expect("written");
        file.sync_data().expect("synced");
        started.elapsed()
    };
    (0..4_000).map(sync).collect()
}

/// The p99 of an ideal log on a disk with these syncs, in milliseconds: a request waits for the rest of the
/// sync in flight and for the next one. Requests arrive evenly, so a long sync weighs as much as its
/// duration.
fn best_p99(syncs: &[Duration]) -> f64 {
    const STEP: Duration = Duration::from_micros(20);
    let mut latencies: Vec<Duration> = Vec::new();
    for pair in syncs.windows(2) {
        let mut rest = pair[0];
        while let Some(left) = rest.checked_sub(STEP) {
            latencies.push(rest + pair[1]);
            rest = left;
        }
    }
    latencies.sort_unstable();
    quantile(&latencies, 0.99)
}

pub fn run(folder: &Path, rounds: usize, duration: Duration, per_second: f64) {
    println!("\n## Latency at half of that load: {per_second:.0} additions per second, {CALLERS} callers\n");
    println!("Before: {}. {rounds} rounds of {duration:?}.\n", load());
    let (runtime, numbers) = (runtime(), Arc::new(AtomicU64::new(1 << 40)));
    let ours = Arc::new(Ours::open(&folder.join("latency"), Memory::Exact, COUNTERS, Options::default()));
    let mut rows = Vec::new();
    for round in 0..=rounds {
        let mut syncs = fdatasyncs(folder);
        let best = best_p99(&syncs);
        syncs.sort_unstable();
        let sync = quantile(&syncs, 0.5);
        let all = latencies(&runtime, &ours, &numbers, per_second, duration);
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|part| quantile(&all, part));
        let done = all.len() as f64 / duration.as_secs_f64();
        let row = [sync, done, p50, p99, p999, p99 / sync, best, p99 / best];
        if round > 0 {
            rows.push(row);
        }
        eprintln!("round {round}: {row:.3?}; {}", load());
    }
    let names = [
        "one fdatasync of 4 KiB, median, ms",
        "additions per second",
        "p50, ms",
        "p99, ms",
        "p99.9, ms",
        "p99 to one fdatasync (target: at most 10)",
        "p99 of an ideal log on this disk, ms",
        "p99 to that of the ideal log",
    ];
    println!("| what | measured |\n|---|---|");
    for (at, name) in names.iter().enumerate() {
        println!("| {name} | {} |", spread(rows.iter().map(|row| row[at])));
    }
}
