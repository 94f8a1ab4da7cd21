//! Random numbers from a seed: SplitMix64 (Steele, Lea, Flood: *Fast Splittable Pseudorandom Number
//! Generators*).
//!
//! Invariant: the same seed gives the same numbers on every machine and in every version. The seeds of
//! failing tests and the tables in `docs/bloom-clock.md` depend on it.

/// A seeded random number generator. Not for secrets.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator whose numbers depend on the seed and on every byte of `name`.
    pub fn named(seed: u64, name: &str) -> Self {
        name.bytes().fold(Self(seed), |rng, byte| Self(Self(rng.0 ^ u64::from(byte)).next_u64()))
    }

    /// 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0. The bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// An index into a slice of `len` items; 0 if `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True with a probability of `percent` / 100.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// 16 random bytes, such as an id or a key.
    pub fn bytes(&mut self) -> [u8; 16] {
        (u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())).to_be_bytes()
    }

    /// A UUID of version 7 with this time, in milliseconds since 1970.
    pub fn uuid7(&mut self, millis: u64) -> u128 {
        let (high, low) = (u128::from(self.next_u64() & 0xfff), u128::from(self.next_u64() >> 2));
        u128::from(millis) << 80 | 7 << 76 | high << 64 | 0b10 << 62 | low
    }

    /// Puts the items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for place in (1..items.len()).rev() {
            items.swap(place, self.index(place + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of seed 1234567, from the reference implementation of SplitMix64.
    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut rng = Rng::new(1_234_567);
        let drawn = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn names_and_seeds_give_different_numbers() {
        let first = |seed, name| Rng::named(seed, name).next_u64();
        assert_eq!(first(1, "a b"), first(1, "a b"));
        assert_ne!(first(1, "a b"), first(1, "a c"));
        assert_ne!(first(1, "a b"), first(2, "a b"));
        assert_eq!(first(1, ""), Rng::new(1).next_u64());
    }

    #[test]
    fn numbers_stay_below_their_bound() {
        let mut rng = Rng::new(1);
        let mut counts = [0_u32; 7];
        (0..7_000).for_each(|_| counts[rng.index(7)] += 1);
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
        assert_eq!((rng.below(0), rng.below(1)), (0, 0));
        assert_eq!((rng.percent(0), rng.percent(100)), (false, true));
    }

    #[test]
    fn shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..50).collect();
        Rng::new(1).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
