//! Events allocate nothing; decoding untrusted bytes allocates no more than documented.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../testing/testkit/counting_allocator.rs"]
mod counting_allocator;

use bloom_clock::{
    BloomClock, COUNTERS_MAX, Clock, ClockParams, DeltaDecoder, DeltaEncoder, Identity, Stamp, TickKey,
};
use counting_allocator::counted;

#[test]
fn an_event_allocates_nothing() {
    assert_eq!(counted(|| drop(vec![1_u8; 100])), (1, 100), "the allocator counts");
    for key in [TickKey::Event, TickKey::Process] {
        // A low limit, so that generations end during the test.
        let params = ClockParams::new(64).unwrap().hashes(3).unwrap().key(key).limit(50).unwrap();
        let begin = |number| BloomClock::begin(params, Identity::from_number_never_used_before(number));
        let (mut one, mut other) = (begin(1), begin(2));
        let (mut encoder, mut out) = (DeltaEncoder::default(), Vec::with_capacity(1000));
        encoder.write(one.tick(), &mut out);
        let mut generations = 0;
        let work = || {
            for _ in 0..1000 {
                one.tick();
                other.receive(one.now()).unwrap();
                other.tick();
                one.receive(other.now()).unwrap();
                let _ = one.now().after(other.now());
                out.clear();
                encoder.write(one.now(), &mut out);
            }
            generations = one.now().generation().0;
        };
        assert_eq!(counted(work), (0, 0), "{key:?}");
        assert!(generations > 3, "{generations}");
    }
}

#[test]
fn decoding_allocates_the_expected_counters_only() {
    let params = ClockParams::new(64).unwrap();
    let mut clock = BloomClock::begin(params, Identity::from_number_never_used_before(1));
    let (mut encoder, mut decoder) = (DeltaEncoder::default(), DeltaDecoder::new(params));
    let [full, delta, next] = [(); 3].map(|()| {
        let mut message = Vec::new();
        encoder.write(clock.tick(), &mut message);
        message
    });
    let mut stamp = Vec::new();
    clock.now().write(&mut stamp);
    const COUNTERS: usize = 64 * 4;
    assert_eq!(counted(|| drop(Stamp::read(&stamp, &params).unwrap())), (1, COUNTERS));
    assert_eq!(counted(|| drop(decoder.read(&full).unwrap().clone())), (2, 2 * COUNTERS));
    assert_eq!(counted(|| assert!(decoder.read(&delta).is_ok())), (1, COUNTERS));

    // Huge counts and other parameters are rejected before the allocation.
    let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    for first in [1, 3] {
        let huge: Vec<u8> = [first, 1].into_iter().chain(most).collect();
        assert_eq!(counted(|| assert!(Stamp::read(&huge, &params).is_err())).1, 0);
        assert_eq!(counted(|| assert!(decoder.read(&huge).is_err())).1, 0);
    }
    let huge: Vec<u8> = [2, 2].into_iter().chain(most).collect();
    assert!(counted(|| assert!(decoder.read(&huge).is_err())).1 <= COUNTERS);
    let wide = ClockParams::new(COUNTERS_MAX).unwrap();
    assert_eq!(counted(|| assert!(Stamp::read(&stamp, &wide).is_err())), (0, 0));
    assert!(decoder.read(&next).is_ok(), "errors leave the decoder unchanged");
}
