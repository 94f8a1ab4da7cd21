//! The promise: an id is found for as long as the window lasts, whatever happens meanwhile; and forgotten after.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::time::Duration;

use common::{Model, Subject, WINDOW, false_positives, id, key, seconds};
use forgetful_filter::{DatedFilter, ForgetfulFilter, Growth, Membership, Pressure, Settings, Timestamp};
use proptest::prelude::*;

/// What can happen to a filter.
#[derive(Debug, Clone)]
enum Event {
    /// Ids arrive, spread over this part of the window.
    Ids { count: u16, over: f64 },
    /// Nothing happens for this part of the window.
    Pause(f64),
    /// The clock steps back by this part of the window, and then goes on from there.
    StepBack(f64),
    /// The clock reaches the very end of the window of the id that came last: the one id that its lane is kept for.
    Edge,
    /// Idle work is done.
    Maintain,
    /// The process is restarted from a snapshot after this part of the window.
    Restart(f64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (1..400_u16, 0.0..0.3).prop_map(|(count, over)| Event::Ids { count, over }),
        // A surge: many times what the filter expects, nearly at once.
        1 => (1_000..12_000_u16, 0.0..0.01).prop_map(|(count, over)| Event::Ids { count, over }),
        3 => (0.0..0.4).prop_map(Event::Pause),
        1 => (0.9..3.0).prop_map(Event::Pause),
        1 => (0.0..0.5).prop_map(Event::StepBack),
        2 => Just(Event::Edge),
        1 => Just(Event::Maintain),
        1 => (0.0..0.3).prop_map(Event::Restart),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let window =
        prop_oneof![Just(WINDOW), Just(Duration::from_nanos(50_000)), Just(Duration::from_secs(86_400))];
    let growth = prop_oneof![3 => Just(Growth::Elastic), 1 => Just(Growth::Fixed)];
    // A small cap makes the elastic filter run into it.
    let cap = prop_oneof![Just(64 << 20), Just(400 << 10)];
    (window, growth, cap, 1..2_000_u64, prop_oneof![Just(1e-2), Just(1e-3), Just(1e-6)]).prop_map(
        |(window, growth, cap, ids, target)| {
            Settings::for_window(window)
                .growth(growth)
                .memory_cap(cap)
                .expected_ids(ids)
                .false_positive_rate(target)
                // A dated id that is minted while the clock stands back is not from the future.
                .skew(window)
        },
    )
}

/// Plays the events; after each, every id that the model holds must be found.
fn no_live_id_is_missed<S: Subject>(settings: Settings, window: Duration, events: &[Event]) {
    let part = |share: f64| Duration::from_nanos((window.as_nanos() as f64 * share) as u64);
    let mut subject = S::build(settings);
    let mut model = Model::default();
    // What the caller's clock says, and the latest it ever said: the filter ignores steps back.
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
                    // Age counts from the time the filter lived by, which is never before the latest it saw;
                    // the stricter promise, from the caller's own clock, is the one tested.
                    model.insert(next_id, clock);
                    last_insert = clock;
                    next_id += 1;
                }
            }
            Event::Pause(share) => clock = clock.after(part(share)),
            // Never a whole window behind: an id dated then would rightly be refused.
            Event::StepBack(share) => {
                let back =
                    |from: Timestamp, share| from.as_nanos().saturating_sub(part(share).as_nanos() as u64);
                clock = Timestamp::from_nanos(back(clock, share).max(back(latest, 0.9)));
            }
            Event::Edge => clock = clock.max(last_insert.after(window)),
            Event::Maintain => subject.maintain(clock),
            Event::Restart(share) => {
                let at = latest.max(clock);
                subject = subject.through_snapshot(at);
                clock = clock.after(part(share));
            }
        }
        latest = latest.max(clock);
        for (id, inserted) in model.live(latest, window) {
            assert!(
                subject.contains(id, inserted, clock),
                "id {id} of {inserted:?} is missed at {clock:?} after {event:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_live_id_is_missed_by_any_filter(
        (settings, events) in (settings(), prop::collection::vec(event(), 1..24))
    ) {
        let window = window_of(&settings);
        no_live_id_is_missed::<ForgetfulFilter>(settings.clone(), window, &events);
        no_live_id_is_missed::<DatedFilter>(settings, window, &events);
    }

    /// Reaching a moment in two steps or in one makes no difference.
    #[test]
    fn two_steps_of_time_are_one(
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
        once.maintain(seconds(now + (first + second) * 60.0));
        twice.maintain(seconds(now + first * 60.0));
        twice.maintain(seconds(now + (first + second) * 60.0));
        // The rounds that the keeper counts are no part of the promise; what is remembered is.
        prop_assert_eq!(once.status(), twice.status());
        for number in 0..500 {
            let at = seconds(now + (first + second) * 60.0);
            prop_assert_eq!(once.contains(&id(number), at), twice.contains(&id(number), at));
        }
    }

    /// Within a generation neither the order of inserts nor their repetition leaves a trace.
    #[test]
    fn inserts_commute_and_repeat_without_a_trace(
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

/// The window is not readable from outside; the strategy above knows it through the settings' debug text.
fn window_of(settings: &Settings) -> Duration {
    [WINDOW, Duration::from_nanos(50_000), Duration::from_secs(86_400)]
        .into_iter()
        .find(|window| format!("{settings:?}").contains(&format!("window: {window:?}")))
        .expect("one of the three")
}

fn is_forgotten_after_the_window<S: Subject>(slack: f64) {
    let subject = S::build(Settings::for_window(WINDOW).expected_ids(20_000));
    for number in 0..10_000 {
        subject.insert(number, seconds(100.0 + number as f64 * 0.001));
    }
    let last = 110.0;
    let within = seconds(last + 50.0);
    assert!((0..10_000).all(|n| subject.contains(n, seconds(100.0 + n as f64 * 0.001), within)));
    // One id comes to move time on; without it, lookups alone would have to forget (tested below).
    let after = seconds(last + 60.0 * (1.0 + slack));
    subject.insert(u64::MAX, after);
    assert!(subject.contains(u64::MAX, after, after));
    // Large generations count by samples, so one id may count as none or as a few.
    assert!(subject.status().ids < 10, "{:?}: only the late id is remembered", subject.status());
    assert_eq!(false_positives(&subject, 10_000, after), 0);
}

#[test]
fn ids_are_forgotten_one_refresh_after_the_window() {
    is_forgotten_after_the_window::<ForgetfulFilter>(1.0 / 7.0 + 0.01);
    is_forgotten_after_the_window::<DatedFilter>(1.0 / 16.0 + 0.01);
}

#[test]
fn a_lookup_alone_forgets_too() {
    let filter = Settings::for_window(WINDOW).build(key()).unwrap();
    filter.insert(&id(1), seconds(1.0));
    assert!(filter.contains(&id(1), seconds(61.0)));
    assert!(!filter.contains(&id(1), seconds(70.0)), "the lane's latest id is older than the window");
    assert!(!filter.contains(&id(1), seconds(10_000.0)));
}

#[test]
fn a_new_filter_is_empty_and_sure_of_it() {
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

/// Inserting only what looks new would leave a mistaken id unknown once the bits it was mistaken for have gone.
/// `insert` asks no questions: in a filter so full that nearly everything looks known, every id is still kept.
#[test]
fn an_id_that_looked_known_is_remembered_for_the_whole_window() {
    let settings = Settings::for_window(WINDOW).expected_ids(1_000).growth(Growth::Fixed);
    let filter = settings.build(key()).unwrap();
    (0..100_000).for_each(|number| filter.insert(&id(number), seconds(1.0)));
    let mistaken: Vec<u64> =
        (200_000..201_000).filter(|number| filter.contains(&id(*number), seconds(30.0))).collect();
    assert!(mistaken.len() > 100, "the filter is overfull");
    mistaken.iter().for_each(|number| filter.insert(&id(*number), seconds(30.0)));
    filter.maintain(seconds(85.0));
    assert!(!filter.contains(&id(0), seconds(85.0)), "what they were mistaken for has gone");
    assert!(mistaken.iter().all(|number| filter.contains(&id(*number), seconds(89.9))));
}

#[test]
fn a_known_id_is_not_renewed_by_asking_for_it() {
    let filter = Settings::for_window(WINDOW).build(key()).unwrap();
    assert_eq!(filter.check_and_insert(&id(7), seconds(0.0)), Membership::New);
    assert_eq!(filter.check_and_insert(&id(7), seconds(55.0)), Membership::Maybe);
    assert_eq!(filter.check_and_insert(&id(7), seconds(75.0)), Membership::New);
}

fn takes_extreme_moments<S: Subject>(window: Duration) {
    let subject = S::build(Settings::for_window(window).skew(window));
    let end = Timestamp::from_nanos(u64::MAX);
    subject.insert(0, Timestamp::ZERO);
    assert!(subject.contains(0, Timestamp::ZERO, Timestamp::ZERO));
    for id in 1..100 {
        subject.insert(id, end);
        assert!(subject.contains(id, end, end));
        subject.maintain(end);
        assert!(subject.contains(id, end, Timestamp::ZERO), "a step back counts as no step");
    }
    let restored = subject.through_snapshot(end);
    assert!((1..100).all(|id| restored.contains(id, end, end)));
}

#[test]
fn extreme_moments_are_just_moments() {
    for window in [Duration::from_nanos(1), WINDOW, forgetful_filter::WINDOW_MAX] {
        takes_extreme_moments::<ForgetfulFilter>(window);
        takes_extreme_moments::<DatedFilter>(window);
    }
}

#[test]
fn at_the_memory_cap_the_filter_reports_and_remembers() {
    let settings = Settings::for_window(WINDOW).expected_ids(1_000).memory_cap(64 << 10);
    let filter = settings.clone().build(key()).unwrap();
    let dated = settings.build_dated(key()).unwrap();
    for number in 0..300_000 {
        let now = seconds(1.0 + number as f64 * 1e-4);
        filter.insert(&id(number), now);
        dated.insert(&id(number), now, now).unwrap();
    }
    for status in [filter.status(), dated.status()] {
        assert!(status.bytes <= 64 << 10, "{status:?}");
        assert_eq!(status.pressure, Some(Pressure::MemoryCap), "{status:?}");
        assert!(status.over_target());
    }
    let now = seconds(31.0);
    assert!((0..300_000).all(|n| filter.contains(&id(n), now)));
    assert!((0..300_000).all(|n| dated.contains(&id(n), seconds(1.0 + n as f64 * 1e-4), now).unwrap()));
    // As long as one of these ids is alive the pressure is told, also when nothing comes any more; then no longer.
    for status in [filter.status(), dated.status()] {
        assert!(status.pressure.is_some() && status.over_target());
    }
    filter.maintain(seconds(85.0));
    dated.maintain(seconds(85.0));
    assert!(filter.status().pressure.is_some() && dated.status().pressure.is_some());
    filter.maintain(seconds(200.0));
    dated.maintain(seconds(200.0));
    for status in [filter.status(), dated.status()] {
        assert_eq!(status.pressure, None);
        assert!(!status.over_target());
    }
}

/// The instant at which a larger ring is opened is the instant at which an implementation that moves ids would lose
/// some: exactly the same ids are found before and after.
#[test]
fn opening_a_segment_changes_no_answer() {
    let filter = Settings::for_window(WINDOW).expected_ids(1_000).build(key()).unwrap();
    let (mut number, mut seen) = (0, 0);
    while seen < 3 {
        let now = seconds(1.0 + number as f64 * 1e-4);
        let before: Vec<bool> = (0..number).map(|n| filter.contains(&id(n), now)).collect();
        assert!(before.iter().all(|found| *found));
        // Insert until the next resize.
        let resizes = filter.status().resizes;
        while filter.status().resizes == resizes {
            filter.insert(&id(number), now);
            number += 1;
        }
        assert!((0..number).all(|n| filter.contains(&id(n), now)));
        seen += 1;
    }
    assert!(filter.status().segments > 2);
}

#[test]
fn a_filter_left_alone_becomes_empty_and_lets_go_of_its_memory() {
    let filter = Settings::for_window(WINDOW).expected_ids(1_000).build(key()).unwrap();
    let dated = Settings::for_window(WINDOW).expected_ids(1_000).build_dated(key()).unwrap();
    for number in 0..100_000 {
        let now = seconds(number as f64 * 1e-3);
        filter.insert(&id(number), now);
        dated.insert(&id(number), now, now).unwrap();
    }
    assert!(filter.status().segments > 0 && filter.status().ids > 50_000);
    for after in [240.0, 241.0, 500.0] {
        filter.maintain(seconds(after));
        dated.maintain(seconds(after));
        for status in [filter.status(), dated.status()] {
            assert_eq!((status.ids, status.false_positive_rate, status.generations), (0, 0.0, 0));
        }
    }
    assert_eq!(filter.status().segments, 1);
    let fresh = Settings::for_window(WINDOW).expected_ids(1_000).build(key()).unwrap();
    assert_eq!(filter.status().bytes, fresh.status().bytes, "as small as at the start");
    assert_eq!(dated.status().bytes, 0);
}

/// Finer generations change when an id is forgotten, never that it is kept.
#[test]
fn the_number_of_generations_does_not_touch_the_promise() {
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
