//! Every id is found for the whole window, and forgotten after it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::HashMap;
use std::time::Duration;

use common::{Subject, WINDOW, false_positives, id, key, seconds};
use forgetful_filter::{DatedFilter, ForgetfulFilter, Growth, Membership, Pressure, Settings, Timestamp};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Event {
    /// Ids arrive, spread over this part of the window.
    Ids {
        count: u16,
        over: f64,
    },
    /// No operation for this part of the window.
    Pause(f64),
    /// The clock steps back by this part of the window, and continues from there.
    StepBack(f64),
    /// The clock reaches the end of the window of the last id.
    Edge,
    Maintain,
    /// A restart from a snapshot takes this part of the window.
    Restart(f64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (1..400_u16, 0.0..0.3).prop_map(|(count, over)| Event::Ids { count, over }),
        // A surge: many times the expected ids, nearly at once.
        1 => (1_000..12_000_u16, 0.0..0.01).prop_map(|(count, over)| Event::Ids { count, over }),
        3 => (0.0..0.4).prop_map(Event::Pause),
        1 => (0.9..3.0).prop_map(Event::Pause),
        1 => (0.0..0.5).prop_map(Event::StepBack),
        2 => Just(Event::Edge),
        1 => Just(Event::Maintain),
        1 => (0.0..0.3).prop_map(Event::Restart),
    ]
}

/// The window, and settings with it.
fn settings() -> impl Strategy<Value = (Duration, Settings)> {
    let window =
        prop_oneof![Just(WINDOW), Just(Duration::from_nanos(50_000)), Just(Duration::from_secs(86_400))];
    let growth = prop_oneof![3 => Just(Growth::Elastic), 1 => Just(Growth::Fixed)];
    // An elastic filter reaches the small cap.
    let cap = prop_oneof![Just(64 << 20), Just(400 << 10)];
    (window, growth, cap, 1..2_000_u64, prop_oneof![Just(1e-2), Just(1e-3), Just(1e-6)]).prop_map(
        |(window, growth, cap, ids, target)| {
            // With the skew, an id that is dated before a step back of the clock is not from the future.
            let settings = Settings::for_window(window).growth(growth).memory_cap(cap).skew(window);
            (window, settings.expected_ids(ids).false_positive_rate(target))
        },
    )
}

