//! Online backup: ids and values of one instant.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{add, apply_all, back_up_under_load, cells, millis, open, store, total, uuid_at};
use jeton_core::TableSettings;
use jeton_engine::Engine;

const ROWS: u64 = 50;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

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
    std::fs::create_dir(&copy).unwrap();
    set_mode(&copy, 0o755);
    set_mode(&full, 0o755);
    engine.checkpoint(&full).unwrap_err();
    assert_eq!(mode(&full), 0o755, "only a backup is made private");
    engine.checkpoint(&copy).unwrap();
    for path in ["", "log", "ids", "values"].map(|name| copy.join(name)) {
        assert_eq!(mode(&path), 0o700, "{}", path.display());
        for entry in std::fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            assert!(path.is_dir() || mode(&path) == 0o600, "{}", path.display());
        }
    }
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
