//! One clock, and two.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use bloom_clock::{
    BloomClock, COUNTERS_MAX, Causality, Clock, Generation, HASHES_MAX, Identity, Refusal, Relation, Shape,
    TickKey,
};

fn clock(shape: Shape, number: u64) -> BloomClock {
    BloomClock::begin(shape, Identity::from_number_never_used_before(number))
}

#[test]
fn every_event_is_after_all_of_its_process_before_it() {
    for key in [TickKey::Event, TickKey::Process] {
        let shape = Shape::new(7).unwrap().hashes(3).unwrap().key(key);
        let mut clock = clock(shape, 1);
        let stamps: Vec<_> = (0..100).map(|_| clock.tick().clone()).collect();
        for (at, stamp) in stamps.iter().enumerate() {
            assert_eq!(stamp.sum(), 3 * (at as u64 + 1));
            for (earlier, other) in stamps.iter().enumerate() {
                let expected = match at.cmp(&earlier) {
                    std::cmp::Ordering::Less => Relation::PossiblyBefore,
                    std::cmp::Ordering::Equal => Relation::Equal,
                    std::cmp::Ordering::Greater => Relation::PossiblyAfter,
                };
                assert_eq!(stamp.relation(other), expected);
            }
        }
        assert_eq!(clock.events(), 100);
    }
}

#[test]
fn a_counter_at_its_limit_begins_a_generation_and_nothing_before_is_denied() {
    let shape = Shape::new(2).unwrap().limit(3).unwrap();
    let (mut one, mut other) = (clock(shape, 1), clock(shape, 2));
    let early = one.tick().clone();
    let beside = other.tick().clone();
    let late = loop {
        let stamp = one.tick().clone();
        if stamp.generation() > Generation(1) {
            break stamp;
        }
        assert!(stamp.counters().iter().all(|counter| *counter <= 3));
    };
    assert_eq!((late.after(&early), early.after(&late)), (Causality::Possibly, Causality::CertainlyNot));
    // Whoever hears of it goes over to it, and what it did before stays before.
    let received = other.receive(&late).unwrap().clone();
    assert_eq!(received.generation(), late.generation());
    assert_eq!(received.after(&late), Causality::Possibly);
    assert_eq!(received.after(&beside), Causality::Possibly);
    // A message from before changes nothing but that there was one more event.
    let again = other.receive(&early).unwrap().clone();
    assert_eq!(again.after(&received), Causality::Possibly);
    assert_eq!(again.generation(), late.generation());
}

#[test]
fn what_cannot_be_of_this_system_is_refused_and_changes_nothing() {
    let shape = Shape::new(4).unwrap();
    let mut ours = clock(shape, 1);
    ours.tick();
    let before = ours.now().clone();
    let wide = clock(Shape::new(8).unwrap(), 2).tick().clone();
    assert_eq!(ours.receive(&wide), Err(Refusal::Shape { found: 8, wanted: 4 }));
    let mut short = clock(shape.limit(1).unwrap(), 3);
    let mut high = clock(shape, 4);
    (0..5).for_each(|_| drop(high.tick().clone()));
    let high = high.now().clone();
    assert!(matches!(short.receive(&high), Err(Refusal::Limit { found: 5, limit: 1 })));
    assert_eq!((ours.now(), ours.events()), (&before, 1));
    assert_eq!(short.events(), 0);
}

#[test]
fn shapes_have_limits() {
    for counters in [0, COUNTERS_MAX + 1] {
        assert!(Shape::new(counters).is_err());
    }
    let shape = Shape::new(COUNTERS_MAX).unwrap();
    for hashes in [0, HASHES_MAX + 1] {
        assert!(shape.hashes(hashes).is_err());
    }
    assert!(shape.hashes(2).unwrap().limit(1).is_err());
    assert!(shape.limit(1).unwrap().hashes(2).is_err());
    assert!(shape.limit(0).is_err());
    for (error, text) in [
        (Shape::new(0), "0 counters: there are 1 to 65536"),
        (shape.hashes(17), "17 counters for an event: there are 1 to 16"),
        (shape.limit(1).unwrap().hashes(2), "an event of 2 may pass the limit 1"),
        (shape.hashes(2).unwrap().limit(1), "a limit of 1: an event adds up to 2"),
    ] {
        assert_eq!(error.unwrap_err().to_string(), text);
    }
}

#[test]
#[should_panic(expected = "different shapes")]
fn stamps_of_different_shapes_are_not_compared() {
    let (mut one, mut other) = (clock(Shape::new(4).unwrap(), 1), clock(Shape::new(8).unwrap(), 2));
    let _ = one.tick().after(other.tick());
}
