//! The paper's layout: a plain Bloom filter for each generation, one after the other in memory.
//!
//! Optimised as far as the layout allows: one hash for all positions, early exit, and the optimised check of
//! the paper. Eight filters, each id in two of them.

use forgetful_filter::{Fingerprint, Key};

pub struct PaperLayout {
    key: Key,
    filters: Vec<Vec<u64>>,
    newest: usize,
    bits: u64,
    hashes: u32,
}

impl PaperLayout {
    pub fn new(key: Key, filters: usize, bits_each: u64, hashes: u32) -> Self {
        let words = bits_each.div_ceil(64) as usize;
        Self { key, filters: vec![vec![0; words]; filters], newest: 0, bits: bits_each, hashes }
    }

    pub fn bytes(&self) -> usize {
        self.filters.len() * self.filters[0].len() * 8
    }

    pub fn refresh(&mut self) {
        self.newest = (self.newest + 1) % self.filters.len();
        self.filters[self.newest].fill(0);
    }

    pub fn insert(&mut self, id: &[u8]) {
        let hash = self.key.fingerprint(id).get();
        for age in 0..2 {
            let filter = self.index(age);
            for probe in 0..self.hashes {
                let bit = position(hash, probe, self.bits);
                self.filters[filter][(bit / 64) as usize] |= 1 << (bit % 64);
            }
        }
    }

    pub fn contains(&self, id: &[u8]) -> bool {
        self.contains_fingerprint(self.key.fingerprint(id))
    }

    /// A hit in the future filter, in the oldest one, or in two adjacent ones.
    pub fn contains_fingerprint(&self, fingerprint: Fingerprint) -> bool {
        let hash = fingerprint.get();
        if self.filter_contains(0, hash) {
            return true;
        }
        let oldest = self.filters.len() - 1;
        let mut before = self.filter_contains(1, hash);
        for age in 2..oldest {
            let here = self.filter_contains(age, hash);
            if before && here {
                return true;
            }
            before = here;
        }
        self.filter_contains(oldest, hash)
    }

    fn filter_contains(&self, age: usize, hash: u64) -> bool {
        let filter = &self.filters[self.index(age)];
        (0..self.hashes).all(|probe| {
            let bit = position(hash, probe, self.bits);
            filter[(bit / 64) as usize] >> (bit % 64) & 1 == 1
        })
    }

    fn index(&self, age: usize) -> usize {
        (self.newest + self.filters.len() - age) % self.filters.len()
    }
}

#[inline]
fn position(hash: u64, probe: u32, bits: u64) -> u64 {
    let step = hash.wrapping_mul(0x517c_c1b7_2722_0a95);
    let mixed = hash.wrapping_add(step.wrapping_mul(u64::from(probe)));
    ((u128::from(mixed) * u128::from(bits)) >> 64) as u64
}
