//! Shards as tasks on the runtime of their callers.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::{add, small, uuid_at};
use futures_executor::block_on;
use jeton_core::{Column, TableSettings, Value};
use jeton_engine::{Ask, Engine, EngineError, OperationOutcome, Options, Response};

const CALLERS: u64 = 8;
const BURSTS: u64 = 40;
const ADDITIONS: u64 = 25;

#[test]
fn shards_as_tasks_count_once_and_persist() {
    let folder = tempfile::tempdir().unwrap();
    for shards in [1, 3] {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let options =
            Options { shards, runtime: Some(runtime.handle().clone()), recent_ids: 1 << 16, ..small() };
        let engine = Arc::new(Engine::open(folder.path(), options).unwrap());
        let name = format!("t{shards}");
        let table = engine.create_table(&name, TableSettings::default()).unwrap();
        let millis = engine.now().as_nanos() / 1_000_000;
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (engine, table) = (engine.clone(), table.clone());
                runtime.spawn(async move {
                    for burst in 0..BURSTS {
                        // Each batch repeats all ids of the one before.
                        let numbers = burst.saturating_sub(1) * ADDITIONS..(burst + 1) * ADDITIONS;
                        let asks = numbers.clone().map(|number| {
                            let row = format!("row {}", number % 7);
                            let cell = engine.cell(&table, row.as_bytes(), &Column::unnamed()).unwrap();
                            Ask::Apply(add(&uuid_at(millis, caller << 32 | number), &cell, 1))
                        });
                        let responses = engine.submit_batch(asks.collect()).await;
                        for (number, response) in numbers.zip(responses) {
                            let known = burst > 0 && number < burst * ADDITIONS;
                            match response {
                                Response::Applied(Ok(OperationOutcome::Fresh(_))) => {
                                    assert!(!known, "{number} again")
                                }
                                Response::Applied(Ok(OperationOutcome::Replayed(_))) => {
                                    assert!(known, "{number} is new")
                                }
                                other => panic!("{other:?}"),
                            }
                        }
                    }
                })
            })
            .collect();
        for caller in callers {
            block_on(caller).unwrap();
        }
        engine.close();
        let cell = engine.cell(&table, b"row 1", &Column::unnamed()).unwrap();
        assert_eq!(block_on(engine.get(cell)), Err(EngineError::Closed));
    }
    // With threads again: the store is the same.
    let engine = Engine::open(folder.path(), small()).unwrap();
    for name in ["t1", "t3"] {
        let table = engine.table(name).unwrap();
        let mut sum = 0;
        for row in 0..7 {
            let cell = engine.cell(&table, format!("row {row}").as_bytes(), &Column::unnamed()).unwrap();
            match block_on(engine.get(cell)) {
                Ok(Some(Value::Counter(value))) => sum += value,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(sum.cast_unsigned(), CALLERS * BURSTS * ADDITIONS, "{name}");
    }
}

/// If the runtime is dropped first, the shards are gone: the engine reports it and can be closed.
#[test]
fn an_engine_without_its_runtime_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let options = Options { shards: 1, runtime: Some(runtime.handle().clone()), ..small() };
    let engine = Engine::open(folder.path(), options).unwrap();
    let table = engine.create_table("t", TableSettings::default()).unwrap();
    let cell = engine.cell(&table, b"row", &Column::unnamed()).unwrap();
    assert_eq!(block_on(engine.get(cell.clone())), Ok(None));
    drop(runtime);
    assert_eq!(block_on(engine.get(cell)), Err(EngineError::Closed));
    engine.close();
}
