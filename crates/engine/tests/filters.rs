//! Filters are read by the time of the log. By the clock's they once forgot what a store opened with the clock ahead, and set right a
//! moment later, still had to know.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::scenario::{MINUTE, Scenario, at, settings};

#[test]
fn what_a_filter_knows_is_not_forgotten_by_the_clock_of_a_start() {
    let scenario = Scenario::new();
    let (tables, mut shard) = scenario.start();
    tables.create("t", settings(10 * MINUTE)).unwrap();
    assert!(scenario.add(&mut shard, &tables, "known", at(0)));
    scenario.store(&mut shard, &tables, at(0));
    // Whatever the clock says while it is opened, only the time of the first operation counts.
    let (tables, mut shard) = scenario.start();
    assert!(!scenario.add(&mut shard, &tables, "known", at(5)), "it counts twice");
    // And by its window it is let go all the same.
    assert!(scenario.add(&mut shard, &tables, "known", at(60)));
}
