//! The faults of one server process: it stops at failpoints while it is paused or a database is killed, and
//! dies at the last one.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::cluster::{Cluster, Database};
use crate::fault_points::PathToPoint;
use crate::report::Report;
use crate::rng::Rng;

/// Limit of a start.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than the failure timeout.
pub const ASLEEP: Duration = Duration::from_millis(2500);

/// Interval at which the state of a server process is polled.
const LOOK: Duration = Duration::from_millis(5);

/// Interval between deaths of other servers, where a failpoint needs one.
const DEATHS: Duration = Duration::from_millis(400);

/// How long other servers are delayed, where a failpoint needs it: longer than the impatient tellers wait.
const HELD: Duration = Duration::from_millis(500);

/// What happens to a server at a failpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultAction {
    Dies,
    Sleeps,
    /// The server is stopped until the database has been killed.
    Bereaved(Database),
}

/// A failpoint, and what happens there.
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
            // The transaction must be at the failpoint when the database dies.
            FaultAction::Dies | FaultAction::Sleeps | FaultAction::Bereaved(_) => 0,
        };
        Self { point, fate, passes, micros }
    }

    /// The fault in the format of `JETON_FAULT`.
    fn planned(&self) -> String {
        let deed = if self.fate == FaultAction::Dies { "kill" } else { "stop" };
        format!("{}:{}:{deed}:{}", self.point, self.passes, self.micros)
    }
}

/// Starts a server with a list of faults and waits for each. If it does not reach one, it is started again
/// with the rest.
pub async fn live(
    world: &mut Cluster,
    victim: usize,
    stands: Vec<PlannedFault>,
    report: &mut Report,
    chance: &mut Rng,
) -> Result<()> {
    let mut stands = VecDeque::from(stands);
    while !stands.is_empty() {
        // Start the servers that died before: without a majority, Raft does not respond.
        world.mend()?;
        let planned: Vec<String> = stands.iter().map(PlannedFault::planned).collect();
        world.servers[victim].start(Some(&planned.join(",")))?;
        while let Some(stand) = stands.pop_front() {
            if !come(world, victim, &stand.point).await? {
                world.note(&format!("server {} did not come to {}", victim + 1, stand.point));
                // Prevent it from reaching the failpoint later.
                world.servers[victim].kill();
                break;
            }
            suffer(world, victim, stand, report, chance).await?;
        }
    }
    Ok(())
}

/// Carries out the action for a server at a failpoint.
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
            // The main thread is gone before the other threads.
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
            // The server may find no database, or one that has restarted.
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

/// Waits until the server has stopped or died at a failpoint, and provokes it if necessary. Returns whether
/// it did.
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
                // The server may reach the failpoint before it is ready.
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

/// Kills or delays other servers if the failpoint is not reached otherwise. `passed` is the time so far,
/// `deaths` the number of kills.
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
    // An idle server leaves nothing behind; and without two of three, Raft does not respond.
    if passed >= due && world.servers[other].is_ready().await {
        world.servers[other].start(None)?;
        *deaths += 1;
        world.ledger_network().release();
    } else if way == PathToPoint::Delay && passed + HELD >= due {
        world.ledger_network().hold();
    }
    Ok(())
}
