//! `jeton-chaos-registers --engine cassandra --seconds N`: several clients append, claim, read and trim on a
//! real cluster while its nodes are killed and paused. The history is checked; a violation ends with exit
//! code 1.

mod client;
mod history;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::{Parser, ValueEnum};
use jeton_register::LogId;
use jeton_register::Registers;
use jeton_register_cassandra::{CassandraRegisters, Options, create_schema};
use jeton_testbed::{CASSANDRA_NODES, Cassandra, Compilation};
use jeton_testkit::Rng;

use client::{Client, Shared};

const CLIENTS: usize = 5;

/// How long the end may take.
const FINAL_DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Engine {
    Cassandra,
}

#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long)]
    engine: Engine,
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Of the faults and the requests. The times of both differ between runs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<()> {
    let Arguments { engine: Engine::Cassandra, seconds, seed } = Arguments::parse();
    let folder = jeton_testbed::folder()?;
    let mut cluster = Cassandra::start(folder.path(), &[], Compilation::Quick)?;
    let url = cluster.url("jeton");
    futures_executor::block_on(create_schema(&url, CASSANDRA_NODES as u8))?;
    let mut engines = Vec::new();
    for _ in 0..CLIENTS {
        let mut options = Options::default();
        options.request_timeout = Duration::from_secs(2);
        engines.push(futures_executor::block_on(CassandraRegisters::open(&url, options))?);
    }
    let logs =
        (0..4).map(LogId::stripe).chain([LogId::manifest(0), LogId::partition(1), LogId::partition(2)]);
    let shared = Shared {
        clock: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        logs: logs.collect(),
        unknown: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    };
    let mut events = Vec::new();
    let faults = thread::scope(|scope| {
        let clients: Vec<_> = engines
            .iter()
            .enumerate()
            .map(|(number, engine)| {
                let shared = &shared;
                scope.spawn(move || Client::new(number, engine, shared, seed).run())
            })
            .collect();
        let faults = disturb(&mut cluster, Duration::from_secs(seconds), Rng::named(seed, "faults"));
        shared.stop.store(true, Ordering::Relaxed);
        for client in clients {
            events.extend(client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        faults
    })?;
    for (number, engine) in engines.iter().enumerate() {
        events.extend(Client::new(CLIENTS + number, engine, &shared, seed).read_all(FINAL_DEADLINE)?);
    }
    report(&shared, &engines, &events, &faults)
}

/// Prints what happened, and fails if a rule was broken.
fn report(
    shared: &Shared,
    engines: &[CassandraRegisters],
    events: &[history::Event],
    faults: &[usize; 3],
) -> Result<()> {
    let violations = history::check(events);
    let [kills, pauses, majorities] = faults;
    println!(
        "{} results, {} unknown outcomes, {} refusals",
        events.len(),
        shared.unknown.load(Ordering::Relaxed),
        shared.refused.load(Ordering::Relaxed)
    );
    println!("{kills} kills, {pauses} pauses, {majorities} pauses of a majority");
    for log in &shared.logs {
        let extent = futures_executor::block_on(engines[0].extent(*log))?;
        println!("{log}: last slot {}, trimmed to {}", extent.last, extent.trimmed);
    }
    for violation in violations.iter().take(20) {
        println!("VIOLATION: {violation}");
    }
    ensure!(
        events.iter().any(|event| matches!(event.report, history::Report::Fresh { .. })),
        "nothing was written"
    );
    if !violations.is_empty() {
        bail!("{} violations", violations.len());
    }
    println!("0 violations");
    Ok(())
}

/// Kills and pauses nodes. Returns the numbers of kills, pauses, and pauses of a majority.
fn disturb(cluster: &mut Cassandra, duration: Duration, mut rng: Rng) -> Result<[usize; 3]> {
    let started = Instant::now();
    let mut counts = [0; 3];
    while started.elapsed() < duration {
        thread::sleep(Duration::from_millis(500 + rng.below(3_000)));
        let node = rng.index(CASSANDRA_NODES);
        let pause =
            Duration::from_millis(if rng.percent(50) { rng.below(500) } else { 2_000 + rng.below(4_000) });
        match rng.below(6) {
            0 | 1 => {
                counts[0] += 1;
                cluster.kill(node);
                thread::sleep(pause);
                cluster.restart(node)?;
            }
            2 => {
                counts[2] += 1;
                let other = (node + 1) % CASSANDRA_NODES;
                [node, other].iter().for_each(|node| cluster.pause(*node));
                thread::sleep(pause);
                [node, other].iter().for_each(|node| cluster.resume(*node));
            }
            _ => {
                counts[1] += 1;
                cluster.pause(node);
                thread::sleep(pause);
                cluster.resume(node);
            }
        }
    }
    Ok(counts)
}
