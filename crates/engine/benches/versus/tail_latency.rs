//! Where the long latencies come from: the same load on the log alone, and on engines with a part of their work put off.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jeton_engine::Options;

use crate::callers::{COUNTERS, Contender, latencies, runtime};
use crate::jeton::{Memory, Ours};
use crate::log_only::BareLog;
use crate::report::{load, spread};

/// Additions per second: about half of what the engine can do.
const PER_SECOND: f64 = 120_000.0;

/// p50, p99 and p99.9, in milliseconds.
type Tail = [f64; 3];

type Round<'a> = Box<dyn Fn() -> Tail + 'a>;

pub fn run(folder: &Path, rounds: usize, duration: Duration) {
    println!("\n## The tail: {PER_SECOND:.0} additions per second\n");
    println!("Before: {}. {rounds} rounds of {duration:?}, by turns.\n", load());
    let runtime = runtime();
    let numbers = Arc::new(AtomicU64::new(1 << 41));
    let (runtime, numbers) = (&runtime, &numbers);
    let engine =
        |name: &str, memory, options| Arc::new(Ours::open(&folder.join(name), memory, COUNTERS, options));
    let without_checkpoints = Options { log_bytes: 1 << 40, ..Options::default() };
    let without_index = Options { recent_ids: 1 << 24, log_bytes: 1 << 40, ..Options::default() };
    let contenders: [(&str, Round); 5] = [
        (
            "the bare log",
            round(runtime, numbers, duration, Arc::new(BareLog::open(&folder.join("tail-bare")))),
        ),
        (
            "without ids and checkpoints",
            round(
                runtime,
                numbers,
                duration,
                engine("tail-none", Memory::Nothing, without_checkpoints.clone()),
            ),
        ),
        (
            "exact, all ids in memory, without checkpoints",
            round(runtime, numbers, duration, engine("tail-memory", Memory::Exact, without_index)),
        ),
        (
            "exact, without checkpoints",
            round(runtime, numbers, duration, engine("tail-index", Memory::Exact, without_checkpoints)),
        ),
        ("exact", round(runtime, numbers, duration, engine("tail-exact", Memory::Exact, Options::default()))),
    ];
    let mut measured = vec![Vec::new(); contenders.len()];
    for number in 0..=rounds {
        for ((name, round), measured) in contenders.iter().zip(&mut measured) {
            let tail = round();
            eprintln!("round {number}, {name}: {tail:.2?}; {}", load());
            // The first is for warming up.
            if number > 0 {
                measured.push(tail);
            }
        }
    }
    println!("| what | p50, ms | p99, ms | p99.9, ms |\n|---|---|---|---|");
    for ((name, _), measured) in contenders.iter().zip(&measured) {
        let column = |at: usize| spread(measured.iter().map(move |tail| tail[at]));
        println!("| {name} | {} | {} | {} |", column(0), column(1), column(2));
    }
}

fn round<'a, C: Contender>(
    runtime: &'a tokio::runtime::Runtime,
    numbers: &'a Arc<AtomicU64>,
    duration: Duration,
    contender: Arc<C>,
) -> Round<'a> {
    Box::new(move || {
        let all = latencies(runtime, &contender, numbers, PER_SECOND, duration);
        let at = |part: f64| all[((all.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
        [at(0.5), at(0.99), at(0.999)]
    })
}
