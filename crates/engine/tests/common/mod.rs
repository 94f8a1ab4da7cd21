//! Helpers of the engine's tests.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it, and may panic")]

pub mod scenario;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_executor::block_on;
use jeton_core::{Cell, Change, Column, OpId, Operation, TableSettings, Value};
use jeton_engine::{Engine, EngineError, OperationOutcome, Options};
use tempfile::TempDir;

pub fn open(folder: &Path) -> Engine {
    Engine::open(folder, small()).unwrap()
}

/// A new store with a table `t`.
pub fn store(settings: TableSettings) -> (TempDir, Engine) {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    engine.create_table("t", settings).unwrap();
    (folder, engine)
}

/// Options with which a test reaches every limit.
pub fn small() -> Options {
    Options { segment_bytes: 1 << 20, log_bytes: 1 << 18, recent_ids: 512, ..Options::default() }
}

/// As [`small`], and with little memory for cells.
pub fn tiny(shards: usize) -> Options {
    Options { shards, dirty_bytes_max: 1 << 20, cache_bytes: 1 << 20, ..small() }
}

pub fn millis(engine: &Engine) -> u64 {
    engine.now().as_nanos() / 1_000_000
}

/// A UUIDv7 of now with this number.
pub fn uuid(engine: &Engine, number: u64) -> OpId {
    uuid_at(millis(engine), number)
}

/// A UUIDv7 of a time with this number.
pub fn uuid_at(millis: u64, number: u64) -> OpId {
    OpId::uuid7_from(millis, number.into())
}

/// A cell of the table `t`.
pub fn cell(engine: &Engine, row: &str) -> Cell {
    engine.cell(&engine.table("t").unwrap(), row.as_bytes(), &Column::unnamed()).unwrap()
}

/// The cells of rows `row-0`, `row-1`, ...
pub fn cells(engine: &Engine, rows: u64) -> Vec<Cell> {
    (0..rows).map(|row| cell(engine, &format!("row-{row}"))).collect()
}

/// The sum of counters.
pub fn total(engine: &Engine, cells: &[Cell]) -> u64 {
    let value = |cell: &Cell| match block_on(engine.get(cell.clone())).unwrap() {
        Some(Value::Counter(value)) => value,
        None => 0,
        other => panic!("{other:?}"),
    };
    cells.iter().map(value).sum::<i64>().cast_unsigned()
}

/// An operation that adds to a counter.
pub fn add(id: &OpId, cell: &Cell, delta: i64) -> Operation {
    Operation::single(Some(id.clone()), cell.clone(), Change::Add(delta)).unwrap()
}

/// Applies operations, many at a time, and retries while the engine is busy.
pub fn apply_all(engine: &Engine, operations: Vec<Operation>) -> Vec<OperationOutcome> {
    let mut outcomes = vec![None; operations.len()];
    let mut open: Vec<usize> = (0..operations.len()).collect();
    while !open.is_empty() {
        let rest = open.split_off(open.len().min(1_000));
        let responses: Vec<_> = open.iter().map(|at| engine.apply(operations[*at].clone())).collect();
        let mut again = Vec::new();
        for (at, response) in open.into_iter().zip(responses) {
            match block_on(response) {
                Ok(outcome) => outcomes[at] = Some(outcome),
                Err(EngineError::Busy(_)) => again.push(at),
                Err(error) => panic!("{error}"),
            }
        }
        open = again;
        open.extend(rest);
    }
    outcomes.into_iter().flatten().collect()
}

/// Sets a flag when dropped, so that a failure does not leave threads running and the test waiting for them.
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Makes backups in `folder` and checks them while a client adds 1 under ids of this time, each when the one
/// before is acknowledged: a backup of one instant contains the first n of them. Returns n at the end; `sent`
/// were sent before.
pub fn back_up_under_load(engine: &Engine, folder: &Path, millis: u64, cells: &[Cell], sent: u64) -> u64 {
    let add_one = |engine: &Engine, number: u64| {
        let cell = &cells[number as usize % cells.len()];
        apply_all(engine, vec![add(&uuid_at(millis, number), cell, 1)]).remove(0)
    };
    let (done, sent) = (AtomicBool::new(false), AtomicU64::new(sent));
    std::thread::scope(|scope| {
        let _done = SetOnDrop(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let outcome = add_one(engine, sent.load(Ordering::Relaxed));
                assert!(matches!(outcome, OperationOutcome::Fresh(_)), "{outcome:?}");
                sent.fetch_add(1, Ordering::Relaxed);
            }
        });
        for copy in 0..3 {
            let before = sent.load(Ordering::Relaxed);
            let target = folder.join(format!("copy-{copy}"));
            let report = engine.checkpoint(&target).unwrap();
            let after = sent.load(Ordering::Relaxed) + 1;
            assert!(report.files > 0 && report.entries > 0, "{report:?}");

            let restored = open(&target);
            let copied = total(&restored, cells);
            assert!((before..=after).contains(&copied), "{copied} is not between {before} and {after}");
            // The ids are of the same instant: the first `copied` are known, the next is new.
            for number in (0..copied).rev().step_by(97) {
                let again = add_one(&restored, number);
                assert!(matches!(again, OperationOutcome::Replayed(_)), "id {number} of {copied}: {again:?}");
            }
            let next = add_one(&restored, copied);
            assert!(matches!(next, OperationOutcome::Fresh(_)), "{next:?}");
            assert_eq!(total(&restored, cells), copied + 1);
            drop(restored);
            std::fs::remove_dir_all(&target).unwrap();
        }
    });
    sent.into_inner()
}
