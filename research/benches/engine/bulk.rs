//! Many operations from one thread, a few thousand in flight at a time.

use std::collections::VecDeque;
use std::pin::Pin;

use futures_executor::block_on;
use jeton_core::{Change, Operation};
use jeton_engine::{EngineError, OperationOutcome};

use crate::callers::scatter;
use crate::jeton::{Ours, uuid7};

const IN_FLIGHT_MAX: usize = 4096;

#[derive(Debug, Default, Clone, Copy)]
pub struct Outcome {
    pub probably_seen: u64,
}

/// Adds under new ids that are dated evenly over the last 23 hours, as a table with a window of a day
/// remembers them.
pub fn day_of_ids(ours: &Ours, ids: u64, counters: u64) -> Outcome {
    let now = ours.engine.now().as_nanos() / 1_000_000;
    let begin = now - 23 * 3_600_000;
    run(ours, ids, |number| {
        let dated = begin + (u128::from(number) * 23 * 3_600_000 / u128::from(ids)) as u64;
        let cell = ours.cells[(scatter(number) % counters) as usize].clone();
        Operation::single(Some(uuid7(dated, number)), cell, Change::Add(1)).expect("an operation")
    })
}

/// Adds to each counter, without ids.
pub fn each_counter(ours: &Ours) {
    run(ours, ours.cells.len() as u64, |number| {
        Operation::single(None, ours.cells[number as usize].clone(), Change::Add(1)).expect("an operation")
    });
}

/// Applies operations, and retries while the engine is busy.
pub fn run(ours: &Ours, count: u64, operation: impl Fn(u64) -> Operation) -> Outcome {
    type Response = Pin<Box<dyn Future<Output = Result<OperationOutcome, EngineError>> + Send>>;
    let mut in_flight: VecDeque<(u64, Response)> = VecDeque::new();
    let mut outcome = Outcome::default();
    let mut next = 0;
    while next < count || !in_flight.is_empty() {
        if next < count && in_flight.len() < IN_FLIGHT_MAX {
            in_flight.push_back((next, Box::pin(ours.engine.apply(operation(next)))));
            next += 1;
            continue;
        }
        let Some((number, response)) = in_flight.pop_front() else { break };
        match block_on(response) {
            Ok(OperationOutcome::Fresh(_)) => {}
            Ok(OperationOutcome::ProbablySeen) => outcome.probably_seen += 1,
            Ok(OperationOutcome::Replayed(_)) => panic!("a new id is not known"),
            Err(EngineError::Busy(_)) => {
                std::thread::sleep(std::time::Duration::from_millis(1));
                in_flight.push_back((number, Box::pin(ours.engine.apply(operation(number)))));
            }
            Err(refusal) => panic!("{refusal}"),
        }
    }
    outcome
}
