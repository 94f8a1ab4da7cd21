//! The engine's API: counted once, results replayed, persistent across a restart.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::time::Duration;

use common::{add, apply_all, cell, cells, millis, open, small, store, uuid, uuid_at};
use futures_executor::block_on;
use jeton_core::{Format, Formats, IdStatus, OpId, Rejection, TableSettings, Value};
use jeton_engine::{Engine, EngineError, OperationOutcome, Options};

/// Ids of every format: retries and lookups, before and after a restart.
#[test]
fn results_of_every_format_survive_a_restart() {
    let formats = Format::ALL.into_iter().fold(Formats::NONE, Formats::and);
    let (folder, mut engine) = store(TableSettings { formats, ..TableSettings::default() });
    let (cell, millis) = (cell(&engine, "row"), millis(&engine));
    let ids = [
        uuid(&engine, 1),
        OpId::Ulid(u128::from(millis) << 80 | 99),
        OpId::sequenced("client", 3, 7).unwrap(),
        OpId::event("/meters/7", "reading-1", millis).unwrap(),
        OpId::opaque(b"order 66").unwrap(),
    ];
    let known = |engine: &Engine, id: &OpId| block_on(engine.operation(cell.clone(), id.clone())).unwrap();
    let first = |id: &OpId| {
        assert_eq!(known(&engine, id), IdStatus::No, "{id} was not sent yet");
        match block_on(engine.apply(add(id, &cell, 2))).unwrap() {
            OperationOutcome::Fresh(result) => result,
            other => panic!("{id}: {other:?}"),
        }
    };
    let results: Vec<_> = ids.iter().map(first).collect();
    for _ in 0..2 {
        for (id, first) in ids.iter().zip(&results) {
            assert_eq!(known(&engine, id), IdStatus::Yes(first.clone()), "{id}");
            let again = block_on(engine.apply(add(id, &cell, 2)));
            assert_eq!(again, Ok(OperationOutcome::Replayed(first.clone())), "{id}");
            let other = block_on(engine.apply(add(id, &cell, 3)));
            assert_eq!(other, Err(EngineError::Rejected(Rejection::Mismatch)), "{id}");
        }
        drop(engine);
        engine = open(folder.path());
    }
    assert_eq!(block_on(engine.get(cell.clone())), Ok(Some(Value::Counter(10))));
    assert_eq!(known(&engine, &uuid_at(millis - 3 * 24 * 3600 * 1000, 1)), IdStatus::Forgotten);
}

#[test]
fn tables_are_created_once_and_changed_online() {
    let (folder, mut engine) = store(TableSettings::default());
    let again = engine.create_table("t", TableSettings::default()).unwrap_err().to_string();
    assert!(again.contains("already"), "{again}");
    let wrong = TableSettings { dated_window: Duration::ZERO, ..TableSettings::default() };
    let error = engine.change_table("t", wrong).unwrap_err().to_string();
    assert!(error.contains("dated_window"), "{error}");
    assert!(engine.change_table("none", TableSettings::default()).is_err());

    let cell = cell(&engine, "row");
    let id = uuid(&engine, 1);
    block_on(engine.apply(add(&id, &cell, 1))).unwrap();
    let longer = TableSettings { dated_window: Duration::from_secs(48 * 3600), ..TableSettings::default() };
    engine.change_table("t", longer.clone()).unwrap();
    // An id that the shorter window may have accepted and dropped is rejected now.
    let old = uuid_at(millis(&engine) - 30 * 3_600_000, 5);
    for _ in 0..2 {
        assert_eq!(engine.table("t").unwrap().settings(), &longer);
        let again = block_on(engine.apply(add(&id, &cell, 1)));
        assert!(matches!(again, Ok(OperationOutcome::Replayed(_))), "{again:?}");
        let late = block_on(engine.apply(add(&old, &cell, 1)));
        assert!(matches!(late, Err(EngineError::Rejected(Rejection::Expired { .. }))), "{late:?}");
        drop(engine);
        engine = open(folder.path());
    }
}

/// A cache of a megabyte, and many times as many counters.
#[test]
fn more_counters_than_memory() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options { cache_bytes: 1 << 20, dirty_bytes_max: 2 << 20, ..small() };
    let engine = Engine::open(folder.path(), options()).unwrap();
    engine.create_table("t", TableSettings::default()).unwrap();
    let cells = cells(&engine, 60_000);
    for round in 1..=2 {
        let add_one = |n: usize| add(&uuid(&engine, round << 32 | n as u64), &cells[n], n as i64);
        apply_all(&engine, (0..cells.len()).map(add_one).collect());
    }
    let check = |engine: &Engine, step| {
        for n in (0..cells.len()).step_by(step) {
            let expected = Some(Value::Counter(2 * n as i64));
            assert_eq!(block_on(engine.get(cells[n].clone())), Ok(expected), "counter {n}");
        }
    };
    check(&engine, 101);
    drop(engine);
    check(&Engine::open(folder.path(), options()).unwrap(), 103);
}

#[test]
fn requests_after_close_are_refused() {
    let (_folder, engine) = store(TableSettings::default());
    let cell = cell(&engine, "row");
    engine.close();
    assert_eq!(block_on(engine.get(cell.clone())), Err(EngineError::Closed));
    assert_eq!(block_on(engine.apply(add(&uuid(&engine, 1), &cell, 1))), Err(EngineError::Closed));
}
