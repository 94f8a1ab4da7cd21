//! A life of a server, from its start to its death at a point of its work; on its way it may stand at other points, while it sleeps or a database dies.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::cluster::{Cluster, Database};
use crate::fault_points::PathToPoint;
use crate::report::Report;
use crate::rng::Rng;

/// How long a start may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than it takes until a server is taken for dead.
pub const ASLEEP: Duration = Duration::from_millis(2500);

/// How often it is looked where a server is: its state is told by nobody.
const LOOK: Duration = Duration::from_millis(5);

/// How often another server dies, where one must.
const DEATHS: Duration = Duration::from_millis(400);

/// How long others are kept at work, where that must be: longer than impatient tellers wait.
const HELD: Duration = Duration::from_millis(500);

/// What becomes of a server at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultAction {
    Dies,
    Sleeps,
    /// It is stopped until the database has been killed.
    Bereaved(Database),
}

/// A point, and what becomes of a server there.
#[derive(Debug)]
pub struct PlannedFault {
    point: String,
    fate: FaultAction,
    passes: u64,
    micros: u64,
}

impl PlannedFault {
    pub fn new(point: String, fate: FaultAction, chance: &mut Rng) -> Self {
        let passes = if PathToPoint::to(&point) == PathToPoint::Work { chance.below(5) } else { 0 };
        let micros = match fate {
            FaultAction::Dies if chance.below(3) == 0 => 1 + chance.below(3000),
            // The transaction must be at the point when the database dies.
            FaultAction::Dies | FaultAction::Sleeps | FaultAction::Bereaved(_) => 0,
        };
        Self { point, fate, passes, micros }
    }

    /// As a server is told about it.
    fn planned(&self) -> String {
        let deed = if self.fate == FaultAction::Dies { "kill" } else { "stop" };
        format!("{}:{}:{deed}:{}", self.point, self.passes, self.micros)
    }
}

/// A server is started anew and comes to one stand after the other. If it does not come to one, it begins another life with the rest.
pub async fn live(
    world: &mut Cluster,
    victim: usize,
    stands: Vec<PlannedFault>,
    report: &mut Report,
    chance: &mut Rng,
) -> Result<()> {
    let mut stands = VecDeque::from(stands);
    while !stands.is_empty() {
        // Whoever died with the life before is needed: without most of them, Raft has no answers.
        world.mend()?;
        let planned: Vec<String> = stands.iter().map(PlannedFault::planned).collect();
        world.servers[victim].start(Some(&planned.join(",")))?;
        while let Some(stand) = stands.pop_front() {
            if !come(world, victim, &stand.point).await? {
                world.note(&format!("server {} did not come to {}", victim + 1, stand.point));
                // It must not come there later, when nobody expects it.
                world.servers[victim].kill();
                break;
            }
            suffer(world, victim, stand, report, chance).await?;
        }
    }
    Ok(())
}

/// What becomes of a server that stands at a point.
async fn suffer(
    world: &mut Cluster,
    victim: usize,
    stand: PlannedFault,
    report: &mut Report,
    chance: &mut Rng,
) -> Result<()> {
    let PlannedFault { point, fate, .. } = stand;
    match fate {
        FaultAction::Dies => {
            // The first of its threads is gone before the others are.
            let dying = Instant::now();
            while world.servers[victim].is_running() {
                ensure!(dying.elapsed() < PATIENCE, "server {} lives on beyond {point}", victim + 1);
                tokio::time::sleep(LOOK).await;
            }
            world.note(&format!("server {} was killed at {point}", victim + 1));
            report.count("server killed at a point");
            *report.servers.entry(point).or_default() += 1;
        }
        FaultAction::Sleeps => {
            world.note(&format!("server {} sleeps at {point}", victim + 1));
            report.count("server stopped at a point");
            tokio::time::sleep(ASLEEP).await;
            world.servers[victim].resume();
        }
        FaultAction::Bereaved(database) => {
            world.kill(database);
            ensure!(world.servers[victim].is_at_rest(), "server {} went on from {point}", victim + 1);
            // The server may find nobody there, or somebody who knows of none of its sessions.
            let is_alone = chance.below(2) == 0;
            let whom = if is_alone { "nobody" } else { "its next life" };
            let (number, name) = (victim + 1, database.name());
            world.note(&format!("{name} was killed with server {number} at {point}, which finds {whom}"));
            report.count(format!("{name} killed at a point"));
            report.databases.entry(point).or_default().push(database);
            if is_alone {
                world.servers[victim].resume();
                tokio::time::sleep(Duration::from_millis(chance.below(700))).await;
            }
            world.start_again(database)?;
            if !is_alone {
                world.servers[victim].resume();
            }
        }
    }
    Ok(())
}

/// Waits until the server stands at a point or has died there; whatever else must happen for that is made to happen. Whether it came.
async fn come(world: &mut Cluster, victim: usize, point: &str) -> Result<bool> {
    let way = PathToPoint::to(point);
    let begun = Instant::now();
    let mut ready: Option<Instant> = None;
    let mut deaths = 0;
    let is_there = loop {
        let server = &world.servers[victim];
        if server.is_at_rest() {
            break true;
        }
        match ready {
            None => {
                // It may come to the point before it is ready.
                let is_ready = tokio::select! {
                    is_ready = server.is_ready() => is_ready,
                    () = server.rest() => false,
                };
                ready = is_ready.then(Instant::now);
                if begun.elapsed() > PATIENCE {
                    bail!("server {} is not ready", victim + 1);
                }
            }
            Some(ready) if ready.elapsed() > way.patience() => break false,
            Some(ready) => urge(world, victim, way, ready.elapsed(), &mut deaths).await?,
        }
        tokio::time::sleep(LOOK).await;
    };
    world.ledger_network().release();
    if is_there {
        let server = &world.servers[victim];
        let said = server.faults_met();
        let last = said.last().map(String::as_str);
        ensure!(last == Some(point), "server {} ended before {point} by itself; see its log", victim + 1);
    }
    Ok(is_there)
}

/// Others die, or are kept at work before they die, if nobody comes to the point otherwise. So much time has passed, with so many deaths.
async fn urge(
    world: &mut Cluster,
    victim: usize,
    way: PathToPoint,
    passed: Duration,
    deaths: &mut u32,
) -> Result<()> {
    let due = match way {
        PathToPoint::Work | PathToPoint::Clock => return Ok(()),
        PathToPoint::Death => DEATHS * *deaths,
        PathToPoint::Delay => (HELD + DEATHS) * *deaths + HELD,
    };
    let other = (victim + 1 + *deaths as usize % 2) % world.servers.len();
    // Who is not at work leaves nothing behind; and without two of three, Raft has no answers.
    if passed >= due && world.servers[other].is_ready().await {
        world.servers[other].start(None)?;
        *deaths += 1;
        world.ledger_network().release();
    } else if way == PathToPoint::Delay && passed + HELD >= due {
        world.ledger_network().hold();
    }
    Ok(())
}
