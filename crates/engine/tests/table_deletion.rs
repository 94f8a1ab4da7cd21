//! Deletion of tables: counters, ids, prepared branches, writes in flight, restarts.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{SetOnDrop, add, apply_all, cell, cells, millis, open, store, total, uuid, uuid_at};
use futures_executor::block_on;
use jeton_core::{
    Addition, BranchName, BranchOutcome, Cell, Change, Column, Format, Formats, OpId, Operation, Rejection,
    Table, TableSettings, Value,
};
use jeton_engine::{Engine, EngineError, OperationOutcome, TableError};

const ROWS: u64 = 300;

/// Every format, and a name that is reserved briefly.
fn settings() -> TableSettings {
    TableSettings {
        formats: Format::ALL.into_iter().fold(Formats::NONE, Formats::and),
        opaque_window: Duration::from_millis(20),
        skew: Duration::from_millis(20),
        ..TableSettings::default()
    }
}

/// Creates the table `t` when its name is free.
fn create_again(engine: &Engine, settings: &TableSettings) {
    loop {
        match engine.create_table("t", settings.clone()) {
            Ok(_) => return,
            Err(TableError::NameReserved { name, until, now }) => assert!(name == "t" && until > now),
            Err(error) => panic!("{error}"),
        }
        std::thread::yield_now();
    }
}

fn outcome(engine: &Engine, id: &OpId) -> Result<OperationOutcome, EngineError> {
    block_on(engine.apply(add(id, &cell(engine, "row-0"), 1)))
}

fn is_gone(error: &EngineError) -> bool {
    matches!(error, EngineError::NoSuchTable(_))
}

/// Ids that a table accepts now, of every format that is refused forever.
fn ids(engine: &Engine) -> Vec<OpId> {
    let now = millis(engine);
    vec![
        uuid(engine, 1),
        OpId::Ulid(u128::from(now) << 80),
        OpId::event("source", "1", now).unwrap(),
        OpId::sequenced("client", now, 1).unwrap(),
    ]
}

#[test]
fn counters_and_ids_of_a_deleted_table_do_not_come_back() {
    for restart_after in 0..3 {
        let (folder, mut engine) = store(settings());
        let other = engine.create_table("other", TableSettings::default()).unwrap();
        let kept = engine.cell(&other, b"row", &Column::unnamed()).unwrap();
        apply_all(&engine, vec![add(&uuid(&engine, 9), &kept, 7)]);
        let old = cells(&engine, ROWS);
        let now = millis(&engine);
        apply_all(&engine, (0..ROWS).map(|n| add(&uuid_at(now, 100 + n), &old[n as usize], 1)).collect());
        let ids = ids(&engine);
        assert!(ids.iter().all(|id| matches!(outcome(&engine, id), Ok(OperationOutcome::Fresh(_)))));

        let restart = |at, engine: Engine| {
            if at != restart_after {
                return engine;
            }
            drop(engine);
            open(folder.path())
        };
        engine.delete_table("t").unwrap();
        engine = restart(0, engine);
        assert!(is_gone(&block_on(engine.get(old[0].clone())).unwrap_err()));
        assert!(is_gone(&block_on(engine.apply(add(&ids[0], &old[0], 1))).unwrap_err()));
        assert!(engine.table("t").is_err() && engine.delete_table("t").is_err());
        create_again(&engine, &settings());
        engine = restart(1, engine);
        for id in &ids {
            let refusal = outcome(&engine, id).unwrap_err();
            let is_late = matches!(
                refusal,
                EngineError::Rejected(Rejection::Expired { .. } | Rejection::UnknownSession { .. })
            );
            assert!(is_late, "{id}: {refusal}");
        }
        assert_eq!(total(&engine, &cells(&engine, ROWS)), 0);
        assert!(matches!(outcome(&engine, &uuid(&engine, 2)), Ok(OperationOutcome::Fresh(_))));
        engine = restart(2, engine);
        assert_eq!(total(&engine, &cells(&engine, ROWS)), 1);
        assert_eq!(total(&engine, &[kept]), 7);
        assert!(is_gone(&block_on(engine.get(old[0].clone())).unwrap_err()));
    }
}

/// The number of rows of a table in the value store.
fn rows(engine: &Engine, table: &Table) -> usize {
    block_on(engine.stored()).unwrap();
    engine.list(table, b"", None, usize::MAX).unwrap().len()
}

/// Waits until the rows of all deleted tables are reported as removed.
fn until_removed(engine: &Engine) {
    while engine.catalog().deleted().any(|deleted| !deleted.removed) {
        std::thread::yield_now();
    }
}

