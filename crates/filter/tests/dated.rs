//! Dated ids: placed by their own time, refused outside the window, never called new twice.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::HashSet;
use std::time::Duration;

use common::{WINDOW, id, key, seconds};
use forgetful_filter::{DatedFilter, DatedIdError, Membership, Settings, Timestamp};
use proptest::prelude::*;

fn settings() -> Settings {
    Settings::for_window(WINDOW).skew(Duration::from_secs(2)).expected_ids(2_000)
}

#[test]
fn the_edges_of_the_window_are_where_they_are_said_to_be() {
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
    assert_eq!(filter.status().ids, 2, "a refused id changes nothing");
}

#[test]
fn a_late_id_is_known_by_its_own_time() {
    let filter = settings().build_dated(key()).unwrap();
    // Minted at 10 s, arrives at 50 s, is sent again at 69 s: still the same generation.
    assert_eq!(filter.check_and_insert(&id(1), seconds(10.0), seconds(50.0)), Ok(Membership::New));
    assert_eq!(filter.check_and_insert(&id(1), seconds(10.0), seconds(69.0)), Ok(Membership::Maybe));
    assert_eq!(filter.check_and_insert(&id(1), seconds(10.0), seconds(71.0)), Err(DatedIdError::Expired));
}

#[test]
fn a_clock_that_steps_back_reopens_nothing() {
    let filter = settings().build_dated(key()).unwrap();
    assert_eq!(filter.check_and_insert(&id(1), seconds(10.0), seconds(10.0)), Ok(Membership::New));
    filter.maintain(seconds(500.0));
    assert_eq!(filter.check_and_insert(&id(1), seconds(10.0), seconds(11.0)), Err(DatedIdError::Expired));
}

#[test]
fn empty_generations_cost_nothing_and_old_ones_are_freed() {
    let filter = settings().build_dated(key()).unwrap();
    for second in [1_u32, 1_000, 100_000, 10_000_000] {
        let now = seconds(f64::from(second));
        filter.insert(&id(u64::from(second)), now, now).unwrap();
        assert_eq!(filter.status().generations, 1);
        assert_eq!(filter.status().segments, 1);
    }
}

/// Ids fall everywhere in a slice, so all of it is in memory soon after it was opened: room ahead of the ids is paid for.
#[test]
fn unexpected_load_takes_at_most_twice_the_memory() {
    // A slice at an error of 1e-3 takes 19 bits an id, and one of the last, with a smaller share of the error, 26.
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

/// One delivery of an id: which, how long after it was minted, and how the clock then stands.
#[derive(Debug, Clone)]
struct Delivery {
    id: u64,
    pause: f64,
    back: f64,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The promise of dated ids: however often and however late an id comes, it is called new at most once.
    #[test]
    fn an_id_is_new_at_most_once_ever(
        deliveries in prop::collection::vec(
            (0..60_u64, 0.0..20.0, prop_oneof![9 => Just(0.0), 1 => 0.0..100.0])
                .prop_map(|(id, pause, back)| Delivery { id, pause, back }),
            1..300,
        )
    ) {
        let exclusive = settings().build_dated(key()).unwrap();
        let concurrent: DatedFilter = settings().build_dated(key()).unwrap();
        let mut new = HashSet::new();
        let (mut clock, mut minted) = (100.0, std::collections::HashMap::new());
        for Delivery { id: number, pause, back } in deliveries {
            clock += pause;
            let dated = *minted.entry(number).or_insert(clock);
            let now = seconds((clock - back).max(0.0));
            let sighting = exclusive.check_and_insert(&id(number), seconds(dated), now);
            let shared = concurrent.check_and_insert(&id(number), seconds(dated), now);
            if sighting == Ok(Membership::New) {
                prop_assert!(new.insert(("exclusive", number)), "{number} was new before");
            }
            if shared == Ok(Membership::New) {
                prop_assert!(new.insert(("concurrent", number)), "{number} was new before");
            }
            if back == 0.0 && clock - dated < 60.0 {
                prop_assert!(sighting.is_ok() && shared.is_ok(), "within the window, yet {sighting:?} {shared:?}");
            }
        }
    }
}
