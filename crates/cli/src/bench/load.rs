//! One connection of the load.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use jeton_client::{Client, Error, Id, Outcome};
use tokio::task::JoinSet;

use super::{Bench, ByCounter};
use crate::cli_error::CliError;
use crate::server_client::{error_of, status_of};

/// Acknowledged ids that are kept for duplicates.
const DUPLICATE_POOL: usize = 4096;

/// Longer times are recorded as one hour.
const LATENCY_MAX_MICROS: u64 = 3_600_000_000;

/// Significant decimal digits of a latency.
const LATENCY_DIGITS: u8 = 3;

/// The counts of one connection, or the sum of several.
pub struct BenchCounts {
    pub applied: u64,
    pub replayed: u64,
    pub busy: u64,
    /// Acknowledged ids that were sent again.
    pub sent_again: u64,
    /// Time of a pipeline in microseconds.
    pub latencies: Histogram<u64>,
    pub by_counter: ByCounter,
}

impl Default for BenchCounts {
    fn default() -> Self {
        let latencies = Histogram::new_with_max(LATENCY_MAX_MICROS, LATENCY_DIGITS);
        Self {
            applied: 0,
            replayed: 0,
            busy: 0,
            sent_again: 0,
            latencies: latencies.expect("the bounds are constants that hdrhistogram accepts"),
            by_counter: ByCounter::new(),
        }
    }
}

impl BenchCounts {
    /// Adds the counts of another connection.
    pub fn add(&mut self, other: Self) {
        self.applied += other.applied;
        self.replayed += other.replayed;
        self.busy += other.busy;
        self.sent_again += other.sent_again;
        self.latencies += other.latencies;
        for (counter, expected) in other.by_counter {
            *self.by_counter.entry(counter).or_default() += expected;
        }
    }

    pub fn completed(&self) -> u64 {
        self.applied + self.replayed
    }
}

#[derive(Clone)]
struct Operation {
    counter: u32,
    id: Id,
    /// Whether it was acknowledged before: the server must replay it.
    again: bool,
}

/// The load of one connection.
pub struct Load {
    client: Client,
    prefix: String,
    pipeline: usize,
    duplicates: u32,
    counters: u32,
    random: u64,
    done: VecDeque<Operation>,
    counted: BenchCounts,
}

impl Load {
    pub fn new(bench: &Bench, client: Client, prefix: &str, worker: u32) -> Self {
        Self {
            client,
            prefix: prefix.to_owned(),
            pipeline: bench.pipeline as usize,
            duplicates: bench.duplicates,
            counters: bench.counters,
            random: u64::from(worker) + 1,
            done: VecDeque::new(),
            counted: BenchCounts::default(),
        }
    }

    /// Sends pipelines until the deadline.
    pub async fn run(mut self, deadline: Instant) -> Result<BenchCounts> {
        loop {
            self.send_pipeline().await?;
            if Instant::now() >= deadline {
                return Ok(self.counted);
            }
        }
    }

    async fn send_pipeline(&mut self) -> Result<()> {
        let mut in_flight = JoinSet::new();
        let started = Instant::now();
        for _ in 0..self.pipeline {
            let operation = self.next();
            let key = format!("{}{}", self.prefix, operation.counter);
            let call = self.client.add(key, 1).id(operation.id.clone());
            in_flight.spawn(async move { (operation, call.await) });
        }
        while let Some(done) = in_flight.join_next().await {
            let (operation, result) = done?;
            self.count(operation, result)?;
        }
        self.counted
            .latencies
            .saturating_record(u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX));
        Ok(())
    }

    fn count(&mut self, mut operation: Operation, result: Result<Outcome, Error>) -> Result<()> {
        let outcome = match result {
            // Expected under load.
            Err(Error::Busy { .. }) => {
                self.counted.busy += 1;
                return Ok(());
            }
            result => result.map_err(error_of)?,
        };
        // A new operation is replayed if the response to its first attempt was lost.
        if !outcome.is_applied() || operation.again && !outcome.replayed {
            let reason = anyhow!("the status of id {} is {}", operation.id, status_of(&outcome));
            let fix = "report this with the log of the server";
            return Err(CliError::of(reason, "the server returned a wrong status", fix));
        }
        if operation.again {
            self.counted.replayed += 1;
            return Ok(());
        }
        self.counted.applied += 1;
        *self.counted.by_counter.entry(operation.counter).or_default() += 1;
        operation.again = true;
        if self.done.len() == DUPLICATE_POOL {
            self.done.pop_front();
        }
        self.done.push_back(operation);
        Ok(())
    }

    fn next(&mut self) -> Operation {
        let random = self.random();
        if !self.done.is_empty() && random % 100 < u64::from(self.duplicates) {
            self.counted.sent_again += 1;
            let at = (random >> 32) as usize % self.done.len();
            return self.done[at].clone();
        }
        let counter = (self.random() % u64::from(self.counters)) as u32;
        Operation { counter, id: self.client.new_id(), again: false }
    }

    /// xorshift*.
    fn random(&mut self) -> u64 {
        let mut state = self.random;
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random = state;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
