//! The faults of one server process: it stops at failpoints while it is paused or a database is killed, and
//! dies at the last one.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::cluster::{Cluster, Database};
use crate::fault_points::PathToPoint;
use crate::report::Report;
use jeton_testkit::Rng;

/// Limit of a start.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Longer than the failure timeout.
pub const PAUSE: Duration = Duration::from_millis(2500);

/// Interval at which the state of a server process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Interval between kills of other servers, where a failpoint needs one.
const KILL_INTERVAL: Duration = Duration::from_millis(400);

/// How long other servers are delayed, where a failpoint needs it: longer than the short timeouts of tellers.
const DELAY: Duration = Duration::from_millis(500);

/// What happens to a server at a failpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultAction {
    Kill,
    Pause,
    /// The server is stopped until the database has been killed.
    KillDatabase(Database),
}

/// A failpoint, and what happens there.
#[derive(Debug)]
pub struct PlannedFault {
    point: String,
    action: FaultAction,
    passes: u64,
    micros: u64,
}

impl PlannedFault {
    pub fn new(point: String, action: FaultAction, rng: &mut Rng) -> Self {
        let passes = if PathToPoint::to(&point) == PathToPoint::Work { rng.below(5) } else { 0 };
        let micros = match action {
            FaultAction::Kill if rng.below(3) == 0 => 1 + rng.below(3000),
            // The transaction must be at the failpoint when the database dies.
            FaultAction::Kill | FaultAction::Pause | FaultAction::KillDatabase(_) => 0,
        };
        Self { point, action, passes, micros }
    }

    /// The fault in the format of `JETON_FAULT`.
    fn planned(&self) -> String {
        let action = if self.action == FaultAction::Kill { "kill" } else { "stop" };
        format!("{}:{}:{action}:{}", self.point, self.passes, self.micros)
    }
}

/// Starts a server with a list of faults and waits for each. If it does not reach one, it is started again
/// with the rest.
pub async fn run(
    cluster: &mut Cluster,
    victim: usize,
    faults: Vec<PlannedFault>,
    report: &mut Report,
    rng: &mut Rng,
) -> Result<()> {
    let mut faults = VecDeque::from(faults);
    while !faults.is_empty() {
        // Start the servers that died before: without a majority, Raft does not respond.
        cluster.repair()?;
        let planned: Vec<String> = faults.iter().map(PlannedFault::planned).collect();
        cluster.servers[victim].start(Some(&planned.join(",")))?;
        while let Some(fault) = faults.pop_front() {
            if !reach(cluster, victim, &fault.point).await? {
                cluster.note(&format!("server {} did not reach {}", victim + 1, fault.point));
                // Prevent it from reaching the failpoint later.
                cluster.servers[victim].kill();
                break;
            }
            inject(cluster, victim, fault, report, rng).await?;
        }
    }
    Ok(())
}

/// Carries out the action for a server at a failpoint.
async fn inject(
    cluster: &mut Cluster,
    victim: usize,
    fault: PlannedFault,
    report: &mut Report,
    rng: &mut Rng,
) -> Result<()> {
    let PlannedFault { point, action, .. } = fault;
    match action {
        FaultAction::Kill => {
            // The main thread ends before the other threads.
            let dying = Instant::now();
            while cluster.servers[victim].is_running() {
                ensure!(dying.elapsed() < TIMEOUT, "server {} is running after {point}", victim + 1);
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            cluster.note(&format!("server {} was killed at {point}", victim + 1));
            report.count("server killed at a point");
            *report.servers.entry(point).or_default() += 1;
        }
        FaultAction::Pause => {
            cluster.note(&format!("server {} is paused at {point}", victim + 1));
            report.count("server stopped at a point");
            tokio::time::sleep(PAUSE).await;
            cluster.servers[victim].resume();
        }
        FaultAction::KillDatabase(database) => {
            cluster.kill(database);
            ensure!(cluster.servers[victim].is_stopped(), "server {} continued from {point}", victim + 1);
            // The server finds the database down or restarted.
            let is_down = rng.below(2) == 0;
            let state = if is_down { "down" } else { "restarted" };
            let (number, name) = (victim + 1, database.name());
            cluster
                .note(&format!("{name} was killed with server {number} at {point}, which finds it {state}"));
            report.count(format!("{name} killed at a point"));
            report.databases.entry(point).or_default().push(database);
            if is_down {
                cluster.servers[victim].resume();
                tokio::time::sleep(Duration::from_millis(rng.below(700))).await;
            }
            cluster.start_again(database)?;
            if !is_down {
                cluster.servers[victim].resume();
            }
        }
    }
    Ok(())
}

/// Waits until the server has stopped or died at a failpoint, and provokes it if necessary. Returns whether
/// it did.
async fn reach(cluster: &mut Cluster, victim: usize, point: &str) -> Result<bool> {
    let path = PathToPoint::to(point);
    let begun = Instant::now();
    let mut ready: Option<Instant> = None;
    let mut kills = 0;
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
                    () = server.stopped() => false,
                };
                ready = is_ready.then(Instant::now);
                if begun.elapsed() > TIMEOUT {
                    bail!("server {} is not ready", victim + 1);
                }
            }
            Some(ready) if ready.elapsed() > path.timeout() => break false,
            Some(ready) => provoke(cluster, victim, path, ready.elapsed(), &mut kills).await?,
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    };
    cluster.ledger_network().release();
    if is_there {
        let server = &cluster.servers[victim];
        let reached = server.failpoints_reached();
        let last = reached.last().map(String::as_str);
        ensure!(last == Some(point), "server {} ended before {point}; see its log", victim + 1);
    }
    Ok(is_there)
}

/// Kills or delays other servers if the failpoint is not reached otherwise. `passed` is the time so far,
/// `kills` the number of kills.
async fn provoke(
    cluster: &mut Cluster,
    victim: usize,
    path: PathToPoint,
    passed: Duration,
    kills: &mut u32,
) -> Result<()> {
    let due = match path {
        PathToPoint::Work | PathToPoint::Clock => return Ok(()),
        PathToPoint::Kill => KILL_INTERVAL * *kills,
        PathToPoint::Delay => (DELAY + KILL_INTERVAL) * *kills + DELAY,
    };
    let other = (victim + 1 + *kills as usize % 2) % cluster.servers.len();
    // An idle server leaves nothing behind; and without two of three, Raft does not respond.
    if passed >= due && cluster.servers[other].is_ready().await {
        cluster.servers[other].start(None)?;
        *kills += 1;
        cluster.ledger_network().release();
    } else if path == PathToPoint::Delay && passed + DELAY >= due {
        cluster.ledger_network().hold();
    }
    Ok(())
}
