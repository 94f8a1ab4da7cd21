//! Generations: ids that expire at about the same time are stored together and dropped together.
//!
//! A generation is named by the time at which its last id expires, in milliseconds. A window has about eight
//! generations, at multiples of a power of two, so that tables with similar windows share them.

use std::time::Duration;

use forgetful_filter::Timestamp;

/// Minimum number of generations in a window.
const PER_WINDOW: u128 = 8;

/// A generation, named by the time at which it ends, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

impl Generation {
    /// The generation of an id that must be recorded until `until`, in a table with this window.
    pub fn of(until: Timestamp, window: Duration) -> Self {
        let width = width(window);
        Self(millis_up(until).div_ceil(width).saturating_mul(width))
    }

    /// The generations of ids that must be recorded until a time between `from` and `to`, the latest first.
    pub fn between(from: Timestamp, to: Timestamp, window: Duration) -> impl Iterator<Item = Self> {
        let width = width(window);
        let (first, last) = (Self::of(from, window).0 / width, Self::of(to, window).0 / width);
        (first..=last).rev().map(move |number| Self(number.saturating_mul(width)))
    }

    /// Whether everything in it has expired.
    pub fn expired(self, now: Timestamp) -> bool {
        self.0 < now.as_nanos() / 1_000_000
    }
}

fn width(window: Duration) -> u64 {
    let millis = u64::try_from(window.as_millis() / PER_WINDOW).unwrap_or(u64::MAX / 2);
    // Rounded down to a power of two: 8 to 16 generations.
    1 << millis.max(1).ilog2()
}

fn millis_up(moment: Timestamp) -> u64 {
    moment.as_nanos().div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn generation_covers_expiry_and_is_a_candidate(
            until in 0u64..1 << 62,
            window_ms in 1u64..1 << 40,
            before_ms in 0u64..1 << 40,
            after_ms in 0u64..1 << 40,
        ) {
            let window = Duration::from_millis(window_ms);
            let (before, after) = (before_ms.min(window_ms), after_ms.min(window_ms));
            let until = Timestamp::from_nanos(until);
            let generation = Generation::of(until, window);
            prop_assert!(!generation.expired(until), "{generation:?} expires before {until:?}");
            // A lookup with any expiry range around `until` has the generation among its candidates.
            let from = Timestamp::from_nanos(until.as_nanos().saturating_sub(before * 1_000_000));
            let to = until.after(Duration::from_millis(after));
            let found: Vec<_> = Generation::between(from, to, window).collect();
            prop_assert!(found.contains(&generation));
            prop_assert!(found.len() <= 40, "{} generations to search", found.len());
            prop_assert!(found.is_sorted_by(|a, b| a > b));
        }
    }
}
