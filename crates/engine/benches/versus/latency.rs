//! How long a durable addition takes at half of the load that the engine can bear.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use jeton_engine::Options;

use crate::callers::{CALLERS, COUNTERS, latencies, runtime};
use crate::ours::{Memory, Ours};
use crate::report::{load, spread};

/// How long one fdatasync of a 4 KiB overwrite takes, as the log does them: the median of many.
fn fdatasync(folder: &Path) -> Duration {
    let file = std::fs::File::create(folder.join("probe")).expect("a file");
    file.write_all_at(&vec![0; 4 << 20], 0).expect("written");
    file.sync_all().expect("synced");
    let mut times: Vec<Duration> = (0..400)
        .map(|number: u64| {
            let started = Instant::now();
            file.write_all_at(&[7; 4096], number % 1024 * 4096).expect("written");
            file.sync_data().expect("synced");
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

pub fn run(folder: &Path, rounds: usize, duration: Duration, per_second: f64) {
    println!("\n## Latency at half of that load: {per_second:.0} additions per second, {CALLERS} callers\n");
    println!("Before: {}. {rounds} rounds of {duration:?}.\n", load());
    let runtime = runtime();
    let numbers = Arc::new(AtomicU64::new(1 << 40));
    let ours = Arc::new(Ours::open(&folder.join("latency"), Memory::Exact, COUNTERS, Options::default()));
    let mut rows = Vec::new();
    for round in 0..=rounds {
        let sync = fdatasync(folder);
        let all = latencies(&runtime, &ours, &numbers, per_second, duration);
        let at = |part: f64| all[((all.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
        let sync = sync.as_secs_f64() * 1e3;
        let row =
            [sync, at(0.5), at(0.99), at(0.999), at(0.99) / sync, all.len() as f64 / duration.as_secs_f64()];
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
}
