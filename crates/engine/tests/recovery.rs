//! Recovery refuses stores that do not belong together: stores older than the log's start, a log that lost
//! its end, damage, and a second process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::path::Path;

use common::scenario::{SECRET, Scenario};
use common::{add, apply_all, cells, millis, open, small, uuid_at};
use futures_executor::block_on;
use jeton_core::{
    Cell, Change, Column, DedupLocation, Format, Formats, Generation, LogPosition, OpId, Operation,
    OperationDecision, OperationResult, Secret, TableId, TableSettings, Timestamp, Value, Values, log_entry,
};
use jeton_engine::{Engine, EngineError, OperationOutcome, Options, find, replay_log};
use jeton_wal::{Batch, Blob, LogId, Slot};

const ROWS: u64 = 100;

/// A store in `folder/store` with some operations, and its state halfway in `folder/old`.
fn aged_store(folder: &Path) -> (Vec<Cell>, u64) {
    let store = folder.join("store");
    let engine = open(&store);
    engine.create_table("t", TableSettings::default()).unwrap();
    let (cells, millis) = (cells(&engine, ROWS), millis(&engine));
    let some =
        |from: u64| (from..from + 15_000).map(|n| add(&uuid_at(millis, n), &cells[(n % ROWS) as usize], 1));
    apply_all(&engine, some(0).collect());
    drop(engine);
    copy(&store, &folder.join("old"));
    let engine = open(&store);
    apply_all(&engine, some(15_000).collect());
    // Until the log has been trimmed beyond the old copy.
    let mut more = 30_000;
    while engine.stats().ids.ids < 25_000 {
        apply_all(&engine, some(more).collect());
        more += 15_000;
    }
    (cells, millis)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The ids of version 1 have other keys: a store that opened would count them twice.
#[test]
fn a_store_of_another_version_does_not_open() {
    for (version, advice) in [(1, "could count twice"), (3, "run the later version")] {
        let scenario = Scenario::new();
        let bytes = [&[version][..], &SECRET].concat();
        scenario.log.put_blob("store", &Blob { version: 1, bytes: bytes.clone().into() }).unwrap();
        let Err(error) = find(&*scenario.log, &scenario.stores, &[], usize::MAX, || SECRET) else {
            panic!("it opened")
        };
        assert!(error.to_string().contains(&format!("has version {version}")), "{error}");
        assert!(error.to_string().contains(advice), "{error}");
        assert_eq!(scenario.log.get_blob("store").unwrap().unwrap().bytes, bytes);
    }
}

fn opening_fails(folder: &Path) -> String {
    match Engine::open(folder, small()) {
        Ok(_) => panic!("it must not open"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_store_that_is_older_than_the_log_is_refused() {
    for (part, named) in [("values", "value store"), ("ids", "id index"), ("rows", "filters")] {
        let folder = tempfile::tempdir().unwrap();
        aged_store(folder.path());
        let store = folder.path().join("store");
        std::fs::remove_dir_all(store.join(part)).unwrap();
        copy(&folder.path().join("old").join(part), &store.join(part));
        let error = opening_fails(&store);
        assert!(error.contains(named) && error.contains("the log begins after slot"), "{part}: {error}");
    }
}

#[test]
fn a_log_that_lost_its_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    aged_store(folder.path());
    let store = folder.path().join("store");
    std::fs::remove_dir_all(store.join("log")).unwrap();
    copy(&folder.path().join("old").join("log"), &store.join("log"));
    let error = opening_fails(&store);
    assert!(error.contains("beyond the log's end"), "{error}");
}

#[test]
fn a_second_engine_reports_the_owner_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let _first = open(folder.path());
    let error = opening_fails(folder.path());
    assert!(error.contains(&std::process::id().to_string()) && error.contains("jeton"), "{error}");
}

/// Damage in a run of ids: a lookup that reads it is an error, and nothing is counted twice.
#[test]
fn a_damaged_run_is_an_error_and_never_a_second_count() {
    let folder = tempfile::tempdir().unwrap();
    let (cells, millis) = aged_store(folder.path());
    let store = folder.path().join("store");
    for entry in std::fs::read_dir(store.join("ids")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "run") {
            let mut bytes = std::fs::read(&path).unwrap();
            let half = bytes.len() / 2;
            bytes[half..].iter_mut().step_by(997).for_each(|byte| *byte ^= 1);
            std::fs::write(&path, bytes).unwrap();
        }
    }
    let engine = match Engine::open(&store, small()) {
        Ok(engine) => engine,
        Err(error) => {
            assert!(error.to_string().contains(".run"), "{error}");
            return;
        }
    };
    let (mut replayed, mut refused) = (0, 0);
    for number in (0..20_000).step_by(7) {
        match block_on(engine.apply(add(&uuid_at(millis, number), &cells[(number % ROWS) as usize], 1))) {
            Ok(OperationOutcome::Replayed(_)) => replayed += 1,
            Err(EngineError::Storage(why)) => {
                assert!(why.contains(".run"), "{why}");
                refused += 1;
            }
            other => panic!("id {number}: {other:?}"),
        }
    }
    assert!(replayed > 0 && refused > 0, "{replayed} replayed, {refused} refused");
    // Values are in other files, and still readable.
    assert!(matches!(block_on(engine.get(cells[0].clone())), Ok(Some(Value::Counter(_)))));
}

/// An entry in `slot` at `millis` that adds 1 to a row under `id`.
fn entry(row: &str, slot: u64, millis: u64, id: OpId, memory: DedupLocation) -> Vec<u8> {
    let operation = Operation::single(Some(id), cell_of(row), Change::Add(1)).unwrap();
    let answer = OperationResult { applied: true, slot, millis, values: Values::One(Some(1)) };
    let mut bytes = Vec::new();
    log_entry::begin(LogPosition { slot, time: Timestamp::from_millis(millis) }, &mut bytes);
    log_entry::push(&operation, &OperationDecision { answer, memory, effects: None }, &mut bytes);
    bytes
}

fn cell_of(row: &str) -> Cell {
    Cell::new(&Secret::new(SECRET), TableId(1), row.as_bytes(), &Column::unnamed()).unwrap()
}

/// The error of a start whose log has these entries of the partition of `row`, in slots 1, 2, ...
fn replay_fails(entries: &[Vec<u8>]) -> String {
    let scenario = Scenario::new();
    let (tables, _) = scenario.start();
    let formats = Formats::only(Format::Opaque).and(Format::Sequenced);
    tables.create("t", TableSettings { formats, ..TableSettings::default() }, Timestamp::ZERO).unwrap();
    let mut batch = Batch::new();
    for (bytes, slot) in entries.iter().zip(1..) {
        batch.push(LogId(cell_of("row").partition().0), Slot(slot), bytes);
    }
    let reservation = scenario.log.reserve(entries.len(), batch.entry_bytes()).unwrap();
    block_on(scenario.log.append(&batch, reservation).unwrap()).unwrap();
    let found = find(&*scenario.log, &scenario.stores, &[], usize::MAX, || SECRET).unwrap();
    let state = (found.secret, found.partitions, &found.positions);
    let options = Options { shards: 1, ..Options::default() };
    match replay_log(&*scenario.log, &scenario.stores, &found.catalog.into(), state, &options) {
        Ok(_) => panic!("the log was replayed"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn impossible_entries_are_refused_with_slot_and_reason() {
    let opaque = |name: &str| OpId::opaque(name.as_bytes()).unwrap();
    let index = |era| DedupLocation::Index { era, generation: Generation(1 << 50) };
    let session = DedupLocation::Session { lease: std::time::Duration::from_secs(60) };
    let sequenced = |epoch| OpId::sequenced("client", epoch, 1).unwrap();
    let first = || entry("row", 1, 2_000, opaque("a"), index(1));
    let elsewhere = (0..)
        .map(|n: u32| format!("row-{n}"))
        .find(|row| cell_of(row).partition() != cell_of("row").partition());
    let cases = [
        (vec![first(), entry("row", 2, 1_999, opaque("b"), index(1))], "time goes back"),
        (vec![first(), entry("row", 2, 2_000, opaque("b"), index(2))], "era 2 of table 1 is unknown"),
        (vec![first(), entry("row", 2, 2_000, uuid_at(2_000, 1), index(1))], "ids of the format uuid7"),
        (
            vec![
                entry("row", 1, 2_000, sequenced(7), session),
                entry("row", 2, 2_000, sequenced(6), session),
            ],
            "epoch 6 of a client has ended",
        ),
        (
            vec![first(), entry(&elsewhere.unwrap(), 2, 2_000, opaque("b"), index(1))],
            "changes cells of partition",
        ),
    ];
    let place = format!("entry 2 of partition {}: ", cell_of("row").partition().0);
    for (entries, reason) in cases {
        let error = replay_fails(&entries);
        assert!(error.contains(&place) && error.contains(reason), "{reason}: {error}");
    }
}
