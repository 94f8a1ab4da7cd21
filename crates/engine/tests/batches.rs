//! Batches of requests, id lookups, cell listings, expiring values.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{add, cell, millis, small, store, uuid};
use futures_executor::block_on;
use jeton_core::{Cell, Change, Column, IdStatus, MissingIdPolicy, Mode, Operation, TableSettings, Value};
use jeton_engine::{Ask, Engine, EngineError, OperationOutcome, Options, Response};

fn value(response: &Response) -> i64 {
    match response {
        Response::Applied(Ok(OperationOutcome::Fresh(result))) => result.values.as_slice()[0].unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Settings with which operations need no id.
fn without_ids() -> TableSettings {
    TableSettings { without_id: MissingIdPolicy::AtMostOnce, ..TableSettings::default() }
}

#[test]
fn batch_responses_keep_their_order() {
    for shards in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::open(folder.path(), Options { shards, recent_ids: 1 << 16, ..small() }).unwrap();
        engine.create_table("t", TableSettings::default()).unwrap();
        let cell = |row: usize| cell(&engine, &format!("row {row}"));
        let mut number = 0;
        let mut expected = BTreeMap::<usize, i64>::new();
        for count in [1, 2, 50, 9_000] {
            let requests = (0..count).map(|at| {
                number += 1;
                Ask::Apply(add(&uuid(&engine, number), &cell(at % 7), 1))
            });
            let responses = block_on(engine.submit_batch(requests.collect()));
            assert_eq!(responses.len(), count);
            for (at, response) in responses.iter().enumerate() {
                let counter = expected.entry(at % 7).or_default();
                *counter += 1;
                assert_eq!(value(response), *counter, "{at} of {count}, {shards} shards");
            }
        }
        let reads = (0..7).map(|row| Ask::Read(cell(row))).collect();
        for (row, response) in block_on(engine.submit_batch(reads)).iter().enumerate() {
            assert_eq!(*response, Response::Read(Ok(Some(Value::Counter(expected[&row])))));
        }
        assert_eq!(block_on(engine.submit_batch(Vec::new())), []);
        let read = vec![Ask::Read(cell(1))];
        engine.close();
        assert_eq!(block_on(engine.submit_batch(read)), [Response::Applied(Err(EngineError::Closed))]);
    }
}

#[test]
fn a_batch_counts_an_id_once() {
    let (_folder, engine) = store(TableSettings::default());
    let (id, a) = (uuid(&engine, 1), cell(&engine, "a"));
    let requests = vec![
        Ask::Apply(add(&id, &a, 5)),
        Ask::Apply(add(&id, &a, 5)),
        Ask::Apply(add(&id, &a, 6)),
        Ask::Read(a.clone()),
    ];
    let responses = block_on(engine.submit_batch(requests));
    let Response::Applied(Ok(OperationOutcome::Fresh(first))) = &responses[0] else {
        panic!("{responses:?}")
    };
    assert_eq!(responses[1], Response::Applied(Ok(OperationOutcome::Replayed(first.clone()))));
    assert!(matches!(&responses[2], Response::Applied(Err(EngineError::Rejected(_)))), "{responses:?}");
    assert_eq!(responses[3], Response::Read(Ok(Some(Value::Counter(5)))));
}

#[test]
fn a_probabilistic_lookup_returns_probably() {
    let mode = Mode::Probabilistic { target: 1e-3 };
    let (_folder, engine) = store(TableSettings { mode, ..TableSettings::default() });
    let (id, cell) = (uuid(&engine, 1), cell(&engine, "a"));
    block_on(engine.apply(add(&id, &cell, 1))).unwrap();
    assert_eq!(block_on(engine.operation(cell, id)), Ok(IdStatus::Probably));
}

#[test]
fn prefix_scan_lists_each_cell_once() {
    let (_folder, engine) = store(without_ids());
    let other = engine.create_table("other", TableSettings::default()).unwrap();
    let other = engine.cell(&other, b"user/1", &Column::unnamed()).unwrap();
    block_on(engine.apply(add(&uuid(&engine, 1), &other, 1))).unwrap();
    let rows: Vec<String> = (0..700).map(|number| format!("user/{number}")).collect();
    let set = |row: &str, change| Ask::Apply(Operation::single(None, cell(&engine, row), change).unwrap());
    let all = rows.iter().map(String::as_str).chain(["user\0/7", "usex"]);
    block_on(engine.submit_batch(all.map(|row| set(row, Change::Set(1))).collect()));
    block_on(engine.stored()).unwrap();
    let table = engine.table("t").unwrap();
    let list = |prefix: &str, limit| {
        let (mut found, mut pages, mut after): (Vec<Cell>, _, Option<Cell>) = (Vec::new(), 0, None);
        loop {
            let page = engine.list(&table, prefix.as_bytes(), after.as_ref(), limit).unwrap();
            assert!(page.len() <= limit);
            pages += 1;
            after = page.last().cloned();
            found.extend(page);
            if after.is_none() {
                break;
            }
        }
        let names: BTreeSet<String> =
            found.iter().map(|cell| String::from_utf8(cell.row_and_column().0).unwrap()).collect();
        assert_eq!(names.len(), found.len(), "a cell is listed twice");
        (names, pages)
    };
    let expected: BTreeSet<String> = rows.iter().cloned().collect();
    assert_eq!(list("user/", 64), (expected.clone(), 12));
    assert_eq!(list("user/", 1_000).0, expected);
    assert_eq!(list("user\0", 10).0.len(), 1);
    assert_eq!(list("", 300).0.len(), 702);
    assert_eq!(list("absent", 10), (BTreeSet::new(), 1));
    // A deleted cell is not listed once the deletion is stored.
    block_on(engine.submit_batch(rows[10..].iter().map(|row| set(row, Change::Delete)).collect()));
    block_on(engine.stored()).unwrap();
    assert_eq!(list("user/", 64).0.len(), 10);
}

#[test]
fn expired_values_are_not_read() {
    let (_folder, engine) = store(without_ids());
    let until = millis(&engine) + 300;
    let cell = cell(&engine, "a");
    let changes = vec![(cell.clone(), Change::Set(7)), (cell.clone(), Change::Expire(Some(until)))];
    block_on(engine.apply(Operation::batch(None, changes).unwrap())).unwrap();
    let read = || block_on(engine.get(cell.clone())).unwrap();
    let value = read();
    assert!(value == Some(Value::Counter(7).lasting(Some(until))) || millis(&engine) >= until);
    while read().is_some() {
        assert!(millis(&engine) < until + 60_000, "it never expires");
    }
    assert!(millis(&engine) >= until);
}
