//! Clocks that stop and go on.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;

use bloom_clock::{
    BloomClock, Causality, Clock, ClockParams, Generation, Identity, PersistedClock, Stamp, StampError,
    TickKey,
};
use proptest::prelude::*;

fn params() -> ClockParams {
    ClockParams::new(12).unwrap().hashes(2).unwrap().key(TickKey::Event).limit(40).unwrap()
}

fn begin(number: u64) -> BloomClock {
    BloomClock::begin(params(), Identity::from_number_never_used_before(number))
}

fn erased() -> Result<(), Infallible> {
    Ok(())
}

/// What the bytes of a saved clock end with, as described, computed anew.
fn with_check(mut bytes: Vec<u8>) -> Vec<u8> {
    let mix = |mut x: u64| {
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    let mut check = bytes.len() as u64;
    for at in (0..bytes.len()).step_by(8) {
        let word = |at: usize| bytes.get(at).copied().unwrap_or(0);
        check = mix(check ^ u64::from_le_bytes(std::array::from_fn(|byte| word(at + byte))));
    }
    bytes.extend(check.to_le_bytes());
    bytes
}

/// An event: its process, the earlier one whose message it receives if any, and whether the process stopped and went on before it.
type Step = (usize, Option<usize>, bool);

fn run(steps: &[Step]) -> Vec<Stamp> {
    let mut clocks: Vec<Option<BloomClock>> = (0..3).map(|number| Some(begin(number))).collect();
    let mut stamps: Vec<Stamp> = Vec::new();
    for (process, from, stops) in steps {
        let mut clock = clocks[*process].take().unwrap();
        if *stops {
            let bytes = clock.save().into_bytes();
            clock = BloomClock::restore(PersistedClock::read(&bytes, &params()).unwrap(), erased).unwrap();
        }
        let sent = from.and_then(|from| stamps.get(from % stamps.len().max(1))).cloned();
        stamps.push(match sent {
            Some(sent) => clock.receive(&sent).unwrap().clone(),
            None => clock.tick().clone(),
        });
        clocks[*process] = Some(clock);
    }
    stamps
}

proptest! {
    #[test]
    fn stopping_changes_nothing(
        steps in prop::collection::vec((0_usize..3, prop::option::of(any::<usize>()), any::<bool>()), 1..150)
    ) {
        let without: Vec<Step> = steps.iter().map(|(process, from, _)| (*process, *from, false)).collect();
        prop_assert_eq!(run(&steps), run(&without));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        prop_assert!(PersistedClock::read(&bytes, &params()).is_err());
        let mut hostile = vec![4];
        hostile.extend(bytes);
        let _ = PersistedClock::read(&with_check(hostile), &params());
    }

    /// A byte that is changed, left out or put in: damage is found; and where it was done on purpose there is one spelling.
    #[test]
    fn damage_is_found(ticks in 1_u64..60, at: prop::sample::Index, byte: u8) {
        let mut clock = begin(7);
        (0..ticks).for_each(|_| drop(clock.tick().clone()));
        let whole = clock.save().into_bytes();
        let place = at.index(whole.len());
        let (mut changed, mut shorter, mut longer) = (whole.clone(), whole.clone(), whole.clone());
        changed[place] ^= byte.max(1);
        shorter.remove(place);
        longer.insert(place, byte);
        for damaged in [changed, shorter, longer] {
            prop_assert!(damaged == whole || PersistedClock::read(&damaged, &params()).is_err());
            let forged = with_check(damaged[..damaged.len().saturating_sub(8)].to_vec());
            if let Ok(saved) = PersistedClock::read(&forged, &params()) {
                prop_assert_eq!(saved.into_bytes(), forged);
            }
        }
    }
}

#[test]
fn a_saved_clock_is_as_described() {
    let params = ClockParams::new(3).unwrap().limit(1000).unwrap();
    let mut clock = BloomClock::begin(params, Identity::from_random([9; 16]));
    (0..2).for_each(|_| drop(clock.tick().clone()));
    let mut expected = vec![4, 3, 1, 1, 0xe8, 0x07];
    expected.extend([9; 16]);
    expected.push(2);
    clock.now().write(&mut expected);
    let expected = with_check(expected);
    let saved = clock.save();
    assert_eq!(saved.params(), params);
    assert_eq!(saved.into_bytes(), expected);
    let clock = BloomClock::restore(PersistedClock::read(&expected, &params).unwrap(), erased).unwrap();
    assert_eq!((clock.events(), clock.params()), (2, params));

    let why = |bytes: &[u8]| PersistedClock::read(bytes, &params).unwrap_err().to_string();
    assert!(why(&[]).ends_with("truncated"));
    assert!(why(&expected[..20]).ends_with("checksum mismatch"));
    let other = params.key(TickKey::Event);
    assert!(
        PersistedClock::read(&expected, &other)
            .unwrap_err()
            .to_string()
            .ends_with("other parameters than expected")
    );
    let body = &expected[..expected.len() - 8];
    let forged = |at: usize, with: &[u8]| {
        let mut bytes = body.to_vec();
        bytes.splice(at..=at, with.iter().copied());
        why(&with_check(bytes))
    };
    assert!(forged(0, &[1]).ends_with("unknown kind or version"));
    for (at, with) in [(1, &[0][..]), (2, &[0]), (2, &[17]), (3, &[2]), (1, &[0x81, 0x80, 0x04])] {
        assert!(forged(at, with).ends_with("invalid parameters"), "{at}: {with:?}");
    }
    assert!(forged(23, &[2]).ends_with("unknown kind or version"));
    assert!(forged(22, &[3]).ends_with("fewer increments than events"));
    assert!(forged(body.len() - 1, &[body[body.len() - 1], 0]).ends_with("trailing bytes"));
    // The last numbers there are: the next event would be none.
    let last = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    assert!(forged(22, &last).ends_with("events or generations"));
    assert!(forged(25, &last).ends_with("events or generations"));
}

#[test]
fn there_is_no_clock_while_there_is_a_copy() {
    let bytes = begin(1).save().into_bytes();
    let saved = PersistedClock::read(&bytes, &params()).unwrap();
    let outcome = BloomClock::restore(saved, || Err("the disk is read-only"));
    assert_eq!(outcome.unwrap_err(), "the disk is read-only");
}

/// Why: a copy from before the last event denies it.
#[test]
fn an_old_copy_denies_causes_and_a_new_identity_does_not() {
    let params = ClockParams::new(64).unwrap();
    let mut clock = BloomClock::begin(params, Identity::from_number_never_used_before(1));
    let kept = clock.tick().clone();
    let copy = clock.save().into_bytes();
    let go_on = || BloomClock::restore(PersistedClock::read(&copy, &params).unwrap(), erased).unwrap();
    let mut clock = go_on();
    let lost = (clock.tick().clone(), clock.tick().clone());
    // It crashed; what must not be done:
    let mut wrong = go_on();
    assert_eq!(wrong.tick().after(&lost.1), Causality::CertainlyNot);
    assert_eq!(wrong.now().after(&lost.0), Causality::Equal);
    // What is to be done: what was kept stays a cause, and nothing is mistaken for what was lost.
    let mut right = BloomClock::join(params, Identity::from_number_never_used_before(2), &kept).unwrap();
    assert_eq!(right.events(), 0);
    assert_eq!(right.tick().after(&kept), Causality::Possibly);
    assert_eq!(right.now().after(&lost.0), Causality::CertainlyNot);
    assert_eq!(lost.0.after(right.now()), Causality::CertainlyNot);
}

/// A stamp of two counters in this generation.
fn late(generation: u64) -> Stamp {
    let mut bytes = vec![1, 2];
    let mut rest = generation;
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.extend([rest as u8, 0, 0, 1]);
    Stamp::read(&bytes, &ClockParams::new(2).unwrap()).unwrap()
}

#[test]
fn one_can_join_those_who_began_long_ago() {
    let params = ClockParams::new(2).unwrap();
    let known = late(Generation::AHEAD_MAX * 5);
    let identity = || Identity::from_number_never_used_before(1);
    let refused = BloomClock::begin(params, identity()).receive(&known).unwrap_err();
    assert!(matches!(refused, StampError::Ahead { .. }));
    let mut clock = BloomClock::join(params, identity(), &known).unwrap();
    assert_eq!(clock.now(), &known);
    assert_eq!(clock.tick().after(&known), Causality::Possibly);
    // But not at the end of all numbers, and not what is of another system.
    assert!(BloomClock::join(params, identity(), &late(u64::MAX)).is_err());
    assert!(BloomClock::join(ClockParams::new(3).unwrap(), identity(), &known).is_err());
    assert!(BloomClock::join(params.limit(1).unwrap(), identity(), &known).is_ok());
}
