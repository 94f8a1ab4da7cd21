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
    followed: Mutex<Followed>,
}

/// What an engine that follows a log knows about the time since the latest report.
#[derive(Debug, Default)]
struct Followed {
    /// When the log was last seen to end, by the monotonic clock.
    end_seen: Option<Duration>,
    /// Whether the latest report was written after the log was seen to end.
    measured: bool,
    /// The latest report; 0 if there is none. The store's time moves on from it.
    latest: Timestamp,
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
        Ok(Self { clock, store_clock, followed: Mutex::default() })
    }

    /// The clock of an engine that follows the log of another one. It is not believed before
    /// [`take_over`](Self::take_over).
    pub fn follow(clock: C, logged: Timestamp) -> Self {
        let store_clock = Mutex::new(StoreClock::begin(logged, logged, clock.elapsed()));
        let followed = Mutex::new(Followed { latest: logged, ..Followed::default() });
        Self { clock, store_clock, followed }
    }

    /// Reports that the log ended at this time of the monotonic clock.
    pub fn end_seen(&self, at: Duration) {
        lock(&self.followed).end_seen = Some(at);
    }

    /// Reports the latest time that the other owner has reached. It wrote that to the log after the log was
    /// last seen to end.
    pub fn observe(&self, logged: Timestamp) {
        let mut followed = lock(&self.followed);
        followed.measured = followed.end_seen.is_some();
        followed.latest = logged;
        let elapsed = followed.end_seen.unwrap_or_else(|| self.clock.elapsed());
        *lock(&self.store_clock) = StoreClock::begin(logged, logged, elapsed);
    }

    /// The engine takes over from the one that it followed. If the time since the latest report was measured,
    /// the store's time continues from there as before. Otherwise the wall clock is believed as in
    /// [`begin`](Self::begin).
    pub fn take_over(&self, max: Duration) -> Result<(), ClockAhead> {
        let mut followed = lock(&self.followed);
        if followed.measured && !mutated!(TimelineBelievesWallAtTakeover) {
            return Ok(());
        }
        let mut store_clock = lock(&self.store_clock);
        let (wall, logged) = (self.clock.wall(), followed.latest);
        if logged > Timestamp::ZERO && wall.since(logged) > max {
            return Err(ClockAhead { wall, logged, max });
        }
        *store_clock = StoreClock::begin(wall, logged, self.clock.elapsed());
        followed.measured = true;
        Ok(())
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
    use std::sync::Arc;

    use super::*;

    /// Wall and monotonic clock, in seconds.
    #[derive(Default, Clone)]
    struct Hand(Arc<Mutex<(u64, u64)>>);

    impl Clock for Hand {
        fn wall(&self) -> Timestamp {
            Timestamp::from_secs(lock(&self.0).0)
        }

        fn elapsed(&self) -> Duration {
            Duration::from_secs(lock(&self.0).1)
        }
    }

    #[test]
    fn a_takeover_measures_the_time_since_the_last_entry() {
        let (logged, max) = (1_700_000_000, Duration::from_secs(90 * DAY));
        let at = Timestamp::from_secs;
        let hand = Hand::default();
        let set = |wall, elapsed| *lock(&hand.0) = (wall, elapsed);
        let takes_over = |time: &StoreTime<Hand>| time.take_over(max).map(|()| time.now());

        // Nothing was measured: the wall clock is believed, unless it is far ahead.
        set(logged + DAY, 0);
        assert_eq!(takes_over(&StoreTime::follow(hand.clone(), at(logged))), Ok(at(logged + DAY)));
        set(logged + 91 * DAY, 0);
        assert!(takes_over(&StoreTime::follow(hand.clone(), at(logged))).is_err());

        // Of a stripe without an entry any clock is believed, also if the follower has shown a time.
        let time = StoreTime::follow(hand.clone(), Timestamp::ZERO);
        set(logged, 8);
        assert!(time.now() < at(logged));
        assert_eq!(takes_over(&time), Ok(at(logged)));

        // The wall clock is an hour ahead of the owner's. The time gains an eighth on what has passed since
        // the log was seen to end, however late the entry came.
        for received in [100, 180] {
            set(logged + 3_600, 100);
            let time = StoreTime::follow(hand.clone(), at(logged));
            time.end_seen(Duration::from_secs(100));
            set(logged + 3_600 + received - 100, received);
            time.observe(at(logged));
            set(logged + 3_680, 180);
            assert_eq!(takes_over(&time), Ok(at(logged + 90)));
        }
        // A clock that is right is believed at once.
        let time = StoreTime::follow(hand.clone(), at(logged));
        time.end_seen(Duration::from_secs(100));
        time.observe(at(logged));
        set(logged + 79, 180);
        assert_eq!(takes_over(&time), Ok(at(logged + 79)));
    }

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
