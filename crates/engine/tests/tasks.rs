//! Shards as tasks on the runtime of their callers.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::{add, millis, small, total, uuid_at};
use futures_executor::block_on;
use jeton_core::{Cell, Column, Table, TableSettings};
use jeton_engine::{Ask, Engine, EngineError, OperationOutcome, Options, Response};
use tokio::runtime::{Builder, Runtime};

const CALLERS: u64 = 8;
const BATCHES: u64 = 40;
const ADDITIONS: u64 = 25;
const ROWS: u64 = 7;

fn runtime(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).build().unwrap()
}

fn cell(engine: &Engine, table: &Table, row: u64) -> Cell {
    engine.cell(table, format!("row {row}").as_bytes(), &Column::unnamed()).unwrap()
}

#[test]
fn shards_as_tasks_count_once_and_persist() {
    let folder = tempfile::tempdir().unwrap();
    for shards in [1, 3] {
        let runtime = runtime(2);
        let options =
            Options { shards, runtime: Some(runtime.handle().clone()), recent_ids: 1 << 16, ..small() };
        let engine = Arc::new(Engine::open(folder.path(), options).unwrap());
        let table = engine.create_table(&format!("t{shards}"), TableSettings::default()).unwrap();
        let millis = millis(&engine);
        let caller = |caller: u64| {
            let (engine, table) = (engine.clone(), table.clone());
            runtime.spawn(async move {
                for batch in 0..BATCHES {
                    // Each batch repeats all ids of the one before.
                    let numbers = batch.saturating_sub(1) * ADDITIONS..(batch + 1) * ADDITIONS;
                    let requests = numbers.clone().map(|number| {
                        let id = uuid_at(millis, caller << 32 | number);
                        Ask::Apply(add(&id, &cell(&engine, &table, number % ROWS), 1))
                    });
                    let responses = engine.submit_batch(requests.collect()).await;
                    for (number, response) in numbers.zip(responses) {
                        let known = batch > 0 && number < batch * ADDITIONS;
                        match response {
                            Response::Applied(Ok(OperationOutcome::Fresh(_))) if !known => {}
                            Response::Applied(Ok(OperationOutcome::Replayed(_))) if known => {}
                            other => panic!("{number}, known: {known}: {other:?}"),
                        }
                    }
                }
            })
        };
        let callers: Vec<_> = (0..CALLERS).map(caller).collect();
        for caller in callers {
            block_on(caller).unwrap();
        }
        engine.close();
        assert_eq!(block_on(engine.get(cell(&engine, &table, 1))), Err(EngineError::Closed));
    }
    // With threads again: the store is the same.
    let engine = Engine::open(folder.path(), small()).unwrap();
    for name in ["t1", "t3"] {
        let table = engine.table(name).unwrap();
        let cells: Vec<Cell> = (0..ROWS).map(|row| cell(&engine, &table, row)).collect();
        assert_eq!(total(&engine, &cells), CALLERS * BATCHES * ADDITIONS, "{name}");
    }
}

/// If the runtime is dropped first, the shards are gone: the engine reports it and can be closed.
#[test]
fn an_engine_without_its_runtime_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(1);
    let options = Options { shards: 1, runtime: Some(runtime.handle().clone()), ..small() };
    let engine = Engine::open(folder.path(), options).unwrap();
    engine.create_table("t", TableSettings::default()).unwrap();
    let cell = common::cell(&engine, "row");
    assert_eq!(block_on(engine.get(cell.clone())), Ok(None));
    drop(runtime);
    assert_eq!(block_on(engine.get(cell)), Err(EngineError::Closed));
    engine.close();
}
