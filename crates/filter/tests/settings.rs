//! Invalid settings are rejected, and the message names the setting.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::time::Duration;

use common::{WINDOW, id, key, seconds};
use forgetful_filter::{Growth, Settings, SettingsError, TARGET_MIN, WINDOW_MAX};

/// The message of both builders, which must agree.
fn rejection(settings: Settings) -> String {
    let errors = [settings.clone().build(key()).err(), settings.build_dated(key()).err()];
    let [arrival, dated] = errors.map(|error| error.map_or("accepted".into(), |error| error.to_string()));
    assert_eq!(arrival, dated);
    arrival
}

#[test]
fn each_invalid_setting_is_named() {
    let valid = Settings::for_window(WINDOW);
    assert_eq!(rejection(valid.clone()), "accepted");
    for (settings, message) in [
        (Settings::for_window(Duration::ZERO), "window: must be longer than zero"),
        (Settings::for_window(Duration::MAX), "window: "),
        (valid.clone().false_positive_rate(0.0), "false_positive_rate: 0 is not between 1e-9 and 0.5"),
        (valid.clone().false_positive_rate(1.0), "false_positive_rate: 1 is not between 1e-9 and 0.5"),
        (valid.clone().false_positive_rate(-0.1), "false_positive_rate: -0.1 is not between 1e-9 and 0.5"),
        (valid.clone().false_positive_rate(f64::NAN), "false_positive_rate: NaN is not between 1e-9 and 0.5"),
        (valid.clone().expected_ids(0), "expected_ids: must be at least 1"),
        (valid.clone().expected_ids(u64::MAX), "expected_ids: 18446744073709551615 need more memory than"),
        (valid.clone().generations(1), "generations: 1 is not between 2 and 64"),
        (valid.clone().generations(65), "generations: 65 is not between 2 and 64"),
        (valid.clone().skew(WINDOW * 2), "skew: 120s is longer than the window, 60s"),
    ] {
        let found = rejection(settings);
        assert!(found.starts_with(message), "{found:?}, expected {message:?}");
    }
}

/// The memory that the rejection of a cap of 0 reports.
fn needed(error: Option<SettingsError>) -> usize {
    match error {
        Some(SettingsError::MemoryCapTooSmall { cap: 0, needed }) => needed,
        error => panic!("a cap of 0: {error:?}"),
    }
}

#[test]
fn the_reported_memory_cap_is_the_minimum() {
    for ids in [1, 1_000, 1_000_000] {
        let settings = Settings::for_window(WINDOW).expected_ids(ids);
        let needed = needed(settings.clone().memory_cap(0).build(key()).err());
        let filter = settings.clone().memory_cap(needed).build(key()).unwrap();
        assert!(filter.status().bytes <= needed);
        assert!(settings.memory_cap(needed - 1).build(key()).is_err());
    }
}

#[test]
fn the_reported_dated_cap_fits_the_expected_load() {
    for growth in [Growth::Fixed, Growth::Elastic] {
        let settings = Settings::for_window(WINDOW).expected_ids(60_000).growth(growth).skew(WINDOW / 2);
        let needed = needed(settings.clone().memory_cap(0).build_dated(key()).err());
        let filter = settings.memory_cap(needed).build_dated(key()).unwrap();
        for number in 0..200_000_u32 {
            let now = seconds(f64::from(number) * 1e-3);
            filter.insert(&id(u64::from(number)), now, now).unwrap();
        }
        let status = filter.status();
        assert!(status.bytes <= needed && status.pressure.is_none(), "{status:?}");
        // The number of ids in a word varies, and a fixed filter has no reserve for it.
        assert!(status.false_positive_rate < 1.1e-3, "{status:?}");
    }
}

#[test]
fn the_ends_of_all_ranges_are_accepted() {
    for window in [Duration::from_nanos(1), WINDOW_MAX] {
        for target in [TARGET_MIN, 0.5] {
            for generations in [2, 64] {
                let settings = Settings::for_window(window)
                    .false_positive_rate(target)
                    .generations(generations)
                    .expected_ids(1);
                assert_eq!(rejection(settings), "accepted");
            }
        }
    }
}

#[test]
fn a_key_is_not_shown() {
    assert_eq!(format!("{:?}", key()), "Key(secret)");
}
