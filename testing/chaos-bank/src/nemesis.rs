//! The nemesis: kills servers and databases at every failpoint, pauses them, and cuts connections.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cluster::Cluster;
use crate::fault::{Fault, deck};
use crate::fault_plan::{self, ASLEEP, PATIENCE};
use crate::report::Report;
use crate::rng::Rng;

/// Injects one fault after the other, for `duration`.
pub async fn torment(world: &mut Cluster, duration: Duration, seed: u64) -> Result<Report> {
    let begun = Instant::now();
    let mut chance = Rng::new(seed);
    let mut report = Report::default();
    let mut left: VecDeque<Fault> = VecDeque::new();
    let mut victim = 0;
    while begun.elapsed() < duration {
        let Some(deed) = left.pop_front() else {
            left = deck(&mut chance, world.networks.len());
            continue;
        };
        let is_life = matches!(deed, Fault::Life(_));
        if !is_life {
            report.count(deed.name());
        }
        world.note(&format!("server {}: {deed:?}", victim + 1));
        perform(world, deed, victim, &mut report, &mut chance).await?;
        if is_life && matches!(left.front(), Some(Fault::Life(_))) {
            // The next plan starts the same server.
            continue;
        }
        victim = chance.below(world.servers.len() as u64) as usize;
        world.mend()?;
        world.await_ready(PATIENCE).await?;
        // Some normal operation between two faults.
        tokio::time::sleep(Duration::from_millis(chance.below(300))).await;
    }
    report.elapsed = begun.elapsed();
    Ok(report)
}

async fn perform(
    world: &mut Cluster,
    deed: Fault,
    victim: usize,
    report: &mut Report,
    chance: &mut Rng,
) -> Result<()> {
    match deed {
        Fault::Life(stands) => return fault_plan::live(world, victim, stands, report, chance).await,
        Fault::KillServer => world.servers[victim].kill(),
        Fault::StopServer => {
            world.servers[victim].pause();
            tokio::time::sleep(ASLEEP).await;
        }
        Fault::KillAllServers => world.servers.iter_mut().for_each(|server| server.kill()),
        Fault::RestartServers => {
            for server in &mut world.servers {
                server.start(None)?;
                server.await_ready(PATIENCE).await?;
            }
        }
        Fault::Kill(database) => world.kill(database),
        Fault::Stop(database) => {
            world.pause(database);
            tokio::time::sleep(ASLEEP).await;
        }
        Fault::Restart(database) => world.restart(database)?,
        Fault::Cut(network) => world.networks[network].cut(),
        Fault::Hold(network) => {
            world.networks[network].hold();
            tokio::time::sleep(Duration::from_millis(chance.below(2000))).await;
        }
        Fault::HoldAnswers(network) => {
            world.networks[network].hold_answers();
            tokio::time::sleep(Duration::from_millis(chance.below(2000))).await;
            world.networks[network].cut();
        }
    }
    Ok(())
}
