//! CPU time of a durable addition by thread, which other load of the machine hardly changes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jeton_engine::Options;

use crate::callers::{COUNTERS, Contender, runtime, throughput};
use crate::jeton::{Memory, Ours};
use crate::log_only::BareLog;
use crate::report::load;

#[derive(Default, Clone, Copy)]
struct Used {
    /// Seconds of CPU time.
    seconds: f64,
    /// Seconds for which the thread was ready and waited for a CPU.
    waited: f64,
    /// Number of voluntary context switches.
    sleeps: f64,
}

/// CPU usage of the running threads of this process, by name.
fn by_thread() -> BTreeMap<String, Used> {
    let mut threads: BTreeMap<String, Used> = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let stat = read("schedstat");
        let mut nanos = stat.split_whitespace().map(|word| word.parse().unwrap_or(0.0));
        let (on, waiting): (f64, f64) = (nanos.next().unwrap_or(0.0), nanos.next().unwrap_or(0.0));
        let status = read("status");
        let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let used = threads.entry(read("comm").trim().to_owned()).or_default();
        used.seconds += on / 1e9;
        used.waited += waiting / 1e9;
        used.sleeps += sleeps.and_then(|count| count.trim().parse().ok()).unwrap_or(0.0);
    }
    threads
}

fn measure<C: Contender>(name: &str, contender: &Arc<C>, duration: Duration) {
    let runtime = runtime();
    let numbers = Arc::new(AtomicU64::new(1));
    throughput(&runtime, contender, &numbers, COUNTERS, Duration::from_secs(1));
    let (before, first) = (by_thread(), numbers.load(Ordering::Relaxed));
    throughput(&runtime, contender, &numbers, COUNTERS, duration);
    let (after, count) = (by_thread(), (numbers.load(Ordering::Relaxed) - first) as f64);
    let mut total = 0.0;
    println!("\n{name}: {:.0} per second; CPU time per addition:\n", count / duration.as_secs_f64());
    println!("| thread | µs | µs of waiting for a CPU | additions per sleep |\n|---|---|---|---|");
    for (thread, used) in after {
        let earlier = before.get(&thread).copied().unwrap_or_default();
        let spent = (used.seconds - earlier.seconds) / count * 1e6;
        total += spent;
        if spent > 0.005 {
            let waited = (used.waited - earlier.waited) / count * 1e6;
            println!(
                "| {thread} | {spent:.2} | {waited:.2} | {:.0} |",
                count / (used.sleeps - earlier.sleeps)
            );
        }
    }
    println!("| all | {total:.2} | | |");
}

pub fn run(folder: &Path, duration: Duration) {
    println!("\n## CPU time by thread\n\nBefore: {}.", load());
    measure("Log only", &Arc::new(BareLog::open(&folder.join("threads-bare"))), duration);
    for (name, memory) in [("Without ids", Memory::Nothing), ("Exact", Memory::Exact)] {
        let ours = Ours::open(&folder.join(format!("threads-{name}")), memory, COUNTERS, Options::default());
        measure(name, &Arc::new(ours), duration);
    }
}
