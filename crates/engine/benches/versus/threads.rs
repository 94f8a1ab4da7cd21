//! Where the processor time of a durable addition goes, by thread: hardly touched by what else the machine does.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jeton_engine::Options;

use crate::bare::BareLog;
use crate::callers::{COUNTERS, Contender, runtime, throughput};
use crate::ours::{Memory, Ours};
use crate::report::load;

/// Processor seconds of every living thread of this process, by name.
fn by_thread() -> BTreeMap<String, f64> {
    let mut seconds = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        // Nanoseconds on a processor come first.
        let nanos: f64 =
            read("schedstat").split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
        *seconds.entry(read("comm").trim().to_owned()).or_default() += nanos / 1e9;
    }
    seconds
}

fn measure<C: Contender>(name: &str, contender: &Arc<C>, duration: Duration) {
    let runtime = runtime();
    let numbers = Arc::new(AtomicU64::new(1));
    throughput(&runtime, contender, &numbers, COUNTERS, Duration::from_secs(1));
    let (before, first) = (by_thread(), numbers.load(Ordering::Relaxed));
    throughput(&runtime, contender, &numbers, COUNTERS, duration);
    let (after, count) = (by_thread(), (numbers.load(Ordering::Relaxed) - first) as f64);
    let mut total = 0.0;
    println!("\n{name}: {:.0} per second; µs of processor per addition:\n", count / duration.as_secs_f64());
    println!("| thread | µs |\n|---|---|");
    for (thread, seconds) in after {
        let spent = (seconds - before.get(&thread).copied().unwrap_or(0.0)) / count * 1e6;
        total += spent;
        if spent > 0.005 {
            println!("| {thread} | {spent:.2} |");
        }
    }
    println!("| all | {total:.2} |");
}

pub fn run(folder: &Path, duration: Duration) {
    println!("\n## Processor time by thread\n\nBefore: {}.", load());
    measure("The bare log", &Arc::new(BareLog::open(&folder.join("threads-bare"))), duration);
    for (name, memory) in [("Without ids", Memory::Nothing), ("Exact", Memory::Exact)] {
        let ours = Ours::open(&folder.join(format!("threads-{name}")), memory, COUNTERS, Options::default());
        measure(name, &Arc::new(ours), duration);
    }
}
