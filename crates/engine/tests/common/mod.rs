//! What the tests of the engine share.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::Path;

use jeton_core::{Cell, Change, OpId, Operation};
use jeton_engine::{Engine, Options};

/// An engine small enough that a test reaches its limits.
pub fn open(folder: &Path) -> Engine {
    Engine::open(folder, small()).unwrap()
}

/// Options with which a test reaches every limit.
pub fn small() -> Options {
    Options { segment_bytes: 1 << 20, log_bytes: 1 << 18, recent_ids: 512, ..Options::default() }
}

/// A UUID of version 7 of now, told apart by a number.
pub fn uuid(engine: &Engine, number: u64) -> OpId {
    uuid_at(engine.now().as_nanos() / 1_000_000, number)
}

/// A UUID of version 7 of a time, told apart by a number.
pub fn uuid_at(millis: u64, number: u64) -> OpId {
    let bits = u128::from(millis) << 80 | 7 << 76 | 0b10 << 62 | u128::from(number);
    OpId::uuid7(bits).unwrap()
}

/// An operation that adds.
pub fn add(id: &OpId, cell: &Cell, delta: i64) -> Operation {
    Operation::single(Some(id.clone()), cell.clone(), Change::Add(delta)).unwrap()
}
