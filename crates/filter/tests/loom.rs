//! The filter under loom: every interleaving, up to a number of preemptions, of small scenarios.
//!
//! `cargo xtask test` runs this with `--cfg loom`. The window is seven ticks, a refresh is due after two, and
//! a ring has one row, so a single wrong order loses an id.
#![cfg(loom)]

use std::time::Duration;

use forgetful_filter::{ForgetfulFilter, Key, Membership, Settings, Timestamp};
use loom::sync::Arc;
use loom::thread;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// One row, two probes, a window of seven ticks; the open lane contains id 0.
fn filter() -> Arc<ForgetfulFilter> {
    let settings = Settings::for_window(Duration::from_nanos(7)).expected_ids(1).false_positive_rate(0.1);
    let filter = settings.build(Key::new([3; 16])).expect("valid settings");
    filter.insert(b"0", at(0));
    Arc::new(filter)
}

fn spawn<T: 'static>(
    filter: &Arc<ForgetfulFilter>,
    work: impl FnOnce(&ForgetfulFilter) -> T + 'static,
) -> thread::JoinHandle<T> {
    let filter = Arc::clone(filter);
    thread::spawn(move || work(&filter))
}

/// The insert races with the refresh, expiry and sweep of its lane.
#[test]
fn an_insert_survives_the_end_of_its_lane() {
    loom::model(|| {
        let filter = filter();
        let inserter = spawn(&filter, |filter| filter.insert(b"a", at(100)));
        filter.maintain(at(100));
        inserter.join().expect("no panic");
        assert!(filter.contains(b"a", at(101)));
        assert!(filter.contains(b"a", at(107)), "for the whole window");
    });
}

/// The second insert causes the refresh.
#[test]
fn two_inserts_across_a_refresh_are_both_found() {
    loom::model(|| {
        let filter = filter();
        let other = spawn(&filter, |filter| filter.insert(b"a", at(1)));
        filter.insert(b"b", at(3));
        other.join().expect("no panic");
        assert!(filter.contains(b"a", at(8)));
        assert!(filter.contains(b"b", at(10)));
    });
}

/// The insert races with the opening of a larger segment.
#[test]
fn an_insert_survives_a_resize() {
    loom::model(|| {
        let filter = filter();
        // Filled so that either of the next two ids opens a larger segment.
        let mut last = 0;
        while filter.status().resizes == 0 && last < 50 {
            last += 1;
            filter.insert(&[last], at(0));
        }
        assert_eq!(filter.status().resizes, 1, "it took {last} ids");
        let filter = self::filter();
        (1..last).for_each(|n| filter.insert(&[n], at(0)));
        assert_eq!(filter.status().resizes, 0);
        let other = spawn(&filter, move |filter| filter.insert(&[last], at(0)));
        filter.insert(b"b", at(0));
        other.join().expect("no panic");
        assert_eq!(filter.status().resizes, 1);
        assert!(filter.contains(&[last], at(7)));
        assert!(filter.contains(b"b", at(7)));
    });
}

#[test]
fn a_race_across_a_refresh_has_one_winner() {
    loom::model(|| {
        let filter = filter();
        let other = spawn(&filter, |filter| filter.check_and_insert(b"a", at(100)));
        let mine = filter.check_and_insert(b"a", at(100));
        let theirs = other.join().expect("no panic");
        let wins = [mine, theirs].iter().filter(|found| **found == Membership::New).count();
        assert_eq!(wins, 1);
    });
}
