//! Single clocks and pairs of clocks.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/format.rs"]
mod format;

use bloom_clock::{
    BloomClock, COUNTERS_MAX, Causality, Clock, ClockParams, Generation, HASHES_MAX, Identity, PROCESSES_MAX,
    StampError, TickKey, VectorClock,
};
use format::mix;

fn clock(params: ClockParams, number: u64) -> BloomClock {
    BloomClock::begin(params, Identity::from_number_never_used_before(number))
}

#[test]
fn an_event_is_after_all_earlier_events_of_its_process() {
    for key in [TickKey::Event, TickKey::Process] {
        let params = ClockParams::new(7).unwrap().hashes(3).unwrap().key(key);
        let mut clock = clock(params, 1);
        let stamps: Vec<_> = (0..100).map(|_| clock.tick().clone()).collect();
        for (at, stamp) in stamps.iter().enumerate() {
            assert_eq!(stamp.sum(), 3 * (at as u64 + 1));
            for (earlier, other) in stamps.iter().enumerate() {
                let expected = match at.cmp(&earlier) {
                    std::cmp::Ordering::Less => Causality::CertainlyNot,
                    std::cmp::Ordering::Equal => Causality::Equal,
                    std::cmp::Ordering::Greater => Causality::Possibly,
                };
                assert_eq!(stamp.after(other), expected);
            }
        }
        assert_eq!(clock.events(), 100);
    }
}

#[test]
fn a_new_generation_denies_no_cause() {
    let params = ClockParams::new(2).unwrap().limit(3).unwrap();
    let (mut one, mut other) = (clock(params, 1), clock(params, 2));
    let early = one.tick().clone();
    let concurrent = other.tick().clone();
    let late = loop {
        let stamp = one.tick().clone();
        if stamp.generation() > Generation(1) {
            break stamp;
        }
        assert!(stamp.counters().iter().all(|counter| *counter <= 3));
    };
    assert_eq!((late.after(&early), early.after(&late)), (Causality::Possibly, Causality::CertainlyNot));
    // The receiver adopts the generation; its earlier events stay before.
    let received = other.receive(&late).unwrap().clone();
    assert_eq!(received.generation(), late.generation());
    assert_eq!(received.after(&late), Causality::Possibly);
    assert_eq!(received.after(&concurrent), Causality::Possibly);
    // A message of an earlier generation only adds an event.
    let again = other.receive(&early).unwrap().clone();
    assert_eq!(again.after(&received), Causality::Possibly);
    assert_eq!(again.generation(), late.generation());
}

#[test]
fn a_rejected_stamp_changes_nothing() {
    let params = ClockParams::new(4).unwrap();
    let mut ours = clock(params, 1);
    ours.tick();
    let before = ours.now().clone();
    let wide = clock(ClockParams::new(8).unwrap(), 2).tick().clone();
    assert_eq!(ours.receive(&wide), Err(StampError::CounterCount { found: 8, wanted: 4 }));
    let mut short = clock(params.limit(1).unwrap(), 3);
    let mut high = clock(params, 4);
    (0..5).for_each(|_| _ = high.tick());
    assert!(matches!(short.receive(high.now()), Err(StampError::Limit { found: 5, limit: 1 })));
    assert_eq!((ours.now(), ours.events()), (&before, 1));
    assert_eq!(short.events(), 0);
}

#[test]
fn parameters_have_limits() {
    for counters in [0, COUNTERS_MAX + 1] {
        assert!(ClockParams::new(counters).is_err());
    }
    let params = ClockParams::new(COUNTERS_MAX).unwrap();
    for hashes in [0, HASHES_MAX + 1] {
        assert!(params.hashes(hashes).is_err());
    }
    assert!(params.hashes(2).unwrap().limit(1).is_err());
    assert!(params.limit(1).unwrap().hashes(2).is_err());
    assert!(params.limit(0).is_err());
    for (error, text) in [
        (ClockParams::new(0), "0 counters, expected 1 to 65536"),
        (params.hashes(17), "17 counters for an event, expected 1 to 16"),
        (params.limit(1).unwrap().hashes(2), "2 counters for an event exceed the limit 1"),
        (params.hashes(2).unwrap().limit(1), "a limit of 1 is below the 2 that an event can add"),
    ] {
        assert_eq!(error.unwrap_err().to_string(), text);
    }
}

#[test]
#[should_panic(expected = "different parameters")]
fn stamps_with_different_parameters_are_not_compared() {
    let first = |counters| clock(ClockParams::new(counters).unwrap(), 1).tick().clone();
    let _ = first(4).after(&first(8));
}

#[test]
#[should_panic(expected = "process 0 of 1048577")]
fn a_vector_clock_has_a_maximum_of_processes() {
    let _ = VectorClock::begin(0, PROCESSES_MAX + 1);
}

#[test]
fn events_increment_the_counters_of_their_hashes() {
    for (key, counters) in [(TickKey::Event, 30), (TickKey::Process, 30), (TickKey::Event, 1 << 16)] {
        let mut clock = clock(ClockParams::new(counters).unwrap().hashes(5).unwrap().key(key), 9);
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
fn a_restart_with_a_new_identity_denies_no_kept_cause() {
    let params = ClockParams::new(64).unwrap();
    let mut before = clock(params, 1);
    let kept = before.tick().clone();
    let lost = before.tick().clone();
    let mut after = BloomClock::join(params, Identity::from_number_never_used_before(2), &kept).unwrap();
    assert_eq!(after.events(), 0);
    assert_eq!(after.tick().after(&kept), Causality::Possibly);
    assert_eq!(after.now().after(&lost), Causality::CertainlyNot);
    assert_eq!(lost.after(after.now()), Causality::CertainlyNot);
}

#[test]
fn a_clock_can_join_a_much_later_generation() {
    let params = ClockParams::new(2).unwrap();
    let late = |generation| format::stamp(generation, &[0, 1], &params);
    let known = late(Generation::AHEAD_MAX * 5);
    let identity = || Identity::from_number_never_used_before(1);
    let error = BloomClock::begin(params, identity()).receive(&known).unwrap_err();
    assert!(matches!(error, StampError::Ahead { .. }));
    let mut clock = BloomClock::join(params, identity(), &known).unwrap();
    assert_eq!(clock.now(), &known);
    assert_eq!(clock.tick().after(&known), Causality::Possibly);
    // The last generation and other parameters are rejected.
    assert!(BloomClock::join(params, identity(), &late(u64::MAX)).is_err());
    assert!(BloomClock::join(ClockParams::new(3).unwrap(), identity(), &known).is_err());
    assert!(BloomClock::join(params.limit(1).unwrap(), identity(), &known).is_ok());
}
