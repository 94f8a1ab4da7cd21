//! Time from the start of a process to its first response, after its predecessor was killed under load.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use jeton_core::{Change, Operation, TableSettings};
use jeton_engine::Options;

use crate::bulk;
use crate::callers::{COUNTERS, scatter};
use crate::jeton::{Memory, Ours, uuid7};
use crate::report::{load, spread};

/// The child: opens the store, prints a line after its first response, then adds until it is killed.
/// `ids` are added before the line `loaded`.
pub fn child(folder: &Path, memory: Memory, ids: u64) {
    let settings = TableSettings { expected_ids: 2_000_000, ..TableSettings::default() };
    let ours = Ours::open_with(folder, memory, 0, Options::default(), settings);
    let addition = |number: u64| {
        let millis = ours.engine.now().as_nanos() / 1_000_000;
        let id = uuid7(millis, number ^ u64::from(std::process::id()) << 40);
        let cell = ours.cell(scatter(number) % COUNTERS);
        Operation::single(Some(id), cell, Change::Add(1)).expect("an operation")
    };
    block_on(ours.engine.apply(addition(0))).expect("it is applied");
    println!("ready {} {}", ours.engine.stats().replayed_entries, processor_time().as_micros());
    bulk::run(&ours, ids, |number| addition(1 + number));
    println!("loaded");
    bulk::run(&ours, u64::MAX >> 24, |number| addition(1 + ids + number));
}

/// The processor time of this process.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A start of the child.
struct Start {
    /// Until the first response.
    took: Duration,
    /// Processor time in that.
    processor: Duration,
    /// Entries replayed.
    entries: u64,
}

struct Victim {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Victim {
    fn start(folder: &Path, mode: &str, ids: u64) -> (Self, Start) {
        let started = Instant::now();
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args(["restart-child".as_ref(), folder.as_os_str(), mode.as_ref(), ids.to_string().as_ref()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the child starts");
        let output = process.stdout.take().expect("a pipe");
        let mut victim = Self { process, lines: BufReader::new(output).lines() };
        let line = victim.line();
        let took = started.elapsed();
        let words: Vec<&str> = line.split(' ').collect();
        let ["ready", entries, micros] = words[..] else { panic!("{line}") };
        let processor = Duration::from_micros(micros.parse().expect("a number"));
        (victim, Start { took, processor, entries: entries.parse().expect("a number") })
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").expect("a line")
    }

    fn kill(mut self) {
        self.process.kill().expect("killed");
        self.process.wait().expect("gone");
    }
}

pub fn run(folder: &Path, ids: u64, rounds: u64) {
    println!("\n## SIGKILL under load, {ids} ids, time to the first response\n\nBefore: {}.\n", load());
    println!(
        "| mode | rounds | median (quartiles), ms | max, ms | target, ms | processor time, median and max, ms | entries replayed, median and max |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for mode in ["exact", "probabilistic"] {
        let store = folder.join(format!("restart-{mode}"));
        let (mut victim, _) = Victim::start(&store, mode, ids);
        assert_eq!(victim.line(), "loaded");
        let mut starts = Vec::new();
        for round in 0..rounds {
            // The log grows by a random part of what the next checkpoint takes.
            std::thread::sleep(Duration::from_millis(500 + scatter(round) % 3_000));
            victim.kill();
            let (next, start) = Victim::start(&store, mode, 0);
            victim = next;
            starts.push(start);
        }
        victim.kill();
        let times =
            |time: fn(&Start) -> Duration| starts.iter().map(move |start| time(start).as_secs_f64() * 1e3);
        let entries = || starts.iter().map(|start| start.entries as f64);
        let max = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        println!(
            "| {mode} | {rounds} | {} | {:.0} | 500 | {:.0}, {:.0} | {:.0}, {:.0} |",
            spread(times(|start| start.took)),
            max(&mut times(|start| start.took)),
            spread(times(|start| start.processor)).median,
            max(&mut times(|start| start.processor)),
            spread(entries()).median,
            max(&mut entries()),
        );
    }
    println!("\nAfter: {}.", load());
}
