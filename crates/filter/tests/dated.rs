//! Dated ids: looked up by their date, rejected outside the window, new at most once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::HashSet;
use std::time::Duration;

use common::{WINDOW, id, key, seconds};
use forgetful_filter::{DatedIdError, Membership, Settings, Timestamp};
use proptest::prelude::*;

fn settings() -> Settings {
    Settings::for_window(WINDOW).skew(Duration::from_secs(2)).expected_ids(2_000)
}

#[test]
fn the_window_and_the_skew_are_inclusive() {
    let filter = settings().build_dated(key()).unwrap();
    let now = seconds(100.0);
    let at = |nanos: i64| Timestamp::from_nanos((100_000_000_000 + nanos) as u64);
    assert_eq!(filter.check_and_insert(&id(1), at(-60_000_000_000), now), Ok(Membership::New));
    assert_eq!(filter.check_and_insert(&id(2), at(-60_000_000_001), now), Err(DatedIdError::Expired));
    assert_eq!(filter.check_and_insert(&id(3), at(2_000_000_000), now), Ok(Membership::New));
    assert_eq!(filter.check_and_insert(&id(4), at(2_000_000_001), now), Err(DatedIdError::FromFuture));
    assert_eq!(filter.contains(&id(1), at(-60_000_000_000), now), Ok(true));
    assert_eq!(filter.contains(&id(2), at(-60_000_000_001), now), Err(DatedIdError::Expired));
    assert_eq!(filter.contains(&id(3), at(2_000_000_000), now), Ok(true));
    assert_eq!(filter.status().ids, 2, "a rejected id changes nothing");
}

#[test]
fn a_late_id_is_looked_up_by_its_date() {
    let filter = settings().build_dated(key()).unwrap();
    // The retry is looked up in the generation of the date.
    assert_eq!(filter.check_and_insert(&id(1), seconds(10.0), seconds(50.0)), Ok(Membership::New));
    assert_eq!(filter.check_and_insert(&id(1), seconds(10.0), seconds(69.0)), Ok(Membership::Maybe));
    assert_eq!(filter.check_and_insert(&id(1), seconds(10.0), seconds(71.0)), Err(DatedIdError::Expired));
}

#[test]
fn a_clock_that_steps_back_reopens_no_generation() {
    let filter = settings().build_dated(key()).unwrap();
    assert_eq!(filter.check_and_insert(&id(1), seconds(10.0), seconds(10.0)), Ok(Membership::New));
    filter.maintain(seconds(500.0));
    assert_eq!(filter.check_and_insert(&id(1), seconds(10.0), seconds(11.0)), Err(DatedIdError::Expired));
}

#[test]
fn empty_and_expired_generations_take_no_memory() {
    let filter = settings().build_dated(key()).unwrap();
    for second in [1_u32, 1_000, 100_000, 10_000_000] {
        let now = seconds(f64::from(second));
        filter.insert(&id(u64::from(second)), now, now).unwrap();
        assert_eq!(filter.status().generations, 1);
        assert_eq!(filter.status().segments, 1);
    }
}

/// Ids are spread over a whole slice, so all of it is resident soon after it was opened.
#[test]
fn unexpected_load_takes_at_most_twice_the_memory() {
    // A slice at 1e-3 takes 19 bits per id; a late slice, with a smaller share of the target, takes 26.
    const BITS_MAX: usize = 2 * 28;
    let filter = settings().expected_ids(1_000).build_dated(key()).unwrap();
    let now = seconds(10.0);
    for number in 0..1_500_000 {
        filter.insert(&id(number), now, now).unwrap();
        let ids = number as usize + 1;
        if ids >= 400_000 && ids.is_multiple_of(50_000) {
            let bits = filter.status().bytes * 8 / ids;
            assert!(bits <= BITS_MAX, "{bits} bits for each of {ids} ids");
        }
    }
    let status = filter.status();
    assert!(status.false_positive_rate <= 1e-3 && status.pressure.is_none(), "{status:?}");
}

/// A delivery of an id after a pause, with a clock that is `back` seconds behind.
#[derive(Debug, Clone)]
struct Delivery {
    id: u64,
    pause: f64,
    back: f64,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_id_is_new_at_most_once_ever(
        deliveries in prop::collection::vec(
            (0..60_u64, 0.0..20.0, prop_oneof![9 => Just(0.0), 1 => 0.0..100.0])
                .prop_map(|(id, pause, back)| Delivery { id, pause, back }),
            1..300,
        )
    ) {
        let filter = settings().build_dated(key()).unwrap();
        let mut new = HashSet::new();
        let (mut clock, mut dates) = (100.0, std::collections::HashMap::new());
        for Delivery { id: number, pause, back } in deliveries {
            clock += pause;
            let dated = *dates.entry(number).or_insert(clock);
            let now = seconds((clock - back).max(0.0));
            let found = filter.check_and_insert(&id(number), seconds(dated), now);
            if found == Ok(Membership::New) {
                prop_assert!(new.insert(number), "{number} was new before");
            }
            if back == 0.0 && clock - dated < 60.0 {
                prop_assert!(found.is_ok(), "within the window, but {found:?}");
            }
        }
    }
}
