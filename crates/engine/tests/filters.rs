//! Filters are read by the time of the log. By the clock's they once forgot what a store opened with the clock ahead, and set right a
//! moment later, still had to know.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::scene::{MINUTE, Scene, at, settings};

#[test]
fn what_a_filter_knows_is_not_forgotten_by_the_clock_of_a_start() {
    let scene = Scene::new();
    let (tables, mut shard) = scene.start();
    tables.create("t", settings(10 * MINUTE)).unwrap();
    assert!(scene.add(&mut shard, &tables, "known", at(0)));
    scene.store(&mut shard, &tables, at(0));
    // Whatever the clock says while it is opened, only the time of the first operation counts.
    let (tables, mut shard) = scene.start();
    assert!(!scene.add(&mut shard, &tables, "known", at(5)), "it counts twice");
    // And by its window it is let go all the same.
    assert!(scene.add(&mut shard, &tables, "known", at(60)));
}
