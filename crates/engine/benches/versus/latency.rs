//! How long a durable addition takes at half of the load that the engine can bear.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use jeton_engine::Options;

use crate::callers::{CALLERS, COUNTERS, latencies, runtime};
use crate::jeton::{Memory, Ours};
use crate::report::{load, spread};

/// How long fdatasyncs of 4 KiB take, one after the other, as the log does them.
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

/// What a log could do at best on a disk that syncs like that, with nothing else to do: whoever comes waits for the end of the sync that is
/// under way, and for the next. A long sync is met by all who come during it, so its share is that of its time.
fn best_p99(syncs: &[Duration]) -> Duration {
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
    latencies[(latencies.len() - 1) * 99 / 100]
}

pub fn run(folder: &Path, rounds: usize, duration: Duration, per_second: f64) {
    println!("\n## Latency at half of that load: {per_second:.0} additions per second, {CALLERS} callers\n");
    println!("Before: {}. {rounds} rounds of {duration:?}.\n", load());
    let runtime = runtime();
    let numbers = Arc::new(AtomicU64::new(1 << 40));
    let ours = Arc::new(Ours::open(&folder.join("latency"), Memory::Exact, COUNTERS, Options::default()));
    let mut rows = Vec::new();
    for round in 0..=rounds {
        let mut syncs = fdatasyncs(folder);
        let best = best_p99(&syncs).as_secs_f64() * 1e3;
        syncs.sort_unstable();
        let sync = syncs[syncs.len() / 2];
        let all = latencies(&runtime, &ours, &numbers, per_second, duration);
        let at = |part: f64| all[((all.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
        let sync = sync.as_secs_f64() * 1e3;
        let done = all.len() as f64 / duration.as_secs_f64();
        let row = [sync, at(0.5), at(0.99), at(0.999), at(0.99) / sync, done, best, at(0.99) / best];
        if round > 0 {
            rows.push(row);
        }
        eprintln!("round {round}: {row:.3?}; {}", load());
    }
    let column = |at: usize| spread(rows.iter().map(move |row| row[at]));
    println!("| what | measured | bar |\n|---|---|---|");
    println!("| one fdatasync of 4 KiB, median, ms | {} | |", column(0));
    println!("| additions per second that were asked for and done | {} | |", column(5));
    println!("| p50, ms | {} | |", column(1));
    println!("| p99, ms | {} | |", column(2));
    println!("| p99.9, ms | {} | |", column(3));
    println!("| p99 to one fdatasync | {} | at most 10 |", column(4));
    println!("| the best p99 that this disk allows with nothing but a log, ms | {} | |", column(6));
    println!("| p99 to that | {} | |", column(7));
}
