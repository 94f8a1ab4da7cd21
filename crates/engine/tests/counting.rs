//! The engine's API: counted once, results replayed, persistent across a restart.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::time::Duration;

use common::{add, apply_all, open, small, uuid, uuid_at};
use futures_executor::block_on;
use jeton_core::{Column, Format, Formats, OpId, Rejection, TableSettings, Value};
use jeton_engine::{Engine, EngineError, OperationOutcome, Options};

#[test]
fn an_id_counts_once_and_replays_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let table = engine.create_table("clicks", TableSettings::default()).unwrap();
    let cell = engine.cell(&table, b"home", &Column::unnamed()).unwrap();
    let id = uuid(&engine, 1);

    let first = block_on(engine.apply(add(&id, &cell, 5))).unwrap();
    let OperationOutcome::Fresh(answer) = first else { panic!("{first:?}") };
    assert_eq!(answer.values.as_slice(), [Some(5)]);
    block_on(engine.apply(add(&uuid(&engine, 2), &cell, 1))).unwrap();
    assert_eq!(block_on(engine.apply(add(&id, &cell, 5))), Ok(OperationOutcome::Replayed(answer.clone())));
    assert_eq!(block_on(engine.get(cell.clone())), Ok(Some(Value::Counter(6))));
    drop(engine);

    let engine = open(folder.path());
    assert_eq!(block_on(engine.get(cell.clone())), Ok(Some(Value::Counter(6))));
    assert_eq!(block_on(engine.apply(add(&id, &cell, 5))), Ok(OperationOutcome::Replayed(answer)));
}

/// Ids of every format, retried after a restart.
#[test]
fn results_of_every_format_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let formats = Format::ALL.into_iter().fold(Formats::NONE, Formats::and);
    let table = engine.create_table("t", TableSettings { formats, ..TableSettings::default() }).unwrap();
    let cell = engine.cell(&table, b"row", &Column::parse(b"usage:bytes").unwrap()).unwrap();
    let millis = engine.now().as_nanos() / 1_000_000;
    let ids = [
        uuid(&engine, 1),
        OpId::Ulid(u128::from(millis) << 80 | 99),
        OpId::sequenced("client", 3, 7).unwrap(),
        OpId::event("/meters/7", "reading-1", millis).unwrap(),
        OpId::opaque(b"order 66").unwrap(),
    ];
    let answers: Vec<_> = ids.iter().map(|id| block_on(engine.apply(add(id, &cell, 2))).unwrap()).collect();
    drop(engine);
    let engine = open(folder.path());
    for (id, first) in ids.iter().zip(answers) {
        let OperationOutcome::Fresh(first) = first else { panic!("{id}: {first:?}") };
        assert_eq!(block_on(engine.apply(add(id, &cell, 2))), Ok(OperationOutcome::Replayed(first)), "{id}");
        let other = block_on(engine.apply(add(id, &cell, 3)));
        assert_eq!(other, Err(EngineError::Rejected(Rejection::Mismatch)), "{id}");
    }
    assert_eq!(block_on(engine.get(cell)), Ok(Some(Value::Counter(10))));
}

#[test]
fn tables_are_created_once_and_changed_online() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let table = engine.create_table("t", TableSettings::default()).unwrap();
    let again = engine.create_table("t", TableSettings::default()).unwrap_err().to_string();
    assert!(again.contains("already"), "{again}");
    let wrong = TableSettings { dated_window: Duration::ZERO, ..TableSettings::default() };
    let error = engine.change_table("t", wrong).unwrap_err().to_string();
    assert!(error.contains("dated_window"), "{error}");
    assert!(engine.change_table("none", TableSettings::default()).is_err());

    let cell = engine.cell(&table, b"row", &Column::unnamed()).unwrap();
    let id = uuid(&engine, 1);
    block_on(engine.apply(add(&id, &cell, 1))).unwrap();
    let longer = TableSettings { dated_window: Duration::from_secs(48 * 3600), ..TableSettings::default() };
    engine.change_table("t", longer.clone()).unwrap();
    let again = block_on(engine.apply(add(&id, &cell, 1)));
    assert!(matches!(again, Ok(OperationOutcome::Replayed(_))), "{again:?}");
    // An id that the shorter window may have accepted and dropped is rejected now.
    let old = uuid_at(engine.now().as_nanos() / 1_000_000 - 30 * 3_600_000, 5);
    let late = block_on(engine.apply(add(&old, &cell, 1)));
    assert!(matches!(late, Err(EngineError::Rejected(Rejection::Expired { .. }))), "{late:?}");
    drop(engine);

    let engine = open(folder.path());
    assert_eq!(engine.table("t").unwrap().settings(), &longer);
    let again = block_on(engine.apply(add(&id, &cell, 1)));
    assert!(matches!(again, Ok(OperationOutcome::Replayed(_))), "{again:?}");
    let late = block_on(engine.apply(add(&old, &cell, 1)));
    assert!(matches!(late, Err(EngineError::Rejected(Rejection::Expired { .. }))), "{late:?}");
}

/// A cache of a megabyte, and many times as many counters.
#[test]
fn more_counters_than_memory() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options { cache_bytes: 1 << 20, dirty_bytes_max: 2 << 20, ..small() };
    let engine = Engine::open(folder.path(), options()).unwrap();
    let table = engine.create_table("t", TableSettings::default()).unwrap();
    let row = |n: u64| engine.cell(&table, format!("counter-{n}").as_bytes(), &Column::unnamed()).unwrap();
    let cells: Vec<_> = (0..60_000).map(row).collect();
    let some = |round: u64| {
        let add_one = |n: usize| add(&uuid(&engine, round << 32 | n as u64), &cells[n], n as i64);
        (0..cells.len()).map(add_one).collect()
    };
    apply_all(&engine, some(1));
    apply_all(&engine, some(2));
    for n in (0..cells.len()).step_by(101) {
        let expected = Some(Value::Counter(2 * n as i64));
        assert_eq!(block_on(engine.get(cells[n].clone())), Ok(expected), "counter {n}");
    }
    drop(engine);
    let engine = Engine::open(folder.path(), options()).unwrap();
    for n in (0..cells.len()).step_by(103) {
        let expected = Some(Value::Counter(2 * n as i64));
        assert_eq!(block_on(engine.get(cells[n].clone())), Ok(expected), "counter {n}");
    }
}

#[test]
fn requests_after_close_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let table = engine.create_table("t", TableSettings::default()).unwrap();
    let cell = engine.cell(&table, b"row", &Column::unnamed()).unwrap();
    engine.close();
    assert_eq!(block_on(engine.get(cell.clone())), Err(EngineError::Closed));
    assert_eq!(block_on(engine.apply(add(&uuid(&engine, 1), &cell, 1))), Err(EngineError::Closed));
}
