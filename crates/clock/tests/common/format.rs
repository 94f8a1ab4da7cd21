//! A second implementation of the binary formats, for the tests.
#![allow(dead_code, reason = "each test uses a part of it")]

use bloom_clock::{ClockParams, Stamp};

/// The finaliser of SplitMix64.
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// LEB128 encoding of numbers.
pub fn varints(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for mut number in numbers {
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
    }
    bytes
}

pub fn stamp(generation: u64, counters: &[u32], params: &ClockParams) -> Stamp {
    let base = counters.iter().copied().min().expect("at least one counter");
    let above = counters.iter().map(|counter| u64::from(counter - base));
    let numbers = [counters.len() as u64, generation, base.into()].into_iter().chain(above);
    Stamp::read(&[vec![1], varints(numbers)].concat(), params).expect("a stamp within the limits")
}
