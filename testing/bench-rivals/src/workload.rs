//! The counters of the additions, drawn before the measurement: the load generator shares the processors with
//! the server.

use jeton_testkit::Rng;

use crate::zipf::Zipf;

/// Counters are below this number, so that all requests have the same length.
pub const NUMBERS: u32 = 10_000_000;

/// Draws before they repeat.
const DRAWS: usize = 1 << 22;

const UNIFORM: u32 = 100_000;
const ZIPF: u32 = 1_000_000;

/// A sequence of counters. Workloads have no counter in common.
pub struct Workload {
    pub name: &'static str,
    pub draws: Vec<u32>,
}

/// Counters of all workloads: the hot one, the uniform ones, those of the Zipf distribution.
pub const COUNTERS: u32 = 1 + UNIFORM + ZIPF;

impl Workload {
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
        // Frequent counters are not neighbours. The prime is coprime to their number, so ranks stay distinct.
        let scattered = |rank: u32| (u64::from(rank) * 7_368_787 % u64::from(ZIPF)) as u32;
        let draw = |_| 1 + UNIFORM + scattered(zipf.rank(&mut even));
        Self { name: "Zipf 0.99 over 1M", draws: (0..DRAWS).map(draw).collect() }
    }

    pub fn all() -> Vec<Self> {
        vec![Self::hot(), Self::uniform(), Self::zipf()]
    }
}

/// Pseudo-random numbers, uniform in [0, 1), the same in each run.
pub fn even() -> impl FnMut() -> f64 {
    let mut rng = Rng::new(1);
    move || (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_have_no_counter_in_common() {
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
