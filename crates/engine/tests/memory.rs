//! The memory limit of all filters: refused tables, and stores that do not fit any more.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::time::{Duration, Instant};

use common::{add, apply_all, cell, open, small, uuid};
use futures_executor::block_on;
use jeton_core::{Change, Column, Format, Formats, Mode, OpId, Operation, TableSettings};
use jeton_engine::{Engine, OpenError, OperationOutcome, Options, RecoveryError};

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
        engine.stats().filter_memory.0
    };
    let engine = Engine::open(folder.path(), limited(used)).unwrap();
    assert_eq!(engine.stats().filter_memory, (used, used));
    assert!(engine.tables_without_filters().is_empty());
}

/// The largest filters are left out, whether they are stored or not; ids are found in the id index.
#[test]
fn filters_that_do_not_fit_are_left_out() {
    const IDS: u64 = 3_000;
    for stored in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(folder.path());
        engine.create_table("t", large()).unwrap();
        let formats = Formats::only(Format::Uuid7);
        engine.create_table("other", TableSettings { formats, ..TableSettings::default() }).unwrap();
        let cell = cell(&engine, "row");
        let opaque = |number: u64| OpId::opaque(number.to_string().as_bytes()).unwrap();
        let dated: Vec<OpId> = (0..IDS).map(|number| uuid(&engine, number)).collect();
        let ids: Vec<OpId> = dated.into_iter().chain((0..IDS).map(opaque)).collect();
        let count = if stored { ids.len() } else { 1 };
        apply_all(&engine, ids[..count].iter().map(|id| add(id, &cell, 1)).collect());
        // The filters are stored when the log has grown by twice their size.
        let deadline = Instant::now() + Duration::from_secs(60);
        let other = engine.table("other").unwrap();
        let other = engine.cell(&other, b"row", &Column::unnamed()).unwrap();
        for number in IDS + 1.. {
            if !stored || folder.path().join("rows/filters").exists() {
                break;
            }
            assert!(Instant::now() < deadline, "the filters are not stored");
            let put = Change::Put(vec![0; 16 << 10].into());
            let put = Operation::single(Some(uuid(&engine, number)), other.clone(), put).unwrap();
            apply_all(&engine, vec![put]);
        }
        let used = engine.stats().filter_memory.0;
        drop(engine);

        let limit = used / 2;
        let engine = Engine::open(folder.path(), limited(limit)).unwrap();
        assert_eq!(engine.tables_without_filters(), ["t"]);
        assert!(engine.stats().filter_memory.0 <= limit);
        for id in ids[..count].iter().step_by(97) {
            let again = block_on(engine.apply(add(id, &cell, 1)));
            assert!(matches!(again, Ok(OperationOutcome::Replayed(_))), "{id}: {again:?}");
        }
        for new in [uuid(&engine, IDS), opaque(IDS)] {
            let first = block_on(engine.apply(add(&new, &cell, 1)));
            assert!(matches!(first, Ok(OperationOutcome::Fresh(_))), "{new}: {first:?}");
            let again = block_on(engine.apply(add(&new, &cell, 1)));
            assert!(matches!(again, Ok(OperationOutcome::Replayed(_))), "{new}: {again:?}");
        }
    }
}

#[test]
fn a_probabilistic_table_needs_its_filters() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let mode = Mode::Probabilistic { target: 1e-3 };
    engine.create_table("t", TableSettings { mode, ..large() }).unwrap();
    let used = engine.stats().filter_memory.0;
    drop(engine);
    let error = Engine::open(folder.path(), limited(used / 2)).err().unwrap();
    assert!(matches!(error, OpenError::Recovery(RecoveryError::Memory(_))), "{error:?}");
    let text = error.to_string();
    for words in ["raise memory_max", "the table t", "not damaged"] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
}
