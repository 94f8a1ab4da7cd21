//! Which counters are added to, drawn before the clock runs: the generator shares its processors with the server.

use crate::zipf::Zipf;

/// Counters are numbers below this, so that every request of a kind is equally long.
pub const NUMBERS: u32 = 10_000_000;

/// How many draws are made beforehand; then they come again.
const DRAWS: usize = 1 << 22;

const UNIFORM: u32 = 100_000;
const ZIPF: u32 = 1_000_000;

/// A sequence of counters. The workloads have counters of their own.
pub struct Workload {
    pub name: &'static str,
    pub draws: Vec<u32>,
}

/// The number of counters in all workloads together: 0 is the hot one, then come the uniform ones, then those by Zipf's law.
pub const COUNTERS: u32 = 1 + UNIFORM + ZIPF;

impl Workload {
    /// Everybody adds to the same counter.
    pub fn hot() -> Self {
        Self { name: "one hot counter", draws: vec![0] }
    }

    pub fn uniform() -> Self {
        let mut even = even();
        let draw = |_| 1 + (even() * f64::from(UNIFORM)) as u32;
        Self { name: "uniform over 100k", draws: (0..DRAWS).map(draw).collect() }
    }

    pub fn zipf() -> Self {
        let mut even = even();
        let zipf = Zipf::new(ZIPF, 0.99);
        // The frequent ones are not neighbours. A prime shares no divisor with their number, so no two ranks meet.
        let scattered = |rank: u32| (u64::from(rank) * 7_368_787 % u64::from(ZIPF)) as u32;
        let draw = |_| 1 + UNIFORM + scattered(zipf.rank(&mut even));
        Self { name: "Zipf 0.99 over 1M", draws: (0..DRAWS).map(draw).collect() }
    }

    pub fn all() -> Vec<Self> {
        vec![Self::hot(), Self::uniform(), Self::zipf()]
    }
}

/// Pseudo-random numbers, uniform in [0, 1), the same in each run.
fn even() -> impl FnMut() -> f64 {
    let mut state = 0x1234_5678_9abc_def1_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_the_workloads_are_apart_and_in_bounds() {
        let range = |workload: &Workload| {
            (*workload.draws.iter().min().expect("draws"), *workload.draws.iter().max().expect("draws"))
        };
        let [hot, uniform, zipf] = &Workload::all()[..] else { panic!("three") };
        assert_eq!(range(hot), (0, 0));
        let (low, high) = range(uniform);
        assert!(low == 1 && high == UNIFORM);
        let (low, high) = range(zipf);
        assert!(low > UNIFORM && high < COUNTERS);
        const { assert!(COUNTERS <= NUMBERS) };
    }
}
