//! The time of a store: monotone, and hardly faster than real time, whatever the system's clock does.
//!
//! Two clocks are read outside and brought in: the wall clock, which may be stepped to anything, and one that only measures
//! how much time has passed. Were the wall clock believed, a leap forwards of a day would end every window at once. So the
//! store's time follows the wall clock, but gains on real time by at most one eighth; and it never goes back.
//!
//! After a restart nothing has measured the time that passed: the wall clock is believed then, if it is not behind the log. Whoever
//! begins a timeline must make sure that it is not absurdly far ahead either: what is logged fixes the time there.

use std::time::Duration;

use forgetful_filter::Timestamp;

/// The most by which the store's time may gain on real time: one part in so many.
pub const GAIN: u32 = 8;

/// The store's time.
#[derive(Debug, Clone)]
pub struct StoreClock {
    now: Timestamp,
    elapsed: Duration,
}

impl StoreClock {
    /// Begins at the wall clock's time, or at the latest time in the log if that is later. `elapsed` is the reading of the
    /// measuring clock.
    pub fn begin(wall: Timestamp, logged: Timestamp, elapsed: Duration) -> Self {
        Self { now: wall.max(logged), elapsed }
    }

    /// Takes a reading of both clocks, and tells the time.
    pub fn advance(&mut self, wall: Timestamp, elapsed: Duration) -> Timestamp {
        let passed = elapsed.saturating_sub(self.elapsed);
        self.elapsed = self.elapsed.max(elapsed);
        let fastest = self.now.after(passed.saturating_add(passed / GAIN));
        self.now = wall.clamp(self.now, fastest);
        self.now
    }

    /// The time of the last reading.
    pub fn now(&self) -> Timestamp {
        self.now
    }
}

/// How long something must be remembered on the store's timeline to be remembered for `window` of real time.
pub fn with_clock_drift(window: Duration) -> Duration {
    window.saturating_add(window / GAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn it_follows_an_honest_clock() {
        let mut time = StoreClock::begin(Timestamp::from_secs(1000), Timestamp::ZERO, s(5));
        assert_eq!(time.advance(Timestamp::from_secs(1010), s(15)), Timestamp::from_secs(1010));
    }

    #[test]
    fn a_leap_forwards_gains_an_eighth() {
        let mut time = StoreClock::begin(Timestamp::from_secs(1000), Timestamp::ZERO, s(0));
        assert_eq!(time.advance(Timestamp::from_secs(900_000), s(8)), Timestamp::from_secs(1009));
        assert_eq!(time.advance(Timestamp::from_secs(900_000), s(16)), Timestamp::from_secs(1018));
    }

    #[test]
    fn a_step_back_stands_still() {
        let mut time = StoreClock::begin(Timestamp::from_secs(1000), Timestamp::ZERO, s(0));
        assert_eq!(time.advance(Timestamp::from_secs(10), s(8)), Timestamp::from_secs(1000));
        assert_eq!(time.advance(Timestamp::from_secs(1001), s(9)), Timestamp::from_secs(1001));
    }

    #[test]
    fn a_measuring_clock_that_steps_back_counts_no_time_twice() {
        let mut time = StoreClock::begin(Timestamp::from_secs(1000), Timestamp::ZERO, s(100));
        time.advance(Timestamp::from_secs(5000), s(50));
        assert_eq!(time.advance(Timestamp::from_secs(5000), s(108)), Timestamp::from_secs(1009));
    }

    #[test]
    fn it_begins_no_earlier_than_the_log() {
        assert_eq!(
            StoreClock::begin(Timestamp::from_secs(10), Timestamp::from_secs(99), s(0)).now(),
            Timestamp::from_secs(99)
        );
    }
}
