//! Maps the name of an event to the counters it increments. All programs of a system must agree on this
//! mapping, so it is specified here bit by bit and never changes.
//!
//! A name consists of the 128 bits of the process (a low and a high half) and the number of the event in it,
//! from 1; the number is 0 for all events with [`TickKey::Process`](crate::TickKey::Process).
//!
//! ```text
//! modulo 2^64:
//! mix(x): x ^= x >> 30; x *= 0xbf58476d1ce4e5b9; x ^= x >> 27; x *= 0x94d049bb133111eb; x ^= x >> 31
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

/// The counters that an event increments. A counter can occur twice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HashIndexArray([u16; HASHES_MAX as usize]);

const _: () = assert!(COUNTERS_MAX <= 1 << 16, "an index has 16 bits");

impl HashIndexArray {
    /// The counters of event number `event`, or of every event if it is 0.
    pub(crate) fn new(params: &ClockParams, identity: &Identity, event: u64) -> Self {
        let process = identity.number();
        let mut seed = mix(mix(mix(process as u64) ^ (process >> 64) as u64) ^ event);
        let mut indices = [0; HASHES_MAX as usize];
        for index in &mut indices[..params.hashes as usize] {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            *index = (mix(seed) % params.counters as u64) as u16;
        }
        Self(indices)
    }

    /// The indices in use, as many as an event increments.
    #[inline]
    pub(crate) fn get(&self, params: &ClockParams) -> &[u16] {
        &self.0[..params.hashes as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(process: u128, event: u64, counters: usize) -> [u16; 3] {
        let params =
            ClockParams::new(counters).and_then(|params| params.hashes(3)).expect("valid parameters");
        let indices = HashIndexArray::new(&params, &Identity::from_random(process.to_le_bytes()), event);
        std::array::from_fn(|number| indices.get(&params)[number])
    }

    /// Test vectors for other implementations, computed by another program from the specification above.
    #[test]
    fn the_counters_of_names_never_change() {
        assert_eq!(indices(0, 0, 1000), [535, 700, 679]);
        assert_eq!(indices(1, 1, 1000), [611, 613, 73]);
        assert_eq!(indices(u128::MAX, u64::MAX, 1000), [96, 118, 124]);
        assert_eq!(indices(7 << 64 | 9, 3, 64), [63, 29, 14]);
    }

    #[test]
    fn a_counter_of_half_as_many_is_the_remainder() {
        for event in 0..1000 {
            assert_eq!(indices(5, event, 64)[0] % 32, indices(5, event, 32)[0]);
        }
    }
}