/// Applies the events; after each, every id of the window must be found.
fn no_live_id_is_missed<S: Subject>(settings: Settings, window: Duration, events: &[Event]) {
    let part = |share: f64| Duration::from_nanos((window.as_nanos() as f64 * share) as u64);
    let mut subject = S::build(settings);
    let mut model: HashMap<u64, Timestamp> = HashMap::new();
    // The time of the caller's clock, and its maximum: the filter ignores steps back.
    let mut clock = Timestamp::from_nanos(window.as_nanos() as u64);
    let mut latest = clock;
    let mut last_insert = clock;
    let mut next_id = 0;
    for event in events {
        match *event {
            Event::Ids { count, over } => {
                let step = part(over / f64::from(count));
                for _ in 0..count {
                    clock = clock.after(step);
                    latest = latest.max(clock);
                    subject.insert(next_id, clock);
                    // The filter counts the age from its own time, which is not earlier than the caller's.
                    model.insert(next_id, clock);
                    last_insert = clock;
                    next_id += 1;
                }
            }
            Event::Pause(share) => clock = clock.after(part(share)),
            // Less than a window behind: an older id would be rejected.
            Event::StepBack(share) => {
                let back = |from: Timestamp, share| from.since(Timestamp::ZERO).saturating_sub(part(share));
                clock = Timestamp::ZERO.after(back(clock, share).max(back(latest, 0.9)));
            }
            Event::Edge => clock = clock.max(last_insert.after(window)),
            Event::Maintain => subject.maintain(clock),
            Event::Restart(share) => {
                subject = subject.through_snapshot(latest.max(clock));
                clock = clock.after(part(share));
            }
        }
        latest = latest.max(clock);
        for (id, inserted) in model.iter().filter(|(_, inserted)| latest.since(**inserted) <= window) {
            let found = subject.contains(*id, *inserted, clock);
            assert!(found, "id {id} of {inserted:?} is missed at {clock:?} after {event:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_live_id_is_missed_by_any_filter(
        ((window, settings), events) in (settings(), prop::collection::vec(event(), 1..24))
    ) {
        no_live_id_is_missed::<ForgetfulFilter>(settings.clone(), window, &events);
        no_live_id_is_missed::<DatedFilter>(settings, window, &events);
    }

    #[test]
    fn time_can_advance_in_one_step_or_in_two(
        ids in prop::collection::vec((0..500_u64, 0.0..0.2), 1..60),
        first in 0.0..2.0,
        second in 0.0..2.0,
    ) {
        let mut now = 0.0;
        let once = Settings::for_window(WINDOW).build(key()).unwrap();
        let twice = Settings::for_window(WINDOW).build(key()).unwrap();
        for (number, gap) in ids {
            now += gap * WINDOW.as_secs_f64();
            once.insert(&id(number), seconds(now));
            twice.insert(&id(number), seconds(now));
        }
        let at = seconds(now + (first + second) * 60.0);
        once.maintain(at);
        twice.maintain(seconds(now + first * 60.0));
        twice.maintain(at);
        prop_assert_eq!(once.status(), twice.status());
        for number in 0..500 {
            prop_assert_eq!(once.contains(&id(number), at), twice.contains(&id(number), at));
        }
    }

    #[test]
    fn inserts_of_a_generation_commute_and_are_idempotent(
        mut ids in prop::collection::vec(0..10_000_u64, 1..300),
        swaps in prop::collection::vec((0..300_usize, 0..300_usize), 0..300),
    ) {
        let snapshot = |ids: &[u64]| {
            let filter = Settings::for_window(WINDOW).expected_ids(100_000).build(key()).unwrap();
            ids.iter().for_each(|number| filter.insert(&id(*number), seconds(1.0)));
            filter.snapshot()
        };
        let straight = snapshot(&ids);
        let again: Vec<u64> = ids.iter().chain(&ids).copied().collect();
        prop_assert_eq!(&straight, &snapshot(&again));
        for (a, b) in swaps {
            let len = ids.len();
            ids.swap(a % len, b % len);
        }
        prop_assert_eq!(&straight, &snapshot(&ids));
    }
}

fn is_forgotten_after_the_window<S: Subject>(slack: f64) {
    let subject = S::build(Settings::for_window(WINDOW).expected_ids(20_000));
    for number in 0..10_000 {
        subject.insert(number, seconds(100.0 + number as f64 * 0.001));
    }
    let last = 110.0;
    let within = seconds(last + 50.0);
    assert!((0..10_000).all(|n| subject.contains(n, seconds(100.0 + n as f64 * 0.001), within)));
    // An insert advances the time; another test advances it by lookups.
    let after = seconds(last + 60.0 * (1.0 + slack));
    subject.insert(u64::MAX, after);
    assert!(subject.contains(u64::MAX, after, after));
    // Large generations count samples, so one id may count as none or as several.
    assert!(subject.status().ids < 10, "only the late id is remembered: {:?}", subject.status());
    assert_eq!(false_positives(&subject, 10_000, after), 0);
}

#[test]
fn ids_are_forgotten_one_refresh_after_the_window() {
    is_forgotten_after_the_window::<ForgetfulFilter>(1.0 / 7.0 + 0.01);
    is_forgotten_after_the_window::<DatedFilter>(1.0 / 16.0 + 0.01);
}

#[test]
fn a_lookup_expires_ids_without_an_insert() {
    let filter = Settings::for_window(WINDOW).build(key()).unwrap();
    filter.insert(&id(1), seconds(1.0));
    assert!(filter.contains(&id(1), seconds(61.0)));
    assert!(!filter.contains(&id(1), seconds(70.0)), "the lane's latest id is older than the window");
    assert!(!filter.contains(&id(1), seconds(10_000.0)));
}

#[test]
fn a_new_filter_is_empty_and_has_no_false_positives() {
    let filter = Settings::for_window(WINDOW).build(key()).unwrap();
    assert_eq!(false_positives(&filter, 10_000, seconds(0.0)), 0);
    let status = filter.status();
    assert_eq!((status.ids, status.false_positive_rate, status.generations), (0, 0.0, 0));
}

#[test]
fn an_insert_never_hides_another_id() {
    let filter = Settings::for_window(WINDOW).expected_ids(500).build(key()).unwrap();
    for number in 0..5_000 {
        filter.insert(&id(number), seconds(1.0 + number as f64 * 0.002));
        for earlier in (0..=number).step_by(97) {
            assert!(filter.contains(&id(earlier), seconds(11.0)));
        }
    }
}

/// The bits of other ids that cause a false positive expire earlier. `insert` is unconditional, so the id
/// stays.
#[test]
fn an_inserted_false_positive_is_found_for_the_whole_window() {
    let settings = Settings::for_window(WINDOW).expected_ids(1_000).growth(Growth::Fixed);
    let filter = settings.build(key()).unwrap();
    (0..100_000).for_each(|number| filter.insert(&id(number), seconds(1.0)));
    let found: Vec<u64> =
        (200_000..201_000).filter(|number| filter.contains(&id(*number), seconds(30.0))).collect();
    assert!(found.len() > 100, "the filter is overfull");
    found.iter().for_each(|number| filter.insert(&id(*number), seconds(30.0)));
    filter.maintain(seconds(85.0));
    assert!(!filter.contains(&id(0), seconds(85.0)), "the earlier ids have expired");
    assert!(found.iter().all(|number| filter.contains(&id(*number), seconds(89.9))));
}

#[test]
fn a_lookup_does_not_renew_a_known_id() {
    let filter = Settings::for_window(WINDOW).build(key()).unwrap();
    assert_eq!(filter.check_and_insert(&id(7), seconds(0.0)), Membership::New);
    assert_eq!(filter.check_and_insert(&id(7), seconds(55.0)), Membership::Maybe);
    assert_eq!(filter.check_and_insert(&id(7), seconds(75.0)), Membership::New);
}

fn accepts_extreme_times<S: Subject>(window: Duration) {
    let subject = S::build(Settings::for_window(window).skew(window));
    let end = Timestamp::from_nanos(u64::MAX);
    subject.insert(0, Timestamp::ZERO);
    assert!(subject.contains(0, Timestamp::ZERO, Timestamp::ZERO));
    for id in 1..100 {
        subject.insert(id, end);
        assert!(subject.contains(id, end, end));
        subject.maintain(end);
        assert!(subject.contains(id, end, Timestamp::ZERO), "a step back is ignored");
    }
    let restored = subject.through_snapshot(end);
    assert!((1..100).all(|id| restored.contains(id, end, end)));
}

#[test]
fn extreme_times_are_accepted() {
    for window in [Duration::from_nanos(1), WINDOW, forgetful_filter::WINDOW_MAX] {
        accepts_extreme_times::<ForgetfulFilter>(window);
        accepts_extreme_times::<DatedFilter>(window);
    }
}

fn reports_pressure_at_the_memory_cap<S: Subject>() {
    let subject = S::build(Settings::for_window(WINDOW).expected_ids(1_000).memory_cap(64 << 10));
    let at = |number| seconds(1.0 + number as f64 * 1e-4);
    (0..300_000_u64).for_each(|number| subject.insert(number, at(number)));
    let status = subject.status();
    assert!(status.bytes <= 64 << 10, "{status:?}");
    assert_eq!(status.pressure, Some(Pressure::MemoryCap), "{status:?}");
    assert!(status.over_target());
    assert!((0..300_000).all(|number| subject.contains(number, at(number), seconds(31.0))));
    // The pressure is reported until the last of these ids has expired.
    let status = subject.status();
    assert!(status.pressure.is_some() && status.over_target());
    subject.maintain(seconds(85.0));
    assert!(subject.status().pressure.is_some());
    subject.maintain(seconds(200.0));
    assert_eq!(subject.status().pressure, None);
    assert!(!subject.status().over_target());
}

#[test]
fn at_the_memory_cap_the_filter_reports_and_remembers() {
    reports_pressure_at_the_memory_cap::<ForgetfulFilter>();
    reports_pressure_at_the_memory_cap::<DatedFilter>();
}

#[test]
fn opening_a_segment_loses_no_id() {
    let filter = Settings::for_window(WINDOW).expected_ids(1_000).build(key()).unwrap();
    let mut number = 0;
    for resizes in 0..3 {
        let now = seconds(1.0 + number as f64 * 1e-4);
        assert!((0..number).all(|n| filter.contains(&id(n), now)));
        while filter.status().resizes == resizes {
            filter.insert(&id(number), now);
            number += 1;
        }
        assert!((0..number).all(|n| filter.contains(&id(n), now)));
    }
    assert!(filter.status().segments > 2);
}

/// The live segments after all ids have expired.
fn idle_segments<S: Subject>() -> usize {
    let subject = S::build(Settings::for_window(WINDOW).expected_ids(1_000));
    let bytes = subject.status().bytes;
    (0..100_000_u64).for_each(|number| subject.insert(number, seconds(number as f64 * 1e-3)));
    assert!(subject.status().segments > 0 && subject.status().ids > 50_000);
    for after in [240.0, 241.0, 500.0] {
        subject.maintain(seconds(after));
        let status = subject.status();
        assert_eq!((status.ids, status.false_positive_rate, status.generations), (0, 0.0, 0));
    }
    assert_eq!(subject.status().bytes, bytes, "the initial size");
    subject.status().segments
}

#[test]
fn an_idle_filter_becomes_empty_and_releases_its_memory() {
    assert_eq!((idle_segments::<ForgetfulFilter>(), idle_segments::<DatedFilter>()), (1, 0));
}

/// The number of generations affects when an id is forgotten, not how long it is kept.
#[test]
fn any_number_of_generations_keeps_the_window() {
    for generations in [2, 3, 8, 16, 64] {
        let filter = Settings::for_window(WINDOW).generations(generations).build_dated(key()).unwrap();
        for number in 0..5_000 {
            let now = seconds(number as f64 * 0.1);
            filter.insert(&id(number), now, now).unwrap();
            let oldest = number.saturating_sub(600);
            for kept in (oldest..=number).step_by(61) {
                assert_eq!(filter.contains(&id(kept), seconds(kept as f64 * 0.1), now), Ok(true));
            }
        }
        let kept = filter.status().ids as f64 / 600.0;
        assert!(kept <= 1.01 + 1.0 / f64::from(generations), "{generations} generations keep {kept} windows");
    }
}