/// More rows than a step of the removal takes, and a restart during it.
#[test]
fn rows_of_a_deleted_table_are_removed_after_a_restart() {
    const MANY: u64 = 20_000;
    for wait in [false, true] {
        let (folder, mut engine) = store(TableSettings::default());
        let table = engine.table("t").unwrap();
        let (now, cells) = (millis(&engine), cells(&engine, MANY));
        apply_all(&engine, (0..MANY).map(|n| add(&uuid_at(now, n), &cells[n as usize], 1)).collect());
        assert_eq!(rows(&engine, &table), MANY as usize);
        engine.delete_table("t").unwrap();
        while wait && rows(&engine, &table) == MANY as usize {}
        drop(engine);
        engine = open(folder.path());
        until_removed(&engine);
        // The store is as if the table had never existed.
        assert_eq!((rows(&engine, &table), engine.catalog().iter().count()), (0, 0));
        drop(engine);
        assert_eq!(rows(&open(folder.path()), &table), 0);
    }
}

#[test]
fn writes_in_flight_count_before_the_deletion_or_are_refused() {
    let (_folder, engine) = store(TableSettings::default());
    let (cells, now) = (cells(&engine, 8), millis(&engine));
    let (started, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _done = SetOnDrop(&done);
        for (cell, number) in cells.iter().zip(0..) {
            let (engine, started) = (&engine, &started);
            scope.spawn(move || {
                for sequence in 0.. {
                    let id = uuid_at(now, number << 32 | sequence);
                    match block_on(engine.apply(add(&id, cell, 1))) {
                        Ok(OperationOutcome::Fresh(result)) => {
                            assert_eq!(result.values.as_slice(), [Some(sequence as i64 + 1)]);
                            started.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(EngineError::Busy(why)) => assert!(why.contains("deleted"), "{why}"),
                        Err(error) => return assert!(is_gone(&error), "{error}"),
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
        while started.load(Ordering::Relaxed) < 100 {}
        engine.delete_table("t").unwrap();
    });
}

#[test]
fn a_table_with_prepared_branches_is_not_deleted() {
    let (folder, engine) = store(settings());
    let name = BranchName::new(b"branch").unwrap();
    let additions = |engine: &Engine| {
        let one = |row| Addition { cell: cell(engine, row), delta: 5, min: None, max: None };
        ["a", "b", "c"].map(one).to_vec()
    };
    block_on(engine.prepare_branch(&name, additions(&engine), None)).unwrap();
    drop(engine);
    let engine = open(folder.path());
    assert!(matches!(engine.delete_table("t"), Err(TableError::Prepared(_))));
    // The table accepts writes again.
    apply_all(&engine, vec![add(&uuid(&engine, 1), &cell(&engine, "a"), 1)]);
    block_on(engine.finish_branch(&name, BranchOutcome::Commit, None)).unwrap();
    assert_eq!(total(&engine, &["a", "b", "c"].map(|row| cell(&engine, row))), 16);
    let late = additions(&engine);
    engine.delete_table("t").unwrap();
    assert!(block_on(engine.prepare_branch(&BranchName::new(b"late").unwrap(), late, None)).is_err());
    drop(engine);
    create_again(&open(folder.path()), &settings());
}

fn copy_of(engine: &Engine, folder: &Path) -> Engine {
    engine.checkpoint(folder).unwrap();
    open(folder)
}

#[test]
fn a_backup_during_the_removal_is_consistent() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, engine) = store(TableSettings::default());
    let table = engine.table("t").unwrap();
    let (now, cells) = (millis(&engine), cells(&engine, 10_000));
    apply_all(&engine, (0..).zip(&cells).map(|(n, cell)| add(&uuid_at(now, n), cell, 1)).collect());
    let before = copy_of(&engine, &folder.path().join("before"));
    engine.delete_table("t").unwrap();
    for copy in 0..3 {
        let copy = copy_of(&engine, &folder.path().join(copy.to_string()));
        assert!(copy.table("t").is_err());
        until_removed(&copy);
        assert_eq!(rows(&copy, &table), 0);
    }
    assert_eq!(total(&before, &cells), 10_000);
}

/// Values that are no numbers, of which a replay needs the previous content.
#[test]
fn entries_of_a_deleted_table_are_not_replayed() {
    let (folder, engine) = store(settings());
    let text: Cell = cell(&engine, "text");
    for number in 0..10 {
        let change = Change::Append((*b"x").into());
        let operation = Operation::single(Some(uuid(&engine, number)), text.clone(), change).unwrap();
        apply_all(&engine, vec![operation]);
    }
    assert!(matches!(block_on(engine.get(text)).unwrap(), Some(Value::Bytes(_))));
    engine.delete_table("t").unwrap();
    create_again(&engine, &settings());
    drop(engine);
    let engine = open(folder.path());
    assert_eq!(block_on(engine.get(cell(&engine, "text"))), Ok(None));
}
