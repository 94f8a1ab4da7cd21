//! Online backup: ids and values of one instant.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{add, apply_all, open, uuid_at};
use futures_executor::block_on;
use jeton_core::{Cell, Column, OpId, TableSettings, Value};
use jeton_engine::{Engine, OperationOutcome};

const ROWS: u64 = 50;

fn cells(engine: &Engine) -> Vec<Cell> {
    let table = engine.table("t").unwrap();
    let row = |row: u64| engine.cell(&table, format!("row-{row}").as_bytes(), &Column::unnamed()).unwrap();
    (0..ROWS).map(row).collect()
}

fn total(engine: &Engine, cells: &[Cell]) -> i64 {
    let value = |cell: &Cell| match block_on(engine.get(cell.clone())).unwrap() {
        Some(Value::Counter(value)) => value,
        None => 0,
        other => panic!("{other:?}"),
    };
    cells.iter().map(value).sum()
}

/// Additions of 1, in order, each sent when the one before is acknowledged: a backup of one instant holds the
/// first n of them.
#[test]
fn a_backup_holds_one_instant() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Arc::new(open(&folder.path().join("store")));
    engine.create_table("t", TableSettings::default()).unwrap();
    let millis = engine.now().as_nanos() / 1_000_000;
    let id = move |number: u64| -> OpId { uuid_at(millis, number) };
    let cells = cells(&engine);

    // Enough for ids in the index, rows in the value store and filters on disk.
    apply_all(&engine, (0..20_000).map(|n| add(&id(n), &cells[(n % ROWS) as usize], 1)).collect());

    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(20_000)));
    let load = {
        let (engine, cells, stop, sent) = (engine.clone(), cells.clone(), stop.clone(), sent.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let number = sent.load(Ordering::Relaxed);
                apply_all(&engine, vec![add(&id(number), &cells[(number % ROWS) as usize], 1)]);
                sent.store(number + 1, Ordering::Relaxed);
            }
        })
    };
    for copy in 0..3 {
        let before = sent.load(Ordering::Relaxed);
        let target = folder.path().join(format!("copy-{copy}"));
        engine.checkpoint(&target).unwrap();
        let after = sent.load(Ordering::Relaxed) + 1;

        let restored = open(&target);
        let held = total(&restored, &cells) as u64;
        assert!((before..=after).contains(&held), "{held} is not between {before} and {after}");
        // The ids are of the same instant: the first `held` are recorded, the next is new.
        for number in (0..held).step_by(97).chain([held - 1]) {
            let again = apply_all(&restored, vec![add(&id(number), &cells[(number % ROWS) as usize], 1)]);
            assert!(matches!(again[..], [OperationOutcome::Replayed(_)]), "id {number} of {held}: {again:?}");
        }
        let next = apply_all(&restored, vec![add(&id(held), &cells[(held % ROWS) as usize], 1)]);
        assert!(matches!(next[..], [OperationOutcome::Fresh(_)]), "{next:?}");
        assert_eq!(total(&restored, &cells) as u64, held + 1);
    }
    stop.store(true, Ordering::Relaxed);
    load.join().unwrap();
    assert_eq!(total(&engine, &cells) as u64, sent.load(Ordering::Relaxed), "the store itself went on");
}

#[test]
fn a_backup_needs_an_empty_directory_and_completion() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder.path().join("store"));
    let full = folder.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("precious"), b"data").unwrap();
    let error = engine.checkpoint(&full).unwrap_err().to_string();
    assert!(error.contains("is not empty"), "{error}");
    assert_eq!(std::fs::read(full.join("precious")).unwrap(), b"data");

    let copy = folder.path().join("copy");
    engine.checkpoint(&copy).unwrap();
    std::fs::write(copy.join("INCOMPLETE"), b"").unwrap();
    let error = Engine::open(&copy, common::small()).err().unwrap().to_string();
    assert!(error.contains("never completed"), "{error}");
}

/// A partition without entries since its log was trimmed is complete in the backup too.
#[test]
fn a_backup_of_an_idle_store_opens() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder.path().join("store"));
    engine.create_table("t", TableSettings::default()).unwrap();
    let cells = cells(&engine);
    let millis = engine.now().as_nanos() / 1_000_000;
    let mut sent = 0;
    // Idle means that all partitions but one are trimmed to their end: write to one row until then.
    apply_all(&engine, (0..200).map(|n| add(&uuid_at(millis, n), &cells[(n % ROWS) as usize], 1)).collect());
    while engine.stats().logged_bytes < 2 << 20 {
        sent += 1_000;
        let some = (sent..sent + 1_000).map(|n| add(&uuid_at(millis, n), &cells[0], 1));
        apply_all(&engine, some.collect());
    }
    let copy = folder.path().join("copy");
    engine.checkpoint(&copy).unwrap();
    let restored = open(&copy);
    assert_eq!(total(&restored, &cells), 200 + sent as i64);
}
