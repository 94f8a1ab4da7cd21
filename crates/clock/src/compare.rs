//! Comparisons of stamps against the definition: every number of counters, and differences at every position.

use proptest::prelude::*;

use crate::{Causality, Clock, Generation, Stamp, VectorClock, VectorStamp};

fn expected<T: Ord>(ours: &[T], theirs: &[T]) -> Causality {
    if ours == theirs {
        Causality::Equal
    } else if ours.iter().zip(theirs).all(|(ours, theirs)| theirs <= ours) {
        Causality::Possibly
    } else {
        Causality::CertainlyNot
    }
}

fn stamp(counters: &[u64]) -> Stamp {
    let counters = counters.iter().map(|counter| *counter as u32).collect();
    Stamp { generation: Generation::default(), counters }
}

fn vector(events: &[u64]) -> VectorStamp {
    VectorStamp(events.into())
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
        prop_assert_eq!(stamp(&one).after(&stamp(&other)), expected(&one, &other));
    }

    #[test]
    fn vector_clocks_compare_as_defined((one, other) in pairs(u64::MAX >> 2)) {
        prop_assert_eq!(vector(&one).after(&vector(&other)), expected(&one, &other));
    }
}

#[test]
fn a_difference_at_any_position_counts() {
    for counters in 1..70 {
        let low = vec![0; counters];
        for place in 0..counters {
            let mut high = low.clone();
            high[place] = 1;
            for (low, high) in [
                (stamp(&low).after(&stamp(&high)), stamp(&high).after(&stamp(&low))),
                (vector(&low).after(&vector(&high)), vector(&high).after(&vector(&low))),
            ] {
                assert_eq!(
                    (low, high),
                    (Causality::CertainlyNot, Causality::Possibly),
                    "{place} of {counters}"
                );
            }
        }
    }
}

#[test]
#[should_panic(expected = "different systems")]
fn vectors_of_different_systems_are_not_compared() {
    let _ = VectorClock::begin(0, 2).now().after(VectorClock::begin(0, 3).now());
}
