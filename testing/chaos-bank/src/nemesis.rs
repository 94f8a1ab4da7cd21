//! The nemesis: kills servers and databases at every named point of a server's work, stops them, and cuts connections.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::chance::Chance;
use crate::deed::{Deed, deck};
use crate::life::{self, ASLEEP, PATIENCE};
use crate::report::Report;
use crate::world::World;

/// Does one thing after the other, for so long.
pub async fn torment(world: &mut World, duration: Duration, seed: u64) -> Result<Report> {
    let begun = Instant::now();
    let mut chance = Chance::new(seed);
    let mut report = Report::default();
    let mut left: VecDeque<Deed> = VecDeque::new();
    let mut victim = 0;
    while begun.elapsed() < duration {
        let Some(deed) = left.pop_front() else {
            left = deck(&mut chance, world.networks.len());
            continue;
        };
        let is_life = matches!(deed, Deed::Life(_));
        if !is_life {
            report.count(deed.name());
        }
        world.note(&format!("server {}: {deed:?}", victim + 1));
        perform(world, deed, victim, &mut report, &mut chance).await?;
        if is_life && matches!(left.front(), Some(Deed::Life(_))) {
            // The next life of the same server is to end as well: it need not be begun twice.
            continue;
        }
        victim = chance.below(world.servers.len() as u64) as usize;
        world.mend()?;
        world.await_ready(PATIENCE).await?;
        // Some work between two faults, of no special length.
        tokio::time::sleep(Duration::from_millis(chance.below(300))).await;
    }
    report.elapsed = begun.elapsed();
    Ok(report)
}

async fn perform(
    world: &mut World,
    deed: Deed,
    victim: usize,
    report: &mut Report,
    chance: &mut Chance,
) -> Result<()> {
    match deed {
        Deed::Life(stands) => return life::live(world, victim, stands, report, chance).await,
        Deed::KillServer => world.servers[victim].kill(),
        Deed::StopServer => {
            world.servers[victim].pause();
            tokio::time::sleep(ASLEEP).await;
        }
        Deed::KillAllServers => world.servers.iter_mut().for_each(|server| server.kill()),
        Deed::RestartServers => {
            for server in &mut world.servers {
                server.start(None)?;
                server.await_ready(PATIENCE).await?;
            }
        }
        Deed::Kill(database) => world.kill(database),
        Deed::Stop(database) => {
            world.pause(database);
            tokio::time::sleep(ASLEEP).await;
        }
        Deed::Restart(database) => world.restart(database)?,
        Deed::Cut(network) => world.networks[network].cut(),
        Deed::Hold(network) => {
            world.networks[network].hold();
            tokio::time::sleep(Duration::from_millis(chance.below(2000))).await;
        }
        Deed::HoldAnswers(network) => {
            world.networks[network].hold_answers();
            tokio::time::sleep(Duration::from_millis(chance.below(2000))).await;
            world.networks[network].cut();
        }
    }
    Ok(())
}
