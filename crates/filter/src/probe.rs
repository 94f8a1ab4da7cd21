//! Maps a fingerprint to words and bits.
//!
//! An id occupies `probes` words with `bits` bits in each, drawn with replacement, as [`crate::sizing`]
//! assumes. Both layouts of storage use this mapping: a *slot* is a row of an interleaved ring or a word of a
//! solid slice.

use crate::key::Fingerprint;

/// Words per id and bits per word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Words per id: between 1 and [`PROBES_MAX`].
    pub(crate) probes: u32,
    /// Bits per word: between 1 and [`BITS_MAX`].
    pub(crate) bits: u32,
}

/// Maximum of words per id.
pub(crate) const PROBES_MAX: u32 = 6;

/// Maximum of bits per word: ten six-bit fields fit into 64 bits.
pub(crate) const BITS_MAX: u32 = 10;

/// Odd multipliers, one per probe: fractional bits of the square roots of the primes from 2 to 13, made odd.
const MULTIPLIERS: [u64; PROBES_MAX as usize] = [
    0x6a09_e667_f3bc_c909,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
];

impl Layout {
    /// Returns `None` if a number is out of range.
    pub(crate) fn checked(probes: u64, bits: u64) -> Option<Self> {
        let within = |number, max: u32| u32::try_from(number).ok().filter(|n| (1..=max).contains(n));
        Some(Self { probes: within(probes, PROBES_MAX)?, bits: within(bits, BITS_MAX)? })
    }

    /// Calls `with` with this layout, as a constant if it is a common one, so that the loops over probes and
    /// bits unroll. Fewer instructions let the processor run further ahead of cache misses.
    #[inline(always)]
    pub(crate) fn specialised<T>(self, with: impl Fn(Self) -> T) -> T {
        match (self.probes, self.bits) {
            (2, 3) => with(Self { probes: 2, bits: 3 }),
            (2, 4) => with(Self { probes: 2, bits: 4 }),
            (2, 5) => with(Self { probes: 2, bits: 5 }),
            (3, 3) => with(Self { probes: 3, bits: 3 }),
            (3, 4) => with(Self { probes: 3, bits: 4 }),
            (3, 5) => with(Self { probes: 3, bits: 5 }),
            (4, 4) => with(Self { probes: 4, bits: 4 }),
            _ => with(self),
        }
    }

    /// The slot of probe number `probe` among `slots`, and the bits within its word.
    #[inline(always)]
    pub(crate) fn probe(self, fingerprint: Fingerprint, probe: u32, slots: usize) -> (usize, u64) {
        let (slot, fraction) = self.place(fingerprint, probe, slots);
        (slot, self.mask(fraction))
    }

    /// The slot of a probe, and the number from which its bits are drawn.
    ///
    /// The upper half of `mixed * slots` is a uniform slot, the lower half is uniform too and serves as that
    /// number.
    #[inline(always)]
    pub(crate) fn place(self, fingerprint: Fingerprint, probe: u32, slots: usize) -> (usize, u64) {
        let mixed = fingerprint.0.wrapping_mul(MULTIPLIERS[probe as usize]);
        let wide = u128::from(mixed) * slots as u128;
        ((wide >> 64) as usize, wide as u64)
    }

    /// The bits drawn from a number: each of its six-bit fields, from the top, selects one.
    #[inline(always)]
    pub(crate) fn mask(self, mut fraction: u64) -> u64 {
        let mut mask = 0;
        for _ in 0..self.bits {
            mask |= 1 << (fraction >> 58);
            fraction <<= 6;
        }
        mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_stay_within_slots_and_set_1_to_bits_bits() {
        let layout = Layout { probes: 4, bits: 5 };
        for slots in [1, 2, 3, 64, 1_000_003] {
            for id in 0..1_000u64 {
                let fingerprint = Fingerprint(id.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                for probe in 0..layout.probes {
                    let (slot, mask) = layout.probe(fingerprint, probe, slots);
                    assert!(slot < slots);
                    assert!((1..=5).contains(&mask.count_ones()));
                }
            }
        }
    }

    #[test]
    fn multipliers_are_odd_and_distinct() {
        for (i, a) in MULTIPLIERS.iter().enumerate() {
            assert_eq!(a & 1, 1);
            assert!(MULTIPLIERS[..i].iter().all(|b| a != b));
        }
    }
}
