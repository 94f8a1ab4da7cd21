//! What must hold for any bytes at all, read as stamps, as a session or as a saved clock. The fuzz target includes this file, so that what it
//! finds fails here in the same way.
//!
//! The first byte of the input chooses a params and what the rest is. A session is of messages, each after a byte with its length.

#[path = "../common/counting.rs"]
mod counting;

use bloom_clock::{
    BloomClock, Causality, Clock, ClockParams, DeltaDecoder, DeltaError, Identity, PersistedClock, Stamp,
    TickKey,
};
use counting::counted;

/// How the rest is read: this and the shapes are a byte.
pub const STAMP: u8 = 0;
pub const SESSION: u8 = 1;
pub const SAVED: u8 = 2;
/// Without a check: it is made right, for nobody guesses it.
pub const UNSEALED: u8 = 3;

/// The params of this number, times 4 in the first byte.
pub fn params(number: u8) -> ClockParams {
    let params = |counters, hashes, key, limit| {
        let params = ClockParams::new(counters)?.hashes(hashes)?.key(key);
        params.limit(limit)
    };
    let params = match number % 4 {
        0 => params(8, 1, TickKey::Process, u32::MAX),
        1 => params(3, 2, TickKey::Event, 9),
        2 => params(64, 3, TickKey::Event, u32::MAX),
        _ => params(1, 1, TickKey::Process, 1),
    };
    params.expect("valid parameters")
}

/// Refused, or what it says it is, and clocks go on from it.
pub fn clock(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let params = params(choice >> 2);
    match choice % 4 {
        STAMP => stamp(bytes, &params),
        SESSION => session(bytes, params),
        SAVED => saved(bytes, &params),
        UNSEALED => saved(&sealed(bytes), &params),
        _ => unreachable!("there are four"),
    }
}

/// What is read takes the memory of the counters of the params, and no more.
fn within<T>(params: &ClockParams, read: impl FnOnce() -> T) -> T {
    let mut outcome = None;
    let (_, peak) = counted(|| outcome = Some(read()));
    assert!(peak <= params.counters() * size_of::<u32>(), "{peak} bytes for {} counters", params.counters());
    outcome.expect("it was read")
}

fn written(stamp: &Stamp) -> Vec<u8> {
    let mut out = Vec::new();
    stamp.write(&mut out);
    out
}

fn stamp(bytes: &[u8], params: &ClockParams) {
    let Ok(stamp) = within(params, || Stamp::read(bytes, params)) else { return };
    assert_eq!(written(&stamp), bytes, "a stamp has one spelling");
    assert!(stamp.check(params).is_ok());
    if let Some(folded) = stamp.fold() {
        assert_eq!(folded.sum(), stamp.sum());
    }
    let mut clock = BloomClock::begin(*params, Identity::from_random([7; 16]));
    let begun = clock.tick().clone();
    match clock.receive(&stamp).cloned() {
        Ok(received) => {
            assert_eq!(received.after(&stamp), Causality::Possibly);
            assert_eq!(received.after(&begun), Causality::Possibly);
            assert!(received.check(params).is_ok());
        }
        Err(_) => assert_eq!(clock.now(), &begun, "what is refused changes nothing"),
    }
}

fn session(mut bytes: &[u8], params: ClockParams) {
    let mut reading = DeltaDecoder::new(params);
    let mut last: Option<Stamp> = None;
    while let Some((length, rest)) = bytes.split_first() {
        let (message, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        bytes = rest;
        match within(&params, || reading.read(message).map(|_| ())) {
            // The one before it is still needed, and still there.
            Err(DeltaError::Missing) => assert_eq!(message.first(), Some(&2)),
            Err(DeltaError::Decode(_)) => {}
            Ok(()) => last = Some(understood(message, &mut reading, last, &params)),
        }
    }
}

/// The stamp that was read, from the message alone or with the one before, by other means.
fn understood(
    message: &[u8],
    reading: &mut DeltaDecoder,
    last: Option<Stamp>,
    params: &ClockParams,
) -> Stamp {
    let number = 1 + message[1..].iter().take_while(|byte| **byte >= 0x80).count() + 1;
    let stamp = match message[0] {
        3 => Stamp::read(&message[number..], params).expect("a whole stamp"),
        _ => {
            let mut counters = last.as_ref().expect("the one before").counters().to_vec();
            let mut rest = message[number..].iter();
            let mut next = || {
                let mut shift = 0;
                let mut value = 0_u64;
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
                counters[at] += u32::try_from(next()).expect("a rise");
                at += 1;
            }
            let last = last.expect("the one before");
            let stamp = with_counters(last.generation().0, &counters, params);
            assert_ne!(stamp.after(&last), Causality::CertainlyNot);
            assert_eq!(message[number..], difference(&last, &stamp), "a difference has one spelling");
            stamp
        }
    };
    // To be asked for it again, the session must be where it is said to be: a whole one with the same number is taken at any time.
    let mut again = vec![3];
    again.extend(&message[1..number]);
    again.extend(written(&stamp));
    assert_eq!(reading.read(&again), Ok(&stamp));
    stamp
}

/// What changed, as it is described.
fn difference(last: &Stamp, stamp: &Stamp) -> Vec<u8> {
    let rises = last.counters().iter().zip(stamp.counters()).map(|(last, now)| u64::from(now - last));
    let rises: Vec<(usize, u64)> = rises.enumerate().filter(|(_, rise)| *rise > 0).collect();
    let mut numbers = vec![rises.len() as u64];
    let mut next = 0;
    for (at, rise) in rises {
        numbers.extend([(at - next) as u64, rise]);
        next = at + 1;
    }
    spelled(numbers)
}

/// Numbers, as they are described.
fn spelled(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in numbers {
        let mut rest = number;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    bytes
}

fn with_counters(generation: u64, counters: &[u32], params: &ClockParams) -> Stamp {
    let base = counters.iter().copied().min().expect("a counter");
    let above = counters.iter().map(|counter| u64::from(counter - base));
    let numbers = [counters.len() as u64, generation, base.into()].into_iter().chain(above);
    let bytes = [vec![1], spelled(numbers)].concat();
    Stamp::read(&bytes, params).expect("within the limits")
}

fn saved(bytes: &[u8], params: &ClockParams) {
    let Ok(saved) = within(params, || PersistedClock::read(bytes, params)) else { return };
    assert_eq!(saved.params(), *params);
    let Ok(mut clock) = BloomClock::restore(saved, || Ok::<(), ()>(())) else {
        unreachable!("it was erased")
    };
    let (last, events) = (clock.now().clone(), clock.events());
    let next = clock.tick().clone();
    assert_eq!((next.after(&last), last.after(&next)), (Causality::Possibly, Causality::CertainlyNot));
    assert_eq!(clock.events(), events + 1);
    // There is a last number that is read, and nobody comes near it.
    const LAST: u64 = u64::MAX >> 1;
    let again = clock.save().into_bytes();
    let near = events == LAST || last.generation().0 == LAST;
    assert!(near || PersistedClock::read(&again, params).is_ok(), "a clock that goes on can be saved again");
    let Ok(saved) = PersistedClock::read(bytes, params) else { unreachable!("it was read before") };
    assert_eq!(saved.into_bytes(), bytes, "a saved clock has one spelling");
}

/// With the check that is described.
pub fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mix = |mut x: u64| {
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    let check = bytes.chunks(8).fold(bytes.len() as u64, |check, chunk| {
        let word = chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        mix(check ^ word)
    });
    [bytes, &check.to_le_bytes()].concat()
}
