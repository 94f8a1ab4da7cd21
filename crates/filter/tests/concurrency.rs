//! Concurrent threads: no insert is lost, and a race has one winner, during refreshes, sweeps and resizes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{id, key};
use forgetful_filter::{ForgetfulFilter, Membership, Settings, Timestamp};

const WINDOW: Duration = Duration::from_millis(100);

/// Virtual time that all threads advance, by 500 ns per operation.
struct Ticker(AtomicU64);

impl Ticker {
    fn next(&self) -> Timestamp {
        Timestamp::from_nanos(1_000_000 + self.0.fetch_add(500, Ordering::Relaxed))
    }
}

/// Small and elastic: the filter grows and refreshes often under the load of the tests.
fn settings() -> Settings {
    Settings::for_window(WINDOW).expected_ids(2_000).skew(WINDOW)
}

#[test]
fn a_thread_finds_the_ids_that_it_inserted() {
    let filter = settings().build(key()).unwrap();
    let ticker = Ticker(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (filter, ticker) = (&filter, &ticker);
            scope.spawn(move || {
                let mut recent = std::collections::VecDeque::new();
                for n in 0..60_000_u64 {
                    let (number, inserted) = (thread << 32 | n, ticker.next());
                    filter.insert(&id(number), inserted);
                    recent.push_back((number, inserted));
                    let now = ticker.next();
                    while recent.front().is_some_and(|(_, at)| now.since(*at) > WINDOW) {
                        recent.pop_front();
                    }
                    // After a pause of a whole window the thread has no id left to check.
                    if recent.is_empty() {
                        continue;
                    }
                    let (number, at) = recent[n as usize * 7_919 % recent.len()];
                    // Another thread may have advanced the filter's time beyond `now`; the latest time
                    // counts.
                    let found = filter.contains(&id(number), now);
                    let latest = Timestamp::from_nanos(1_000_000 + ticker.0.load(Ordering::Relaxed));
                    assert!(found || latest.since(at) > WINDOW, "{number} of {at:?} at {now:?}");
                }
            });
        }
    });
    let status = filter.status();
    assert!(status.refreshes_by_age > 5 && status.resizes > 0, "{status:?}");
}

/// All threads insert the same ids in the same order, and no id may be new twice. Returns the ids without a
/// winner.
fn one_winner_each(ids: u64, check_and_insert: impl Fn(u64, Timestamp) -> bool + Sync) -> u64 {
    let ticker = Ticker(AtomicU64::new(0));
    let winners: Vec<AtomicU64> = (0..ids).map(|_| AtomicU64::new(0)).collect();
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (number, wins) in winners.iter().enumerate() {
                    // The barrier keeps the threads less than a window apart.
                    if number % 1_000 == 0 {
                        barrier.wait();
                    }
                    if check_and_insert(number as u64, ticker.next()) {
                        wins.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let twice = winners.iter().filter(|wins| wins.load(Ordering::Relaxed) > 1).count();
    assert_eq!(twice, 0, "ids that were new to two threads");
    winners.iter().filter(|wins| wins.load(Ordering::Relaxed) == 0).count() as u64
}

#[test]
fn one_thread_wins_a_race_on_an_id() {
    let filter = settings().build(key()).unwrap();
    let ids = 100_000;
    let without =
        one_winner_each(ids, |number, now| filter.check_and_insert(&id(number), now) == Membership::New);
    let status = filter.status();
    assert!(status.refreshes_by_age > 5 && status.resizes > 0, "{status:?}");
    // A false positive has no winner.
    assert!(without < ids / 200, "{without} of {ids} had no winner");
}

#[test]
fn one_thread_wins_a_race_on_a_dated_id() {
    let filter = settings().build_dated(key()).unwrap();
    let ids = 100_000;
    // All threads use the same date for an id.
    let dated = |number: u64| Timestamp::from_nanos(1_000_000 + number * 2_000);
    let without = one_winner_each(ids, |number, now| {
        let now = now.max(dated(number));
        filter.check_and_insert(&id(number), dated(number), now) == Ok(Membership::New)
    });
    assert!(filter.status().refreshes_by_age > 5, "{:?}", filter.status());
    assert!(without < ids / 200, "{without} of {ids} had no winner");
}

#[test]
fn a_concurrent_snapshot_has_all_earlier_inserts() {
    let filter = settings().build(key()).unwrap();
    let now = Timestamp::from_nanos(5_000_000);
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..50_000 {
                filter.insert(&id(number), now);
                done.store(number + 1, Ordering::Release);
            }
        });
        while !writer.is_finished() {
            let before = done.load(Ordering::Acquire);
            let restored = ForgetfulFilter::restore(&filter.snapshot(), key(), now, 1 << 30).unwrap();
            assert!((0..before).all(|number| restored.contains(&id(number), now)));
        }
    });
}
