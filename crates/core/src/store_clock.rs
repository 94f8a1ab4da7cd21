//! The store's clock: monotonic, and at most an eighth faster than real time, even if the system clock jumps.
//!
//! The caller reads two clocks: the wall clock, which may jump, and a monotonic clock. A jump of a day, if
//! trusted, would end every window at once. So the store's time follows the wall clock, but gains on real
//! time by at most one eighth; and it never goes back.
//!
//! After a restart no clock has measured the downtime: the store trusts the wall clock unless it is behind
//! the log. The caller must check that the wall clock is not implausibly far ahead: log entries fix the time
//! permanently.

use std::time::Duration;

use forgetful_filter::Timestamp;

/// The store's time gains on real time by at most one part in `GAIN`.
pub const GAIN: u32 = 8;

#[derive(Debug, Clone)]
pub struct StoreClock {
    now: Timestamp,
    elapsed: Duration,
}

impl StoreClock {
    /// Starts at the wall clock's time, or at the latest time in the log if that is later. `elapsed` is the
    /// reading of the monotonic clock.
    pub fn begin(wall: Timestamp, logged: Timestamp, elapsed: Duration) -> Self {
        Self { now: wall.max(logged), elapsed }
    }

    /// Takes a reading of both clocks and returns the time.
    pub fn advance(&mut self, wall: Timestamp, elapsed: Duration) -> Timestamp {
        let passed = elapsed.saturating_sub(self.elapsed);
        self.elapsed = self.elapsed.max(elapsed);
        let fastest = self.now.after(passed.saturating_add(passed / GAIN));
        self.now = wall.clamp(self.now, fastest);
        self.now
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }
}

/// The span on the store's clock that covers `window` of real time.
pub fn with_clock_drift(window: Duration) -> Duration {
    window.saturating_add(window / GAIN)
}
