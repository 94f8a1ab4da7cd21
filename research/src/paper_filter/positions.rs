//! Maps an id to the bits of a filter.
//!
//! Invariant: the positions depend on the fingerprint alone, so all constituent filters share them (the
//! paper's "identical hash functions"). They are practically independent and uniform, as the formulas assume.

use super::settings::Settings;
use forgetful_filter::Fingerprint;

/// The increment of SplitMix64 (Steele, Lea, Flood: *Fast Splittable Pseudorandom Number Generators*).
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The bit positions of one id, the same in every constituent filter. Repeats are possible, as in the
/// analysis.
pub(super) struct Positions {
    all: [usize; Settings::HASHES_MAX],
    hashes: usize,
}

impl Positions {
    pub(super) fn new(id: Fingerprint, settings: &Settings) -> Self {
        let mut all = [0; Settings::HASHES_MAX];
        let mut state = id.get();
        for position in all.iter_mut().take(settings.hashes) {
            state = state.wrapping_add(GAMMA);
            *position = scale(finalise(state), settings.bits);
        }
        Self { all, hashes: settings.hashes }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.all.iter().copied().take(self.hashes)
    }
}

/// The output function of SplitMix64: every output bit depends on every input bit.
fn finalise(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Maps 64 uniform bits to `0..bits` without a division.
fn scale(uniform: u64, bits: usize) -> usize {
    ((u128::from(uniform) * bits as u128) >> 64) as usize
}
