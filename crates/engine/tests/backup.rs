//! Online backup: ids and values of one instant.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{add, apply_all, back_up_under_load, cells, millis, open, store, total, uuid_at};
use jeton_core::TableSettings;
use jeton_engine::Engine;

const ROWS: u64 = 50;

#[test]
fn a_backup_holds_one_instant() {
    let (folder, engine) = store(TableSettings::default());
    let (cells, millis) = (cells(&engine, ROWS), millis(&engine));
    // Enough for ids in the index, rows in the value store and filters on disk.
    apply_all(
        &engine,
        (0..20_000).map(|n| add(&uuid_at(millis, n), &cells[(n % ROWS) as usize], 1)).collect(),
    );
    let sent = back_up_under_load(&engine, &folder.path().join("copies"), millis, &cells, 20_000);
    assert_eq!(total(&engine, &cells), sent, "the store itself continued");
}

#[test]
fn a_backup_needs_an_empty_directory_and_completion() {
    let (folder, engine) = store(TableSettings::default());
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
    let (folder, engine) = store(TableSettings::default());
    let (cells, millis) = (cells(&engine, ROWS), millis(&engine));
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
    assert_eq!(total(&open(&copy), &cells), 200 + sent);
}
