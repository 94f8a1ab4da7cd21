//! Benchmarks of the engine, beside its log and a general database.
//!
//! `cargo xtask bench engine [throughput|latency|tail|threads|decide|memory|restart|counters] [--quick]`;
//! all without a name.

mod bulk;
mod callers;
mod counters;
mod decide;
mod fjall_group_commit;
mod jeton;
mod latency;
mod log_only;
mod memory;
mod report;
mod restart;
mod tail_latency;
mod threads;
mod throughput;

use std::time::Duration;

use jeton::Memory;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["memory-child", folder, mode, ids] = words[..] {
        let memory = if mode == "exact" { Memory::Exact } else { Memory::Probabilistic };
        return memory::child(folder.as_ref(), memory, ids.parse().expect("a number"));
    }
    if let ["restart-child", folder, mode, ids] = words[..] {
        let memory = if mode == "exact" { Memory::Exact } else { Memory::Probabilistic };
        return restart::child(folder.as_ref(), memory, ids.parse().expect("a number"));
    }
    let quick = words.contains(&"--quick");
    let wanted = |name: &str| words.iter().all(|word| word.starts_with('-')) || words.contains(&name);
    // On the disk of the build: a temporary directory may be in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let folder = folder.path();
    let (rounds, duration) = if quick { (2, Duration::from_secs(1)) } else { (7, Duration::from_secs(3)) };
    let mut rate = 0.0;
    if wanted("throughput") || wanted("latency") {
        rate = throughput::run(folder, rounds, duration);
    }
    if wanted("latency") {
        latency::run(folder, rounds, duration, rate / 2.0);
    }
    if wanted("tail") {
        tail_latency::run(folder, rounds, duration);
    }
    if wanted("threads") {
        threads::run(folder, duration * 2);
    }
    if wanted("decide") {
        decide::run(folder);
    }
    if wanted("memory") {
        memory::run(folder, if quick { 1_000_000 } else { 10_000_000 });
    }
    if wanted("restart") {
        restart::run(folder, 2_000_000, if quick { 3 } else { 20 });
    }
    if wanted("counters") {
        counters::run(folder, if quick { 1_000_000 } else { 20_000_000 }, 256 << 20);
    }
}
