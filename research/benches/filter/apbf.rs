//! An age-partitioned Bloom filter (Shtul, Baquero, Almeida, arXiv 2001.03147), for comparison only.
//!
//! `k + l` slices; an id sets one bit in each of the `k` newest; a lookup searches `k` consecutive hits, with
//! the jumps of the paper. Every `g` ids the oldest slice is dropped. The latest `l·g` ids are guaranteed.

use forgetful_filter::Key;

pub struct AgePartitioned {
    key: Key,
    slices: Vec<Vec<u64>>,
    newest: usize,
    bits: u64,
    k: usize,
    l: usize,
    generation: u64,
    inserted: u64,
}

impl AgePartitioned {
    /// For the latest `ids`, with the paper's `k` and `l`.
    pub fn new(key: Key, ids: u64, k: usize, l: usize) -> Self {
        let generation = ids.div_ceil(l as u64);
        let bits = (k as f64 * generation as f64 / std::f64::consts::LN_2).ceil() as u64;
        let words = bits.div_ceil(64) as usize;
        Self { key, slices: vec![vec![0; words]; k + l], newest: 0, bits, k, l, generation, inserted: 0 }
    }

    pub fn bytes(&self) -> usize {
        self.slices.len() * self.slices[0].len() * 8
    }

    pub fn insert(&mut self, id: &[u8]) {
        if self.inserted == self.generation {
            self.newest = (self.newest + self.slices.len() - 1) % self.slices.len();
            self.slices[self.newest].fill(0);
            self.inserted = 0;
        }
        self.inserted += 1;
        let hash = self.key.fingerprint(id).get();
        for age in 0..self.k {
            let slice = self.index(age);
            let bit = self.position(hash, slice);
            self.slices[slice][(bit / 64) as usize] |= 1 << (bit % 64);
        }
    }

    pub fn contains(&self, id: &[u8]) -> bool {
        let hash = self.key.fingerprint(id).get();
        let (mut at, mut before, mut run) = (self.l as isize, 0, 0);
        while at >= 0 {
            let slice = self.index(at as usize);
            let bit = self.position(hash, slice);
            if self.slices[slice][(bit / 64) as usize] >> (bit % 64) & 1 == 1 {
                run += 1;
                at += 1;
                if run + before == self.k {
                    return true;
                }
            } else {
                at -= self.k as isize;
                before = run;
                run = 0;
            }
        }
        false
    }

    fn index(&self, age: usize) -> usize {
        (self.newest + age) % self.slices.len()
    }

    /// Each physical slice has its own position, which stays the same as the slice ages.
    fn position(&self, hash: u64, slice: usize) -> u64 {
        let mixed =
            (hash ^ (slice as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        ((u128::from(mixed) * u128::from(self.bits)) >> 64) as u64
    }
}
