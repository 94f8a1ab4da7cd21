//! A bank on PostgreSQL and MariaDB: three application servers move money between the two, and you may kill what you like.
//!
//! `cargo run -p jeton-chaos-bank` starts databases and servers, has tellers transfer money without a pause, and offers a menu of things to kill. With `--faults 300` it is for five minutes
//! the nemesis that chooses, and at the end the books are checked: the sum is what it was, every transfer was answered, and is in both ledgers once or
//! in none, and nothing is left prepared. With `--failover` it is measured how long a client waits whose server dies at each point of its work.
//!
//! What must hold: what the check says is read from the databases themselves, past everything that it checks.

mod audit;
mod cluster;
mod failover;
mod fault;
mod fault_plan;
mod fault_points;
mod http_client;
mod menu;
mod nemesis;
mod process;
mod report;
mod rng;
mod workload;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};

use crate::cluster::Cluster;
use crate::workload::Workload;

/// A bank on PostgreSQL and MariaDB whose transfers take effect exactly once
#[derive(Parser)]
struct Bank {
    /// Kill things for so many seconds, then check the books
    #[arg(long, value_name = "SECONDS", conflicts_with = "failover")]
    faults: Option<u64>,

    /// Measure how long a client waits whose server dies
    #[arg(long)]
    failover: bool,

    /// At how many of the named points a server must have been killed, or it is a failure
    #[arg(long, value_name = "N", default_value_t = 0, requires = "faults")]
    points_min: usize,

    /// At how many of the named points a database must have been killed, or it is a failure
    #[arg(long, value_name = "N", default_value_t = 0, requires = "faults")]
    database_points_min: usize,

    /// Where the servers keep their decisions
    #[arg(long, default_value = "raft")]
    registers: Backend,

    /// What chance begins with; another one chooses other faults
    #[arg(long)]
    seed: Option<u64>,

    /// Tellers at work
    #[arg(long, default_value_t = 8)]
    tellers: u64,
}

/// Where decisions are kept.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// In the memory and on the disks of the servers themselves.
    Raft,
    /// In the PostgreSQL of the bank.
    Postgres,
}

fn main() -> Result<()> {
    let bank = Bank::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(bank))
}

async fn run(bank: Bank) -> Result<()> {
    let seed = match bank.seed {
        Some(seed) => seed,
        None => {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes)?;
            u64::from_ne_bytes(bytes)
        }
    };
    println!("seed {seed}");
    let mut world = Cluster::start(bank.registers).await?;
    if bank.failover {
        return failover::measure(&mut world, bank.registers == Backend::Raft).await;
    }
    let tellers = Arc::new(Workload::new(world.urls()));
    let at_work = tellers.clone().begin(bank.tellers, seed);
    let report = match bank.faults {
        Some(seconds) => nemesis::torment(&mut world, Duration::from_secs(seconds), seed).await.map(Some),
        None => menu::offer(&mut world, &tellers).await.map(|()| None),
    };
    if report.is_err() {
        world.keep();
    }
    let report = report?;
    if let Some(report) = &report {
        println!("{report}");
    }
    world.mend()?;
    let mended = std::time::Instant::now();
    let faults = audit::settle(&mut world, &tellers, at_work, mended).await?;
    if !faults.is_empty() {
        world.keep();
        bail!("the books are wrong:\n  {}", faults.join("\n  "));
    }
    println!("the books are right");
    let report = report.unwrap_or_default();
    for (whom, met, least) in [
        ("a server", report.servers.len(), bank.points_min),
        ("a database", report.databases.len(), bank.database_points_min),
    ] {
        if met < least {
            world.keep();
            bail!("{whom} was killed at {met} points only, and must be at {least}");
        }
    }
    Ok(())
}
