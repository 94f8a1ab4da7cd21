//! From a fingerprint to the words and bits that it occupies.
//!
//! An id occupies `probes` words, `bits` bits in each (drawn with replacement, as the sizing in
//! [`crate::sizing`] assumes). Both forms of storage use the same derivation: a *slot* is a row of an interleaved
//! ring or a word of a solid slice.

use crate::key::Fingerprint;

/// How many words an id occupies, and how many bits in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Words per id: between 1 and [`PROBES_MAX`].
    pub(crate) probes: u32,
    /// Bits per word: between 1 and [`BITS_MAX`].
    pub(crate) bits: u32,
}

/// The most words per id.
pub(crate) const PROBES_MAX: u32 = 6;

/// The most bits per word: ten six-bit fields fill the 64 bits they are cut from.
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
    /// A layout from numbers that may be impossible.
    pub(crate) fn checked(probes: u64, bits: u64) -> Option<Self> {
        let within = |number, max: u32| u32::try_from(number).ok().filter(|n| (1..=max).contains(n));
        Some(Self { probes: within(probes, PROBES_MAX)?, bits: within(bits, BITS_MAX)? })
    }

    /// Calls `with` with this layout, as a constant if it is one of the usual ones: the loops over probes and bits
    /// then unroll. A lookup in memory that is not cached is as fast as the processor can run ahead of it, and the
    /// fewer instructions it has, the further that is.
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

    /// Probe number `probe` of an id among `slots`: the slot, and the bits within its word.
    #[inline(always)]
    pub(crate) fn probe(self, fingerprint: Fingerprint, probe: u32, slots: usize) -> (usize, u64) {
        let (slot, fraction) = self.place(fingerprint, probe, slots);
        (slot, self.mask(fraction))
    }

    /// The slot of a probe, and the number from which its bits are drawn.
    ///
    /// The product `mixed * slots` carries both: its upper half is a uniform slot, its lower half the fraction
    /// that remains, which is uniform again.
    #[inline(always)]
    pub(crate) fn place(self, fingerprint: Fingerprint, probe: u32, slots: usize) -> (usize, u64) {
        let mixed = fingerprint.0.wrapping_mul(MULTIPLIERS[probe as usize]);
        let wide = u128::from(mixed) * slots as u128;
        ((wide >> 64) as usize, wide as u64)
    }

    /// The bits drawn from a number: each six bits of it, from the top, name one.
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
    fn probes_stay_within_the_slots_and_set_between_one_and_bits_bits() {
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
