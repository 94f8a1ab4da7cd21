//! The concurrent filter under loom: every interleaving (up to a number of preemptions) of small scenes.
//!
//! `cargo xtask test` runs this with `--cfg loom`. The scenes are made so that one wrong order loses an id: the
//! window is seven ticks, a refresh is due after two, and a ring has one row.
#![cfg(loom)]

use std::time::Duration;

use forgetful_filter::{ForgetfulFilter, Key, Membership, Settings, Timestamp};
use loom::sync::Arc;
use loom::thread;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// One row, two probes, a window of seven ticks; id 0 has been in the open lane since the beginning.
fn filter() -> Arc<ForgetfulFilter> {
    let settings = Settings::for_window(Duration::from_nanos(7)).expected_ids(1).false_positive_rate(0.1);
    let filter = settings.build(Key::new([3; 16])).expect("valid settings");
    filter.insert(b"0", at(0));
    Arc::new(filter)
}

/// An insert that meets the refresh, expiry and sweep of the very lane it writes to is found afterwards.
#[test]
fn an_insert_survives_the_end_of_its_lane() {
    loom::model(|| {
        let filter = filter();
        let inserter = {
            let filter = Arc::clone(&filter);
            thread::spawn(move || filter.insert(b"a", at(100)))
        };
        filter.maintain(at(100));
        inserter.join().expect("no panic");
        assert!(filter.contains(b"a", at(101)));
        assert!(filter.contains(b"a", at(107)), "for the whole window");
    });
}

/// The same with the refresh brought about by another insert; both are found.
#[test]
fn two_inserts_across_a_refresh_are_both_found() {
    loom::model(|| {
        let filter = filter();
        let other = {
            let filter = Arc::clone(&filter);
            thread::spawn(move || filter.insert(b"a", at(1)))
        };
        filter.insert(b"b", at(3));
        other.join().expect("no panic");
        assert!(filter.contains(b"a", at(8)));
        assert!(filter.contains(b"b", at(10)));
    });
}

/// An insert that meets the opening of a larger segment is found in whichever segment took it.
#[test]
fn an_insert_survives_a_resize() {
    loom::model(|| {
        let filter = filter();
        // Full up to the last place, so that either of the two next ids opens a larger segment.
        let mut last = 0;
        while filter.status().resizes == 0 && last < 50 {
            last += 1;
            filter.insert(&[last], at(0));
        }
        assert_eq!(filter.status().resizes, 1, "it took {last} ids");
        let filter = self::filter();
        (1..last).for_each(|n| filter.insert(&[n], at(0)));
        assert_eq!(filter.status().resizes, 0);
        let other = {
            let filter = Arc::clone(&filter);
            thread::spawn(move || filter.insert(&[last], at(0)))
        };
        filter.insert(b"b", at(0));
        other.join().expect("no panic");
        assert_eq!(filter.status().resizes, 1);
        assert!(filter.contains(&[last], at(7)));
        assert!(filter.contains(b"b", at(7)));
    });
}

/// Two threads race on one id while the ring turns: one of them wins.
#[test]
fn a_race_across_a_refresh_has_one_winner() {
    loom::model(|| {
        let filter = filter();
        let other = {
            let filter = Arc::clone(&filter);
            thread::spawn(move || filter.check_and_insert(b"a", at(100)))
        };
        let mine = filter.check_and_insert(b"a", at(100));
        let theirs = other.join().expect("no panic");
        let wins = [mine, theirs].iter().filter(|sighting| **sighting == Membership::New).count();
        assert_eq!(wins, 1);
    });
}
