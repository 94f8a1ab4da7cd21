//! The store's clock: it never goes back and gains at most an eighth on real time, whatever the system clocks
//! return.

use crate::common::*;

fn nanos(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn reading() -> impl Strategy<Value = (u64, u64, u64)> {
    (prop_oneof![any::<u64>(), 0u64..1 << 62], 0u64..1 << 50, 0u64..1 << 20)
}

proptest! {
    #[test]
    fn time_never_goes_back_and_gains_at_most_an_eighth(
        begin in (0u64..1 << 62, 0u64..1 << 62, 0u64..1 << 62),
        readings in prop::collection::vec(reading(), 1..60),
    ) {
        let (wall, logged, mut clock) = begin;
        let mut time = StoreClock::begin(nanos(wall), nanos(logged), Duration::from_nanos(clock));
        let start = time.now();
        prop_assert_eq!(start, nanos(wall.max(logged)));
        let (mut before, mut passed) = (start, 0u64);
        for (wall, step, back) in readings {
            // A monotonic clock that another thread reads a little late.
            clock += step;
            passed += step;
            let read = Duration::from_nanos(clock);
            let now = time.advance(nanos(wall), read);
            prop_assert!(now >= before, "the time goes back");
            let most = passed + passed / u64::from(GAIN);
            prop_assert!(now.since(start) <= Duration::from_nanos(most), "the time gains too much");
            prop_assert_eq!(time.now(), now);
            // The same or an older reading adds no time.
            let older = read.saturating_sub(Duration::from_nanos(back));
            prop_assert_eq!(time.advance(nanos(u64::MAX), older), now);
            before = now;
        }
    }

    #[test]
    fn follows_a_clock_up_to_an_eighth_too_fast(
        start in 0u64..1 << 60,
        steps in prop::collection::vec((0u64..1 << 40, 0u64..=8), 1..30),
    ) {
        let (mut wall, mut real) = (start, 0);
        let mut time = StoreClock::begin(nanos(wall), Timestamp::ZERO, Duration::ZERO);
        for (step, eighths) in steps {
            real += step;
            wall += step + step / 8 * eighths / 8;
            prop_assert_eq!(time.advance(nanos(wall), Duration::from_nanos(real)), nanos(wall));
        }
    }

    /// A record that is kept for the window with drift is kept for the window of real time.
    #[test]
    fn drift_covers_the_fastest_clock(window in 0u64..1 << 60, parts in 1u64..9) {
        let mut time = StoreClock::begin(Timestamp::ZERO, Timestamp::ZERO, Duration::ZERO);
        for part in 1..=parts {
            let real = (u128::from(window) * u128::from(part) / u128::from(parts)) as u64;
            time.advance(nanos(u64::MAX), Duration::from_nanos(real));
        }
        prop_assert!(time.now().since(Timestamp::ZERO) <= with_clock_drift(Duration::from_nanos(window)));
    }
}

#[test]
fn follows_the_wall_clock_within_limits() {
    // Wall clock and monotonic clock at the start; then readings of both, and the store's time. In seconds.
    for (case, wall, elapsed, readings) in [
        ("a correct clock", 1000, 5, &[(1010, 15, 1010)][..]),
        ("a jump forward", 1000, 0, &[(900_000, 8, 1009), (900_000, 16, 1018)]),
        ("a step back", 1000, 0, &[(10, 8, 1000), (1001, 9, 1001)]),
        ("a monotonic clock that steps back", 1000, 100, &[(5000, 50, 1000), (5000, 108, 1009)]),
    ] {
        let secs = Timestamp::from_secs;
        let mut time = StoreClock::begin(secs(wall), Timestamp::ZERO, Duration::from_secs(elapsed));
        for (wall, elapsed, now) in readings {
            assert_eq!(time.advance(secs(*wall), Duration::from_secs(*elapsed)), secs(*now), "{case}");
        }
    }
}

#[test]
fn time_saturates() {
    let mut time = StoreClock::begin(nanos(u64::MAX), Timestamp::ZERO, Duration::ZERO);
    assert_eq!(time.advance(Timestamp::ZERO, Duration::MAX), nanos(u64::MAX));
    assert_eq!(with_clock_drift(Duration::MAX), Duration::MAX);
}
