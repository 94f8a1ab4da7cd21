//! What the fuzzer has found so far, without the fuzzer: every input of its corpus still keeps its promises.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fuzzed;
#[path = "../../../testing/fuzz/replay.rs"]
mod replay;

use bloom_clock::{BloomClock, Clock, DeltaEncoder, Identity};
use fuzzed::{SAVED, SESSION, STAMP, UNSEALED};

/// For each params a stamp, a session with a loss in it, and a saved clock with its check and without.
fn seeds() -> replay::Seeds {
    let names = [
        ["stamp", "session", "saved", "unsealed"],
        ["stamp-of-few", "session-of-few", "saved-of-few", "unsealed-of-few"],
        ["stamp-of-many", "session-of-many", "saved-of-many", "unsealed-of-many"],
        ["stamp-of-one", "session-of-one", "saved-of-one", "unsealed-of-one"],
    ];
    let mut seeds = Vec::new();
    for (number, names) in (0_u8..).zip(names) {
        let params = fuzzed::params(number);
        let mut clock = BloomClock::begin(params, Identity::from_random([number; 16]));
        let mut writing = DeltaEncoder::default();
        let mut session = vec![number << 2 | SESSION];
        for event in 0..6 {
            let mut message = Vec::new();
            writing.write(clock.tick(), &mut message);
            if event == 4 {
                continue;
            }
            session.push(message.len() as u8);
            session.extend(message);
        }
        let mut stamp = vec![number << 2 | STAMP];
        clock.now().write(&mut stamp);
        let saved = clock.save().into_bytes();
        let body = &saved[..saved.len() - 8];
        let with = |kind: u8, bytes: &[u8]| [&[number << 2 | kind], bytes].concat();
        let all = [stamp, session, with(SAVED, &saved), with(UNSEALED, body)];
        seeds.extend(names.into_iter().zip(all));
    }
    seeds
}

#[test]
fn stamps_sessions_and_saved_clocks() {
    replay::seeds("clock", &seeds());
    replay::each("clock", fuzzed::clock);
}

/// The seeds are what they are named for: read, not refused.
#[test]
fn the_seeds_are_read() {
    use bloom_clock::{DeltaDecoder, PersistedClock, Stamp};
    for (name, seed) in seeds() {
        let (choice, bytes) = seed.split_first().unwrap();
        let params = fuzzed::params(choice >> 2);
        match choice % 4 {
            STAMP => assert!(Stamp::read(bytes, &params).is_ok(), "{name}"),
            SESSION => {
                let length = usize::from(bytes[0]);
                assert!(DeltaDecoder::new(params).read(&bytes[1..=length]).is_ok(), "{name}");
            }
            SAVED => assert!(PersistedClock::read(bytes, &params).is_ok(), "{name}"),
            _ => assert!(PersistedClock::read(&fuzzed::sealed(bytes), &params).is_ok(), "{name}"),
        }
    }
}
