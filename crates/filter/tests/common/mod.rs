//! What the tests share: a key, ids, both filters behind one interface, and the model they are
//! held against.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::HashMap;
use std::time::Duration;

use forgetful_filter::{DatedFilter, ForgetfulFilter, Key, Settings, Status, Timestamp};

pub fn key() -> Key {
    Key::new(*b"key of the tests")
}

pub fn id(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// Ids from here on are never inserted by a test.
pub const FOREIGN: u64 = 1 << 40;

pub const WINDOW: Duration = Duration::from_secs(60);

pub fn seconds(seconds: f64) -> Timestamp {
    Timestamp::from_nanos((seconds * 1e9) as u64)
}

/// Either filter, used by arrival: a dated id is minted as it is inserted.
pub trait Subject: Sized {
    fn build(settings: Settings) -> Self;
    fn insert(&self, id: u64, now: Timestamp);
    /// `inserted` is when the id was minted, for filters that need to know.
    fn contains(&self, id: u64, inserted: Timestamp, now: Timestamp) -> bool;
    fn maintain(&self, now: Timestamp);
    fn status(&self) -> Status;
    fn through_snapshot(&self, now: Timestamp) -> Self;
}

/// A filter as a subject: how it is built, inserts and looks up; the rest has the same names in both.
macro_rules! subject {
    ($filter:ty, $build:ident, $insert:expr, $contains:expr) => {
        impl Subject for $filter {
            fn build(settings: Settings) -> Self {
                settings.$build(key()).unwrap()
            }
            fn insert(&self, number: u64, now: Timestamp) {
                ($insert)(self, &id(number), now);
            }
            fn contains(&self, number: u64, inserted: Timestamp, now: Timestamp) -> bool {
                ($contains)(self, &id(number), inserted, now)
            }
            fn maintain(&self, now: Timestamp) {
                <$filter>::maintain(self, now);
            }
            fn status(&self) -> Status {
                <$filter>::status(self)
            }
            fn through_snapshot(&self, now: Timestamp) -> Self {
                <$filter>::restore(&self.snapshot(), key(), now, 1 << 30).unwrap()
            }
        }
    };
    (by arrival: $filter:ty, $build:ident) => {
        subject!(
            $filter,
            $build,
            <$filter>::insert,
            |filter: &$filter, id: &[u8], _: Timestamp, now: Timestamp| { filter.contains(id, now) }
        );
    };
    (dated: $filter:ty, $build:ident) => {
        subject!(
            $filter,
            $build,
            |filter: &$filter, id: &[u8], now: Timestamp| <$filter>::insert(filter, id, now, now).unwrap(),
            |filter: &$filter, id: &[u8], inserted: Timestamp, now: Timestamp| {
                <$filter>::contains(filter, id, inserted, now).unwrap()
            }
        );
    };
}

subject!(by arrival: ForgetfulFilter, build);
subject!(dated: DatedFilter, build_dated);

/// What an exact filter would know.
#[derive(Default)]
pub struct Model {
    inserted: HashMap<u64, Timestamp>,
}

impl Model {
    pub fn insert(&mut self, id: u64, now: Timestamp) {
        self.inserted.insert(id, now);
    }

    /// Ids that must be found at `now`, with the time of their insert.
    pub fn live(&self, now: Timestamp, window: Duration) -> impl Iterator<Item = (u64, Timestamp)> + '_ {
        self.inserted.iter().map(|(id, at)| (*id, *at)).filter(move |(_, at)| now.since(*at) <= window)
    }
}

/// How many of so many foreign ids are taken for known.
pub fn false_positives(subject: &impl Subject, probes: u64, now: Timestamp) -> u64 {
    (0..probes).filter(|n| subject.contains(FOREIGN + n, now, now)).count() as u64
}
