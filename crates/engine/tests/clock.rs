//! A wall clock far ahead of the log is not believed: the store is not opened, and no file changes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use common::{add, apply_all, cell, open, small, store, total, uuid};
use jeton_core::TableSettings;
use jeton_engine::{Engine, OpenError, Options};

/// Options with which any running clock is too far ahead.
fn distrustful() -> Options {
    Options { clock_ahead_max: Duration::ZERO, ..small() }
}

/// Every file with its content, without the lock file, which only names its owner.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            let inside = files(&path).into_iter();
            found.extend(inside.map(|(file, bytes)| (format!("{name}/{file}"), bytes)));
        } else {
            found.insert(name, std::fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_clock_far_ahead_of_the_log_refuses_the_open() {
    let (folder, engine) = store(TableSettings::default());
    let cell = cell(&engine, "row");
    apply_all(&engine, vec![add(&uuid(&engine, 1), &cell, 7)]);
    drop(engine);
    // Once more, so that the file changes of a normal start are done.
    drop(open(folder.path()));

    let before = files(folder.path());
    let written = SystemTime::now();
    let error = match Engine::open(folder.path(), distrustful()) {
        Err(error @ OpenError::ClockAhead(_)) => error.to_string(),
        Err(error) => panic!("refused for another reason: {error}"),
        Ok(_) => panic!("it must not open"),
    };
    let year = 1970 + written.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / 31_556_952;
    assert_eq!(error.matches(&format!("{year}-")).count(), 2, "both times are named: {error}");
    assert!(error.contains("clock_ahead_max") && error.contains("expired"), "{error}");
    let after = files(folder.path());
    for (name, bytes) in &before {
        assert_eq!(after.get(name), Some(bytes), "{name} changed");
    }
    assert_eq!(before.len(), after.len(), "there are {:?}", after.keys());

    // With a plausible clock everything is there.
    assert_eq!(total(&open(folder.path()), &[cell]), 7);
}

#[test]
fn a_store_without_entries_believes_any_clock() {
    let (folder, engine) = store(TableSettings::default());
    drop(engine);
    Engine::open(folder.path(), distrustful()).unwrap();
}
