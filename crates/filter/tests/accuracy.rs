//! The false-positive rate: as sized, as estimated, under surges, and under another key.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{FOREIGN, Subject, WINDOW, false_positives, id, key, seconds};
use forgetful_filter::{DatedFilter, ForgetfulFilter, Growth, Key, Settings, Status, Timestamp};

fn fixed(ids: u64, target: f64) -> Settings {
    Settings::for_window(WINDOW).expected_ids(ids).false_positive_rate(target).growth(Growth::Fixed)
}

/// False positives at the worst instant under the load that the filter was sized for: 8/7 of a window of ids,
/// just before a refresh.
fn steady_rate<S: Subject>(ids: u64, target: f64, probes: u64) -> u64 {
    let subject = S::build(fixed(ids, target));
    let step = WINDOW.as_nanos() as f64 / ids as f64;
    let at = |number: u64| Timestamp::from_nanos(1_000 + (number as f64 * step) as u64);
    let total = ids * 8 / 7;
    (0..total).for_each(|number| subject.insert(number, at(number)));
    false_positives(&subject, probes, at(total))
}

/// Whether a count is within five standard deviations of the target.
fn within_target(found: u64, probes: u64, target: f64) -> bool {
    let expected = probes as f64 * target * 1.1;
    (found as f64) < expected + 5.0 * expected.sqrt()
}

#[test]
fn the_rate_is_within_every_target() {
    for (target, probes) in [(1e-2, 200_000), (1e-3, 1_000_000), (1e-4, 4_000_000)] {
        let arrival = steady_rate::<ForgetfulFilter>(50_000, target, probes);
        assert!(within_target(arrival, probes, target), "{target}: {arrival} of {probes}");
        let dated = steady_rate::<DatedFilter>(50_000, target, probes);
        assert!(within_target(dated, probes, target), "dated, {target}: {dated} of {probes}");
    }
}

#[test]
fn the_estimate_is_within_a_tenth_of_the_measurement() {
    const PROBES: u64 = 1_000_000;
    // Below, at and far above the expected load.
    for load in [30_000, 50_000, 80_000] {
        let filter = fixed(50_000, 1e-3).build(key()).unwrap();
        for number in 0..load * 8 / 7 {
            filter.insert(&id(number), seconds(1.0 + number as f64 * 60.0 / load as f64));
        }
        let now = seconds(1.0 + 60.0 * 8.0 / 7.0);
        let measured = false_positives(&filter, PROBES, now) as f64 / PROBES as f64;
        let ratio = filter.status().false_positive_rate / measured;
        let noise = 4.0 / (measured * PROBES as f64).sqrt();
        assert!((ratio - 1.0).abs() < 0.1 + noise, "load {load}: estimate is {ratio} of {measured}");
    }
}

#[test]
fn twice_the_rows_hold_twice_the_ids_at_the_same_rate() {
    const PROBES: u64 = 1_000_000;
    let [small, large] = [30_000, 60_000].map(|ids| steady_rate::<ForgetfulFilter>(ids, 1e-3, PROBES) as f64);
    assert!((small - large).abs() < 6.0 * small.sqrt(), "{small} against {large}");
}

#[test]
fn another_key_has_other_false_positives_at_the_same_rate() {
    const PROBES: u64 = 400_000;
    let false_positives = |key: Key| {
        let filter = fixed(50_000, 1e-2).build(key).unwrap();
        for number in 0..57_000 {
            filter.insert(&id(number), seconds(1.0 + number as f64 * 60.0 / 50_000.0));
        }
        let now = seconds(69.0);
        (FOREIGN..FOREIGN + PROBES).filter(|number| filter.contains(&id(*number), now)).collect::<Vec<_>>()
    };
    let (one, other) = (false_positives(Key::new([1; 16])), false_positives(Key::new([2; 16])));
    let difference = (one.len() as f64 - other.len() as f64).abs();
    assert!(difference < 6.0 * (one.len() as f64).sqrt(), "{} against {}", one.len(), other.len());
    let shared = one.iter().filter(|id| other.binary_search(id).is_ok()).count();
    assert!(shared * 10 < one.len(), "{shared} of {} in common", one.len());
}

/// Inserts a load of (seconds, ids per second) steps; calls `each_second` with the status.
fn drive(subject: &impl Subject, load: &[(u32, u32)], mut each_second: impl FnMut(u32, Status)) {
    let (mut number, mut second) = (0, 0);
    for &(seconds_long, rate) in load {
        for _ in 0..seconds_long {
            for k in 0..rate {
                subject.insert(number, seconds(f64::from(second) + f64::from(k) / f64::from(rate)));
                number += 1;
            }
            second += 1;
            each_second(second, subject.status());
        }
    }
}

fn stays_on_target_through_a_surge<S: Subject>() {
    let subject = S::build(Settings::for_window(WINDOW).expected_ids(6_000));
    let (mut worst, mut peak, mut last) = (0.0_f64, 0, 0);
    // 100 → 1,000 → 50 ids a second.
    drive(&subject, &[(200, 100), (200, 1_000), (600, 50)], |_, status| {
        worst = worst.max(status.false_positive_rate);
        peak = peak.max(status.bytes);
        last = status.bytes;
        assert_eq!(status.pressure, None, "{status:?}");
    });
    assert!(worst <= 1e-3, "the worst instant was {worst}");
    // The smallest filter for the peak: 60,000 ids at 23.5 bits.
    let optimum = 60_000.0 * 23.5 / 8.0;
    assert!((peak as f64) < 2.5 * optimum, "{peak} bytes against {optimum}");
    assert!((last as f64) < peak as f64 / 8.0, "memory follows the load down: {last} of {peak}");
}

