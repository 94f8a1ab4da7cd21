//! Generations: ids that expire at about the same time are kept together, so that they can be dropped together.
//!
//! A generation is named by the time at which the last of its ids expires, in milliseconds. A window is cut into about eight of
//! them, at multiples of a power of two, so that tables with similar windows share theirs.

use std::time::Duration;

use forgetful_filter::Timestamp;

/// A window is cut into at least so many generations.
const PER_WINDOW: u128 = 8;

/// A generation, named by the time at which it ends, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

impl Generation {
    /// The generation of an id that must be remembered until `until`, in a table with this window.
    pub fn of(until: Timestamp, window: Duration) -> Self {
        let width = width(window);
        Self(millis_up(until).div_ceil(width).saturating_mul(width))
    }

    /// The generations of ids that must be remembered until some time between `from` and `to`, the latest first.
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
    // Down to a power of two: at least eight generations, fewer than seventeen.
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
        fn an_id_is_found_and_outlived(
            until in 0u64..1 << 62,
            window_ms in 1u64..1 << 40,
            before_ms in 0u64..1 << 40,
            after_ms in 0u64..1 << 40,
        ) {
            let window = Duration::from_millis(window_ms);
            let (before, after) = (before_ms.min(window_ms), after_ms.min(window_ms));
            let until = Timestamp::from_nanos(until);
            let generation = Generation::of(until, window);
            prop_assert!(!generation.expired(until), "{generation:?} goes before {until:?}");
            // Whoever looks for an id that may expire from here to there finds its generation among the candidates.
            let from = Timestamp::from_nanos(until.as_nanos().saturating_sub(before * 1_000_000));
            let to = until.after(Duration::from_millis(after));
            let found: Vec<_> = Generation::between(from, to, window).collect();
            prop_assert!(found.contains(&generation));
            prop_assert!(found.len() <= 40, "{} generations to search", found.len());
            prop_assert!(found.is_sorted_by(|a, b| a > b));
        }
    }
}
