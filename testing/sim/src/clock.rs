//! The clocks of the simulated machine: real time, which only passes, and a wall clock that is set to anything.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jeton_core::Timestamp;
use jeton_engine::Clock;

/// When every run begins, in milliseconds since 1970.
pub const START_MILLIS: u64 = 1_700_000_000_000;

/// The clocks of the simulated machine. Clones are the same clocks.
#[derive(Debug, Clone, Default)]
pub struct SimClock(Arc<Mutex<Hands>>);

#[derive(Debug, Default)]
struct Hands {
    real: Duration,
    /// How far the wall clock is off, in milliseconds.
    off: i64,
    stepped: bool,
}

impl SimClock {
    fn hands<T>(&self, act: impl FnOnce(&mut Hands) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets time pass.
    pub fn pass(&self, millis: u64) {
        self.hands(|hands| hands.real += Duration::from_millis(millis));
    }

    /// Sets the wall clock forwards or back.
    pub fn step_wall(&self, millis: i64) {
        self.hands(|hands| {
            hands.off += millis;
            hands.stepped = true;
        });
    }

    /// The milliseconds that have really passed since the beginning.
    pub fn real_millis(&self) -> u64 {
        self.hands(|hands| hands.real.as_millis() as u64)
    }

    /// The wall clock, in milliseconds since 1970.
    pub fn wall_millis(&self) -> u64 {
        self.hands(|hands| (START_MILLIS + hands.real.as_millis() as u64).saturating_add_signed(hands.off))
    }

    /// Whether the wall clock was right all the time.
    pub fn honest(&self) -> bool {
        self.hands(|hands| !hands.stepped)
    }
}

impl Clock for SimClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(self.wall_millis())
    }

    fn elapsed(&self) -> Duration {
        self.hands(|hands| hands.real)
    }
}
