//! Filters are restored by the time of the log. By the clock's time they once dropped ids that a store opened
//! with the clock ahead, and set right a moment later, still needed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::scenario::{MINUTE, Scenario, at, settings};

#[test]
fn restored_filters_ignore_the_wall_clock() {
    let scenario = Scenario::new();
    let (tables, mut shard) = scenario.start();
    tables.create("t", settings(10 * MINUTE)).unwrap();
    assert!(scenario.add(&mut shard, &tables, "known", at(0)));
    scenario.store(&mut shard, &tables, at(0));
    // Whatever the clock says during the open, only the time of the first operation counts.
    let (tables, mut shard) = scenario.start();
    assert!(!scenario.add(&mut shard, &tables, "known", at(5)), "it counts twice");
    // And after its window it is dropped all the same.
    assert!(scenario.add(&mut shard, &tables, "known", at(60)));
}
