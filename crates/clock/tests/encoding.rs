//! Encoding of single stamps and of sessions, and folding.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/format.rs"]
mod format;

use bloom_clock::{
    BloomClock, Causality, Clock, ClockParams, DeltaDecoder, DeltaEncoder, DeltaError, Identity, Stamp,
    TickKey,
};
use proptest::prelude::*;

fn params() -> ClockParams {
    ClockParams::new(12).unwrap().hashes(2).unwrap().key(TickKey::Event)
}

/// The stamps of three clocks that send to one another, with their processes, in order.
fn run(params: ClockParams, steps: &[(usize, Option<usize>)]) -> Vec<(usize, Stamp)> {
    let begin = |number| BloomClock::begin(params, Identity::from_number_never_used_before(number));
    let mut clocks: Vec<BloomClock> = (0..3).map(begin).collect();
    let mut stamps: Vec<(usize, Stamp)> = Vec::new();
    for (process, from) in steps {
        let clock = &mut clocks[*process];
        let stamp = match from.and_then(|from| stamps.get(from % stamps.len().max(1))) {
            Some((_, sent)) => clock.receive(sent).unwrap().clone(),
            None => clock.tick().clone(),
        };
        stamps.push((*process, stamp));
    }
    stamps
}

fn steps() -> impl Strategy<Value = Vec<(usize, Option<usize>)>> {
    prop::collection::vec((0_usize..3, prop::option::of(any::<usize>())), 1..200)
}

fn bytes(stamp: &Stamp) -> Vec<u8> {
    let mut out = Vec::new();
    stamp.write(&mut out);
    out
}

