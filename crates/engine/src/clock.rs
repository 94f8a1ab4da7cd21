//! The system's clocks, and the store's time that follows them.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jeton_core::{Moment, Timeline, mutated};

/// Tells what the clocks of the machine say.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock, since 1970. It may be set to anything at any time.
    fn wall(&self) -> Moment;

    /// How much time has passed since some fixed point. Nobody can set it.
    fn elapsed(&self) -> Duration;
}

/// The clocks of the system.
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
    fn wall(&self) -> Moment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment::ZERO.after(since)
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// The store's time: see [`Timeline`].
pub struct StoreTime<C> {
    clock: C,
    timeline: Mutex<Timeline>,
}

impl<C: Clock> StoreTime<C> {
    /// Begins, no earlier than the latest entry of the log.
    pub fn begin(clock: C, logged: Moment) -> Self {
        let timeline = Mutex::new(Timeline::begin(clock.wall(), logged, clock.elapsed()));
        Self { clock, timeline }
    }

    /// The time.
    pub fn now(&self) -> Moment {
        if mutated!(WallClockTime) {
            return self.clock.wall();
        }
        let mut timeline = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        timeline.advance(self.clock.wall(), self.clock.elapsed())
    }
}
