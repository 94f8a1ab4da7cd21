//! Filters and eras after a restart: expired eras are dropped from memory and disk, and their entries are
//! replayed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use jeton_wal::Wal;
use jeton_wal::disk::FaultDisk;
use std::sync::Arc;

use common::scenario::{MINUTE, Scenario, at, settings};
use jeton_core::Value;
use jeton_engine::internals::Tables;
use jeton_engine::{Request, Response, StoredFilters, Watermarks};

#[test]
fn filters_of_expired_eras_are_dropped() {
    let scenario = Scenario::new();
    let (tables, mut shard) = scenario.start();
    tables.create("t", settings(10 * MINUTE), at(0)).unwrap();
    assert!(scenario.add(&mut shard, &tables, "of era 1", at(0)));
    let mut filters = StoredFilters::default();
    let mut store = |tables: &Tables<Wal<FaultDisk>>| {
        let version = filters.write(&*scenario.log, &tables.catalog().load(), 1 << 20).unwrap();
        // Their watermarks are zero, so that everything is replayed.
        filters.commit(&*scenario.log, version, Watermarks::default()).unwrap();
        filters.rows().collect::<Vec<String>>()
    };
    let of_era_1 = [store(&tables), store(&tables)].concat();
    tables.alter("t", settings(MINUTE), || at(1), at(0)).unwrap();
    assert!(scenario.add(&mut shard, &tables, "of era 2", at(1)));
    store(&tables);
    store(&tables);
    assert_eq!(tables.drop_expired(at(13)).unwrap(), 0, "an id of it may be retried");
    assert_eq!(tables.drop_expired(at(14)).unwrap(), 1);

    // A crash between the steps: the era is dropped, its filters are still on disk.
    let (tables, mut shard) = scenario.start();
    assert_eq!(tables.catalog().load().find("t").unwrap().eras().count(), 1);
    assert!(scenario.add(&mut shard, &tables, "of era 2 again", at(14)));
    let needed = [store(&tables), store(&tables)].concat();
    let gone: Vec<&String> = of_era_1.iter().filter(|row| !needed.contains(row)).collect();
    assert!(!gone.is_empty() && gone.iter().all(|row| scenario.bytes(row) == 0), "{gone:?}");
    assert!(needed.iter().all(|row| scenario.bytes(row) > 0));

    // Entries logged in it are replayed, and count.
    let (tables, mut shard) = scenario.start();
    let request = Request::Read { cell: scenario.cell(&tables) };
    let mut responses = Vec::new();
    shard.process(&tables.catalog().load(), &[(&request, ())], at(14), |(), needs_batch, response| {
        responses.push((needs_batch, response));
    });
    assert_eq!(responses, [(0, Response::Read(Ok(Some(Value::Counter(3)))))]);
    assert!(!scenario.add(&mut shard, &tables, "of era 2 again", at(14)));
}

/// A shard may use the old tables for a moment longer.
#[test]
fn an_entry_of_a_just_dropped_era_is_replayed() {
    let scenario = Scenario::new();
    let (tables, mut shard) = scenario.start();
    tables.create("t", settings(MINUTE), at(0)).unwrap();
    let before = Tables::new(
        Arc::new(Wal::open(FaultDisk::new(), jeton_wal::Options::small(64 << 10)).unwrap()),
        tables.catalog().load_full(),
        0,
    );
    tables.alter("t", settings(2 * MINUTE), || at(1), at(0)).unwrap();
    assert!(scenario.add(&mut shard, &tables, "known", at(4)));
    assert_eq!(tables.drop_expired(at(5)).unwrap(), 1);
    assert!(scenario.add(&mut shard, &before, "late", at(5)));
    let (tables, mut shard) = scenario.start();
    assert!(!scenario.add(&mut shard, &tables, "known", at(5)));
    assert!(scenario.add(&mut shard, &tables, "new", at(5)));
}

/// Filters that were restored by the clock's time once dropped ids, because the clock was ahead during the
/// start.
#[test]
fn restored_filters_ignore_the_wall_clock() {
    let scenario = Scenario::new();
    let (tables, mut shard) = scenario.start();
    tables.create("t", settings(10 * MINUTE), at(0)).unwrap();
    assert!(scenario.add(&mut shard, &tables, "known", at(0)));
    scenario.store(&mut shard, &tables, at(0));
    // Whatever the clock says during the start, only the time of the first operation counts.
    let (tables, mut shard) = scenario.start();
    assert!(!scenario.add(&mut shard, &tables, "known", at(5)), "it counts twice");
    assert!(scenario.add(&mut shard, &tables, "known", at(60)), "its window has ended");
}
