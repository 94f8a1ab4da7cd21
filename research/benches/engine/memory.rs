//! Memory per remembered id, and the duration of a recovery, each in a process of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jeton_core::{Change, Operation, TableSettings};
use jeton_engine::Options;

use crate::bulk::{self, day_of_ids, each_counter};
use crate::jeton::{Memory, Ours, uuid7};
use crate::report::{load, resident_bytes};

/// Counters that the ids are counted in.
const COUNTERS: u64 = 100_000;

/// The child: loads ids, prints their cost, then adds more until it is killed.
pub fn child(folder: &Path, memory: Memory, ids: u64) {
    let settings = TableSettings { expected_ids: ids, ..TableSettings::default() };
    let ours = Ours::open_with(folder, memory, COUNTERS, Options::default(), settings);
    each_counter(&ours);
    wait_for_compaction(&ours);
    let before = resident_bytes();
    let started = Instant::now();
    let outcome = day_of_ids(&ours, ids, COUNTERS);
    let loaded = started.elapsed();
    wait_for_compaction(&ours);
    let after = resident_bytes();
    let stats = ours.engine.stats();
    let filters = stats.tables.iter().filter_map(|table| table.filters.0.as_ref());
    println!(
        "{before} {after} {} {} {} {}",
        filters.map(|one| one.bytes).sum::<usize>(),
        outcome.probably_seen,
        loaded.as_millis(),
        stats.ids.bytes
    );
    loop {
        bulk::run(&ours, 20_000, |number| {
            let millis = ours.engine.now().as_nanos() / 1_000_000;
            let id = uuid7(millis, number ^ u64::from(std::process::id()) << 40);
            Operation::single(Some(id), ours.cells[0].clone(), Change::Add(1)).expect("an operation")
        });
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until the stores have not changed for two seconds.
fn wait_for_compaction(ours: &Ours) {
    let mut last = (0, 0);
    let mut since = Instant::now();
    while since.elapsed() < Duration::from_secs(2) {
        let stats = ours.engine.stats();
        let now = (stats.ids.runs, stats.value_bytes);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

pub fn run(folder: &Path, ids: u64) {
    println!("\n## {ids} remembered ids, dated over a day\n\nBefore: {}.\n", load());
    println!(
        "| mode | memory per id, bytes | filter per id | on disk per id | false positives | loaded in, s | kill -9 to ready, s |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, memory) in [("exact", Memory::Exact), ("probabilistic", Memory::Probabilistic)] {
        let store = folder.join(format!("memory-{name}"));
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["memory-child".as_ref(), store.as_os_str(), name.as_ref(), ids.to_string().as_ref()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the child starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        std::thread::sleep(Duration::from_millis(300));
        child.kill().expect("killed");
        child.wait().expect("gone");
        let started = Instant::now();
        let ours = Ours::open(&store, memory, 1, Options::default());
        let ready = started.elapsed();
        let numbers: Vec<f64> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        let [before, after, filter, seen, millis, disk] = numbers[..] else { panic!("{line}") };
        let per_id = |number: f64| number / ids as f64;
        println!(
            "| {name} | {:.2} | {:.2} | {:.1} | {:.2e} | {:.0} | {:.2} ({} entries replayed) |",
            per_id(after - before),
            per_id(filter),
            per_id(disk),
            per_id(seen),
            millis / 1e3,
            ready.as_secs_f64(),
            ours.engine.stats().replayed_entries
        );
    }
    println!(
        "\nTargets: at most 8 bytes exact, at most 4 probabilistic with 1e-3 false positives, ready within 5 s."
    );
}
