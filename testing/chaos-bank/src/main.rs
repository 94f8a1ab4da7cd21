//! A bank on PostgreSQL and MariaDB: three application servers transfer money between the two, while
//! processes are killed.
//!
//! `cargo run -p jeton-chaos-bank` starts databases and servers, runs tellers that transfer money
//! continuously, and offers a menu of faults. With `--faults 300` the nemesis injects faults for five
//! minutes. At the end the databases are audited: the sum is unchanged, every transfer is answered and is in
//! both ledgers once or in none, and nothing is prepared. `--failover` measures how long a client waits when
//! its server dies at each failpoint.
//!
//! The audit reads the databases directly, not through the system under test.

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
    /// Inject faults for this many seconds, then audit the databases
    #[arg(long, value_name = "SECONDS", conflicts_with = "failover")]
    faults: Option<u64>,

    /// Measure how long a client waits when its server dies
    #[arg(long)]
    failover: bool,

    /// Fail unless servers were killed at this many failpoints
    #[arg(long, value_name = "N", default_value_t = 0, requires = "faults")]
    points_min: usize,

    /// Fail unless databases were killed at this many failpoints
    #[arg(long, value_name = "N", default_value_t = 0, requires = "faults")]
    database_points_min: usize,

    /// Where the servers record their decisions
    #[arg(long, default_value = "raft")]
    registers: Backend,

    /// Seed of the random faults
    #[arg(long)]
    seed: Option<u64>,

    /// Number of tellers
    #[arg(long, default_value_t = 8)]
    tellers: u64,
}

/// Where decisions are recorded.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// In memory and on the disks of the servers, by Raft.
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
    let mut cluster = Cluster::start(bank.registers).await?;
    if bank.failover {
        return failover::measure(&mut cluster, bank.registers == Backend::Raft).await;
    }
    let tellers = Arc::new(Workload::new(cluster.urls()));
    let running = tellers.clone().begin(bank.tellers, seed);
    let report = match bank.faults {
        Some(seconds) => nemesis::run(&mut cluster, Duration::from_secs(seconds), seed).await.map(Some),
        None => menu::offer(&mut cluster, &tellers).await.map(|()| None),
    };
    if report.is_err() {
        cluster.keep();
    }
    let report = report?;
    if let Some(report) = &report {
        println!("{report}");
    }
    cluster.repair()?;
    let repaired = std::time::Instant::now();
    let faults = audit::settle(&mut cluster, &tellers, running, repaired).await?;
    if !faults.is_empty() {
        cluster.keep();
        bail!("the audit failed:\n  {}", faults.join("\n  "));
    }
    println!("the audit passed");
    let report = report.unwrap_or_default();
    for (target, reached, least) in [
        ("a server", report.servers.len(), bank.points_min),
        ("a database", report.databases.len(), bank.database_points_min),
    ] {
        if reached < least {
            cluster.keep();
            bail!("{target} was killed at {reached} failpoints, fewer than {least}");
        }
    }
    Ok(())
}
