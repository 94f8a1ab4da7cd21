//! Pseudo-random numbers of a seed (SplitMix64).
//!
//! Invariant: the numbers of a step follow from the seed and the number of the step alone. So a step can be
//! left out without changing the numbers of the others, and a history can be shortened.

#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The numbers of a seed, before its first step.
    pub fn of_seed(seed: u64) -> Self {
        Self(mix(seed ^ 0x6a09_e667_f3bc_c908))
    }

    pub fn of_step(seed: u64, step: u64) -> Self {
        Self(mix(seed).wrapping_add(mix(step.wrapping_add(1)).rotate_left(17)))
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    pub fn within(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True with probability 1/`times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// One of the choices, by weight; one weight is positive.
    pub fn weighted<T: Copy>(&mut self, choices: &[(u32, T)]) -> T {
        let total: u64 = choices.iter().map(|(weight, _)| u64::from(*weight)).sum();
        let mut at = self.below(total);
        for (weight, choice) in choices {
            match at.checked_sub(u64::from(*weight)) {
                Some(rest) => at = rest,
                None => return *choice,
            }
        }
        unreachable!("the number is below the sum of the weights")
    }
}

fn mix(mut n: u64) -> u64 {
    n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
