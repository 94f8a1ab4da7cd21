//! The causes of long latencies: the same load on the log alone, and on engines without some of their work.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jeton_engine::Options;

use crate::callers::{COUNTERS, Contender, latencies, runtime};
use crate::jeton::{Memory, Ours};
use crate::log_only::BareLog;
use crate::report::{load, quantile, spread};

/// Additions per second: about half of the engine's throughput.
const PER_SECOND: f64 = 120_000.0;

/// Runs a round; returns p50, p99 and p99.9 in milliseconds.
type Round<'a> = Box<dyn Fn() -> [f64; 3] + 'a>;

pub fn run(folder: &Path, rounds: usize, duration: Duration) {
    println!("\n## Tail latency: {PER_SECOND:.0} additions per second\n");
    println!("Before: {}. {rounds} rounds of {duration:?}, interleaved.\n", load());
    let (runtime, numbers) = (runtime(), Arc::new(AtomicU64::new(1 << 41)));
    fn round<'a, C: Contender>(
        (runtime, numbers, duration): (&'a tokio::runtime::Runtime, &'a Arc<AtomicU64>, Duration),
        contender: C,
    ) -> Round<'a> {
        let contender = Arc::new(contender);
        Box::new(move || {
            let all = latencies(runtime, &contender, numbers, PER_SECOND, duration);
            [0.5, 0.99, 0.999].map(|part| quantile(&all, part))
        })
    }
    let setup = (&runtime, &numbers, duration);
    let engine =
        |name: &str, memory, options| round(setup, Ours::open(&folder.join(name), memory, COUNTERS, options));
    let without_checkpoints = Options { log_bytes: 1 << 40, ..Options::default() };
    let without_index = Options { recent_ids: 1 << 24, ..without_checkpoints.clone() };
    let contenders = [
        ("log only", round(setup, BareLog::open(&folder.join("tail-bare")))),
        ("no ids, no checkpoints", engine("tail-none", Memory::Nothing, without_checkpoints.clone())),
        ("exact, all ids in memory, no checkpoints", engine("tail-memory", Memory::Exact, without_index)),
        ("exact, no checkpoints", engine("tail-index", Memory::Exact, without_checkpoints)),
        ("exact", engine("tail-exact", Memory::Exact, Options::default())),
    ];
    let mut measured = vec![Vec::new(); contenders.len()];
    for number in 0..=rounds {
        for ((name, round), measured) in contenders.iter().zip(&mut measured) {
            let tail = round();
            eprintln!("round {number}, {name}: {tail:.2?}; {}", load());
            // The first round warms up.
            if number > 0 {
                measured.push(tail);
            }
        }
    }
    println!("| contender | p50, ms | p99, ms | p99.9, ms |\n|---|---|---|---|");
    for ((name, _), measured) in contenders.iter().zip(&measured) {
        let column = |at: usize| spread(measured.iter().map(move |tail| tail[at]));
        println!("| {name} | {} | {} | {} |", column(0), column(1), column(2));
    }
}
