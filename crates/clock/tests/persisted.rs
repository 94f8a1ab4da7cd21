//! Clocks that are saved and restored.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/format.rs"]
mod format;

use std::convert::Infallible;

use bloom_clock::{
    BloomClock, COUNTERS_MAX, Causality, Clock, ClockParams, Generation, Identity, PersistedClock, Stamp,
    StampError, TickKey,
};
use format::{sealed, stamp};
use proptest::prelude::*;

fn params() -> ClockParams {
    ClockParams::new(12).unwrap().hashes(2).unwrap().key(TickKey::Event).limit(40).unwrap()
}

fn begin(number: u64) -> BloomClock {
    BloomClock::begin(params(), Identity::from_number_never_used_before(number))
}

/// Decodes a persisted clock and restores it.
fn restore(bytes: &[u8], params: ClockParams) -> BloomClock {
    BloomClock::restore(PersistedClock::read(bytes, &params).unwrap(), || Ok::<(), Infallible>(())).unwrap()
}

/// An event: its process, the event that sent the message it receives, and whether the clock is saved and
/// restored first.
type Step = (usize, Option<usize>, bool);

fn run(steps: &[Step]) -> Vec<Stamp> {
    let mut clocks: Vec<Option<BloomClock>> = (0..3).map(|number| Some(begin(number))).collect();
    let mut stamps: Vec<Stamp> = Vec::new();
    for (process, from, stops) in steps {
        let mut clock = clocks[*process].take().unwrap();
        if *stops {
            clock = restore(&clock.save().into_bytes(), params());
        }
        let stamp = match from.and_then(|from| stamps.get(from % stamps.len().max(1))) {
            Some(sent) => clock.receive(sent).unwrap().clone(),
            None => clock.tick().clone(),
        };
        stamps.push(stamp);
        clocks[*process] = Some(clock);
    }
    stamps
}

proptest! {
    #[test]
    fn saving_and_restoring_changes_no_stamp(
        steps in prop::collection::vec((0_usize..3, prop::option::of(any::<usize>()), any::<bool>()), 1..150)
    ) {
        let without: Vec<Step> = steps.iter().map(|(process, from, _)| (*process, *from, false)).collect();
        prop_assert_eq!(run(&steps), run(&without));
    }

    #[test]
    fn arbitrary_bytes_are_rejected(bytes: Vec<u8>) {
        prop_assert!(PersistedClock::read(&bytes, &params()).is_err());
        let _ = PersistedClock::read(&sealed(&[vec![4], bytes].concat()), &params());
    }

    /// One byte is changed, removed or inserted. With a forged checksum, accepted bytes are the only
    /// encoding.
    #[test]
    fn damage_is_detected(ticks in 1_u64..60, at: prop::sample::Index, byte: u8) {
        let mut clock = begin(7);
        (0..ticks).for_each(|_| _ = clock.tick());
        let whole = clock.save().into_bytes();
        let place = at.index(whole.len());
        let (mut changed, mut shorter, mut longer) = (whole.clone(), whole.clone(), whole.clone());
        changed[place] ^= byte.max(1);
        shorter.remove(place);
        longer.insert(place, byte);
        for damaged in [changed, shorter, longer] {
            prop_assert!(damaged == whole || PersistedClock::read(&damaged, &params()).is_err());
            let forged = sealed(&damaged[..damaged.len().saturating_sub(8)]);
            if let Ok(saved) = PersistedClock::read(&forged, &params()) {
                prop_assert_eq!(saved.into_bytes(), forged);
            }
        }
    }
}

