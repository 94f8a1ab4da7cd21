//! Helpers of the engine's tests.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod scenario;

use std::path::Path;

use futures_executor::block_on;
use jeton_core::{Cell, Change, OpId, Operation};
use jeton_engine::{Engine, EngineError, OperationOutcome, Options};

/// An engine with small limits.
pub fn open(folder: &Path) -> Engine {
    Engine::open(folder, small()).unwrap()
}

/// Options with which a test reaches every limit.
pub fn small() -> Options {
    Options { segment_bytes: 1 << 20, log_bytes: 1 << 18, recent_ids: 512, ..Options::default() }
}

/// A UUIDv7 of now with this number.
pub fn uuid(engine: &Engine, number: u64) -> OpId {
    uuid_at(engine.now().as_nanos() / 1_000_000, number)
}

/// A UUIDv7 of a time with this number.
pub fn uuid_at(millis: u64, number: u64) -> OpId {
    OpId::uuid7_from(millis, number.into())
}

/// An operation that adds to a counter.
pub fn add(id: &OpId, cell: &Cell, delta: i64) -> Operation {
    Operation::single(Some(id.clone()), cell.clone(), Change::Add(delta)).unwrap()
}

/// Applies operations, many at a time, and retries while the engine is busy.
pub fn apply_all(engine: &Engine, operations: Vec<Operation>) -> Vec<OperationOutcome> {
    let mut replies = vec![None; operations.len()];
    let mut open: Vec<usize> = (0..operations.len()).collect();
    while !open.is_empty() {
        let rest = open.split_off(open.len().min(1_000));
        let answers: Vec<_> = open.iter().map(|at| engine.apply(operations[*at].clone())).collect();
        let mut again = Vec::new();
        for (at, answer) in open.into_iter().zip(answers) {
            match block_on(answer) {
                Ok(reply) => replies[at] = Some(reply),
                Err(EngineError::Busy(_)) => again.push(at),
                Err(refusal) => panic!("{refusal}"),
            }
        }
        open = again;
        open.extend(rest);
    }
    replies.into_iter().flatten().collect()
}
