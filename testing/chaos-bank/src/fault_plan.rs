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
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Longer than the failure timeout.
pub const PAUSE: Duration = Duration::from_millis(2500);

/// Interval at which the state of a server process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

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
    LosesDatabase(Database),
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
    pub fn new(point: String, fate: FaultAction, rng: &mut Rng) -> Self {
        let passes = if PathToPoint::to(&point) == PathToPoint::Work { rng.below(5) } else { 0 };
        let micros = match fate {
            FaultAction::Dies if rng.below(3) == 0 => 1 + rng.below(3000),
            // The transaction must be at the failpoint when the database dies.
            FaultAction::Dies | FaultAction::Sleeps | FaultAction::LosesDatabase(_) => 0,
        };
        Self { point, fate, passes, micros }
    }

    /// The fault in the format of `JETON_FAULT`.
    fn planned(&self) -> String {
        let fault = if self.fate == FaultAction::Dies { "kill" } else { "stop" };
        format!("{}:{}:{fault}:{}", self.point, self.passes, self.micros)
    }
}

/// Starts a server with a list of faults and waits for each. If it does not reach one, it is started again
/// with the rest.
pub async fn live(
    cluster: &mut Cluster,
    victim: usize,
    stands: Vec<PlannedFault>,
    report: &mut Report,
    rng: &mut Rng,
) -> Result<()> {
    let mut stands = VecDeque::from(stands);
    while !stands.is_empty() {
        // Start the servers that died before: without a majority, Raft does not respond.
        cluster.repair()?;
        let planned: Vec<String> = stands.iter().map(PlannedFault::planned).collect();
        cluster.servers[victim].start(Some(&planned.join(",")))?;
        while let Some(stand) = stands.pop_front() {
            if !come(cluster, victim, &stand.point).await? {
                cluster.note(&format!("server {} did not come to {}", victim + 1, stand.point));
                // Prevent it from reaching the failpoint later.
                cluster.servers[victim].kill();
                break;
            }
            suffer(cluster, victim, stand, report, rng).await?;
        }
    }
    Ok(())
}

/// Carries out the action for a server at a failpoint.
async fn suffer(
    cluster: &mut Cluster,
    victim: usize,
    stand: PlannedFault,
    report: &mut Report,
    rng: &mut Rng,
) -> Result<()> {
    let PlannedFault { point, fate, .. } = stand;
    match fate {
        FaultAction::Dies => {
            // The main thread is gone before the other threads.
            let dying = Instant::now();
            while cluster.servers[victim].is_running() {
                ensure!(dying.elapsed() < TIMEOUT, "server {} lives on beyond {point}", victim + 1);
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            cluster.note(&format!("server {} was killed at {point}", victim + 1));
            report.count("server killed at a point");
            *report.servers.entry(point).or_default() += 1;
        }
        FaultAction::Sleeps => {
            cluster.note(&format!("server {} sleeps at {point}", victim + 1));
            report.count("server stopped at a point");
            tokio::time::sleep(PAUSE).await;
            cluster.servers[victim].resume();
        }
        FaultAction::LosesDatabase(database) => {
            cluster.kill(database);
            ensure!(cluster.servers[victim].is_stopped(), "server {} went on from {point}", victim + 1);
            // The server may find no database, or one that has restarted.
            let is_alone = rng.below(2) == 0;
            let whom = if is_alone { "nobody" } else { "its next life" };
            let (number, name) = (victim + 1, database.name());
            cluster.note(&format!("{name} was killed with server {number} at {point}, which finds {whom}"));
            report.count(format!("{name} killed at a point"));
            report.databases.entry(point).or_default().push(database);
            if is_alone {
                cluster.servers[victim].resume();
                tokio::time::sleep(Duration::from_millis(rng.below(700))).await;
            }
            cluster.start_again(database)?;
            if !is_alone {
                cluster.servers[victim].resume();
            }
        }
    }
    Ok(())
}

/// Waits until the server has stopped or died at a failpoint, and provokes it if necessary. Returns whether
/// it did.
async fn come(cluster: &mut Cluster, victim: usize, point: &str) -> Result<bool> {
    let way = PathToPoint::to(point);
    let begun = Instant::now();
    let mut ready: Option<Instant> = None;
    let mut deaths = 0;
    let is_there = loop {
        let server = &cluster.servers[victim];
        if server.is_stopped() {
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
                if begun.elapsed() > TIMEOUT {
                    bail!("server {} is not ready", victim + 1);
                }
            }
            Some(ready) if ready.elapsed() > way.timeout() => break false,
            Some(ready) => urge(cluster, victim, way, ready.elapsed(), &mut deaths).await?,
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    };
    cluster.ledger_network().release();
    if is_there {
        let server = &cluster.servers[victim];
        let said = server.failpoints_reached();
        let last = said.last().map(String::as_str);
        ensure!(last == Some(point), "server {} ended before {point} by itself; see its log", victim + 1);
    }
    Ok(is_there)
}

/// Kills or delays other servers if the failpoint is not reached otherwise. `passed` is the time so far,
/// `deaths` the number of kills.
async fn urge(
    cluster: &mut Cluster,
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
    let other = (victim + 1 + *deaths as usize % 2) % cluster.servers.len();
    // An idle server leaves nothing behind; and without two of three, Raft does not respond.
    if passed >= due && cluster.servers[other].is_ready().await {
        cluster.servers[other].start(None)?;
        *deaths += 1;
        cluster.ledger_network().release();
    } else if way == PathToPoint::Delay && passed + HELD >= due {
        cluster.ledger_network().hold();
    }
    Ok(())
}