#[test]
fn a_tenfold_surge_stays_on_target_and_memory_follows() {
    stays_on_target_through_a_surge::<ForgetfulFilter>();
    stays_on_target_through_a_surge::<DatedFilter>();
}

#[test]
fn a_surge_uses_few_segments_and_a_steady_load_one() {
    let filter = Settings::for_window(WINDOW).expected_ids(6_000).build(key()).unwrap();
    let mut most = 0;
    drive(&filter, &[(200, 100), (200, 1_000), (600, 50)], |second, status| {
        most = most.max(status.segments);
        if second < 200 || second == 400 {
            assert_eq!(status.segments, 1, "second {second}: {status:?}");
        }
    });
    assert!(most <= 3, "{most}");
    assert_eq!(filter.status().segments, 1);
}

/// The steady load is far above the ten expected ids.
#[test]
fn the_size_converges_under_a_steady_load() {
    let filter = Settings::for_window(WINDOW).expected_ids(10).build(key()).unwrap();
    let mut resizes = 0;
    drive(&filter, &[(600, 500)], |second, status| {
        if second == 180 {
            resizes = status.resizes;
        }
        if second > 180 {
            assert!(status.false_positive_rate <= 1e-3, "second {second}: {status:?}");
        }
    });
    assert_eq!(filter.status().resizes, resizes, "no resizes after 180 s");
}

/// A load that rises smoothly exceeds a doubled size within one window.
#[test]
fn ramps_and_steps_stay_on_target() {
    const START: f64 = 50.0;
    for factor in [5.0, 20.0, 50.0, 100.0] {
        for ramp_seconds in [0.0, 20.0, 60.0, 180.0] {
            let filter = Settings::for_window(WINDOW).expected_ids(3_000).build(key()).unwrap();
            let (mut number, mut worst) = (0, 0.0_f64);
            for second in 0..300_u32 {
                let risen = (f64::from(second) - 100.0) / f64::max(ramp_seconds, 1e-9);
                let rate = (START * (1.0 + (factor - 1.0) * risen.clamp(0.0, 1.0))) as u32;
                for k in 0..rate {
                    filter.insert(&id(number), seconds(f64::from(second) + f64::from(k) / f64::from(rate)));
                    number += 1;
                }
                worst = worst.max(filter.status().false_positive_rate);
                assert_eq!(filter.status().pressure, None, "x{factor} in {ramp_seconds} s, at {second} s");
            }
            assert!(worst <= 1e-3, "x{factor} in {ramp_seconds} s: {worst}");
        }
    }
}

/// Early refreshes at the cap would use up the lanes and overfill the last one.
#[test]
fn elastic_filter_at_its_cap_is_as_good_as_a_fixed_one() {
    for overload in [1.2, 1.5, 2.0] {
        let rate = |filter: &ForgetfulFilter, under_pressure: bool| {
            let (mut sum, mut samples) = (0.0, 0);
            drive(filter, &[(300, (1_000.0 * overload) as u32)], |second, status| {
                if second > 100 {
                    sum += status.false_positive_rate;
                    samples += 1;
                    assert!(!under_pressure || status.pressure.is_some(), "second {second}: {status:?}");
                }
            });
            sum / f64::from(samples)
        };
        // The elastic filter has the size of its cap from the start.
        let settings = Settings::for_window(WINDOW).expected_ids(60_000 * 4 / 5);
        let cap = settings.clone().build(key()).unwrap().bytes();
        let filter = settings.memory_cap(cap).build(key()).unwrap();
        let elastic = rate(&filter, true);
        assert_eq!(filter.bytes(), cap);
        let filter = fixed((cap as f64 * 8.0 / 23.48) as u64, 1e-3).build(key()).unwrap();
        assert!(filter.bytes().abs_diff(cap) < cap / 20);
        let fixed = rate(&filter, false);
        assert!(elastic < 1.5 * fixed, "overload {overload}: {elastic} against {fixed}");
    }
}

/// Generations are sized by earlier ones; after quiet ones the expected load must still fit.
#[test]
fn dated_filter_takes_the_expected_load_after_quiet_time() {
    let filter = Settings::for_window(WINDOW).expected_ids(1_600_000).build_dated(key()).unwrap();
    let period = 60.0 / 16.0;
    let mut number = 0;
    for generation in 0..12_u32 {
        let ids = if generation < 6 { 10 } else { 100_000 };
        for k in 0..ids {
            let now = seconds(period * (f64::from(generation) + f64::from(k) / f64::from(ids)));
            filter.insert(&id(number), now, now).unwrap();
            number += 1;
        }
        let status = filter.status();
        assert!(!status.over_target(), "generation {generation}: {status:?}");
        assert_eq!(status.pressure, None, "generation {generation}: {status:?}");
    }
}

/// The load of a new table is unknown: sized for ten thousand ids, it may get millions in its first
/// generation.
fn stays_on_target_at_400_times_the_expected_load<S: Subject>() {
    const IDS: u64 = 4_000_000;
    let subject = S::build(Settings::for_window(WINDOW).expected_ids(10_000).false_positive_rate(1e-3));
    let now = seconds(1.0);
    (0..IDS).for_each(|number| subject.insert(number, now));
    let found = false_positives(&subject, 1_000_000, now);
    assert!(within_target(found, 1_000_000, 1e-3), "{found} of a million: {:?}", subject.status());
}

#[test]
fn an_unexpected_load_stays_on_target() {
    stays_on_target_at_400_times_the_expected_load::<ForgetfulFilter>();
    stays_on_target_at_400_times_the_expected_load::<DatedFilter>();
}
