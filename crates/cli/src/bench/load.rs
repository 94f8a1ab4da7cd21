//! One connection of the load.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::{Result, anyhow};
use jeton_resp::command;
use jeton_resp::reply_parser::Value;

use super::{Bench, ByCounter, Latencies, is_busy};
use crate::cli_error::CliError;
use crate::id;
use crate::server_client::{AddResult, Resp, failure_of, lost};

/// Acknowledged ids that are kept to be sent again.
const REMEMBERED: usize = 4096;

/// What one connection, or all of them, have done.
#[derive(Default)]
pub struct BenchCounts {
    pub applied: u64,
    pub replayed: u64,
    pub busy: u64,
    /// Ids that were acknowledged and sent again.
    pub sent_again: u64,
    pub latencies: Latencies,
    pub by_counter: ByCounter,
}

impl BenchCounts {
    /// Takes in what another has done.
    pub fn add(&mut self, other: Self) {
        self.applied += other.applied;
        self.replayed += other.replayed;
        self.busy += other.busy;
        self.sent_again += other.sent_again;
        self.latencies.merge(&other.latencies);
        for (counter, expected) in other.by_counter {
            *self.by_counter.entry(counter).or_default() += expected;
        }
    }

    pub fn answered(&self) -> u64 {
        self.applied + self.replayed
    }
}

/// An operation: a counter and an id.
#[derive(Clone)]
struct Operation {
    counter: u32,
    id: String,
    /// Whether it was acknowledged before.
    again: bool,
}

/// One connection.
pub struct Load {
    connection: Resp,
    prefix: String,
    pipeline: usize,
    duplicates: u32,
    counters: u32,
    chance: u64,
    done: VecDeque<Operation>,
    counted: BenchCounts,
}

impl Load {
    pub fn new(bench: &Bench, prefix: &str, worker: u32) -> Result<Self> {
        let mut seed = [0; 8];
        id::chance(&mut seed)?;
        Ok(Self {
            connection: Resp::connect(&bench.server)?,
            prefix: prefix.to_owned(),
            pipeline: bench.pipeline as usize,
            duplicates: bench.duplicates,
            counters: bench.counters,
            chance: u64::from_be_bytes(seed) ^ u64::from(worker),
            done: VecDeque::new(),
            counted: BenchCounts::default(),
        })
    }

    /// Sends and waits, until the time is over.
    pub fn run(mut self, deadline: Instant) -> Result<BenchCounts> {
        loop {
            self.round()?;
            if Instant::now() >= deadline {
                return Ok(self.counted);
            }
        }
    }

    fn round(&mut self) -> Result<()> {
        let operations: Vec<Operation> = (0..self.pipeline).map(|_| self.next()).collect::<Result<_>>()?;
        let mut bytes = Vec::new();
        for operation in &operations {
            let key = format!("{}{}", self.prefix, operation.counter);
            command(&mut bytes, &[b"JADD", key.as_bytes(), b"1", b"ID", operation.id.as_bytes()]);
        }
        let began = Instant::now();
        self.connection.send(&bytes).map_err(|why| lost(&why))?;
        for operation in operations {
            let answer = self.connection.receive().map_err(|why| lost(&why))?;
            self.count(operation, &answer)?;
        }
        self.counted.latencies.add(began.elapsed());
        Ok(())
    }

    fn count(&mut self, mut operation: Operation, answer: &Value) -> Result<()> {
        if is_busy(answer) {
            self.counted.busy += 1;
            return Ok(());
        }
        if let Value::Error(text) = answer {
            return Err(failure_of(&String::from_utf8_lossy(text)));
        }
        let answered = AddResult::of(answer)?;
        let expected = if operation.again { "replayed" } else { "applied" };
        if answered.status != expected {
            let why = anyhow!("the id {} is {}, and should be {expected}", operation.id, answered.status);
            return Err(CliError::of(
                why,
                "the server took an id for another",
                "report it, with the log of the server",
            ));
        }
        if operation.again {
            self.counted.replayed += 1;
            return Ok(());
        }
        self.counted.applied += 1;
        *self.counted.by_counter.entry(operation.counter).or_default() += 1;
        operation.again = true;
        if self.done.len() == REMEMBERED {
            self.done.pop_front();
        }
        self.done.push_back(operation);
        Ok(())
    }

    fn next(&mut self) -> Result<Operation> {
        let chance = self.random();
        if !self.done.is_empty() && chance % 100 < u64::from(self.duplicates) {
            self.counted.sent_again += 1;
            let at = (chance >> 32) as usize % self.done.len();
            return Ok(self.done[at].clone());
        }
        let random = u128::from(self.random()) << 64 | u128::from(self.random());
        let counter = (self.random() % u64::from(self.counters)) as u32;
        Ok(Operation { counter, id: id::uuid7_of(id::millis(), random)?, again: false })
    }

    /// xorshift*: the ids only have to differ, and asking the system for each would be measured too.
    fn random(&mut self) -> u64 {
        let mut state = self.chance.max(1);
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.chance = state;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
