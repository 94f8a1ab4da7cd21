//! The system clocks, and the store's clock that follows them.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jeton_core::{StoreClock, Timestamp, mutated, rfc3339};

use crate::lock::lock;

pub trait Clock: Send + Sync + 'static {
    /// The wall clock, since 1970. It may jump at any time.
    fn wall(&self) -> Timestamp;

    /// The monotonic clock, since an arbitrary fixed point.
    fn elapsed(&self) -> Duration;
}

#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::ZERO.after(since)
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// The wall clock is implausibly far ahead of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this machine's clock shows {}, and the last log entry is of {}: the difference is larger than clock_ahead_max \
     ({:.1} days). A wrong clock would make the store reject dated ids as expired, so the store was not opened and \
     nothing was changed. Correct the clock; if it is correct, because the store was unused for that long or is an \
     old copy, raise clock_ahead_max",
    rfc3339::format_seconds(wall.as_nanos() / 1_000_000),
    rfc3339::format_seconds(logged.as_nanos() / 1_000_000),
    max.as_secs_f64() / 86_400.0
)]
pub struct ClockAhead {
    pub wall: Timestamp,
    pub logged: Timestamp,
    pub max: Duration,
}

/// The store's clock: see [`StoreClock`].
pub struct StoreTime<C> {
    clock: C,
    store_clock: Mutex<StoreClock>,
}

impl<C: Clock> StoreTime<C> {
    /// Starts no earlier than the latest log entry. The downtime was not measured, so the wall clock is
    /// believed, unless it is further ahead of the log than `max`. Without any entry it is always believed.
    pub fn begin(clock: C, logged: Timestamp, max: Duration) -> Result<Self, ClockAhead> {
        let wall = clock.wall();
        if logged > Timestamp::ZERO && wall.since(logged) > max {
            return Err(ClockAhead { wall, logged, max });
        }
        let store_clock = Mutex::new(StoreClock::begin(wall, logged, clock.elapsed()));
        Ok(Self { clock, store_clock })
    }

    /// The monotonic clock.
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    pub fn now(&self) -> Timestamp {
        if mutated!(WallClockTime) {
            return self.clock.wall();
        }
        lock(&self.store_clock).advance(self.clock.wall(), self.clock.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that stands still.
    struct At(u64);

    impl Clock for At {
        fn wall(&self) -> Timestamp {
            Timestamp::from_secs(self.0)
        }

        fn elapsed(&self) -> Duration {
            Duration::ZERO
        }
    }

    const DAY: u64 = 86_400;

    fn begin(wall: u64, logged: u64) -> Result<Timestamp, ClockAhead> {
        let max = Duration::from_secs(90 * DAY);
        StoreTime::begin(At(wall), Timestamp::from_secs(logged), max).map(|time| time.now())
    }

    #[test]
    fn clock_ahead_of_the_log_is_limited() {
        let logged = 1_700_000_000;
        for believed in [0, 1, 90 * DAY] {
            assert_eq!(begin(logged + believed, logged), Ok(Timestamp::from_secs(logged + believed)));
        }
        let message = begin(logged + 90 * DAY + 1, logged).unwrap_err().to_string();
        for part in ["2023-11-14T22:13:20Z", "2024-02-12T22:13:21Z", "90.0 days", "clock_ahead_max"] {
            assert!(message.contains(part), "{message}");
        }
        // A clock behind the log is harmless: the store's time waits until the clock has caught up.
        assert_eq!(begin(5, logged), Ok(Timestamp::from_secs(logged)));
    }

    #[test]
    fn any_clock_is_believed_without_log_entries() {
        assert_eq!(begin(9_000_000_000, 0), Ok(Timestamp::from_secs(9_000_000_000)));
    }
}
