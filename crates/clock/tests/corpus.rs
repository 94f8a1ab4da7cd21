//! Replays the corpus of the fuzz target.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fuzzed;
#[path = "../../../testing/fuzz/replay.rs"]
mod replay;

use bloom_clock::{BloomClock, Clock, DeltaDecoder, DeltaEncoder, Identity, PersistedClock, Stamp};
use fuzzed::{SAVED, SESSION, STAMP, UNSEALED};

/// For each set of parameters a stamp, a session with a loss, and a persisted clock with and without
/// checksum.
fn seeds() -> replay::Seeds {
    let names = [
        ["stamp", "session", "saved", "unsealed"],
        ["stamp-of-few", "session-of-few", "saved-of-few", "unsealed-of-few"],
        ["stamp-of-many", "session-of-many", "saved-of-many", "unsealed-of-many"],
        ["stamp-of-one", "session-of-one", "saved-of-one", "unsealed-of-one"],
    ];
    let mut seeds = Vec::new();
    for (number, names) in (0_u8..).zip(names) {
        let mut clock = BloomClock::begin(fuzzed::params(number), Identity::from_random([number; 16]));
        let mut encoder = DeltaEncoder::default();
        let mut session = Vec::new();
        for event in 0..6 {
            let mut message = Vec::new();
            encoder.write(clock.tick(), &mut message);
            if event != 4 {
                session.push(message.len() as u8);
                session.extend(message);
            }
        }
        let mut stamp = Vec::new();
        clock.now().write(&mut stamp);
        let saved = clock.save().into_bytes();
        let with = |kind: u8, bytes: &[u8]| [&[number << 2 | kind], bytes].concat();
        let unsealed = with(UNSEALED, &saved[..saved.len() - 8]);
        let all = [with(STAMP, &stamp), with(SESSION, &session), with(SAVED, &saved), unsealed];
        seeds.extend(names.into_iter().zip(all));
    }
    seeds
}

#[test]
fn stamps_sessions_and_saved_clocks() {
    replay::seeds("clock", &seeds());
    replay::each("clock", fuzzed::clock);
}

#[test]
fn the_seeds_are_valid() {
    for (name, seed) in seeds() {
        let (choice, bytes) = seed.split_first().unwrap();
        let params = fuzzed::params(choice >> 2);
        let valid = match choice % 4 {
            STAMP => Stamp::read(bytes, &params).is_ok(),
            SESSION => DeltaDecoder::new(params).read(&bytes[1..=usize::from(bytes[0])]).is_ok(),
            SAVED => PersistedClock::read(bytes, &params).is_ok(),
            _ => PersistedClock::read(&fuzzed::format::sealed(bytes), &params).is_ok(),
        };
        assert!(valid, "{name}");
    }
}