proptest! {
    #[test]
    fn a_decoded_stamp_equals_the_encoded_one(steps in steps()) {
        for (_, stamp) in run(params(), &steps) {
            prop_assert_eq!(Stamp::read(&bytes(&stamp), &params()), Ok(stamp));
        }
    }

    /// One connection per process, and short generations.
    #[test]
    fn a_session_decodes_to_the_encoded_stamps(steps in steps(), limit in 4_u32..40) {
        let params = params().limit(limit).unwrap();
        let mut writers: Vec<DeltaEncoder> = (0..3).map(|_| DeltaEncoder::default()).collect();
        let mut readers: Vec<DeltaDecoder> = (0..3).map(|_| DeltaDecoder::new(params)).collect();
        for (process, stamp) in run(params, &steps) {
            let mut out = vec![7]; // earlier bytes are kept
            writers[process].write(&stamp, &mut out);
            prop_assert_eq!(out.remove(0), 7);
            prop_assert_eq!(readers[process].read(&out), Ok(&stamp));
            // A message is never longer than kind, number and full stamp.
            let number = 1 + out[1..].iter().position(|byte| *byte < 0x80).unwrap() + 1;
            prop_assert!(out.len() <= number + bytes(&stamp).len(), "{} bytes", out.len());
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(first in 0_u8..5, rest: Vec<u8>, steps in steps()) {
        let hostile = [vec![first], rest].concat();
        if let Ok(stamp) = Stamp::read(&hostile, &params()) {
            prop_assert_eq!(&bytes(&stamp), &hostile, "a stamp has one encoding");
        }
        let mut reader = DeltaDecoder::new(params());
        let mut writer = DeltaEncoder::default();
        for (_, stamp) in run(params(), &steps).into_iter().take(2) {
            let mut out = Vec::new();
            writer.write(&stamp, &mut out);
            let _ = reader.read(&out);
            let _ = reader.read(&hostile);
        }
    }

    /// One byte is changed, removed or inserted.
    #[test]
    fn damage_never_panics(steps in steps(), at: prop::sample::Index, byte: u8) {
        let params = params();
        let (mut writer, mut reader) = (DeltaEncoder::default(), DeltaDecoder::new(params));
        for (_, stamp) in run(params, &steps) {
            let mut out = Vec::new();
            writer.write(&stamp, &mut out);
            let place = at.index(out.len());
            let (mut changed, mut shorter, mut longer) = (out.clone(), out.clone(), out.clone());
            changed[place] = byte;
            shorter.remove(place);
            longer.insert(place, byte);
            for damaged in [changed, shorter, longer] {
                let _ = DeltaDecoder::new(params).read(&damaged);
                let _ = Stamp::read(&damaged, &params);
            }
            let _ = reader.read(&out);
        }
    }

    #[test]
    fn folding_denies_no_cause_and_keeps_the_sum(steps in steps()) {
        let stamps = run(params(), &steps);
        let folded: Vec<Stamp> = stamps.iter().map(|(_, stamp)| stamp.fold().unwrap()).collect();
        for (later, (_, stamp)) in stamps.iter().enumerate() {
            prop_assert_eq!(folded[later].sum(), stamp.sum());
            for (earlier, (_, other)) in stamps.iter().enumerate() {
                if stamp.after(other) == Causality::Possibly {
                    prop_assert_eq!(folded[later].after(&folded[earlier]), Causality::Possibly);
                }
            }
        }
    }
}

#[test]
fn stamps_have_the_documented_encoding() {
    let params = ClockParams::new(4).unwrap();
    let mut clock = BloomClock::begin(params, Identity::from_number_never_used_before(1));
    (0..200).for_each(|_| _ = clock.tick());
    let at = clock.now().counters().iter().position(|counter| *counter == 200).unwrap();
    let mut expected = vec![1, 4, 0, 0, 0, 0, 0, 0];
    expected.splice(4 + at..=4 + at, [0xc8, 0x01]);
    assert_eq!(bytes(clock.now()), expected);
    assert_eq!(Stamp::read(&expected, &params).unwrap(), *clock.now());
    for wrong in [
        &[][..],
        &[2, 4, 0, 0, 0, 0, 0, 0],                            // unknown kind
        &[1, 5, 0, 0, 0, 0, 0, 0, 0],                         // another number of counters
        &[1, 4, 0, 0, 0, 0, 0],                               // too short
        &[1, 4, 0, 0, 0, 0, 0, 0, 0],                         // too long
        &[1, 4, 0, 0, 1, 1, 1, 1],                            // the smallest counter does not occur
        &[1, 4, 0, 0x80, 0x00, 0, 0, 0, 0],                   // not the shortest form
        &[1, 4, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0], // more than 32 bits
        &[1, 4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0], // more than 64 bits
    ] {
        assert!(Stamp::read(wrong, &params).is_err(), "{wrong:?}");
    }
    let limited = params.limit(100).unwrap();
    assert!(Stamp::read(&expected, &limited).is_err(), "above the limit");
    let error = Stamp::read(&[], &params).unwrap_err();
    assert_eq!(error.to_string(), "invalid encoding: truncated");
}

#[test]
fn deltas_have_the_documented_encoding() {
    let params = ClockParams::new(4).unwrap().limit(9).unwrap();
    let mut reader = DeltaDecoder::new(params);
    let first = [3, 0, 1, 4, 0, 0, 1, 0, 0, 9];
    assert_eq!(reader.read(&first).unwrap().counters(), [1, 0, 0, 9]);
    for (wrong, why) in [
        (&[2, 1][..], "truncated"),
        (&[2, 1, 1, 0], "truncated"),
        (&[2, 1, 0, 0], "trailing bytes"),
        (&[2, 1, 5], "more changes than counters"),
        (&[2, 1, 1, 4, 1], "a counter beyond the last"),
        (&[2, 1, 2, 3, 0, 0, 1], "an increment of zero, or above the limit"),
        (&[2, 1, 1, 0, 0], "an increment of zero, or above the limit"),
        (&[2, 1, 1, 3, 1], "an increment of zero, or above the limit"),
        (&[2, 1, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f], "an increment of zero, or above the limit"),
        (&[3, 1, 2, 4, 0, 0, 1, 0, 0, 9], "unknown kind or version"),
        (&[3, 1, 1, 4, 0, 0, 1, 0, 0, 9, 0], "trailing bytes"),
        (&[4, 1], "unknown kind or version"),
    ] {
        let error = reader.read(wrong).unwrap_err();
        assert!(matches!(error, DeltaError::Decode(_)), "{wrong:?}");
        assert!(error.to_string().ends_with(why), "{wrong:?}: {error}");
    }
    // The errors left the decoder unchanged.
    assert_eq!(reader.read(&[2, 1, 2, 0, 2, 1, 8]).unwrap().counters(), [3, 0, 8, 9]);
}

#[test]
fn a_delta_is_short_and_needs_the_previous_stamp() {
    let params = ClockParams::new(64).unwrap();
    let mut clock = BloomClock::begin(params, Identity::from_number_never_used_before(1));
    let (mut writer, mut reader) = (DeltaEncoder::default(), DeltaDecoder::new(params));
    let mut next = |writer: &mut DeltaEncoder| {
        let mut out = Vec::new();
        writer.write(clock.tick(), &mut out);
        (out, clock.now().clone())
    };
    let (first, _) = next(&mut writer);
    let (second, stamp) = next(&mut writer);
    assert!(first.len() > 64 && second.len() <= 6, "{} and {} bytes", first.len(), second.len());
    assert_eq!(reader.read(&second), Err(DeltaError::Missing), "the first is missing");
    assert!(reader.read(&first).is_ok());
    assert_eq!(reader.read(&second), Ok(&stamp));
    assert_eq!(reader.read(&second), Err(DeltaError::Missing), "the number is used up");
    let _lost = next(&mut writer);
    let (after, _) = next(&mut writer);
    assert_eq!(reader.read(&after), Err(DeltaError::Missing));
    writer.begin_again();
    let (whole, stamp) = next(&mut writer);
    assert_eq!(reader.read(&whole), Ok(&stamp));
    // The encoder sends full stamps periodically.
    let lengths: Vec<usize> = (0..70).map(|_| next(&mut writer).0.len()).collect();
    assert_eq!(lengths.iter().filter(|length| **length > 64).count(), 1);
}

#[test]
fn odd_counters_and_overflowing_sums_are_not_folded() {
    let params = ClockParams::new(3).unwrap();
    let mut clock = BloomClock::begin(params, Identity::from_number_never_used_before(1));
    assert_eq!(clock.tick().fold(), None, "three counters");
    let full = format::stamp(0, &[u32::MAX; 2], &ClockParams::new(2).unwrap());
    assert_eq!(full.fold(), None, "the sum has more than 32 bits");
}
