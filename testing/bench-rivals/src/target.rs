//! A system under load: its address, its protocol, and the operations sent to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::load::{ConnectionPool, Round};
use crate::protocol::Dialect;
use crate::server::{await_rest, processor_seconds};
use crate::workload::Workload;

/// How many connections the load has.
pub const CONNECTIONS: usize = 64;

/// A round with what it cost the server.
#[derive(Clone, Copy)]
pub struct Measured {
    pub round: Round,
    pub server_seconds: f64,
}

impl Measured {
    /// Microseconds of the server's processor time for an addition.
    pub fn server_micros(&self) -> f64 {
        self.server_seconds / self.round.answered as f64 * 1e6
    }

    /// The same of the generator.
    pub fn own_micros(&self) -> f64 {
        self.round.own_seconds / self.round.answered as f64 * 1e6
    }
}

/// A server with one way to add on it.
pub struct Target {
    pub name: String,
    pub address: SocketAddr,
    pub process: u32,
    pub connections: usize,
    dialect: Arc<dyn Dialect>,
    fleet: Option<ConnectionPool>,
    sum: Option<Sum>,
    /// Why it is not measured any more.
    pub failure: Option<String>,
}

/// Asks a contender for the sum of all its counters.
type Sum = Box<dyn Fn() -> Result<i64>>;

impl Target {
    pub fn new(name: &str, address: SocketAddr, dialect: Arc<dyn Dialect>, process: u32) -> Self {
        let name = name.to_owned();
        Self {
            name,
            address,
            process,
            connections: CONNECTIONS,
            dialect,
            fleet: None,
            sum: None,
            failure: None,
        }
    }

    /// The same with another number of connections.
    pub fn with_connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// With a way to ask for the sum of its counters.
    pub fn with_sum(mut self, sum: impl Fn() -> Result<i64> + 'static) -> Self {
        self.sum = Some(Box::new(sum));
        self
    }

    /// The sum of its counters; nothing if it counts nothing, or was never asked to.
    pub fn sum(&self) -> Option<Result<i64>> {
        self.fleet.as_ref().and(self.sum.as_ref()).map(|sum| sum())
    }

    /// The connections, opened when they are first needed.
    pub fn fleet(&mut self) -> Result<&mut ConnectionPool> {
        let fleet = match self.fleet.take() {
            Some(fleet) => fleet,
            None => ConnectionPool::open(self.address, self.dialect.clone(), self.connections)?,
        };
        Ok(self.fleet.insert(fleet))
    }

    /// The connections, if there were ever any.
    pub fn opened(&self) -> Option<&ConnectionPool> {
        self.fleet.as_ref()
    }

    fn try_measure(&mut self, work: impl FnOnce(&mut ConnectionPool) -> Result<Round>) -> Result<Measured> {
        let process = self.process;
        let fleet = self.fleet()?;
        let before = processor_seconds(process);
        let round = work(fleet)?;
        Ok(Measured { round, server_seconds: processor_seconds(process) - before })
    }

    /// Measures one round; nothing if it failed, now or before.
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

/// How long and how often is measured.
#[derive(Clone, Copy)]
pub struct RoundPlan {
    pub rounds: usize,
    pub duration: Duration,
}

/// Loads each contender alone, all interleaved. A row is a round, a column a contender; the first round makes files and fills caches and is
/// left out.
pub fn by_turns(
    contenders: &mut [&mut Target],
    workload: &Workload,
    pipeline: usize,
    pace: RoundPlan,
) -> Vec<Vec<Option<Measured>>> {
    let processes: Vec<u32> = contenders.iter().map(|contender| contender.process).collect();
    let mut table = Vec::new();
    for round in 0..=pace.rounds {
        let mut row = Vec::new();
        for contender in contenders.iter_mut() {
            await_rest(&processes);
            row.push(contender.measure(|fleet| fleet.run(workload, pipeline, pace.duration)));
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
