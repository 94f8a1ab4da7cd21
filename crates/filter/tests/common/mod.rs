//! A key, ids, and both filters behind one interface.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::time::Duration;

use forgetful_filter::{DatedFilter, ForgetfulFilter, Key, Settings, Status, Timestamp};

pub fn key() -> Key {
    Key::new(*b"key of the tests")
}

pub fn id(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// Ids from here on are not inserted by any test.
pub const FOREIGN: u64 = 1 << 40;

pub const WINDOW: Duration = Duration::from_secs(60);

pub fn seconds(seconds: f64) -> Timestamp {
    Timestamp::from_nanos((seconds * 1e9) as u64)
}

/// Either filter, by arrival: the date of an id is the time of its insert.
pub trait Subject: Sized {
    fn build(settings: Settings) -> Self;
    fn insert(&self, id: u64, now: Timestamp);
    /// `inserted` is the time of the insert, which a dated filter needs.
    fn contains(&self, id: u64, inserted: Timestamp, now: Timestamp) -> bool;
    fn maintain(&self, now: Timestamp);
    fn status(&self) -> Status;
    fn through_snapshot(&self, now: Timestamp) -> Self;
}

/// The methods that both filters have with the same signature.
macro_rules! same_methods {
    () => {
        fn maintain(&self, now: Timestamp) {
            self.maintain(now);
        }
        fn status(&self) -> Status {
            self.status()
        }
        fn through_snapshot(&self, now: Timestamp) -> Self {
            Self::restore(&self.snapshot(), key(), now, 1 << 30).unwrap()
        }
    };
}

impl Subject for ForgetfulFilter {
    fn build(settings: Settings) -> Self {
        settings.build(key()).unwrap()
    }
    fn insert(&self, number: u64, now: Timestamp) {
        self.insert(&id(number), now);
    }
    fn contains(&self, number: u64, _: Timestamp, now: Timestamp) -> bool {
        self.contains(&id(number), now)
    }
    same_methods!();
}

impl Subject for DatedFilter {
    fn build(settings: Settings) -> Self {
        settings.build_dated(key()).unwrap()
    }
    fn insert(&self, number: u64, now: Timestamp) {
        self.insert(&id(number), now, now).unwrap();
    }
    fn contains(&self, number: u64, inserted: Timestamp, now: Timestamp) -> bool {
        self.contains(&id(number), inserted, now).unwrap()
    }
    same_methods!();
}

/// Number of false positives among `probes` foreign ids.
pub fn false_positives(subject: &impl Subject, probes: u64, now: Timestamp) -> u64 {
    (0..probes).filter(|n| subject.contains(FOREIGN + n, now, now)).count() as u64
}