#[test]
fn a_persisted_clock_has_the_documented_encoding() {
    let params = ClockParams::new(3).unwrap().limit(1000).unwrap();
    let mut clock = BloomClock::begin(params, Identity::from_random([9; 16]));
    (0..2).for_each(|_| _ = clock.tick());
    let mut expected = [&[4, 3, 1, 1, 0xe8, 0x07][..], &[9; 16], &[2]].concat();
    clock.now().write(&mut expected);
    let expected = sealed(&expected);
    let saved = clock.save();
    assert_eq!(saved.params(), params);
    assert_eq!(saved.into_bytes(), expected);
    let clock = restore(&expected, params);
    assert_eq!((clock.events(), clock.params()), (2, params));

    let error =
        |bytes: &[u8], params: &ClockParams| PersistedClock::read(bytes, params).unwrap_err().to_string();
    assert!(error(&[], &params).ends_with("truncated"));
    assert!(error(&expected[..20], &params).ends_with("checksum mismatch"));
    assert!(error(&expected, &params.key(TickKey::Event)).ends_with("other parameters than expected"));
    let body = &expected[..expected.len() - 8];
    let maximum = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    for (at, with, why) in [
        (0, &[1][..], "unknown kind or version"),
        (1, &[0], "invalid parameters"),
        (1, &[0x81, 0x80, 0x04], "invalid parameters"),
        (2, &[0], "invalid parameters"),
        (2, &[17], "invalid parameters"),
        (3, &[2], "invalid parameters"),
        (22, &[3], "fewer increments than events"),
        (22, &maximum, "events or generations"),
        (23, &[2], "unknown kind or version"),
        (25, &maximum, "events or generations"),
        (body.len() - 1, &[body[body.len() - 1], 0], "trailing bytes"),
    ] {
        let forged = error(&sealed(&[&body[..at], with, &body[at + 1..]].concat()), &params);
        assert!(forged.ends_with(why), "{with:?} at {at}: {forged}");
    }
}

#[test]
fn a_failed_erasure_restores_no_clock() {
    let bytes = begin(1).save().into_bytes();
    let saved = PersistedClock::read(&bytes, &params()).unwrap();
    let outcome = BloomClock::restore(saved, || Err("the disk is read-only"));
    assert_eq!(outcome.unwrap_err(), "the disk is read-only");
}

/// The reason for the rules of restarts.
#[test]
fn an_old_copy_denies_causes_and_a_new_identity_does_not() {
    let params = ClockParams::new(64).unwrap();
    let mut clock = BloomClock::begin(params, Identity::from_number_never_used_before(1));
    let kept = clock.tick().clone();
    let copy = clock.save().into_bytes();
    let mut clock = restore(&copy, params);
    let lost = (clock.tick().clone(), clock.tick().clone());
    // After a crash, a second clock from the same copy is wrong.
    let mut wrong = restore(&copy, params);
    assert_eq!(wrong.tick().after(&lost.1), Causality::CertainlyNot);
    assert_eq!(wrong.now().after(&lost.0), Causality::Equal);
    // A new identity is right: the kept stamp stays a cause, and no lost event becomes one.
    let mut right = BloomClock::join(params, Identity::from_number_never_used_before(2), &kept).unwrap();
    assert_eq!(right.events(), 0);
    assert_eq!(right.tick().after(&kept), Causality::Possibly);
    assert_eq!(right.now().after(&lost.0), Causality::CertainlyNot);
    assert_eq!(lost.0.after(right.now()), Causality::CertainlyNot);
}

#[test]
fn the_largest_persisted_clock_round_trips() {
    let params = ClockParams::new(COUNTERS_MAX).unwrap();
    let mut counters = vec![u32::MAX; COUNTERS_MAX];
    counters[0] = 0;
    let stamp = stamp(u64::MAX >> 1, &counters, &params);
    let clock = BloomClock::join(params, Identity::from_random([0xff; 16]), &stamp).unwrap();
    let bytes = clock.save().into_bytes();
    assert!(bytes.len() > 5 * (COUNTERS_MAX - 1));
    assert_eq!(PersistedClock::read(&bytes, &params).unwrap().into_bytes(), bytes);
}

#[test]
fn a_clock_can_join_a_much_later_generation() {
    let params = ClockParams::new(2).unwrap();
    let late = |generation| stamp(generation, &[0, 1], &params);
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
