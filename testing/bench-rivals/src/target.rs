//! A system under load: its address, its protocol, and the operations sent to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::load::{ConnectionPool, Round};
use crate::protocol::Protocol;
use crate::server::{await_idle, processor_seconds};
use crate::workload::Workload;

/// Connections of the load generator.
pub const CONNECTIONS: usize = 64;

/// A round with the processor time of the server.
#[derive(Clone, Copy)]
pub struct Measured {
    pub round: Round,
    pub server_seconds: f64,
}

impl Measured {
    /// Processor time of the server per addition, in microseconds.
    pub fn server_micros(&self) -> f64 {
        self.server_seconds / self.round.answered as f64 * 1e6
    }

    /// Processor time of the load generator per addition, in microseconds.
    pub fn own_micros(&self) -> f64 {
        self.round.own_seconds / self.round.answered as f64 * 1e6
    }
}

/// A server with one recipe for additions.
pub struct Target {
    pub name: String,
    pub address: SocketAddr,
    pub process: u32,
    pub connections: usize,
    protocol: Arc<dyn Protocol>,
    pool: Option<ConnectionPool>,
    sum: Option<Sum>,
    /// The error that ended its measurements.
    pub failure: Option<String>,
}

/// Reads the sum of all counters.
type Sum = Box<dyn Fn() -> Result<i64>>;

impl Target {
    pub fn new(name: &str, address: SocketAddr, protocol: Arc<dyn Protocol>, process: u32) -> Self {
        let name = name.to_owned();
        Self {
            name,
            address,
            process,
            connections: CONNECTIONS,
            protocol,
            pool: None,
            sum: None,
            failure: None,
        }
    }

    pub fn with_connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    pub fn with_sum(mut self, sum: impl Fn() -> Result<i64> + 'static) -> Self {
        self.sum = Some(Box::new(sum));
        self
    }

    /// The sum of the counters. `None` if the target was never measured or has no counters.
    pub fn sum(&self) -> Option<Result<i64>> {
        self.pool.as_ref().and(self.sum.as_ref()).map(|sum| sum())
    }

    /// The connections, opened at the first use.
    pub fn pool(&mut self) -> Result<&mut ConnectionPool> {
        let pool = match self.pool.take() {
            Some(pool) => pool,
            None => ConnectionPool::open(self.address, self.protocol.clone(), self.connections)?,
        };
        Ok(self.pool.insert(pool))
    }

    /// The connections, if they were opened.
    pub fn opened(&self) -> Option<&ConnectionPool> {
        self.pool.as_ref()
    }

    fn try_measure(&mut self, work: impl FnOnce(&mut ConnectionPool) -> Result<Round>) -> Result<Measured> {
        let process = self.process;
        let pool = self.pool()?;
        let before = processor_seconds(process);
        let round = work(pool)?;
        Ok(Measured { round, server_seconds: processor_seconds(process) - before })
    }

    /// Measures one round. `None` if this or an earlier round failed.
    pub fn measure(&mut self, work: impl FnOnce(&mut ConnectionPool) -> Result<Round>) -> Option<Measured> {
        if self.failure.is_some() {
            return None;
        }
        match self.try_measure(work) {
            Ok(measured) => Some(measured),
            Err(error) => {
                eprintln!("{} failed: {error:#}", self.name);
                self.failure = Some(format!("{error:#}"));
                None
            }
        }
    }
}

/// Number and duration of the rounds.
#[derive(Clone, Copy)]
pub struct RoundPlan {
    pub rounds: usize,
    pub duration: Duration,
}

/// Measures one target at a time, in interleaved rounds. A row is a round, a column a target. The first round
/// creates files and fills caches; it is left out.
pub fn interleave(
    targets: &mut [&mut Target],
    workload: &Workload,
    pipeline: usize,
    plan: RoundPlan,
) -> Vec<Vec<Option<Measured>>> {
    let processes: Vec<u32> = targets.iter().map(|target| target.process).collect();
    let mut table = Vec::new();
    for round in 0..=plan.rounds {
        let mut row = Vec::new();
        for target in targets.iter_mut() {
            await_idle(&processes);
            row.push(target.measure(|pool| pool.run(workload, pipeline, plan.duration)));
        }
        let rates: Vec<String> = row
            .iter()
            .map(|measured| measured.map_or("-".into(), |measured| format!("{:.0}", measured.round.rate())))
            .collect();
        eprintln!("{}, by {pipeline}, round {round}: {}", workload.name, rates.join(" "));
        if round > 0 {
            table.push(row);
        }
    }
    table
}
