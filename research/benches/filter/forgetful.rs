//! The filter under test, filled to its worst instant.

use std::time::Duration;

use forgetful_filter::{DatedFilter, ForgetfulFilter, Growth, Key, Settings, Timestamp};

use crate::measure::id;

pub const WINDOW: Duration = Duration::from_secs(600);

pub fn key() -> Key {
    Key::new(*b"versus benchmark")
}

/// Sized for a known, steady load of `ids` per window.
pub fn settings(ids: u64, target: f64) -> Settings {
    Settings::for_window(WINDOW)
        .expected_ids(ids)
        .false_positive_rate(target)
        .growth(Growth::Fixed)
        .memory_cap(4 << 30)
}

/// The virtual time at which id `number` of a steady load arrives. The first one arrives after one second.
#[inline]
pub fn arrival(number: u64, ids: u64) -> Timestamp {
    let per_id = WINDOW.as_nanos() as f64 / ids as f64;
    Timestamp::from_nanos(1_000_000_000 + (number as f64 * per_id) as u64)
}

/// Number of ids with which every lane is full: a thousandth before the refresh that drops the oldest.
pub fn full(ids: u64) -> u64 {
    (ids as f64 * 8.0 / 7.0 * 0.999) as u64
}

/// The arrival of the last of these ids.
pub fn worst_instant(ids: u64) -> Timestamp {
    arrival(full(ids) - 1, ids)
}

/// A filter at its worst instant: ids `0..full(ids)` arrived at a steady rate.
pub fn steady(ids: u64, target: f64) -> ForgetfulFilter {
    let filter = settings(ids, target).build(key()).expect("settings are valid");
    for number in 0..full(ids) {
        filter.insert(&id(number), arrival(number, ids));
    }
    filter
}

/// A dated filter with the same load; the date of an id is its arrival.
pub fn steady_dated(ids: u64, target: f64) -> DatedFilter {
    let filter = settings(ids, target).build_dated(key()).expect("settings are valid");
    for number in 0..full(ids) {
        let now = arrival(number, ids);
        filter.insert(&id(number), now, now).expect("ids are within the window");
    }
    filter
}
