//! One connection of the load.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use jeton_client::IdGenerator;
use jeton_resp::command;
use jeton_resp::reply_parser::Value;

use super::{Bench, ByCounter, is_busy};
use crate::cli_error::CliError;
use crate::id;
use crate::server_client::{AddResult, Resp, failure_of, lost};

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
    id: String,
    /// Whether it was acknowledged before: the server must replay it.
    again: bool,
}

/// The load of one connection.
pub struct Load {
    connection: Resp,
    prefix: String,
    pipeline: usize,
    duplicates: u32,
    counters: u32,
    ids: IdGenerator,
    random: u64,
    done: VecDeque<Operation>,
    counted: BenchCounts,
}

impl Load {
    pub fn new(bench: &Bench, prefix: &str, worker: u32) -> Result<Self> {
        let mut seed = [0; 8];
        id::fill_random(&mut seed)?;
        Ok(Self {
            connection: Resp::connect(&bench.server)?,
            prefix: prefix.to_owned(),
            pipeline: bench.pipeline as usize,
            duplicates: bench.duplicates,
            counters: bench.counters,
            ids: IdGenerator::default(),
            random: u64::from_be_bytes(seed) ^ u64::from(worker),
            done: VecDeque::new(),
            counted: BenchCounts::default(),
        })
    }

    /// Sends pipelines until the deadline.
    pub fn run(mut self, deadline: Instant) -> Result<BenchCounts> {
        loop {
            self.send_pipeline()?;
            if Instant::now() >= deadline {
                return Ok(self.counted);
            }
        }
    }

    fn send_pipeline(&mut self) -> Result<()> {
        let operations: Vec<Operation> = (0..self.pipeline).map(|_| self.next()).collect::<Result<_>>()?;
        let mut bytes = Vec::new();
        for operation in &operations {
            let key = format!("{}{}", self.prefix, operation.counter);
            command(&mut bytes, &[b"JADD", key.as_bytes(), b"1", b"ID", operation.id.as_bytes()]);
        }
        let started = Instant::now();
        self.connection.send(&bytes).map_err(|error| lost(&error))?;
        for operation in operations {
            let reply = self.connection.receive().map_err(|error| lost(&error))?;
            self.count(operation, &reply)?;
        }
        self.counted
            .latencies
            .saturating_record(u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX));
        Ok(())
    }

    fn count(&mut self, mut operation: Operation, reply: &Value) -> Result<()> {
        if is_busy(reply) {
            self.counted.busy += 1;
            return Ok(());
        }
        if let Value::Error(text) = reply {
            return Err(failure_of(&String::from_utf8_lossy(text)));
        }
        let result = AddResult::of(reply)?;
        let expected = if operation.again { "replayed" } else { "applied" };
        if result.status != expected {
            let reason =
                anyhow!("the status of id {} is {}, expected was {expected}", operation.id, result.status);
            return Err(CliError::of(
                reason,
                "the server returned a wrong status",
                "report this with the log of the server",
            ));
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

    fn next(&mut self) -> Result<Operation> {
        let random = self.random();
        if !self.done.is_empty() && random % 100 < u64::from(self.duplicates) {
            self.counted.sent_again += 1;
            let at = (random >> 32) as usize % self.done.len();
            return Ok(self.done[at].clone());
        }
        let random = u128::from(self.random()) << 64 | u128::from(self.random());
        let counter = (self.random() % u64::from(self.counters)) as u32;
        Ok(Operation { counter, id: id::next(&mut self.ids, random)?, again: false })
    }

    /// xorshift*: ids only need to differ, and a system call per id would be part of the measurement.
    fn random(&mut self) -> u64 {
        let mut state = self.random.max(1);
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random = state;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
