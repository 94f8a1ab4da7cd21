//! The store clock gains at most an eighth on real time, whatever the wall clock does while the process runs.

use crate::clock::SimClock;
use crate::violation::{Checked, violated};

/// Upper bound of the store clock.
#[derive(Debug, Default)]
pub struct TimeBound {
    begin: u64,
    real: u64,
}

impl TimeBound {
    /// A process starts. It trusts the wall clock, unless that is behind.
    pub fn begin(&mut self, clock: &SimClock) {
        self.begin = self.latest(clock).max(clock.wall_millis());
        self.real = clock.real_millis();
    }

    /// The bound now, in milliseconds.
    pub fn latest(&self, clock: &SimClock) -> u64 {
        let passed = clock.real_millis() - self.real;
        self.begin + passed + passed / 8 + 1
    }

    pub fn check(&self, millis: u64, clock: &SimClock) -> Checked {
        let latest = self.latest(clock);
        if millis <= latest {
            return Ok(());
        }
        let ahead = millis - latest;
        violated!("time", "the store clock is {ahead} ms ahead of its bound")
    }
}
