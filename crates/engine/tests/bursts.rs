//! Batches of requests, id lookups, cell listings, expiring values.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{add, open, small, uuid};
use futures_executor::block_on;
use jeton_core::{
    Cell, Change, Column, Format, Formats, IdStatus, MissingIdPolicy, Mode, OpId, Operation, TableSettings,
    Value,
};
use jeton_engine::{Ask, Engine, EngineError, OperationOutcome, Options, Response};

fn table(engine: &Engine, settings: TableSettings) -> impl Fn(&str) -> Cell {
    let table = engine.create_table("t", settings).unwrap();
    move |row| engine.cell(&table, row.as_bytes(), &Column::unnamed()).unwrap()
}

fn value(response: &Response) -> i64 {
    match response {
        Response::Applied(Ok(OperationOutcome::Fresh(answer))) => answer.values.as_slice()[0].unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn batch_responses_keep_their_order() {
    for shards in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::open(folder.path(), Options { shards, recent_ids: 1 << 16, ..small() }).unwrap();
        let cell = table(&engine, TableSettings::default());
        let mut number = 0;
        let mut expected = BTreeMap::<usize, i64>::new();
        for count in [1, 2, 50, 9_000] {
            let asks = (0..count).map(|at| {
                number += 1;
                Ask::Apply(add(&uuid(&engine, number), &cell(&format!("row {}", at % 7)), 1))
            });
            let responses = block_on(engine.submit_batch(asks.collect()));
            assert_eq!(responses.len(), count);
            for (at, response) in responses.iter().enumerate() {
                let counter = expected.entry(at % 7).or_default();
                *counter += 1;
                assert_eq!(value(response), *counter, "{at} of {count}, {shards} shards");
            }
        }
        let reads = (0..7).map(|row| Ask::Read(cell(&format!("row {row}")))).collect();
        for (row, response) in block_on(engine.submit_batch(reads)).iter().enumerate() {
            assert_eq!(*response, Response::Read(Ok(Some(Value::Counter(expected[&row])))));
        }
        assert_eq!(block_on(engine.submit_batch(Vec::new())), []);
        engine.close();
        let closed = block_on(engine.submit_batch(vec![Ask::Read(cell("row 1"))]));
        assert_eq!(closed, [Response::Applied(Err(EngineError::Closed))]);
    }
}

#[test]
fn a_batch_counts_an_id_once() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let cell = table(&engine, TableSettings::default());
    let (id, a) = (uuid(&engine, 1), cell("a"));
    let asks = vec![
        Ask::Apply(add(&id, &a, 5)),
        Ask::Apply(add(&id, &a, 5)),
        Ask::Apply(add(&id, &a, 6)),
        Ask::Read(a.clone()),
    ];
    let responses = block_on(engine.submit_batch(asks));
    let Response::Applied(Ok(OperationOutcome::Fresh(first))) = &responses[0] else {
        panic!("{responses:?}")
    };
    assert_eq!(responses[1], Response::Applied(Ok(OperationOutcome::Replayed(first.clone()))));
    assert!(matches!(&responses[2], Response::Applied(Err(EngineError::Rejected(_)))), "{responses:?}");
    assert_eq!(responses[3], Response::Read(Ok(Some(Value::Counter(5)))));
}

