//! Replays the corpus of the fuzz target.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fuzzed;
#[path = "../../../testing/fuzz/replay.rs"]
mod replay;

use bloom_clock::{BloomClock, Clock, DeltaDecoder, DeltaEncoder, Identity, Stamp};
use fuzzed::{SESSION, STAMP};

/// For each set of parameters a stamp and a session with a loss.
fn seeds() -> replay::Seeds {
    let names = [
        ["stamp", "session"],
        ["stamp-of-few", "session-of-few"],
        ["stamp-of-many", "session-of-many"],
        ["stamp-of-one", "session-of-one"],
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
        let with = |kind: u8, bytes: &[u8]| [&[number << 2 | kind], bytes].concat();
        seeds.extend(names.into_iter().zip([with(STAMP, &stamp), with(SESSION, &session)]));
    }
    seeds
}

#[test]
fn stamps_and_sessions() {
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
            _ => DeltaDecoder::new(params).read(&bytes[1..=usize::from(bytes[0])]).is_ok(),
        };
        assert!(valid, "{name}");
    }
}
