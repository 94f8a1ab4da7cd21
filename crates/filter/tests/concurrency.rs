//! Threads: no insert is lost, and a race has one winner, while the filter refreshes, sweeps and resizes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{id, key};
use forgetful_filter::{DatedFilter, ForgetfulFilter, Membership, Settings, Timestamp};

const WINDOW: Duration = Duration::from_millis(100);

/// Virtual time that all threads push on: every operation takes a moment.
struct Ticker(AtomicU64);

impl Ticker {
    fn next(&self) -> Timestamp {
        Timestamp::from_nanos(1_000_000 + self.0.fetch_add(500, Ordering::Relaxed))
    }
}

/// Small and elastic: it grows under this load, and refreshes hundreds of times.
fn settings() -> Settings {
    Settings::for_window(WINDOW).expected_ids(2_000).skew(WINDOW)
}

#[test]
fn what_a_thread_inserted_it_finds() {
    let filter: ForgetfulFilter = settings().build(key()).unwrap();
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
                    // A thread that lost its core for a whole window has nothing left to check.
                    if recent.is_empty() {
                        continue;
                    }
                    let (number, at) = recent[n as usize * 7_919 % recent.len()];
                    // The clock of the filter may have been pushed beyond this thread's `now` by another one:
                    // what counts is the latest.
                    let found = filter.contains(&id(number), now);
                    let latest = Timestamp::from_nanos(1_000_000 + ticker.0.load(Ordering::Relaxed));
                    assert!(found || latest.since(at) > WINDOW, "{number} of {at:?} at {now:?}");
                }
            });
        }
    });
    let status = filter.status();
    assert!(status.refreshes_by_age > 5 && status.resizes > 0, "nothing happened meanwhile: {status:?}");
}

/// All threads bring the same ids in the same order; each id must be new exactly once.
fn one_winner_each(ids: u64, check_and_insert: impl Fn(u64, Timestamp) -> bool + Sync) -> u64 {
    let ticker = Ticker(AtomicU64::new(0));
    let winners: Vec<AtomicU64> = (0..ids).map(|_| AtomicU64::new(0)).collect();
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (number, wins) in winners.iter().enumerate() {
                    // In step, so that no thread comes later than a window after the others.
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
fn of_threads_that_race_on_an_id_one_wins() {
    let filter: ForgetfulFilter = settings().build(key()).unwrap();
    let ids = 100_000;
    let without =
        one_winner_each(ids, |number, now| filter.check_and_insert(&id(number), now) == Membership::New);
    let status = filter.status();
    assert!(status.refreshes_by_age > 5 && status.resizes > 0, "nothing happened meanwhile: {status:?}");
    // Nobody wins where an id was mistaken for a known one.
    assert!(without < ids / 200, "{without} of {ids} had no winner");
}

#[test]
fn of_threads_that_race_on_a_dated_id_one_wins() {
    let filter: DatedFilter = settings().build_dated(key()).unwrap();
    let ids = 100_000;
    // All threads must name the same time for an id, as its maker did; it arrives up to a skew away from it.
    let dated = |number: u64| Timestamp::from_nanos(1_000_000 + number * 2_000);
    let without = one_winner_each(ids, |number, now| {
        let now = now.max(dated(number));
        filter.check_and_insert(&id(number), dated(number), now) == Ok(Membership::New)
    });
    assert!(filter.status().refreshes_by_age > 5, "nothing happened meanwhile: {:?}", filter.status());
    assert!(without < ids / 200, "{without} of {ids} had no winner");
}

#[test]
fn a_snapshot_under_load_holds_what_was_inserted_before_it() {
    let filter: ForgetfulFilter = settings().build(key()).unwrap();
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
