//! The store's clock: it never goes back and hardly gains on real time, whatever the system clocks return.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use jeton_core::{GAIN, StoreClock, Timestamp, with_clock_drift};
use proptest::prelude::*;

proptest! {
    #[test]
    fn time_never_goes_back_and_gains_at_most_an_eighth(
        begin in (0u64..1 << 62, 0u64..1 << 62, 0u64..1 << 62),
        readings in prop::collection::vec((prop_oneof![any::<u64>(), 0u64..1 << 62], 0u64..1 << 50, 0u64..1 << 20), 1..60),
    ) {
        let (wall, logged, mut clock) = begin;
        let mut time = StoreClock::begin(Timestamp::from_nanos(wall), Timestamp::from_nanos(logged), Duration::from_nanos(clock));
        let start = time.now();
        prop_assert_eq!(start, Timestamp::from_nanos(wall.max(logged)));
        let (mut before, mut passed) = (start, 0u64);
        for (wall, step, back) in readings {
            // A monotonic clock that another thread reads a little late.
            clock += step;
            passed += step;
            let read = Duration::from_nanos(clock);
            let now = time.advance(Timestamp::from_nanos(wall), read);
            prop_assert!(now >= before, "it goes back");
            let most = passed + passed / u64::from(GAIN);
            prop_assert!(now.since(start) <= Duration::from_nanos(most), "it gains too much");
            prop_assert_eq!(time.now(), now);
            // The same or an older reading adds no time.
            prop_assert_eq!(time.advance(Timestamp::from_nanos(u64::MAX), read.saturating_sub(Duration::from_nanos(back))), now);
            before = now;
        }
    }

    #[test]
    fn follows_a_clock_up_to_an_eighth_too_fast(
        start in 0u64..1 << 60,
        steps in prop::collection::vec((0u64..1 << 40, 0u64..=8), 1..30),
    ) {
        let (mut wall, mut real) = (start, 0);
        let mut time = StoreClock::begin(Timestamp::from_nanos(wall), Timestamp::ZERO, Duration::ZERO);
        for (step, eighths) in steps {
            real += step;
            wall += step + step / 8 * eighths / 8;
            prop_assert_eq!(time.advance(Timestamp::from_nanos(wall), Duration::from_nanos(real)), Timestamp::from_nanos(wall));
        }
    }

    /// What is recorded for the stretched window is recorded for the window of real time.
    #[test]
    fn drift_covers_the_fastest_clock(window in 0u64..1 << 60, parts in 1u64..9) {
        let mut time = StoreClock::begin(Timestamp::ZERO, Timestamp::ZERO, Duration::ZERO);
        for part in 1..=parts {
            let real = (u128::from(window) * u128::from(part) / u128::from(parts)) as u64;
            time.advance(Timestamp::from_nanos(u64::MAX), Duration::from_nanos(real));
        }
        prop_assert!(time.now().since(Timestamp::ZERO) <= with_clock_drift(Duration::from_nanos(window)));
    }
}

#[test]
fn time_saturates() {
    let mut time = StoreClock::begin(Timestamp::from_nanos(u64::MAX), Timestamp::ZERO, Duration::ZERO);
    assert_eq!(time.advance(Timestamp::ZERO, Duration::MAX), Timestamp::from_nanos(u64::MAX));
    assert_eq!(with_clock_drift(Duration::MAX), Duration::MAX);
}
