//! The store's time: never faster than real time by more than an eighth, whatever the wall clock does while it runs.

use crate::clock::SimClock;
use crate::violation::{Checked, Violation};

/// The latest that it can be on the store's timeline.
#[derive(Debug, Default)]
pub struct TimeBound {
    begin: u64,
    real: u64,
}

impl TimeBound {
    /// The machine starts: its wall clock is believed then, if it is not behind.
    pub fn begin(&mut self, clock: &SimClock) {
        self.begin = self.latest(clock).max(clock.wall_millis());
        self.real = clock.real_millis();
    }

    /// The latest that it can be now, in milliseconds.
    pub fn latest(&self, clock: &SimClock) -> u64 {
        let passed = clock.real_millis() - self.real;
        self.begin + passed + passed / 8 + 1
    }

    /// An error if it cannot be so late.
    pub fn check(&self, millis: u64, clock: &SimClock) -> Checked {
        let latest = self.latest(clock);
        if millis <= latest {
            return Ok(());
        }
        let ahead = millis - latest;
        Err(Violation::new("time", format!("the store's time is {ahead} ms later than it can be")))
    }
}
