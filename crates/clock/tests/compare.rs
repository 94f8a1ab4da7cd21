//! Comparing, a line at a time, against the definition: any number of counters, and any difference at any place.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use bloom_clock::{Causality, Clock, ClockParams, Stamp, TickKey, VectorClock, VectorStamp};
use proptest::prelude::*;

fn defined<T: Ord>(ours: &[T], theirs: &[T]) -> Causality {
    if ours == theirs {
        Causality::Equal
    } else if ours.iter().zip(theirs).all(|(ours, theirs)| theirs <= ours) {
        Causality::Possibly
    } else {
        Causality::CertainlyNot
    }
}

fn stamp(counters: &[u32]) -> Stamp {
    serde_json::from_value(serde_json::json!({ "generation": 0, "counters": counters })).unwrap()
}

fn vector(events: &[u64]) -> VectorStamp {
    serde_json::from_value(serde_json::json!(events)).unwrap()
}

/// Numbers, and at up to three places others.
fn pairs(most: u64) -> impl Strategy<Value = (Vec<u64>, Vec<u64>)> {
    let number = move || prop_oneof![0..=most, 0_u64..4, most - 3..=most];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), number()), 0..4);
    (prop::collection::vec(number(), 1..100), changes).prop_map(|(one, changes)| {
        let mut other = one.clone();
        for (place, number) in changes {
            let place = place.index(other.len());
            other[place] = number;
        }
        (one, other)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn bloom_clocks_compare_as_defined((one, other) in pairs(u32::MAX.into())) {
        let [one, other] = [one, other].map(|all| all.iter().map(|number| *number as u32).collect::<Vec<u32>>());
        prop_assert_eq!(stamp(&one).after(&stamp(&other)), defined(&one, &other));
    }

    #[test]
    fn vector_clocks_compare_as_defined((one, other) in pairs(u64::MAX >> 2)) {
        prop_assert_eq!(vector(&one).after(&vector(&other)), defined(&one, &other));
    }
}

/// Every place of every short clock.
#[test]
fn no_place_is_passed_over() {
    for many in 1..70 {
        let zeros = vec![0; many];
        for place in 0..many {
            let mut one = zeros.clone();
            one[place] = 1;
            let wide =
                |numbers: &[u32]| numbers.iter().map(|number| u64::from(*number)).collect::<Vec<u64>>();
            let (low, high) = (vector(&wide(&zeros)), vector(&wide(&one)));
            assert_eq!((low.after(&high), high.after(&low)), (Causality::CertainlyNot, Causality::Possibly));
            let (low, high) = (stamp(&zeros), stamp(&one));
            assert_eq!((low.after(&high), high.after(&low)), (Causality::CertainlyNot, Causality::Possibly));
        }
    }
}

/// What a clock draws for its events, once or at each, is what the names of the events say.
#[test]
fn events_increment_what_their_names_draw() {
    let mix = |mut x: u64| {
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    for (key, counters) in [(TickKey::Event, 30), (TickKey::Process, 30), (TickKey::Event, 1 << 16)] {
        let params = ClockParams::new(counters).unwrap().hashes(5).unwrap().key(key);
        let identity = bloom_clock::Identity::from_number_never_used_before(9);
        let mut clock = bloom_clock::BloomClock::begin(params, identity);
        let mut expected = vec![0; counters];
        for event in 1..=200_u64 {
            let named = if key == TickKey::Event { event } else { 0 };
            let seed = mix(mix(mix(9)) ^ named);
            for number in 1..=5_u64 {
                let drawn = mix(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
                expected[(drawn % counters as u64) as usize] += 1;
            }
            assert_eq!(clock.tick().counters(), expected, "event {event} of {key:?}");
        }
    }
}

#[test]
#[should_panic(expected = "different systems")]
fn vectors_of_different_systems_are_not_compared() {
    let _ = VectorClock::begin(0, 2).now().after(VectorClock::begin(0, 3).now());
}