#[test]
fn id_lookups_work_in_every_format_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = open(folder.path());
    let formats = Format::ALL.into_iter().fold(Formats::NONE, Formats::and);
    engine.create_table("t", TableSettings { formats, ..TableSettings::default() }).unwrap();
    let millis = engine.now().as_nanos() / 1_000_000;
    let ids = [
        uuid(&engine, 1),
        OpId::Ulid(u128::from(millis) << 80 | 99),
        OpId::sequenced("client", 3, 7).unwrap(),
        OpId::event("/meters/7", "reading-1", millis).unwrap(),
        OpId::opaque(b"order 66").unwrap(),
    ];
    let known =
        |engine: &Engine, id: &OpId| block_on(engine.operation(&engine.table("t").unwrap(), id)).unwrap();
    for id in &ids {
        assert_eq!(known(&engine, id), [], "{id} was not sent yet");
        let cell = engine.cell(&engine.table("t").unwrap(), b"row", &Column::unnamed()).unwrap();
        let OperationOutcome::Fresh(answer) = block_on(engine.apply(add(id, &cell, 1))).unwrap() else {
            panic!("{id}")
        };
        assert_eq!(known(&engine, id), [(cell.partition(), IdStatus::Yes(answer))], "{id}");
    }
    let before: Vec<_> = ids.iter().map(|id| known(&engine, id)).collect();
    drop(engine);
    engine = open(folder.path());
    let after: Vec<_> = ids.iter().map(|id| known(&engine, id)).collect();
    assert_eq!(before, after);
    // An expired id, and one of a session that never began.
    let old = common::uuid_at(millis - 3 * 24 * 3600 * 1000, 1);
    assert!(known(&engine, &old).iter().all(|(_, known)| *known == IdStatus::Forgotten));
    assert!(!known(&engine, &old).is_empty());
}

#[test]
fn a_probabilistic_lookup_returns_probably() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let mode = Mode::Probabilistic { target: 1e-3 };
    let cell = table(&engine, TableSettings { mode, ..TableSettings::default() })("a");
    let id = uuid(&engine, 1);
    block_on(engine.apply(add(&id, &cell, 1))).unwrap();
    let known = block_on(engine.operation(&engine.table("t").unwrap(), &id)).unwrap();
    assert!(known.contains(&(cell.partition(), IdStatus::Probably)), "{known:?}");
}

#[test]
fn prefix_scan_lists_each_cell_once() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let cell =
        table(&engine, TableSettings { without_id: MissingIdPolicy::AtMostOnce, ..TableSettings::default() });
    let other = engine.create_table("other", TableSettings::default()).unwrap();
    let other = engine.cell(&other, b"user/1", &Column::unnamed()).unwrap();
    block_on(engine.apply(add(&uuid(&engine, 1), &other, 1))).unwrap();
    let rows: Vec<String> = (0..700).map(|number| format!("user/{number}")).collect();
    let set = |row: &str, change| Ask::Apply(Operation::single(None, cell(row), change).unwrap());
    let mut asks: Vec<_> = rows.iter().map(|row| set(row, Change::Set(1))).collect();
    asks.push(set("user\0/7", Change::Set(1)));
    asks.push(set("usex", Change::Set(1)));
    block_on(engine.submit_batch(asks));
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
        assert_eq!(names.len(), found.len(), "none comes twice");
        (names, pages)
    };
    let expected: BTreeSet<String> = rows.iter().cloned().collect();
    assert_eq!(list("user/", 64), (expected.clone(), 12));
    assert_eq!(list("user/", 1_000).0, expected);
    assert_eq!(list("user\0", 10).0.len(), 1);
    assert_eq!(list("", 300).0.len(), 702);
    assert_eq!(list("nobody", 10), (BTreeSet::new(), 1));
    // A deleted cell is not listed once the deletion is stored.
    block_on(engine.submit_batch(rows[10..].iter().map(|row| set(row, Change::Delete)).collect()));
    block_on(engine.stored()).unwrap();
    assert_eq!(list("user/", 64).0.len(), 10);
}

#[test]
fn expired_values_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let cell =
        table(&engine, TableSettings { without_id: MissingIdPolicy::AtMostOnce, ..TableSettings::default() });
    let millis = || engine.now().as_nanos() / 1_000_000;
    let until = millis() + 300;
    let ends = vec![(cell("a"), Change::Set(7)), (cell("a"), Change::Expire(Some(until)))];
    block_on(engine.apply(Operation::batch(None, ends).unwrap())).unwrap();
    let read = || block_on(engine.get(cell("a"))).unwrap();
    let seen = read();
    assert!(seen == Some(Value::Counter(7).lasting(Some(until))) || millis() >= until);
    while read().is_some() {
        assert!(millis() < until + 60_000, "it never ends");
    }
    assert!(millis() >= until);
}
