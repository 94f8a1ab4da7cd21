//! The nemesis: kills servers and databases at every failpoint, pauses them, and cuts connections.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cluster::Cluster;
use crate::fault::{Fault, deck};
use crate::fault_plan::{self, PAUSE, TIMEOUT};
use crate::report::Report;
use jeton_testkit::Rng;

/// Injects one fault after the other, for `duration`.
pub async fn run(cluster: &mut Cluster, duration: Duration, seed: u64) -> Result<Report> {
    let begun = Instant::now();
    let mut rng = Rng::new(seed);
    let mut report = Report::default();
    let mut left: VecDeque<Fault> = VecDeque::new();
    let mut victim = 0;
    while begun.elapsed() < duration {
        let Some(fault) = left.pop_front() else {
            left = deck(&mut rng, cluster.networks.len());
            continue;
        };
        let is_planned = matches!(fault, Fault::Planned(_));
        if !is_planned {
            report.count(fault.name());
        }
        cluster.note(&format!("server {}: {fault:?}", victim + 1));
        perform(cluster, fault, victim, &mut report, &mut rng).await?;
        if is_planned && matches!(left.front(), Some(Fault::Planned(_))) {
            // The next plan starts the same server.
            continue;
        }
        victim = rng.index(cluster.servers.len());
        cluster.repair()?;
        cluster.await_ready(TIMEOUT).await?;
        // Some normal operation between two faults.
        tokio::time::sleep(Duration::from_millis(rng.below(300))).await;
    }
    report.elapsed = begun.elapsed();
    Ok(report)
}

async fn perform(
    cluster: &mut Cluster,
    fault: Fault,
    victim: usize,
    report: &mut Report,
    rng: &mut Rng,
) -> Result<()> {
    match fault {
        Fault::Planned(faults) => return fault_plan::run(cluster, victim, faults, report, rng).await,
        Fault::KillServer => cluster.servers[victim].kill(),
        Fault::StopServer => {
            cluster.servers[victim].pause();
            tokio::time::sleep(PAUSE).await;
        }
        Fault::KillAllServers => cluster.servers.iter_mut().for_each(|server| server.kill()),
        Fault::RestartServers => {
            for server in &mut cluster.servers {
                server.start(None)?;
                server.await_ready(TIMEOUT).await?;
            }
        }
        Fault::Kill(database) => cluster.kill(database),
        Fault::Stop(database) => {
            cluster.pause(database);
            tokio::time::sleep(PAUSE).await;
        }
        Fault::Restart(database) => cluster.restart(database)?,
        Fault::Cut(network) => cluster.networks[network].cut(),
        Fault::Hold(network) => {
            cluster.networks[network].hold();
            tokio::time::sleep(Duration::from_millis(rng.below(2000))).await;
        }
        Fault::HoldResponses(network) => {
            cluster.networks[network].hold_responses();
            tokio::time::sleep(Duration::from_millis(rng.below(2000))).await;
            cluster.networks[network].cut();
        }
    }
    Ok(())
}
