//! Properties of decoding arbitrary bytes as a stamp or a session. The fuzz target
//! includes this file, so that its findings fail here in the same way.
//!
//! The first byte of the input selects the parameters and the format of the rest. In a session, a byte with
//! the length precedes each message.

#[path = "../../../../testing/testkit/counting_allocator.rs"]
mod counting_allocator;
#[path = "../common/format.rs"]
mod format;

use bloom_clock::{
    BloomClock, Causality, Clock, ClockParams, DeltaDecoder, DeltaError, Identity, Stamp, TickKey,
};
use counting_allocator::counted;
use format::varints;

/// Formats, in the two low bits of the first byte. 2 and 3 are unused.
pub const STAMP: u8 = 0;
pub const SESSION: u8 = 1;

/// The parameters with this number, which is in the high bits of the first byte.
pub fn params(number: u8) -> ClockParams {
    let (counters, hashes, key, limit) = match number % 4 {
        0 => (8, 1, TickKey::Process, u32::MAX),
        1 => (3, 2, TickKey::Event, 9),
        2 => (64, 3, TickKey::Event, u32::MAX),
        _ => (1, 1, TickKey::Process, 1),
    };
    let params = ClockParams::new(counters).and_then(|params| params.hashes(hashes));
    params.and_then(|params| params.key(key).limit(limit)).expect("valid parameters")
}

/// Rejects the bytes, or decodes them into valid values from which clocks continue.
pub fn clock(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let params = params(choice >> 2);
    match choice % 4 {
        STAMP => stamp(bytes, &params),
        SESSION => session(bytes, params),
        _ => {}
    }
}

/// Checks that decoding allocates no more memory than the counters of the parameters.
fn within<T>(params: &ClockParams, read: impl FnOnce() -> T) -> T {
    let mut result = None;
    let (_, peak) = counted(|| result = Some(read()));
    assert!(peak <= params.counters() * size_of::<u32>(), "{peak} bytes for {} counters", params.counters());
    result.expect("the closure was called")
}

fn written(stamp: &Stamp) -> Vec<u8> {
    let mut out = Vec::new();
    stamp.write(&mut out);
    out
}

fn stamp(bytes: &[u8], params: &ClockParams) {
    let Ok(stamp) = within(params, || Stamp::read(bytes, params)) else { return };
    assert_eq!(written(&stamp), bytes, "a stamp has one encoding");
    assert!(stamp.check(params).is_ok());
    if let Some(folded) = stamp.fold() {
        assert_eq!(folded.sum(), stamp.sum());
    }
    let mut clock = BloomClock::begin(*params, Identity::from_random([7; 16]));
    let first = clock.tick().clone();
    match clock.receive(&stamp).cloned() {
        Ok(received) => {
            assert_eq!(received.after(&stamp), Causality::Possibly);
            assert_eq!(received.after(&first), Causality::Possibly);
            assert!(received.check(params).is_ok());
        }
        Err(_) => assert_eq!(clock.now(), &first, "a rejected stamp changes nothing"),
    }
}

fn session(mut bytes: &[u8], params: ClockParams) {
    let mut decoder = DeltaDecoder::new(params);
    let mut last: Option<Stamp> = None;
    while let Some((length, rest)) = bytes.split_first() {
        let (message, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        bytes = rest;
        match within(&params, || decoder.read(message).map(|_| ())) {
            Err(DeltaError::Missing) => assert_eq!(message.first(), Some(&2)),
            Err(DeltaError::Decode(_)) => {}
            Ok(()) => last = Some(decoded(message, &mut decoder, last, &params)),
        }
    }
}

/// Decodes an accepted message a second time, and checks that the decoder has the same stamp.
fn decoded(message: &[u8], decoder: &mut DeltaDecoder, last: Option<Stamp>, params: &ClockParams) -> Stamp {
    let body = 1 + message[1..].iter().take_while(|byte| **byte >= 0x80).count() + 1;
    let stamp = match message[0] {
        3 => Stamp::read(&message[body..], params).expect("a full stamp"),
        _ => {
            let last = last.expect("a delta follows a stamp");
            let mut counters = last.counters().to_vec();
            let mut rest = message[body..].iter();
            let mut next = || {
                let (mut shift, mut value) = (0, 0_u64);
                for byte in &mut rest {
                    value |= u64::from(byte & 0x7f) << shift;
                    shift += 7;
                    if *byte < 0x80 {
                        break;
                    }
                }
                value
            };
            let mut at = 0;
            for _ in 0..next() {
                at += next() as usize;
                counters[at] += u32::try_from(next()).expect("an increment of 32 bits");
                at += 1;
            }
            let stamp = format::stamp(last.generation().0, &counters, params);
            assert_ne!(stamp.after(&last), Causality::CertainlyNot);
            assert_eq!(message[body..], delta(&last, &stamp), "a delta has one encoding");
            stamp
        }
    };
    // A full stamp is accepted at any time. With the same number it leaves the session where it was.
    let again = [&[3], &message[1..body], &written(&stamp)].concat();
    assert_eq!(decoder.read(&again), Ok(&stamp));
    stamp
}

/// The encoding of the changed counters.
fn delta(last: &Stamp, stamp: &Stamp) -> Vec<u8> {
    let rises = last.counters().iter().zip(stamp.counters()).map(|(last, now)| u64::from(now - last));
    let rises: Vec<(usize, u64)> = rises.enumerate().filter(|(_, rise)| *rise > 0).collect();
    let mut numbers = vec![rises.len() as u64];
    let mut next = 0;
    for (at, rise) in rises {
        numbers.extend([(at - next) as u64, rise]);
        next = at + 1;
    }
    varints(numbers)
}
