//! Time as the caller provides it.
//!
//! The crate never reads a clock. A server passes its monotonic clock, a simulator its virtual one, a replay
//! the times in its log. Internally, time is counted in *ticks*: coarse enough that shared stamps change
//! rarely, fine enough that rounding costs about a thousandth of the window.

use std::time::Duration;

/// A point on the caller's timeline, in nanoseconds since an origin that the caller chooses.
///
/// Only differences matter. A filter that survives a restart needs a timeline that survives it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin.
    pub const ZERO: Self = Self(0);

    /// `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `millis` milliseconds after the origin, saturating.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// `secs` seconds after the origin, saturating.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time `duration` later, saturating.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// The time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Nanoseconds of a duration, saturating.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Minimum of ticks per window, unless a tick would be shorter than a nanosecond.
const TICKS_PER_WINDOW_MIN_LOG2: u32 = 13;

/// Conversion to ticks, whose length is a power of two nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TickScale {
    shift: u32,
}

impl TickScale {
    /// The scale for a window of `window_ns` nanoseconds.
    pub(crate) fn for_window(window_ns: u64) -> Self {
        let log2 = 63 - window_ns.max(1).leading_zeros();
        Self { shift: log2.saturating_sub(TICKS_PER_WINDOW_MIN_LOG2) }
    }

    #[inline]
    pub(crate) fn at(self, now: Timestamp) -> u64 {
        now.0 >> self.shift
    }

    /// The tick length in nanoseconds.
    pub(crate) fn length_ns(self) -> u64 {
        1 << self.shift
    }

    /// The largest distance in ticks between two times at most `ns` apart.
    pub(crate) fn spanning(self, ns: u64) -> u64 {
        (ns >> self.shift) + 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_thousands_of_ticks() {
        for window in [1 << 14, 60_000_000_000, 600_000_000_000, 86_400_000_000_000, 1 << 61] {
            let ticks = window >> TickScale::for_window(window).shift;
            assert!((1 << 13..1 << 14).contains(&ticks), "{window}: {ticks}");
        }
        assert_eq!(TickScale::for_window(1).length_ns(), 1);
    }

    #[test]
    fn times_within_a_span_are_within_its_ticks() {
        let ticks = TickScale::for_window(1_000_000);
        for start in 0..300 {
            for gap in [0, 1, 63, 64, 65, 127, 128, 1_000, 1_000_000] {
                let distance = ticks.at(Timestamp(start + gap)) - ticks.at(Timestamp(start));
                assert!(distance <= ticks.spanning(gap));
            }
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::from_secs(u64::MAX).after(Duration::MAX).as_nanos(), u64::MAX);
        assert_eq!(Timestamp::ZERO.since(Timestamp::from_secs(1)), Duration::ZERO);
    }
}
