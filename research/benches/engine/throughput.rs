//! Durable additions per second, all contenders interleaved.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jeton_engine::Options;

use crate::callers::{CALLERS, COUNTERS, runtime, throughput};
use crate::fjall_group_commit::FjallGroup;
use crate::jeton::{Memory, Ours};
use crate::log_only::BareLog;
use crate::report::{load, spread};

/// Returns the additions per second of the exact engine.
pub fn run(folder: &Path, rounds: usize, duration: Duration) -> f64 {
    println!("\n## Durable additions, {CALLERS} callers, {COUNTERS} counters\n");
    println!("Before: {}. {rounds} rounds of {duration:?} each, interleaved; median (quartiles).\n", load());
    let (runtime, numbers) = (runtime(), Arc::new(AtomicU64::new(1)));
    let ours =
        |name: &str, memory| Arc::new(Ours::open(&folder.join(name), memory, COUNTERS, Options::default()));
    let exact = ours("exact", Memory::Exact);
    let probabilistic = ours("probabilistic", Memory::Probabilistic);
    let nothing = ours("nothing", Memory::Nothing);
    let bare = Arc::new(BareLog::open(&folder.join("bare")));
    let group = Arc::new(FjallGroup::open(&folder.join("fjall")));
    let mut table: Vec<[f64; 5]> = Vec::new();
    for round in 0..=rounds {
        let measured = [
            throughput(&runtime, &exact, &numbers, COUNTERS, duration),
            throughput(&runtime, &nothing, &numbers, COUNTERS, duration),
            throughput(&runtime, &probabilistic, &numbers, COUNTERS, duration),
            throughput(&runtime, &bare, &numbers, COUNTERS, duration),
            throughput(&runtime, &group, &numbers, COUNTERS, duration),
        ];
        // The first round creates files and fills caches.
        if round > 0 {
            table.push(measured);
        }
        eprintln!("round {round}: {measured:.0?}; {}", load());
    }
    println!("| contender | additions per second |\n|---|---|");
    let names = [
        "the engine, exact",
        "the engine, without ids",
        "the engine, probabilistic at 1e-3",
        "the log only, no state",
        "fjall, one commit per group",
    ];
    for (at, name) in names.iter().enumerate() {
        println!("| {name} | {} |", spread(table.iter().map(|row| row[at])));
    }
    println!("\n| ratio of each round | measured | target |\n|---|---|---|");
    let ratio = |a: usize, b: usize| spread(table.iter().map(move |row| row[a] / row[b]));
    println!("| exact to fjall per group | {} | at least 2.5 |", ratio(0, 4));
    println!("| exact to the log only | {} | at least 0.60 |", ratio(0, 3));
    println!("| exact to no ids | {} | at least 0.80 |", ratio(0, 1));
    println!("\nAfter: {}.", load());
    spread(table.iter().map(|row| row[0])).median
}
