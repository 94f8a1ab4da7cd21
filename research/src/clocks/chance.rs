//! Chance that is the same each time: SplitMix64, from a seed.
//!
//! What must hold: the numbers are those of the seed on every machine, for ever. The tables in the documentation rest on them.

/// A source of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A source of its own for whatever these words name.
    pub(crate) fn named(seed: u64, words: &str) -> Self {
        let mut chance = Self::new(seed);
        for byte in words.bytes() {
            chance.0 ^= u64::from(byte);
            chance.0 = chance.next();
        }
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below this one, which is not zero. By the upper half of a product: the bias is below 2^-32 of what is drawn here.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Whether something happens that happens in so many cases of a hundred.
    pub(crate) fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of seed 1234567, from the reference implementation of SplitMix64.
    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut chance = Chance::new(1_234_567);
        let drawn = [chance.next(), chance.next(), chance.next()];
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
