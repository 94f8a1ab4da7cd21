//! Comparisons against the definition: every number of counters, and differences at every position.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/format.rs"]
mod format;

use bloom_clock::{Causality, Clock, ClockParams, Stamp, TickKey, VectorClock, VectorStamp};
use format::mix;
use proptest::prelude::*;

fn expected<T: Ord>(ours: &[T], theirs: &[T]) -> Causality {
    if ours == theirs {
        Causality::Equal
    } else if ours.iter().zip(theirs).all(|(ours, theirs)| theirs <= ours) {
        Causality::Possibly
    } else {
        Causality::CertainlyNot
    }
}

fn stamp(counters: &[u32]) -> Stamp {
    format::stamp(0, counters, &ClockParams::new(counters.len()).unwrap())
}

fn vector(events: &[u64]) -> VectorStamp {
    serde_json::from_value(serde_json::json!(events)).unwrap()
}

/// Two vectors of numbers up to `max` that differ at up to three positions.
fn pairs(max: u64) -> impl Strategy<Value = (Vec<u64>, Vec<u64>)> {
    let number = move || prop_oneof![0..=max, 0_u64..4, max - 3..=max];
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
        let narrow = |numbers: Vec<u64>| numbers.into_iter().map(|number| number as u32).collect::<Vec<u32>>();
        let [one, other] = [one, other].map(narrow);
        prop_assert_eq!(stamp(&one).after(&stamp(&other)), expected(&one, &other));
    }

    #[test]
    fn vector_clocks_compare_as_defined((one, other) in pairs(u64::MAX >> 2)) {
        prop_assert_eq!(vector(&one).after(&vector(&other)), expected(&one, &other));
    }
}

#[test]
fn a_difference_at_any_position_counts() {
    const DIRECTIONS: (Causality, Causality) = (Causality::CertainlyNot, Causality::Possibly);
    for counters in 1..70 {
        for place in 0..counters {
            let one = |at: usize| u32::from(at == place);
            let (low, high) =
                (stamp(&vec![0; counters]), stamp(&(0..counters).map(one).collect::<Vec<u32>>()));
            assert_eq!((low.after(&high), high.after(&low)), DIRECTIONS, "{place} of {counters}");
            let (low, high) = (
                vector(&vec![0; counters]),
                vector(&(0..counters).map(|at| one(at).into()).collect::<Vec<u64>>()),
            );
            assert_eq!((low.after(&high), high.after(&low)), DIRECTIONS, "{place} of {counters}");
        }
    }
}

#[test]
fn events_increment_the_counters_of_their_hashes() {
    for (key, counters) in [(TickKey::Event, 30), (TickKey::Process, 30), (TickKey::Event, 1 << 16)] {
        let params = ClockParams::new(counters).unwrap().hashes(5).unwrap().key(key);
        let identity = bloom_clock::Identity::from_number_never_used_before(9);
        let mut clock = bloom_clock::BloomClock::begin(params, identity);
        let mut expected = vec![0; counters];
        for event in 1..=200_u64 {
            let seed = mix(mix(mix(9)) ^ if key == TickKey::Event { event } else { 0 });
            for number in 1..=5_u64 {
                let hash = mix(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
                expected[(hash % counters as u64) as usize] += 1;
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
