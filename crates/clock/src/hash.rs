//! Maps the name of an event to the counters it increments. All programs of a system must agree on this
//! mapping, so it is specified here bit by bit and never changes.
//!
//! A name consists of the 128 bits of the process (a low and a high half) and the number of the event in it,
//! from 1; the number is 0 for all events with [`TickKey::Process`](crate::TickKey::Process).
//!
//! ```text
//! mix(x): x ^= x >> 30; x *= 0xbf58476d1ce4e5b9; x ^= x >> 27; x *= 0x94d049bb133111eb; x ^= x >> 31   (modulo 2^64)
//! seed = mix(mix(mix(low) ^ high) ^ event)
//! counter number j, from 0: mix(seed + (j + 1) * 0x9e3779b97f4a7c15) modulo the number of counters
//! ```
//!
//! `mix` is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
//! OOPSLA 2014). The mapping uses the remainder, so that the counters of a clock of half the size are sums of
//! two counters.

use crate::identity::Identity;
use crate::parameters::{COUNTERS_MAX, ClockParams, HASHES_MAX};

/// The finaliser of SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Checksum of a [persisted clock](crate::PersistedClock).
pub(crate) fn check(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(bytes.len() as u64, |check, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(check ^ u64::from_le_bytes(word))
    })
}

/// The sequence of counters of an event. A counter can occur twice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HashIndices {
    seed: u64,
}

impl HashIndices {
    pub(crate) fn new(process: u128, event: u64) -> Self {
        let (low, high) = (process as u64, (process >> 64) as u64);
        Self { seed: mix(mix(mix(low) ^ high) ^ event) }
    }

    /// Counter number `number` of the event, below `counters`, which must not be 0.
    #[inline]
    pub(crate) fn counter(self, number: u32, counters: usize) -> usize {
        let step = u64::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mix(self.seed.wrapping_add(step)) % counters as u64) as usize
    }
}

/// The counters of an event, computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HashIndexArray([u16; HASHES_MAX as usize]);

const _: () = assert!(COUNTERS_MAX <= 1 << 16, "a place has 16 bits");

impl HashIndexArray {
    /// The counters of event number `event`, or of every event if it is 0.
    pub(crate) fn of(params: &ClockParams, identity: &Identity, event: u64) -> Self {
        let draw = HashIndices::new(identity.number(), event);
        let mut places = [0; HASHES_MAX as usize];
        for (place, number) in places.iter_mut().zip(0..params.hashes) {
            *place = draw.counter(number, params.counters) as u16;
        }
        Self(places)
    }

    /// The counters in use, as many as an event increments.
    #[inline]
    pub(crate) fn drawn(&self, params: &ClockParams) -> &[u16] {
        &self.0[..params.hashes as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors for other implementations.
    #[test]
    fn the_counters_of_names_never_change() {
        let drawn = |process, event, counters| {
            let draw = HashIndices::new(process, event);
            [0, 1, 2].map(|number| draw.counter(number, counters))
        };
        assert_eq!(drawn(0, 0, 1000), GOLDEN[0]);
        assert_eq!(drawn(1, 1, 1000), GOLDEN[1]);
        assert_eq!(drawn(u128::MAX, u64::MAX, 1000), GOLDEN[2]);
        assert_eq!(drawn(7 << 64 | 9, 3, 64), GOLDEN[3]);
    }

    /// Computed by another program from the specification above.
    const GOLDEN: [[usize; 3]; 4] = [[535, 700, 679], [611, 613, 73], [96, 118, 124], [63, 29, 14]];

    #[test]
    fn a_counter_of_half_as_many_is_the_remainder() {
        for event in 0..1000 {
            let draw = HashIndices::new(5, event);
            assert_eq!(draw.counter(0, 64) % 32, draw.counter(0, 32));
        }
    }
}
