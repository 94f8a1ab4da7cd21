//! The store's time: it never goes back and hardly gains on real time, whatever the clocks say.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use jeton_core::{GAIN, StoreClock, Timestamp, with_clock_drift};
use proptest::prelude::*;

proptest! {
    #[test]
    fn it_never_goes_back_and_gains_at_most_an_eighth(
        begin in (0u64..1 << 62, 0u64..1 << 62, 0u64..1 << 62),
        readings in prop::collection::vec((prop_oneof![any::<u64>(), 0u64..1 << 62], 0u64..1 << 50, 0u64..1 << 20), 1..60),
    ) {
        let (wall, logged, mut clock) = begin;
        let mut time = StoreClock::begin(Timestamp::from_nanos(wall), Timestamp::from_nanos(logged), Duration::from_nanos(clock));
        let start = time.now();
        prop_assert_eq!(start, Timestamp::from_nanos(wall.max(logged)));
        let (mut before, mut passed) = (start, 0u64);
        for (wall, step, back) in readings {
            // A measuring clock that is read a little late by another thread.
            clock += step;
            passed += step;
            let read = Duration::from_nanos(clock);
            let now = time.advance(Timestamp::from_nanos(wall), read);
            prop_assert!(now >= before, "it goes back");
            let most = passed + passed / u64::from(GAIN);
            prop_assert!(now.since(start) <= Duration::from_nanos(most), "it gains too much");
            prop_assert_eq!(time.now(), now);
            // The same reading again, or an older one, brings no more time.
            prop_assert_eq!(time.advance(Timestamp::from_nanos(u64::MAX), read.saturating_sub(Duration::from_nanos(back))), now);
            before = now;
        }
    }

    #[test]
    fn it_follows_a_clock_that_runs_at_most_an_eighth_too_fast(
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

    /// What is kept for the stretched window is kept for the window of real time.
    #[test]
    fn a_stretched_window_is_as_long_as_the_fastest_timeline_runs_in_the_window(window in 0u64..1 << 60, parts in 1u64..9) {
        let mut time = StoreClock::begin(Timestamp::ZERO, Timestamp::ZERO, Duration::ZERO);
        for part in 1..=parts {
            let real = (u128::from(window) * u128::from(part) / u128::from(parts)) as u64;
            time.advance(Timestamp::from_nanos(u64::MAX), Duration::from_nanos(real));
        }
        prop_assert!(time.now().since(Timestamp::ZERO) <= with_clock_drift(Duration::from_nanos(window)));
    }
}

#[test]
fn the_end_of_time_is_reached_and_not_passed() {
    let mut time = StoreClock::begin(Timestamp::from_nanos(u64::MAX), Timestamp::ZERO, Duration::ZERO);
    assert_eq!(time.advance(Timestamp::ZERO, Duration::MAX), Timestamp::from_nanos(u64::MAX));
    assert_eq!(with_clock_drift(Duration::MAX), Duration::MAX);
}
