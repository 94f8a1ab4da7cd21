//! The clocks of the simulated machine: monotonic real time, and a wall clock that can be set.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jeton_core::Timestamp;
use jeton_engine::Clock;

/// Start time of every run, in milliseconds since 1970.
pub const START_MILLIS: u64 = 1_700_000_000_000;

/// The clocks of the simulated machine. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SimClock(Arc<Mutex<Clocks>>);

#[derive(Debug, Default)]
struct Clocks {
    real: Duration,
    /// Error of the wall clock, in milliseconds.
    off: i64,
    stepped: bool,
}

impl SimClock {
    fn clocks<T>(&self, act: impl FnOnce(&mut Clocks) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn pass(&self, millis: u64) {
        self.clocks(|clocks| clocks.real += Duration::from_millis(millis));
    }

    pub fn step_wall(&self, millis: i64) {
        self.clocks(|clocks| {
            clocks.off += millis;
            clocks.stepped = true;
        });
    }

    /// Milliseconds of real time since the start.
    pub fn real_millis(&self) -> u64 {
        self.clocks(|clocks| clocks.real.as_millis() as u64)
    }

    /// The wall clock, in milliseconds since 1970.
    pub fn wall_millis(&self) -> u64 {
        self.clocks(|clocks| {
            (START_MILLIS + clocks.real.as_millis() as u64).saturating_add_signed(clocks.off)
        })
    }

    pub fn never_set(&self) -> bool {
        self.clocks(|clocks| !clocks.stepped)
    }
}

impl Clock for SimClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(self.wall_millis())
    }

    fn elapsed(&self) -> Duration {
        self.clocks(|clocks| clocks.real)
    }
}
