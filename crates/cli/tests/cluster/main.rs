//! Clusters of real servers over a real PostgreSQL, whose nodes are killed, paused and restarted.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod commands;
mod dev_cluster;
mod exactly_once;
mod nodes;
#[allow(dead_code, reason = "used by other tests")]
#[path = "../program/mod.rs"]
mod program;
mod python;
mod refusals;

use std::time::{Duration, Instant};

/// Longest wait for a condition, also on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until a condition is met.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
