//! The memory limit of all filters: refused tables, and stores that do not fit any more.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{add, cell, open, small, uuid};
use futures_executor::block_on;
use jeton_core::{Format, Formats, TableSettings};
use jeton_engine::{Engine, OpenError, Options, RecoveryError};

const LIMIT: usize = 8 << 20;

fn limited(memory_max: usize) -> Options {
    Options { memory_max, ..small() }
}

/// Settings whose filters need some 3 MiB.
fn large() -> TableSettings {
    let formats = Formats::only(Format::Uuid7).and(Format::Opaque);
    TableSettings { formats, expected_ids: 300_000, ..TableSettings::default() }
}

#[test]
fn a_table_that_does_not_fit_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::open(folder.path(), limited(LIMIT)).unwrap();
    engine.create_table("one", large()).unwrap();
    let used = engine.stats().filter_memory.0;
    assert!((1 << 20..LIMIT).contains(&used), "{used}");
    let huge = TableSettings { expected_ids: 1_000_000_000, memory_cap: 64 << 30, ..large() };
    let created = engine.create_table("two", huge.clone()).unwrap_err();
    let changed = engine.change_table("one", huge).unwrap_err();
    for text in [created.to_string(), changed.to_string()] {
        for words in ["memory_max", &format!("{used} of the limit of {LIMIT} bytes")] {
            assert!(text.contains(words), "{words:?} is not in {text}");
        }
    }
    assert!(engine.table("two").is_err());
    assert_eq!(engine.table("one").unwrap().settings(), &large());
    assert_eq!(engine.stats().filter_memory, (used, LIMIT));
}

#[test]
fn a_store_opens_with_the_memory_it_ran_with() {
    let folder = tempfile::tempdir().unwrap();
    let used = {
        let engine = open(folder.path());
        engine.create_table("t", large()).unwrap();
        let id = uuid(&engine, 1);
        block_on(engine.apply(add(&id, &cell(&engine, "row"), 1))).unwrap();
        engine.stats().filter_memory.0
    };
    // Half of it does not fit, whether the filters are stored or not.
    let error = Engine::open(folder.path(), limited(used / 2)).err().unwrap();
    assert!(matches!(error, OpenError::Recovery(RecoveryError::Memory(_))), "{error:?}");
    let text = error.to_string();
    for words in
        ["raise memory_max", "the table t", "not damaged", &format!("limit of {}", used / 2 + used / 8)]
    {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    let engine = Engine::open(folder.path(), limited(used)).unwrap();
    assert_eq!(engine.stats().filter_memory, (used, used));
}
